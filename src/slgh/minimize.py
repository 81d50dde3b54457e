"""`minimize`: the main function of the package, and the driver that answers the requests of a run."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Unpack

import numpy as np

from slgh.auto import defaults
from slgh.auto.constrained import ConstrainedPortfolio
from slgh.auto.portfolio import Portfolio
from slgh.backends import backend_of
from slgh.checks import ArgumentValueError, count
from slgh.engine.arguments import Arguments, choose_start, read_callback
from slgh.engine.bad_values import BadValuePolicy
from slgh.engine.cache import Cache, read_cache
from slgh.engine.checkpoint import Checkpoint
from slgh.engine.config import RunConfig, make_config
from slgh.engine.executors import check_time_limit, is_parallel, open_workers, size_of
from slgh.engine.interrupts import Interrupts
from slgh.engine.objective import Objective, Pointwise, Vectorized, is_closed_form, read_functions, refuse_functions
from slgh.engine.recorder import Recorder
from slgh.engine.requests import INTERRUPTED, Advance
from slgh.engine.run import Run
from slgh.engine.search_space import TreeFunction, read_space
from slgh.engine.shards import Task, divide, run_shards, saved_seed
from slgh.engine.snapshot import Snapshot, is_begun, open_checkpoint
from slgh.method import Method, ObjectiveTraits
from slgh.parameters import History, MethodName, MethodParameters
from slgh.protocols import Watch
from slgh.result import Result

RETRIES = 2
"""Default of `retries`."""


def minimize(
    fun: Any,
    x0: Any = None,
    *,
    method: MethodName | str | Method = "auto",
    grad: Callable[..., Any] | bool | None = None,
    args: tuple[Any, ...] = (),
    data: Any = None,
    sample_xi: Callable[[np.random.Generator, int], Any] | int | None = None,
    bounds: Any = None,
    start: Any = None,
    starts: Any = None,
    known: Any = None,
    constraints: Any = (),
    feasibility_tol: float | None = None,
    vectorized: bool = False,
    batched: bool = False,
    max_evals: int | None = None,
    max_iter: int | None = None,
    max_seconds: float | None = None,
    max_seconds_per_eval: float | None = None,
    target: float | None = None,
    ftol: float | None = None,
    xtol: float | None = None,
    seed: Any = None,
    workers: Any = None,
    parallel: int | None = None,
    device: Any = None,
    retries: int = RETRIES,
    cache: bool | int = False,
    callback: Callable[..., object] | None = None,
    progress: bool = False,
    history: History = 1000,
    on_nonfinite: BadValuePolicy = "reject",
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    watch: Watch | None = None,
    batch_size: int | None = None,
    compiled: bool | None = None,
    tf32: bool = False,
    **params: Unpack[MethodParameters],
) -> Result:
    r"""Minimize a function by Gaussian homotopy, or by any method of the paper.

    Gaussian homotopy smooths f into :math:`F(x, t) = E f(x + t u)`, :math:`u \sim N(0, I)`, and shrinks t while
    descending in x.

    Parameters
    ----------
    fun
        Function fun(x, \*data, xi, \*args) -> number of one point x (d,), with `data` and `xi` only if there are any.
        Or a closed form: an object with methods value(x, t), grad(x, t), dt(x, t), trace(x, t), batched over x (..., d)
        and t (...), whose value(x, 0) is f.
    x0
        Start, (d,). With `batched` (B, d), for B problems. A Result, of slgh or SciPy, stands for its x. If it is None,
        the default, the start is the middle of `bounds`, which must be finite. Its type selects the array library:
        NumPy, PyTorch (CPU or CUDA) or JAX. fun gets and returns arrays of that library. The run has the dtype (float32
        or float64) and the device of x0. Lists and NumPy integers become float64, integers of other libraries their
        default float. Or a search space: a `slgh.space.Space`, or a dictionary, list or tuple of parameters such as
        slgh.space.Float. fun then gets one tree of values of the same structure, and so does `result.x`.
    method
        Name from `slgh.METHODS`, or a `slgh.Method`. The default, "auto", needs no tuning. It checks if f is smooth,
        rugged, singular or noisy, then spends the budget on homotopies and local searches. The local searches use
        gradients if there are any, otherwise differences or quadratic models. The message says what it observed and
        did. Its first t is a quarter of the box or, without bounds, the root mean square of x0, at least 1. It finds
        minima within about t1 sqrt(d) of x0. Without bounds, a step of a local search first moves a variable by at most
        10 t1. That limit doubles when a step cut to it has lowered f. If x0 does not show the scale (zeros, for
        example), pass `t1`, about the distance to the optimum per variable. "auto" never returns a point worse than x0,
        unless f is noisy: then `fun` is the average of new values at x. In a batch, "auto" is one homotopy and one
        local search of each problem. With a stochastic fun, ranks, a `watch`, `batch_size`, swapped parts or
        `max_iter`, it is the homotopy alone, which is also a method of its own: "scale_free".
    grad
        Gradient, called like fun, that returns (d,). If it is None, the default, functions of PyTorch and JAX arrays
        are differentiated automatically if the method needs gradients. "auto" then uses values only, unless `grad` is
        True.
    args
        Tuple of further arguments of fun and grad, as in SciPy. Empty by default.
    data
        Array or tuple of arrays that belong to the problem, passed to fun after x as arrays of x0's library. None by
        default. With `batched` they have a leading axis B, and fun gets one row. A vectorized fun gets (B, 1, ...),
        which broadcasts against its points (B, n, d).
    sample_xi
        Makes fun stochastic. A function (rng, n) -> n samples along the first axis, or an integer N for the indices of
        a sum of N terms. fun gets one sample after `data`, a vectorized fun (..., n). rng is a NumPy Generator, or a
        key for JAX. None by default.
    bounds
        A scipy Bounds, or d pairs (low, high). fun is never evaluated outside: points are reflected into the box. None
        by default.
    start
        Start in a search space: a tree of values. Names that are missing or None are in the middle of their range.
        None, the default: all are.
    starts
        Further points (k, d) to start from, in any array. They are evaluated after x0, in one request, and the run
        begins at the lowest point of all. They count as evaluations. If max_evals is smaller, the first of them are
        evaluated. For a single deterministic problem of "auto" or "scale_free". None by default.
    known
        Points whose values are known, a pair of arrays (n, d) and (n,), or a Result. They are treated like the
        `starts`, but cost no evaluation, and neither does an x0 among them. A value that is not finite is a failed
        evaluation. If x0 is None, it is the best known point, else the first of the `starts`. A checkpoint is of the
        same starts and known points. None by default.
    constraints
        A scipy LinearConstraint or NonlinearConstraint, a dictionary {"type": "ineq" or "eq", "fun": ...} as in SciPy,
        or a list of these, for a single problem of "auto" with NumPy arrays. One evaluation is fun and all constraints
        at a point, which may be infeasible. A point where a constraint is NaN is infeasible. x is the feasible point
        with the lowest fun, or the least infeasible point with Status.INFEASIBLE. `result.maxcv` is its largest
        violation. Empty by default.
    feasibility_tol
        Largest violation of a feasible point, sqrt(eps) by default (1.5e-8 in double precision), as in SciPy's COBYQA.
    vectorized
        True if fun maps points (..., d) to values (...), and grad to (..., d). Points are (n, d), or (B, n, d) with
        `batched`. False by default.
    batched
        True if x0 holds B problems. They are independent: each has its own noise, stop and result. False by default.
    max_evals, max_iter, max_seconds
        Limits per problem: evaluations of fun and grad together, iterations, and seconds (without the compilation of a
        loop, once per function). An iteration that would exceed them is not started. If all are None, the default is
        10,000 iterations. "auto" and "scale_free" plan by the number of evaluations. If neither max_evals nor max_iter
        is given, they use max_evals = 1000 + 200 d, even if max_seconds is given.
    max_seconds_per_eval
        Limit of the seconds that one evaluation may take. Its value is then NaN, which `on_nonfinite` treats, its
        worker process is killed, and another takes its place. It needs `workers`, a number of processes (1 will do),
        and a fun of one point. The start of a process does not count. Such a run depends on how fast the machine is.
        None by default.
    target
        A problem stops once a value <= target is found. For a stochastic fun, the value is an iteration's estimate at
        x. None by default.
    ftol, xtol
        Tolerances that end a problem with Status.CONVERGED: f has fallen by at most ftol max(1, abs(f)), or no variable
        of x has changed by more than xtol max(1, max(abs(x))). One that holds is enough. "auto" compares its lowest
        point after each phase with the one 5 phases before, if a local search has converged before these. Its local
        searches stop at ftol, too. Other methods compare every 100 iterations, if t does not fall or is at most
        t1 / 10. In a batch, "auto" does so in its local searches. If "auto" finds f to be noisy at all points, they
        have no effect. They belong to the run, and a resumed run needs the same. None by default: not compared.
    seed
        Non-negative integer. With `batched` also a list of one integer per problem. Each problem then runs as it would
        alone. If None, the default, a seed is generated and stored in `result.seed`. Global random state is never
        touched.
    workers
        Evaluate points in parallel: a number of processes (-1: all cores), an executor (of concurrent.futures, loky,
        MPI), a Dask Client, the module ray, a Ray ActorPool, a joblib.Parallel, a multiprocessing pool, or a callable
        like map. A vectorized fun gets a chunk of the points per worker. None by default. With `batched`, and at least
        4 problems per worker, each worker runs some of the problems from start to end, unless there is a `callback` or
        `max_seconds`. Then everything that fun needs must be picklable for processes. Under torchrun, pass the module
        torch.distributed or a process group: each rank runs some of the problems, and all get the result.
    parallel
        Number of evaluations that can run at the same time. "auto" and "scale_free" plan for it: they ask for about
        that many points at once, but in at least 20 rounds. If it is None, the default, it is the number of `workers`,
        or 1 if that is unknown. The result depends on `parallel`, and not on the workers: parallel=8 in one process
        gives the bits of a run with 8 workers. A run that is continued from a checkpoint keeps its number. Runs with
        gradients are not planned for it.
    device
        List of PyTorch devices that share the problems of a batch, with one thread each. Modules and tensors in fun and
        `args` are copied to them. The result is where x0 is. None by default: x0's device. On JAX, shard x0 instead.
    retries
        Maximum number of times that a point (or some of the problems of a batch) is evaluated again because its worker
        process died, 2 by default. Then the run ends with an error, which names the point if slgh has started the
        process. On Ray it is the `max_retries` of the tasks. Dask has settings of its own, and an executor that has
        lost a worker cannot go on.
    cache
        True to keep the values of a deterministic fun, and its gradients: at a point with the same bits, fun is not
        called again. An integer is the number of values to keep, 100,000 for True. A value from the cache counts as an
        evaluation, so that the result does not change. `result.ncached` counts these. A checkpoint does not hold the
        cache. "auto" cannot notice noise then. A batch that is vectorized is evaluated where any problem has a new
        point. False by default.
    callback
        Called after each iteration with a Result of x, fun, t, nit, nfev, x_best, fun_best (as `intermediate_result` if
        its parameter has that name). To stop the run, return True or raise StopIteration. A compiled loop then returns
        to Python after each iteration. None by default.
    progress
        True shows a progress bar. False by default.
    history
        Maximum number of rows of history, thinned evenly, 1000 by default. "full": all rows. "x": all rows, with
        iterates. 0: no rows. A row has f(x). "auto" and "scale_free" do not evaluate f(x) in an iteration: their rows
        have the mean of f over the samples around x. A step of a local search is a row with t = 0 and f(x).
    on_nonfinite
        Policy for values that are NaN or infinite. "reject", the default, drops the sample. "penalize" replaces it by
        the worst finite value so far. "raise" raises FloatingPointError. After 10 iterations in a row without a usable
        value a problem ends with Status.NONFINITE.
    checkpoint
        File, or a `slgh.Checkpoint`. If it holds this run, the run is continued, with the same result bit for bit. x0,
        data, bounds, seed and method must be the same. fun and args cannot be compared, and must be the same too. If
        the problems are divided among workers or devices, each part has a file in a folder with the suffix ".shards",
        and any number of workers continues them. None by default.
    watch
        A `slgh.protocols.Watch`, which keeps more of the run than the lowest value, and may end a problem. fun then
        returns a tuple: the values, and further numbers that the watch gets at each iterate. None by default.
    batch_size
        Maximum number of problems that run at the same time, on each worker. When one has ended, another takes its
        place. The results are the same, except that "auto" has no local searches then. None, the default: all problems.
    compiled
        If None, the default, the loop is compiled if possible: into a while_loop for JAX, into a graph on CUDA. fun is
        then called during compilation only, and must do the same work in every call. `result.engine` names the loop.
        False: a Python loop. True: an error if it cannot be compiled.
    tf32
        True if fun may use TF32 on CUDA, as PyTorch is configured. If False, the default, zeroth-order methods turn it
        off while they run: differences of close values get lost in its 10 bits of mantissa.
    **params
        Hyperparameters of the method's parts by the paper's names (t1, gamma, eta, step, samples, ...), `floor` for the
        smallest t, and replacements of parts: `oracle`, `schedule`, `update`.

        With step="theory" and L1 (f is L1-smooth, see `slgh.theory.estimate_smoothness`) the step and xhat are those of
        the paper's theorem on the method, which the message names. `eps` is the gradient norm to reach, from which
        gamma="tuned" and the burn-in follow. `sigma` is the noise of stochastic gradients. `burn_in` is the number of
        first iterations that xhat is not drawn from.

        noise=nu means that values of f have an error of at most nu. The floor is then sqrt(nu), and the theory's step
        that of Algorithm 4.

        "auto" also takes `phases`: those of "landscape", "homotopy", "local_search", "restarts", "basin_hops" and
        "covariance" that it may use. Basin hops need gradients, covariance homotopies run without them.

    Returns
    -------
    Result
        The solution x, fun, success, message and more: see `slgh.Result`. `success` means that the run ended as planned
        with a finite fun at a feasible x. It does not mean that fun is low.

    Notes
    -----
    Ctrl-C ends the run and returns the best evaluated point, with Status.INTERRUPTED. A loop over runs must therefore
    check the status. fun is not called again, and evaluations in worker processes are killed. Problems of a batch that
    such processes were running end at their last checkpoint, or where they began. While a loop is being
    compiled there is no result yet, and KeyboardInterrupt is raised. It is also raised in a run that was started by the
    fun of another run.

    An exception in fun is passed on with its own traceback. Before that, the last complete iteration is saved, with all
    values received since. So a resumed run evaluates only what is missing.

    Examples
    --------
    A rugged function, from values alone, without tuning:

    >>> import numpy as np, slgh
    >>> def ackley(x):
    ...     ripple = np.exp(np.mean(np.cos(2 * np.pi * x)))
    ...     return 20 - 20 * np.exp(-0.2 * np.sqrt(np.mean(x**2))) + np.e - ripple
    >>> result = slgh.minimize(ackley, np.full(10, 5.0), max_evals=5000, seed=1)
    >>> bool(result.fun < 1e-3), result.nfev <= 5000
    (True, True)

    The paper's SLGH_r with its step size, on a closed form:

    >>> F = slgh.problems.rosenbrock().smooth
    >>> result = slgh.minimize(F, [-3, 2], method="slgh_r", t1=1.5, gamma=0.995, step=1e-4, max_iter=20000)
    >>> print(np.round(result.x, 3))
    [0.819 0.671]
    """
    space = read_space(
        *(x0, start),
        bounds=bounds,
        grad=grad,
        vectorized=vectorized,
        batched=batched,
        watch=watch,
        starts=starts,
        known=known,
    )
    if space is not None:
        fun = TreeFunction.of(fun, space)
        x0, bounds = space.encode_start(start), space.bounds
    x0 = choose_start(x0, bounds, batched=batched, starts=starts, known=known)
    backend = backend_of(x0)
    extra = args if isinstance(args, tuple) else (args,)
    refuse_functions(fun, grad, extra, backend)
    arguments = Arguments(
        x0=x0,
        method=method,
        sample_xi=sample_xi,
        data=data,
        bounds=bounds,
        constraints=constraints,
        feasibility_tol=feasibility_tol,
        batched=batched,
        limits={"max_evals": max_evals, "max_iter": max_iter, "max_seconds": max_seconds, "target": target},
        starts=starts,
        known=known,
        ftol=ftol,
        xtol=xtol,
        seed=seed,
        callback=callback,
        progress=progress,
        history=history,
        on_nonfinite=on_nonfinite,
        checkpoint=checkpoint,
        watch=watch,
        batch_size=batch_size,
        parallel=parallel,
        workers=None if batched else size_of(workers),
        space=space,
        params=dict(params),
    )
    closed = is_closed_form(fun)
    traits = ObjectiveTraits(
        closed_form=closed, gradient=grad is not None, differentiable=backend.differentiates and not closed
    )
    task = Task(
        arguments=arguments,
        traits=traits,
        fun=fun,
        grad=grad,
        args=extra,
        vectorized=vectorized,
        compiled=compiled,
        tf32=tf32,
    )
    kept = read_cache(cache, stochastic=sample_xi is not None, closed_form=closed, watched=watch is not None)
    devices = () if device is None else backend.read_devices(device)
    # A cache and a time limit are for the points of all problems.
    divides = kept is None and max_seconds_per_eval is None
    if divides and (division := divide(arguments, workers, devices)) is not None:
        config = _configure(arguments, traits, saved_seed(division, seed))
        return run_shards(_solve_shard, task, config, division, retries=retries)
    run, functions = _begin(task)
    return drive(
        run,
        functions,
        workers=workers,
        compiled=compiled,
        tf32=tf32,
        retries=retries,
        cache=kept,
        seconds=max_seconds_per_eval,
    )


def _begin(task: Task) -> tuple[Run, Vectorized | Pointwise]:
    """Return the run of a task, which has not begun, and the user's functions as it calls them."""
    run = make_run(task.arguments, task.traits)
    functions = read_functions(
        task.fun,
        task.grad,
        backend=run.config.backend,
        args=task.args,
        vectorized=task.vectorized,
        batched=task.arguments.batched,
        differentiate=run.config.step.method.oracle.asks == "gradients",
        watched=task.arguments.watch is not None,
        constraints=run.config.constraints,
    )
    return run, functions


def _solve_shard(task: Task, stop: threading.Event | None) -> tuple[Run, Result]:
    """Run a shard of a batch, on a worker. See `shards.Solve`."""
    run, functions = _begin(task)
    return run, drive(run, functions, workers=None, compiled=task.compiled, tf32=task.tf32, stop=stop)


def _configure(
    arguments: Arguments, traits: ObjectiveTraits, saved_seed: Any, saved_parallel: int | None = None
) -> RunConfig:
    """Return the settings of a run. `saved_seed` and `saved_parallel` are those of its checkpoint."""
    names = tuple(minimize.__kwdefaults__ or ())  # all arguments besides fun, x0 and the hyperparameters
    return make_config(arguments, traits, defaults, names=names, saved_seed=saved_seed, saved_parallel=saved_parallel)


def make_run(arguments: Arguments, traits: ObjectiveTraits, found: Snapshot | None = None) -> Run:
    """Return a run that has not begun, or that continues `found` or, by default, its checkpoint."""
    saver = None if arguments.checkpoint is None else open_checkpoint(arguments.checkpoint)
    stored = None if saver is None else saver.found
    continued, found = found is not None, found or stored
    saved = (None, None) if found is None else (found.meta.seed, found.meta.identity.get("parallel", 1))
    config = _configure(arguments, traits, *saved)
    if continued and stored is not None:
        is_begun(stored.meta, config, stored.name)  # raises if the file holds another run, which would be replaced
    recorder = Recorder(
        config,
        history=arguments.history,
        callback=read_callback(arguments.callback),
        saver=saver,
        progress=arguments.progress,
    )
    strategy = ConstrainedPortfolio if config.constraints is not None else Portfolio
    return Run(config, recorder, strategy(config) if config.phases else None, found)


def drive(
    run: Run,
    functions: Vectorized | Pointwise,
    *,
    workers: Any,
    compiled: bool | None,
    tf32: bool,
    retries: int = RETRIES,
    cache: Cache | None = None,
    seconds: float | None = None,
    stop: threading.Event | None = None,
) -> Result:
    """Call the user's functions until the run ends. Another thread sets `stop` to end it as after Ctrl-C."""
    count("retries", retries, 0)
    if run.config.constraints is not None and (cache is not None or seconds is not None):
        raise ArgumentValueError("`cache` and `max_seconds_per_eval` are not possible with `constraints`. Omit them.")
    if seconds is not None:
        check_time_limit(seconds, workers, pointwise=isinstance(functions, Pointwise))
    config, backend, parallel = run.config, run.config.backend, is_parallel(workers) or seconds is not None
    needs_python = "on_nonfinite='raise' checks every value" if config.raise_nonfinite else ""
    if config.tolerances is not None and config.phases is None:
        needs_python = "ftol and xtol are compared in Python"
    if cache is not None:
        needs_python = "the cache is kept in Python"
    if parallel:
        needs_python = "workers call fun from Python"
    differences = config.step.method.oracle.asks == "values" and not tf32
    # Interrupts stay held until the worker processes have ended: Ctrl-C during their shutdown must not lose the result.
    with Interrupts(stop) as interrupts, backend.session(differences=differences):
        if stop is None or not stop.is_set():
            interrupts.enter_user_code()  # compiling calls the user's function, and there is no result yet
            functions = run.compile(functions, compiled=compiled, needs_python=needs_python)
            interrupts.leave_user_code()
        if not parallel:
            return _answer_requests(run, functions, interrupts, cache)
        with open_workers(workers, functions.calls, fork=backend.forks, retries=retries, seconds=seconds) as opened:
            run.add_remark(lambda: opened.remark)
            return _answer_requests(run, functions.with_workers(opened), interrupts, cache)


def _answer_requests(
    run: Run, functions: Vectorized | Pointwise, interrupts: Interrupts, cache: Cache | None
) -> Result:
    """Answer requests until the run ends. The user's code sees its own handling of floating-point errors."""
    config, requests = run.config, run.requests()
    objective = Objective(
        functions, backend=config.backend, data=config.data, raise_nonfinite=config.raise_nonfinite, cache=cache
    )
    answer: Any = None
    try:
        while True:
            try:
                with np.errstate(all="ignore"):
                    request = requests.send(answer)
            except StopIteration as end:
                result: Result = end.value
                result.update(ncached=0 if cache is None else cache.hits)
                return result
            try:
                interrupts.enter_user_code()  # raises KeyboardInterrupt if Ctrl-C is pending
                if isinstance(request, Advance):
                    interrupts.leave_user_code()  # a block on the device is never interrupted
                    answer = run.advance_block(request)
                else:
                    answer = objective(request)
                    interrupts.leave_user_code()
            except KeyboardInterrupt:
                interrupts.clear()
                if interrupts.nested:
                    raise
                answer = INTERRUPTED
    except BaseException as error:
        interrupts.leave_user_code()  # Ctrl-C must not replace the exception while the run is saved
        run.close_after(error)
        requests.close()
        raise
