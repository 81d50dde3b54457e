"""The front door."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from slgh.compose import Facts
from slgh.engine.checkpoint import Checkpoint
from slgh.engine.door import make_run, read_data, read_sample_xi, read_x0
from slgh.engine.evaluate import Objective, is_closed_form
from slgh.engine.interrupts import Interrupts
from slgh.engine.loop import Run
from slgh.engine.workers import open_workers
from slgh.method import Method
from slgh.result import Result


def minimize(
    fun: Any,
    x0: Any,
    *,
    method: str | Method = "auto",
    grad: Callable[..., Any] | None = None,
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
    **params: Any,
) -> Result:
    r"""Minimise a function by Gaussian homotopy, or by any method of the paper.

    The method smooths f into :math:`F(x, t) = E f(x + t u)`, :math:`u \sim N(0, I)`, and lowers x and t together.

    Parameters
    ----------
    fun
        fun(x, \*data, xi, \*args) -> number, of one point x (d,); `data` and `xi` only where there are any. Or a
        closed form: an object with methods value(x, t), grad(x, t), dt(x, t), trace(x, t), batched over x (..., d)
        and t (...), whose value(x, 0) is f.
    x0
        The start, (d,); or with `batched` (B, d), B problems at once. Its dtype, float32 or float64, is the run's;
        lists and integers become float64.
    method
        A name of `slgh.METHODS`, or a `slgh.Method`. "auto" needs no tuning: it takes the closed form, the gradient or
        the values, whichever there is, and lets t fall over exactly the budget. Its first t is a quarter of the box,
        or without bounds the root mean square of x0, at least 1; it finds what lies within some t1 sqrt(d) of x0.
        Where x0 says nothing of the scale (zeros, say), pass `t1`, about the distance to the optimum a variable. It
        never returns a point worse than x0. Ill-conditioned smooth functions are better left to L-BFGS or CMA-ES.
    grad
        The gradient, called as fun is, returning (d,).
    args
        Further arguments of fun and grad, as in SciPy.
    data
        An array, or a tuple of arrays, of the problem's own, passed to fun after x. Batched: leading axis B, and fun
        gets one row; a vectorised fun gets (B, 1, ...), which broadcasts against its points (B, n, d).
    sample_xi
        Makes fun stochastic: (rng, n) -> n samples along the first axis, or an integer N for the indices of a sum of N
        terms. fun gets one sample (a vectorised one (..., n)) after `data`.
    bounds
        A scipy Bounds or d pairs (low, high). Points outside are mirrored into the box, never evaluated.
    vectorized
        fun maps points (..., d) to values (...), and grad to (..., d): (n, d) without a batch, (B, n, d) with one.
    batched
        x0 holds B problems. They do not influence each other: each has its own noise, stop and result.
    max_evals, max_iter, max_seconds
        Hard limits for each problem: evaluations of fun and grad together, iterations, and seconds. An iteration that
        does not fit is not begun. Without any: 10,000 iterations. "auto" plans by the number of evaluations: with
        neither max_evals nor max_iter, 1000 + 200 d, also where max_seconds cuts it short.
    target
        Stop a problem when a value <= target has been found; for a stochastic fun, an iteration's estimate at x.
    seed
        A non-negative integer; None draws one, which `result.seed` tells. Batched also: one integer a problem, each
        then running as it would alone. Global random state is never touched.
    workers
        Evaluate points in parallel: a number of processes (-1: all cores), a callable like map, or an executor.
    callback
        Called after each iteration with a Result of x, fun, t, nit, nfev, x_best, fun_best (as `intermediate_result`
        where that is its parameter's name). Returning True or raising StopIteration stops the run.
    progress
        Show a progress bar.
    history
        How many rows of history to keep, thinned evenly; "full" for all, "x" for all with iterates, 0 for none. A row
        has f(x), or for "auto", which does not evaluate it, the mean of f over the samples around x.
    on_nonfinite
        What to do about NaN and infinities: "reject" drops the sample, "penalize" takes the worst finite value so far
        instead, "raise" raises FloatingPointError. After 10 iterations in a row without a usable value the
        problem ends with Status.NONFINITE.
    checkpoint
        A file, or a `slgh.Checkpoint`. Where it holds this run, the run is continued, to the same result bit for bit.
        x0, data, bounds, seed and method must be the same; that fun and args are the same is up to you.
    **params
        Hyperparameters of the method's parts by the paper's names (t1, gamma, eta, step, samples, ...), `floor` or
        `noise` for the least t, and parts to swap: `oracle`, `schedule`, `update`.

    Returns
    -------
    Result
        With x, fun, success, message and more: see `slgh.Result`. `success` is the planned end with a finite fun; it
        does not say that fun is low.

    Notes
    -----
    Ctrl-C ends the run and returns what there is, with Status.INTERRUPTED: a loop over runs has to look at the status.
    An exception in fun reaches you with its own traceback, after the last complete iteration was saved.

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
    closed = is_closed_form(fun)
    if not closed and not callable(fun):
        raise TypeError(f"`fun` must be callable or a closed form, got {fun!r}.")
    if grad is not None and not callable(grad):
        raise TypeError(f"`grad` must be callable, got {grad!r}.")
    if workers not in (None, 1) and (vectorized or closed):
        raise ValueError(
            "`workers` evaluate one point a time, `vectorized` functions all at once; pass one of the two."
        )
    xi = read_sample_xi(sample_xi)
    B = len(read_x0(x0, batched=batched))
    objective = Objective(
        fun,
        grad,
        args=args if isinstance(args, tuple) else (args,),
        data=read_data(data, B, batched=batched),
        vectorized=vectorized,
        batched=batched,
        raise_nonfinite=on_nonfinite == "raise",
    )
    facts = Facts(
        closed_form=closed,
        gradient=grad is not None,
        stochastic=xi is not None,
        terms=xi if isinstance(xi, int) else None,
    )
    run = make_run(
        x0,
        method=method,
        facts=facts,
        sample_xi=xi,
        data=objective.data,
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
        params=params,
    )
    with open_workers(workers, objective.point_calls()) as mappers:
        objective.mappers[: len(mappers)] = mappers
        return _drive(run, objective)


def _drive(run: Run, objective: Objective) -> Result:
    """Answer the run's queries until it ends. The user's code runs outside our handling of floating-point errors."""
    talk = run.conversation()
    try:
        with Interrupts() as interrupts:
            values: Any = None
            while True:
                try:
                    with np.errstate(all="ignore"):
                        query = talk.send(values)
                except StopIteration as end:
                    return end.value  # type: ignore[no-any-return]
                try:
                    interrupts.in_user_code = True
                    if interrupts.pending:
                        raise KeyboardInterrupt
                    run.count(query)
                    values = objective(query, run.rows)
                    interrupts.in_user_code = False
                except KeyboardInterrupt:
                    interrupts.in_user_code = interrupts.pending = False
                    values = run.interrupt(query)
    except BaseException as error:
        run.close_after(error)
        raise
