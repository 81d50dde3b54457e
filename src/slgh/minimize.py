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
from slgh.engine.requests import EXPIRED, INTERRUPTED, Advance, OutOfTime
from slgh.engine.run import Run
from slgh.engine.search_space import TreeFunction, read_space, read_tree_start
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
        Objective: a function fun(x, \*data, xi, \*args) that maps one point x (d,) to a number. It gets `data` and `xi`
        only if there are any. Or a closed form: an object with methods value(x, t), grad(x, t), dt(x, t) and
        trace(x, t), batched over x (..., d) and t (...). Its value(x, 0) is f.
    x0
        Start, (d,), or (B, d) with `batched`, for B problems. A Result of slgh or SciPy may replace it: its x is used.
        None, the default: the best `known` point, else the first of the `starts`, else the middle of `bounds`, which
        must be finite. The type of x0 selects the array library: NumPy, PyTorch (CPU or CUDA) or JAX. fun gets and
        returns arrays of that library. The run has the dtype (float32 or float64) and the device of x0. Lists and NumPy
        integers become float64. Integers of other libraries become their default float. x0 may also be a search space:
        a `slgh.space.Space`, or a dictionary, list or tuple of parameters such as slgh.space.Float. fun then gets one
        tree of values of the same structure, and `result.x` is such a tree.
    method
        Name from `slgh.METHODS`, or a `slgh.Method`. The default, "auto", needs no tuning. It checks if f is smooth,
        rugged, singular or noisy, then spends the budget on homotopies and local searches. The local searches use
        gradients if there are any, otherwise differences or quadratic models. `result.message` reports what "auto"
        observed and did. The first t is a quarter of the box or, without bounds, the root mean square of x0, at least
        1. "auto" finds minima within about t1 sqrt(d) of x0. If x0 does not show the scale (zeros, for example), pass
        `t1`, about the distance to the optimum per variable. Without bounds, a step of a local search first moves a
        variable by at most 10 t1. This limit doubles when a step of that length has lowered f. "auto" never returns a
        point worse than x0, unless f is noisy: then `fun` is the average of new values at x. In a batch, "auto" runs
        one homotopy and one local search per problem. With a stochastic fun, ranks, a `watch`, `batch_size`, swapped
        parts or `max_iter`, "auto" runs only the homotopy. This homotopy is also a separate method, "scale_free".
    grad
        Gradient, called like fun, that returns (d,). None, the default: functions of PyTorch and JAX arrays are
        differentiated automatically if the method needs gradients, and "auto" uses values only. True: "auto" uses
        automatic gradients.
    args
        Tuple of extra arguments of fun and grad, as in SciPy. Empty by default.
    data
        Array or tuple of arrays with the data of the problem. fun gets them after x, as arrays of x0's library. With
        `batched`, they have a leading axis B, and fun gets one row. A vectorized fun gets (B, 1, ...), which broadcasts
        against its points (B, n, d). None by default.
    sample_xi
        Sampler of the random variable xi, which makes fun stochastic: a function (rng, n) that returns n samples along
        the first axis. Or an integer N, which samples the indices of a sum of N terms. fun gets one sample after
        `data`, and a vectorized fun gets (..., n). rng is a NumPy Generator, or a key for JAX. None by default.
    bounds
        A scipy Bounds, or d pairs (low, high). fun is never evaluated outside: points are reflected into the box. None
        by default.
    start
        Start in a search space: a tree of values, or an earlier Result of such a space, whose `x` is the tree.
        Parameters that are missing or None start in the middle of their range. None, the default: all parameters do.
    starts
        Further points to start from, (k, d), in any array type. They are evaluated together with x0, and count as
        evaluations. The run begins at the lowest of all these points. If max_evals is too small, only the first points
        are evaluated. For a single deterministic problem of "auto" or "scale_free". None by default.
    known
        Points with known values: a pair of arrays (n, d) and (n,), or a Result. They are treated like the `starts`, but
        cost no evaluation. If x0 is one of them, it is not evaluated either. A value that is not finite counts as a
        failed evaluation. To continue from a checkpoint, pass the same `starts` and `known`. None by default.
    constraints
        A scipy LinearConstraint or NonlinearConstraint, a dictionary {"type": "ineq" or "eq", "fun": ...} as in SciPy,
        or a list of these, for a single problem of "auto" with NumPy arrays. One evaluation computes fun and all
        constraints at a point, which may be infeasible. A point where a constraint is NaN is infeasible. The result is
        the feasible point with the lowest fun. If there is none, it is the least infeasible point, with
        Status.INFEASIBLE. `result.maxcv` is its largest violation. Empty by default.
    feasibility_tol
        Maximum violation of a feasible point. The default is sqrt(eps), as in SciPy's COBYQA (1.5e-8 in double
        precision).
    vectorized
        True if fun maps points (..., d) to values (...), and grad to (..., d). Points are (n, d), or (B, n, d) with
        `batched`. False by default.
    batched
        True if x0 holds B problems. They are independent: each has its own noise, stop and result. False by default.
    max_evals, max_iter, max_seconds
        Limits per problem: evaluations of fun and grad together, iterations, and seconds. An iteration that would
        exceed a limit is not started. The seconds are also checked before each evaluation if fun takes one point and
        slgh calls it in this process. A running evaluation is never interrupted, and f at the solution may be evaluated
        after the limit. The seconds do not include the compilation of a loop, once per function. If all
        are None, the default is 10,000 iterations. "auto" and "scale_free" plan for the number of evaluations. If
        neither max_evals nor max_iter is given, they use max_evals = 1000 + 200 d, even if max_seconds is given.
    max_seconds_per_eval
        Maximum number of seconds per evaluation. If an evaluation takes longer, its worker process is killed and
        replaced, and its value is NaN, which `on_nonfinite` handles. Requires a number of processes as `workers` (1 is
        enough) and a fun that takes one point. The start of a process does not count. The result depends on the speed
        of the machine. None by default.
    target
        Stop a problem once a value <= target is found. For a stochastic fun, the value is the estimate of an iteration
        at x. None by default.
    ftol, xtol
        Tolerances that end a problem with Status.CONVERGED. Either f has fallen by at most ftol max(1, abs(f)), or no
        variable of x has changed by more than xtol max(1, max(abs(x))). "auto" compares its lowest point after each
        phase with the one 5 phases before, if a local search had converged before these phases. Its local searches stop
        at ftol, too. Other methods compare every 100 iterations, if t does not fall or is at most t1 / 10. In a batch,
        "auto" does so in its local searches. If "auto" finds f to be noisy at all points, the tolerances have no
        effect. A resumed run needs the same tolerances. None by default: no comparison.
    seed
        Non-negative integer. With `batched`, it may be a list of one integer per problem. Each problem then runs as it
        would alone. If None, the default, a seed is generated and stored in `result.seed`. slgh never changes the
        global random state.
    workers
        Workers that evaluate points in parallel: a number of processes (-1: all cores), an executor (of
        concurrent.futures, loky or MPI), a Dask Client, the module ray, a Ray ActorPool, a joblib.Parallel, a
        multiprocessing pool, or a callable like map. A vectorized fun gets one chunk of the points per worker. With
        `batched` and at least 4 problems per worker, each worker runs some of the problems from start to end, unless
        there is a `callback` or `max_seconds`. For processes, everything that fun needs must then be picklable. Under
        torchrun, pass the module torch.distributed or a process group: each rank runs some of the problems, and all
        get the result. None by default.
    parallel
        Number of evaluations that can run at the same time. "auto" and "scale_free" ask for about this many points per
        round, but make at least 20 rounds. None, the default: the number of `workers`, or 1 if it is unknown. The
        result depends on `parallel`, not on the kind of workers: parallel=8 in one process gives the same bits as 8
        workers. A run that continues from a checkpoint keeps its number. Plans with gradients do not depend on it.
    device
        List of PyTorch devices that share the problems of a batch, with one thread per device. Modules and tensors in
        fun and `args` are copied to them. The result is on the device of x0. None, the default: only the device of x0.
        On JAX, shard x0 instead.
    retries
        Maximum number of retries after a worker process died, per point or, in a divided batch, per group of problems.
        2 by default. When they are used up, the run ends with an error. The error names the point if slgh started the
        process. On Ray, this sets the `max_retries` of the tasks. Dask has its own setting. An executor that has lost a
        worker cannot continue.
    cache
        True to keep the values and gradients of a deterministic fun. fun is then not called again at a point with the
        same bits. An integer sets the number of values to keep; True keeps 100,000. A cached value counts as an
        evaluation, so the result does not change. `result.ncached` counts the cached values used. With a cache, "auto"
        cannot detect noise. Checkpoints do not store the cache, so a resumed run of a noisy fun differs. A
        vectorized batch is evaluated if any of its problems has a new point. False by default.
    callback
        Function called after each iteration with a Result of x, fun, t, nit, nfev, x_best and fun_best. It is passed as
        `intermediate_result` if the parameter has that name. To stop the run, return True or raise StopIteration. With
        a callback, a compiled loop returns to Python after each iteration. None by default.
    progress
        True shows a progress bar. False by default.
    history
        Maximum number of rows in the history, 1000 by default. Longer histories are thinned evenly. "full": all rows.
        "x": all rows, with iterates. 0: no rows. A row has f(x). "auto" and "scale_free" do not evaluate f(x) in an
        iteration, so their rows have the mean of f over the samples around x. A step of a local search is a row with
        t = 0 and f(x).
    on_nonfinite
        Policy for values that are NaN or infinite. "reject", the default, drops the sample. "penalize" replaces it by
        the worst finite value so far. "raise" raises FloatingPointError. A problem ends with Status.NONFINITE after 10
        iterations in a row without a usable value.
    checkpoint
        File, or a `slgh.Checkpoint`. If the file holds this run, the run continues, and its result is the same bit for
        bit. x0, data, bounds, seed and method must be the same. fun and args must be the same too, but slgh cannot
        compare them. If the problems are divided among workers or devices, each part has a file in a folder with the
        suffix ".shards". Any number of workers can continue them. None by default.
    watch
        A `slgh.protocols.Watch`, which can record more than the lowest value and can end a problem. fun then returns a
        tuple: the value, and further numbers, which the watch gets at each iterate. None by default.
    batch_size
        Maximum number of problems that run at the same time on each worker. When a problem ends, a waiting one takes
        its place. The results do not change, except that "auto" then has no local searches. None, the default: all
        problems.
    compiled
        None, the default: compile the loop if possible, to a while_loop on JAX and to a graph on CUDA. fun is then
        called only during compilation, and must do the same work in every call. False: run a Python loop. True: raise
        an error if the loop cannot be compiled. `result.engine` names the loop.
    tf32
        True if fun may use TF32 on CUDA, as PyTorch is configured. If False, the default, zeroth-order methods turn it
        off while they run, because its 10 bits of mantissa cannot resolve differences of close values.
    **params
        Hyperparameters of the method, with the paper's names (t1, gamma, eta, step, samples, ...). `floor` is the
        smallest t. `oracle`, `schedule` and `update` replace parts of the method.

        With step="theory" and L1 (f is L1-smooth, see `slgh.theory.estimate_smoothness`), the step and xhat follow the
        paper's theorem on the method. `result.message` names the theorem. `eps` is the gradient norm to reach. It
        determines gamma="tuned" and the burn-in. `sigma` is the noise of stochastic gradients. `burn_in` is the number
        of first iterations that are excluded when xhat is drawn.

        noise=nu means that values of f have an error of at most nu. The floor is then sqrt(nu), and the step of
        step="theory" is that of Algorithm 4.

        "auto" also takes `phases`, the phases that it may use: "landscape", "homotopy", "local_search", "restarts",
        "basin_hops" and "covariance". Basin hops need gradients. Covariance homotopies do not use them.

    Returns
    -------
    Result
        Solution x, fun, success, message and more: see `slgh.Result`. `success` means that the run ended as planned
        with a finite fun at a feasible x. It does not mean that fun is low.

    Notes
    -----
    Ctrl-C ends the run and returns the best evaluated point, with Status.INTERRUPTED. A loop over runs must therefore
    check the status. slgh does not call fun again, and kills evaluations in worker processes. If these processes run
    problems of a batch, the problems end at their last checkpoint, or where they began. KeyboardInterrupt is raised in
    two cases: while a loop is being compiled, since there is no result yet, and in a run that the fun of another run
    has started.

    An exception in fun is raised with its own traceback. If there is a checkpoint, slgh first saves the last complete
    iteration and all values received since. A resumed run then evaluates only the missing points.

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
        x0, bounds = read_tree_start(space, start), space.bounds
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
        functions,
        backend=config.backend,
        data=config.data,
        raise_nonfinite=config.raise_nonfinite,
        cache=cache,
        expired=None if config.limits.max_seconds is None else run.out_of_time,
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
            except OutOfTime:
                interrupts.leave_user_code()
                answer = EXPIRED
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
