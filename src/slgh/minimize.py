"""The front door."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from slgh import checks
from slgh.auto import defaults
from slgh.auto.portfolio import Portfolio
from slgh.backends import backend_of
from slgh.engine.arguments import Arguments, read_callback
from slgh.engine.checkpoint import Checkpoint
from slgh.engine.compiled_step import Advance
from slgh.engine.config import make_config
from slgh.engine.executors import open_workers
from slgh.engine.interrupts import Interrupts
from slgh.engine.objective import (
    Objective,
    Pointwise,
    Vectorized,
    is_closed_form,
    read_functions,
    refuse_functions,
    refuse_workers,
)
from slgh.engine.recorder import Recorder
from slgh.engine.requests import INTERRUPTED
from slgh.engine.run import Run
from slgh.engine.snapshot import open_checkpoint
from slgh.method import Method, ObjectiveTraits
from slgh.protocols import Watch
from slgh.result import Result


def minimize(
    fun: Any,
    x0: Any,
    *,
    method: str | Method = "auto",
    grad: Callable[..., Any] | bool | None = None,
    args: tuple[Any, ...] = (),
    data: Any = None,
    sample_xi: Callable[[np.random.Generator, int], Any] | int | None = None,
    bounds: Any = None,
    vectorized: bool = False,
    batched: bool = False,
    max_evals: int | None = None,
    max_iter: int | None = None,
    max_seconds: float | None = None,
    target: float | None = None,
    seed: Any = None,
    workers: Any = None,
    callback: Callable[..., object] | None = None,
    progress: bool = False,
    history: int | str | None = 1000,
    on_nonfinite: str = "reject",
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    watch: Watch | None = None,
    batch_size: int | None = None,
    compiled: bool | None = None,
    tf32: bool = False,
    **params: Any,
) -> Result:
    r"""Minimize a function by Gaussian homotopy, or by any method of the paper.

    The method smooths f into :math:`F(x, t) = E f(x + t u)`, :math:`u \sim N(0, I)`, and lowers x and t together.

    Parameters
    ----------
    fun
        fun(x, \*data, xi, \*args) -> number, of one point x (d,); `data` and `xi` only where there are any. Or a
        closed form: an object with methods value(x, t), grad(x, t), dt(x, t), trace(x, t), batched over x (..., d)
        and t (...), whose value(x, 0) is f.
    x0
        The start, (d,); or with `batched` (B, d), B problems at once. Its type chooses the engine: NumPy, PyTorch (CPU
        or CUDA) or JAX, and fun gets and returns arrays of that library. Its dtype, float32 or float64, and its
        device are the run's; lists and NumPy integers become float64, integers of other libraries their default.
    method
        A name of `slgh.METHODS`, or a `slgh.Method`. "auto" needs no tuning. It looks whether f is smooth, rugged or
        noisy, then spends the budget on homotopies and local searches (on differences, on quadratic models, or on
        gradients where there are any), and the message tells what it saw and did. Its first t is a quarter of the box,
        or without bounds the root mean square of x0, at least 1; it finds what lies within some t1 sqrt(d) of x0.
        Where x0 says nothing of the scale (zeros, say), pass `t1`, about the distance to the optimum a variable. It
        never returns a point worse than x0, unless f is noisy: then it returns the last iterate. For a batch, a
        stochastic fun, ranks, a `watch`, swapped parts or `max_iter` there is the homotopy alone, which has a name of
        its own: "scale_free".
    grad
        The gradient, called as fun is, returning (d,). Functions of PyTorch and JAX arrays are differentiated where the
        method needs it and there is none; `grad=True` says so to "auto", which otherwise takes values alone.
    args
        Further arguments of fun and grad, as in SciPy.
    data
        An array, or a tuple of arrays, of the problem's own, passed to fun after x as arrays of x0's library. Batched:
        leading axis B, and fun gets one row; a vectorized fun gets (B, 1, ...), which broadcasts against its points
        (B, n, d).
    sample_xi
        Makes fun stochastic: (rng, n) -> n samples along the first axis, or an integer N for the indices of a sum of N
        terms. fun gets one sample (a vectorized one (..., n)) after `data`. rng is a NumPy Generator; for JAX a key.
    bounds
        A scipy Bounds or d pairs (low, high). Points outside are mirrored into the box, never evaluated.
    vectorized
        fun maps points (..., d) to values (...), and grad to (..., d): (n, d) without a batch, (B, n, d) with one.
    batched
        x0 holds B problems. They do not influence each other: each has its own noise, stop and result.
    max_evals, max_iter, max_seconds
        Hard limits for each problem: evaluations of fun and grad together, iterations, and seconds (the compilation of
        a loop, once for a function, not counted). An iteration that does not fit is not begun. Without any: 10,000
        iterations. "auto" and "scale_free" plan by the number of evaluations: with neither max_evals nor max_iter,
        1000 + 200 d, also where max_seconds cuts it short.
    target
        Stop a problem when a value <= target has been found; for a stochastic fun, an iteration's estimate at x.
    seed
        A non-negative integer; None draws one, which `result.seed` tells. Batched also: one integer a problem, each
        then running as it would alone. Global random state is never touched.
    workers
        Evaluate points in parallel: a number of processes (-1: all cores), a callable like map, or an executor.
    callback
        Called after each iteration with a Result of x, fun, t, nit, nfev, x_best, fun_best (as `intermediate_result`
        where that is its parameter's name). Returning True or raising StopIteration stops the run. A compiled loop
        has to stop for it at each iteration.
    progress
        Show a progress bar.
    history
        How many rows of history to keep, thinned evenly; "full" for all, "x" for all with iterates, 0 for none. A row
        has f(x), or for "auto" and "scale_free", whose iterations do not evaluate it, the mean of f over the samples
        around x. A step of a local search is a row with t = 0 and f(x).
    on_nonfinite
        What to do about NaN and infinities: "reject" drops the sample, "penalize" takes the worst finite value so far
        instead, "raise" raises FloatingPointError. After 10 iterations in a row without a usable value the
        problem ends with Status.NONFINITE.
    checkpoint
        A file, or a `slgh.Checkpoint`. Where it holds this run, the run is continued, to the same result bit for bit.
        x0, data, bounds, seed and method must be the same; that fun and args are the same is up to you.
    watch
        A `slgh.protocols.Watch`: what else to remember of the run than the lowest value, and when a problem has what it
        wants. fun then returns a tuple, of the values and of further numbers that the watch is shown at each iterate.
    batch_size
        How many of the problems are computed at the same time, where all would be too many: when one has ended, another
        takes its place. The results are the same.
    compiled
        None: the whole loop is compiled where that is possible, for JAX into a while_loop and on CUDA into a graph, and
        `result.engine` tells; fun is then called while it is compiled, not at each point, and must do the same
        work at every call. False: a Python loop. True: an error where it is not possible.
    tf32
        Whether fun may use TF32 on CUDA where PyTorch is set so. Zeroth-order methods turn it off while they run: its
        10 bits of mantissa leave nothing of the difference between two close values.
    **params
        Hyperparameters of the method's parts by the paper's names (t1, gamma, eta, step, samples, ...), `floor` for the
        least t, and parts to swap: `oracle`, `schedule`, `update`. With step="theory" and L1 (f is L1-smooth: see
        `slgh.theory.estimate_smoothness`) the step and xhat are those of the paper's theorem on the method, which the
        message names; `eps` is the gradient norm to reach, of which gamma="tuned" and the burn-in are made, `sigma`
        the noise of stochastic gradients, and `burn_in` the iterations that xhat is not drawn from. noise=nu says that
        values of f have an error of up to nu: the floor is sqrt(nu), and the theory's step that of Algorithm 4.
        "auto" also takes `phases`: which of "landscape", "homotopy", "local_search" and "restarts" it may use.

    Returns
    -------
    Result
        With x, fun, success, message and more: see `slgh.Result`. `success` is the planned end with a finite fun; it
        does not say that fun is low.

    Notes
    -----
    Ctrl-C ends the run and returns the best evaluated point, with Status.INTERRUPTED: a loop over runs has to look at
    the status. fun is not called again, and evaluations in worker processes are killed. (While a loop is being compiled
    there is nothing yet to return, and KeyboardInterrupt is raised. It is also raised in a run that the fun of another
    run has started.)
    An exception in fun reaches you with its own traceback, after the last complete iteration was saved, with all values
    received since: a resumed run evaluates only what is missing.

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
    backend = backend_of(x0)
    extra = args if isinstance(args, tuple) else (args,)
    refuse_functions(fun, grad, extra, backend)
    arguments = Arguments(
        x0=x0,
        method=method,
        sample_xi=sample_xi,
        data=data,
        bounds=bounds,
        batched=batched,
        max_evals=max_evals,
        max_iter=max_iter,
        max_seconds=max_seconds,
        target=target,
        seed=seed,
        callback=callback,
        progress=progress,
        history=history,
        on_nonfinite=on_nonfinite,
        checkpoint=checkpoint,
        watch=watch,
        batch_size=batch_size,
        params=params,
    )
    closed = is_closed_form(fun)
    traits = ObjectiveTraits(
        closed_form=closed, gradient=grad is not None, differentiable=backend.differentiates and not closed
    )
    run = make_run(arguments, traits)
    asks = run.config.step.method.oracle.asks
    functions = read_functions(
        fun,
        grad,
        backend=run.config.backend,
        args=extra,
        vectorized=vectorized,
        batched=batched,
        differentiate=asks == "gradients",
        watched=watch is not None,
    )
    return drive(run, functions, workers=workers, compiled=compiled, tf32=tf32, raises=on_nonfinite == "raise")


def make_run(arguments: Arguments, traits: ObjectiveTraits) -> Run:
    """Make the run that the arguments describe."""
    saver = None if arguments.checkpoint is None else open_checkpoint(arguments.checkpoint)
    saved_seed = saver.found[0].seed if saver and saver.found else None
    config = make_config(arguments, traits, defaults, saved_seed=saved_seed)
    recorder = Recorder(
        config,
        history=arguments.history,
        callback=read_callback(arguments.callback),
        saver=saver,
        progress=arguments.progress,
    )
    return Run(config, recorder, Portfolio(config) if config.phases else None)


def drive(
    run: Run, functions: Vectorized | Pointwise, *, workers: Any, compiled: bool | None, tf32: bool, raises: bool
) -> Result:
    """Call the user's functions until the run ends."""
    backend = run.config.backend
    refuse_workers(workers, functions)
    reason = "on_nonfinite='raise' looks at every value" if raises else ""
    parallel = checks.plain(workers) not in (None, 1)
    if parallel:
        reason = "workers call fun from Python"
    differences = run.config.step.method.oracle.asks == "values" and not tf32
    # Interrupts stay held until the worker processes have ended: Ctrl-C during their shutdown must not lose the result.
    with Interrupts() as interrupts, backend.session(differences=differences):
        interrupts.in_user_code = True  # compiling calls the user's function, and there is no result yet
        functions = run.compile(functions, compiled=compiled, python=reason)
        interrupts.in_user_code = False
        objective = Objective(functions, backend=backend, data=run.config.data, raise_nonfinite=raises)
        if not parallel:
            return _answer_requests(run, objective, interrupts)
        with open_workers(workers, functions.calls, fork=backend.forks) as mappers:
            functions.mappers[:] = mappers
            return _answer_requests(run, objective, interrupts)


def _answer_requests(run: Run, objective: Objective, interrupts: Interrupts) -> Result:
    """Answer requests until the run ends. The user's code sees its own handling of floating-point errors."""
    requests = run.requests()
    answer: Any = None
    try:
        while True:
            try:
                with np.errstate(all="ignore"):
                    request = requests.send(answer)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            try:
                interrupts.in_user_code = True
                if interrupts.pending:
                    raise KeyboardInterrupt
                if isinstance(request, Advance):
                    interrupts.in_user_code = False
                    answer = run.advance_block(request)
                else:
                    answer = objective(request)
                    interrupts.in_user_code = False
            except KeyboardInterrupt:
                interrupts.in_user_code = interrupts.pending = False
                if interrupts.nested:
                    raise
                answer = INTERRUPTED
    except BaseException as error:
        interrupts.in_user_code = False  # Ctrl-C must not replace the exception while the run is saved
        run.close_after(error)
        requests.close()
        raise
