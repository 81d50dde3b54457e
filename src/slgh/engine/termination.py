"""End of a run: the reasons, the user's limits, and the rule that turns them into a status."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from slgh import checks
from slgh.engine.step import Info, StepConfig
from slgh.protocols import Array, Context, Leaves, Oracle, StepState

DEFAULT_ITERATIONS = 10_000
"""`max_iter` if no limit is given."""

LARGEST_LIMIT = 2**62
"""Larger limits are cut to this one: no run reaches it, and there is room to count further in 64 bits."""

PATIENCE = 10
"""Iterations in a row without a usable value after which a problem ends."""

SETTLED_ITERATIONS = 100
"""Iterations over which progress is compared with `ftol` and `xtol`. One iteration from random samples says little."""

SETTLED_PHASES = 5
"""The same for "auto" on a single problem, in phases after the first converged one."""

SETTLED_T = 0.1
"""A homotopy whose t falls has not converged before t is this share of t1: x follows minima that still move."""


class Status(IntEnum):
    """Reason why a problem ended. COMPLETED, TARGET, WATCHED and CONVERGED are successes if f(x) is finite."""

    COMPLETED = 0
    TARGET = 1
    MAX_EVALS = 2
    MAX_SECONDS = 3
    CALLBACK = 4
    INTERRUPTED = 5
    NONFINITE = 6
    WATCHED = 7
    FAILED = 8
    INFEASIBLE = 9
    CONVERGED = 10
    RUNNING = -1

    @property
    def success(self) -> bool:
        """True if this is a planned end."""
        return self in (Status.COMPLETED, Status.TARGET, Status.WATCHED, Status.CONVERGED)

    @property
    def message(self) -> str:
        """Sentence that says why the run ended."""
        return _MESSAGES[self]


_MESSAGES = {
    Status.COMPLETED: "The planned iterations were completed.",
    Status.TARGET: "The target value was reached.",
    Status.MAX_EVALS: "Cut short: the next iteration would exceed max_evals.",
    Status.MAX_SECONDS: "Cut short: max_seconds have passed.",
    Status.CALLBACK: "Stopped by the callback.",
    Status.INTERRUPTED: "Interrupted from the keyboard.",
    Status.NONFINITE: f"Gave up: fun was not finite at x, or around it, {PATIENCE} iterations in a row or at the end.",
    Status.WATCHED: "Stopped by `watch`.",
    Status.FAILED: "An exception ended the run.",
    Status.INFEASIBLE: "No feasible point was found: the solution violates the constraints by maxcv.",
    Status.CONVERGED: "Converged: f or x has changed by no more than its tolerance, ftol or xtol.",
    Status.RUNNING: "Running.",
}


class Limits(NamedTuple):
    """Limits per problem. None: no limit."""

    max_iter: int | None = None
    max_evals: int | None = None
    max_seconds: float | None = None
    target: Any = None
    """A number, or an array without dimensions in a compiled loop. So is `iterations`."""
    iterations: Any = None
    """Number of iterations that `max_iter` and `max_evals` allow."""
    exhausted: Status = Status.COMPLETED
    """Status of a problem that has used up `max_iter` or `max_evals`."""

    def per_problem(self, *, slotted: bool) -> Limits:
        """Return the limits that a loop checks for each problem. The others end all problems at once.

        `slotted` problems begin one after the other, so each has its own number of iterations.
        """
        limits = self._replace(max_iter=None, max_evals=None, max_seconds=None)
        return limits if slotted else limits._replace(iterations=None)

    @property
    def end_problems(self) -> bool:
        """True if limits per problem can end one of them before the others."""
        return self.target is not None or self.iterations is not None


class Tolerances(NamedTuple):
    """Changes of f and x that count as none. None: not compared. At least one of them is given."""

    ftol: float | None = None
    xtol: float | None = None


def has_settled(tolerances: Tolerances, before: tuple[Array, Array], now: tuple[Array, Array], xp: Any = np) -> Array:
    """Return True for problems that have converged, (B,).

    f has fallen by no more than ftol max(1, |f|), or no variable has changed by more than xtol max(1, max_i |x_i|).

    Parameters
    ----------
    before, now
        f (B,) and x (B, d). Problems without a finite f before have not converged in f.
    """
    (f_before, x_before), (f, x) = before, now
    settled = xp.zeros_like(f) > 0
    if tolerances.ftol is not None:
        scale = xp.where(xp.abs(f) > 1.0, xp.abs(f), xp.ones_like(f))
        settled = settled | (f_before - f <= tolerances.ftol * scale)
    if tolerances.xtol is not None:
        size = xp.max(xp.abs(x), axis=1)
        scale = xp.where(size > 1.0, size, xp.ones_like(size))
        settled = settled | (xp.max(xp.abs(x - x_before), axis=1) <= tolerances.xtol * scale)
    return settled


def status_after(
    limits: Limits,
    xp: Any = np,
    status: Any = int(Status.RUNNING),
    *,
    evaluations: int = 0,
    iterations: Any = None,
    seconds: float = 0.0,
    stopped: bool = False,
    ok: Array | None = None,
    counters: Leaves = (),
    value: Array | None = None,
    watched: Array | None = None,
) -> Any:
    """Return the status of running problems: one integer for all of them, or (B,). Later rules take precedence.

    Parameters
    ----------
    status
        (B,) current status. A compiled loop passes it so that the dtype stays the same.
    evaluations
        Evaluations after another iteration, including those reserved for the final value.
    iterations
        Completed iterations: one number, or (B,). None: not observed, as for the arrays below.
    seconds
        Duration so far.
    stopped
        True if the callback stops the run.
    ok
        (B,) False for problems without a usable value in the last iteration. None: all have one.
    counters
        Those of the StepState after it: see `counted`. Problems converge by these.
    value
        (B,) lowest value so far, or the latest estimate if f is stochastic.
    watched
        (B,) True for problems that the user's Watch ends.
    """
    if limits.max_evals is not None and evaluations > limits.max_evals:
        status = int(limits.exhausted)
    if limits.iterations is not None and iterations is not None:
        status = _where(iterations >= limits.iterations, limits.exhausted, status, xp)
    if limits.max_seconds is not None and seconds >= limits.max_seconds:
        status = int(Status.MAX_SECONDS)
    if stopped:
        status = int(Status.CALLBACK)
    if len(counters) > 1:
        status = _where(counters[1] > 0, Status.CONVERGED, status, xp)
    if ok is not None:
        bad = counters[0]
        status = _where(bad >= PATIENCE, Status.NONFINITE, status, xp)
    if limits.target is not None and value is not None:
        status = _where(value <= limits.target, Status.TARGET, status, xp)
    if watched is not None:
        status = _where(watched, Status.WATCHED, status, xp)
    return status


def status_if_infeasible(status: Any) -> Any:
    """Return the status (B,) of problems whose solution violates the constraints: a planned end becomes INFEASIBLE."""
    ended = [int(kind) for kind in Status if kind.success or kind is Status.MAX_EVALS]
    return np.where(np.isin(status, ended), int(Status.INFEASIBLE), status)


def _where(mask: Any, new: Status, old: Any, xp: Any) -> Any:
    """Return `new` where the mask is True and `old` elsewhere. The mask may be a Python bool."""
    if isinstance(mask, bool):
        return int(new) if mask else old
    return xp.where(mask, int(new), old)


def undo_last_step(*, stochastic: bool) -> tuple[Status, ...]:
    """Return the reasons to end a problem before its last step.

    Its solution is then the point where the Watch, or the estimate of a stochastic f, was satisfied.
    """
    return (Status.WATCHED, Status.TARGET) if stochastic else (Status.WATCHED,)


def first_counters(x: Array, t: Array, xp: Any, tolerances: Tolerances | None = None) -> Leaves:
    """Return the counters of problems that begin, for iterates x (B, d) and radii t (B,).

    With tolerances these are the iterations in a row without a usable value, 1.0 for problems that have converged, the
    iterations since the last comparison, t1, and f, x and t at that comparison.
    """
    zero = xp.zeros_like(t)
    if tolerances is None:
        return (zero,)
    return (zero, zero, zero, t, xp.full_like(t, xp.inf), x, t)


def counted(before: StepState, after: StepState, info: Info, config: StepConfig) -> StepState:
    """Return the state after an iteration with its counters: see `first_counters`.

    The counters are the last field of the state, and `_replace` takes three times as long.
    """
    xp = config.ctx.xp
    bad, *progress = before.counters
    zero = xp.zeros_like(bad)
    bad = zero if info.ok is None else xp.where(info.ok, zero, bad + 1.0)
    progress = _compare_progress(progress, after, config) if progress else progress
    return StepState(*after[:-1], (bad, *progress))


def _compare_progress(progress: list[Array], after: StepState, config: StepConfig) -> list[Array]:
    """Return the counters of convergence after an iteration. f, x and t are compared every SETTLED_ITERATIONS."""
    xp, tolerances = config.ctx.xp, config.tolerances
    assert tolerances is not None
    _, age, t1, f_before, x_before, t_before = progress
    best = config.method.reports == "best" and not config.ctx.stochastic
    f, x, t = after.f_best, after.x_best if best else after.x, after.t
    due = age + 1.0 >= SETTLED_ITERATIONS
    at_rest = (t >= t_before) | (t <= SETTLED_T * t1)
    settled = due & at_rest & has_settled(tolerances, (f_before, x_before), (f, x), xp)
    one, zero = xp.ones_like(age), xp.zeros_like(age)
    return [
        xp.where(settled, one, zero),
        xp.where(due, zero, age + 1.0),
        t1,
        xp.where(due, f, f_before),
        xp.where(due[:, None], x, x_before),
        xp.where(due, t, t_before),
    ]


def read_tolerances(ftol: Any, xtol: Any) -> Tolerances | None:
    """Check the tolerances. Return None if none is given."""
    given = Tolerances(checks.plain(ftol), checks.plain(xtol))
    for name, value in given._asdict().items():
        if value is not None:
            checks.at_least(name, value, 0)
    return None if given == Tolerances() else given


def read_limits(d: int, *, planned: bool, **given: Any) -> Limits:
    """Check the limits, and apply the default if none is given.

    `planned` is True if the method needs to know the number of iterations in advance.
    """
    given = {name: checks.plain(value) for name, value in given.items()}
    for name in ("max_iter", "max_evals"):
        if isinstance(given[name], int) and given[name] > LARGEST_LIMIT:
            given[name] = LARGEST_LIMIT
    limits = Limits(**given)
    if limits.max_iter is not None:
        checks.count("max_iter", limits.max_iter, 0)
    if limits.max_evals is not None:
        checks.count("max_evals", limits.max_evals)
    if limits.max_seconds is not None:
        checks.at_least("max_seconds", limits.max_seconds, 0)
    if limits.target is not None:
        checks.real("target", limits.target)
    if limits.max_iter is not None or limits.max_evals is not None:
        return limits
    if planned:
        return limits._replace(max_evals=default_evals(d))
    return limits if limits.max_seconds is not None else limits._replace(max_iter=DEFAULT_ITERATIONS)


def default_evals(d: int) -> int:
    """Return `max_evals` for a method that plans by its budget, if no limit is given."""
    return 1000 + 200 * d


def with_iterations(limits: Limits, oracle: Oracle, ctx: Context, reserve: int, *, planned: bool) -> Limits:
    """Fill in the number of iterations that the limits allow, if `reserve` evaluations are kept back."""
    n = affordable_iterations(limits, oracle, ctx, reserve)
    completed = n is not None and (n == limits.max_iter or (planned and n > 0))
    return limits._replace(iterations=n, exhausted=Status.COMPLETED if completed else Status.MAX_EVALS)


def affordable_iterations(limits: Limits, oracle: Oracle, ctx: Context, reserve: int) -> int | None:
    """Return the number of iterations that `max_iter` and `max_evals` allow."""
    if limits.max_evals is None:
        return limits.max_iter
    left = limits.max_evals - reserve
    costs = [oracle.cost(k == 0, ctx) for k in range(oracle.period)]
    rounds = max(0, left // sum(costs))
    left -= rounds * sum(costs)
    n = rounds * oracle.period
    for cost in costs:
        left -= cost
        if left < 0:
            break
        n += 1
    return n if limits.max_iter is None else min(n, limits.max_iter)
