"""The end of a run: the final evaluations, and the Result."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slgh.backends.protocols import NoiseSource
from slgh.engine.config import RunConfig
from slgh.engine.history import History
from slgh.engine.requests import INTERRUPTED, Answers, Evaluate
from slgh.engine.search_space import with_trees
from slgh.engine.state import RunState, slices
from slgh.engine.termination import Status, status_after, status_if_infeasible
from slgh.method import SCALE_FREE, Method
from slgh.protocols import Query, Sight
from slgh.result import Minima, Phase, Result

LIBRARY_ARRAYS = ("x", "fun", "x_best", "fun_best", "xhat", "fun_se", "t")
"""Entries of the Result in arrays of x0's library, on its device. Counts and the history are NumPy's."""

CUT_SHORT = [Status.MAX_SECONDS, Status.INTERRUPTED]
"""Status of problems that may have ended before they began."""

HIGH_T = 0.1
"""The message mentions t if it has fallen, but not below this share of t1."""


class Solution(NamedTuple):
    """Solution x (d,) of a noisy f, with the average of its values there and their standard error."""

    x: NDArray[np.float64]
    fun: float
    fun_se: float


class Story(NamedTuple):
    """Everything that the message tells besides the status of the problems."""

    method: Method
    t1: NDArray[Any]
    """(B,) first radii."""
    t: NDArray[Any]
    """(B,) last radii."""
    floor: NDArray[Any]
    """(B,) smallest t allowed."""
    auto: str
    """Observations and phases of "auto". Otherwise empty."""
    homotopies: int
    remarks: tuple[str, ...]
    """Further sentences."""

    @property
    def chosen(self) -> str:
        """Sentence on the parts that "auto" and "scale_free" have chosen, if a homotopy has run."""
        method = self.method
        if method.name not in SCALE_FREE or not self.homotopies:
            return ""
        parts = f"{method.oracle.name} x {method.schedule.name} x {method.update.name}"
        radii = f"t from {_range(self.t1)} to {_range(self.t)}"
        return f"Chosen: {parts}, {method.oracle.samples} samples, {radii}."

    @property
    def is_high(self) -> NDArray[np.bool_]:
        """(B,) True for problems whose t has fallen, but neither far nor to its floor."""
        return np.asarray((np.maximum(HIGH_T * self.t1, self.floor) < self.t) & (self.t < self.t1))


class Ending(NamedTuple):
    """A run whose problems have all ended."""

    config: RunConfig
    state: RunState
    method: Method
    history: History
    noise: NoiseSource
    engine: str
    noisy: bool
    """True if "auto" found f to be noisy. The lowest point is not the solution then."""
    solution: Solution | None
    """Solution of a noisy f that "auto" knows. If it is None, the last iterate is the solution."""
    story: str
    """Observations and phases of "auto", for the message."""
    homotopies: int
    minima: tuple[NDArray[Any], NDArray[Any]] | None
    """Points (k, d) and values (k,) of the local minima that "auto" has found."""
    phases: tuple[Phase, ...]
    """Phases of "auto", else empty."""
    violation: float | None
    """Largest violation of the constraints at the solution, None if there are none."""
    remarks: tuple[str, ...]
    """Further sentences for the message."""
    elapsed: Callable[[], float]


class Final(NamedTuple):
    """Final values: f at the solutions (B,), its standard error, the counts, status, and the Watch's memory."""

    fun: NDArray[Any]
    fun_se: NDArray[Any]
    nfev: NDArray[np.int64]
    status: NDArray[np.int64]
    watch: tuple[NDArray[Any], ...]


def report(ending: Ending) -> Generator[Evaluate, Any, Result]:
    """Request f at the solutions if it is not known, then return the Result."""
    config, state = ending.config, ending.state
    step, full, backend = config.step, state.full, config.backend
    nit, _, njev = state.counts
    stochastic = config.stochastic
    x = _solutions(ending)
    fun, fun_se, nfev, status, watch = yield from _final_values(ending, x)
    interrupted = bool((status == Status.INTERRUPTED).any())
    story = Story(
        method=ending.method,
        t1=config.t1,
        t=full.t,
        floor=full.floor,
        auto=ending.story,
        homotopies=ending.homotopies,
        remarks=ending.remarks,
    )
    if not stochastic:
        # The best point is the solution after a target, of methods that report it, and after Ctrl-C, unless f was
        # evaluated at the last iterate and is lower there.
        keep_best = (status == Status.TARGET) | ((ending.method.reports == "best") & (not ending.noisy))
        keep_best |= np.isnan(fun) & interrupted
        keep_best &= np.isfinite(full.f_best) & ~(np.isfinite(fun) & (fun < full.f_best))
        x = np.where(keep_best[:, None], full.x_best, x)
        fun = np.where(keep_best, full.f_best, fun)
    finite = np.isfinite(fun)
    better = finite & (fun < full.f_best)
    reached = status_after(config.limits, value=np.where(finite, fun, np.nan))
    status = np.where(reached == Status.TARGET, int(Status.TARGET), status)
    planned = [int(kind) for kind in Status if kind.success]
    if not interrupted:  # else fun is NaN where it was not evaluated
        status[~finite & np.isin(status, planned)] = Status.NONFINITE
    fun_best = np.where(better, fun, full.f_best)
    ended_before_pick = (full.xhat_at >= nit) | ((full.xhat_at < 0) & (not step.exact))
    feasible = config.constraints is None or (ending.violation or 0.0) <= config.constraints.tolerance
    if not feasible:
        status = np.where(finite, status_if_infeasible(status), status)
    found = {
        "x": x,
        "fun": fun,
        "x_best": x if stochastic else np.where(better[:, None], x, full.x_best),
        "fun_best": fun if stochastic else np.where(np.isfinite(fun_best), fun_best, np.nan),
        "xhat": config.inside(np.asarray(np.where(ended_before_pick[:, None], full.x, full.xhat))),
        "fun_se": fun_se,
        "t": full.t,
        "nit": nit,
        "nfev": nfev,
        "njev": njev,
        "nrejected": full.rejected.astype(int),
        "status": status,
        "success": finite & np.isin(status, planned),
    }
    if ending.violation is not None:
        found["maxcv"] = np.full(fun.shape, ending.violation)
    history = ending.history.arrays() if config.batch_size is None else _history_per_problem(ending)
    watched = {} if step.watch is None else dict(zip(step.watch.names, watch, strict=True))
    to_library = backend.to_library
    if config.batched:
        found |= {name: to_library(found[name]) for name in LIBRARY_ARRAYS}
        watched = {name: to_library(leaf) for name, leaf in watched.items()}
    else:
        found = _of_one(found, to_library)
        found["status"] = Status(found["status"])
        history = {n: a[:, 0] if n not in ("iteration", "nfev") else a for n, a in history.items()}
        watched = _of_one(watched, to_library)
    if step.watch is not None:
        found["watched"] = watched
    return Result(
        **with_trees(config.space, found),
        message=message_of(status, story),
        ncached=0,
        chosen=story.chosen,
        history=history,
        minima=minima_of(config, ending.minima),
        phases=ending.phases,
        method=ending.method,
        engine=ending.engine,
        seed=config.seed,
        seconds=ending.elapsed(),
    )


def minima_of(config: RunConfig, found: tuple[NDArray[Any], NDArray[Any]] | None) -> Minima:
    """Return local minima in arrays of x0's library, or with points as trees of a search space."""
    x0, to_library, space = config.x0, config.backend.to_library, config.space
    found = (np.empty((0, x0.shape[1])), np.empty(0)) if found is None else found
    points, values = (to_library(a.astype(x0.dtype)) for a in found)
    return Minima(points if space is None else [space.decode(z) for z in points], values)


def _of_one(arrays: dict[str, Any], to_library: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the entries of a single problem: vectors as arrays, others as Python numbers."""
    return {name: to_library(a[0]) if a.ndim > 1 else a[0].item() for name, a in arrays.items()}


def _final_values(ending: Ending, x: NDArray[Any]) -> Generator[Evaluate, Any, Final]:
    """Request f at the solutions x (B, d) whose value is not known."""
    config, state, backend = ending.config, ending.state, ending.config.backend
    full, stochastic, watch = state.full, ending.config.stochastic, ending.config.step.watch
    nit, nfev, njev = state.counts.copy()
    status, memory = state.status.copy(), full.watch
    fun = np.full_like(full.f_best, np.nan)
    fun_se = np.zeros_like(fun)
    known = _known_solution(ending)
    if known is not None:
        fun[:], fun_se[:] = known.fun, known.fun_se
    # After Ctrl-C the user's function is not called again.
    unknown = np.full(fun.shape, not (status == Status.INTERRUPTED).any())
    if not stochastic:
        unknown &= status != Status.TARGET
    if config.batch_size is not None:
        unknown &= ~((nit == 0) & np.isin(status, CUT_SHORT))
    unknown &= known is None
    if config.phases and not ending.noisy:
        unknown &= ~np.isfinite(full.f_best)
    n = _final_samples(ending, int((nfev + njev).max(initial=0)))
    for rows in slices(np.flatnonzero(unknown), config.batch_size) if n else ():
        points = np.broadcast_to(x[rows][:, None, :], (rows.size, n, x.shape[1]))
        xi = ending.noise.last_xi(n, rows) if stochastic else None
        answers = Answers()
        answer = yield Evaluate(Query("fun", backend.native(points), xi=xi, centers=n), rows, answers)
        if answer is INTERRUPTED:
            status[rows] = Status.INTERRUPTED
            nfev[rows] += -(-answers.begun // rows.size)
            break
        values = backend.host(answer)
        if watch is not None:
            f, f_best = values[:, 0, 0], full.f_best[rows]
            lower = f < f_best
            best = np.where(lower[:, None], x[rows], full.x_best[rows]), np.where(lower, f, f_best)
            sight = Sight(nit[rows], x[rows], f, values[:, 0, 1:], *best)
            after = watch.see(tuple(leaf[rows] for leaf in memory), sight, np)
            memory = tuple(leaf.copy() for leaf in memory)
            for leaf, part in zip(memory, after, strict=True):
                leaf[rows] = part
            values = values[..., 0]
        fun[rows] = values.mean(axis=1)
        if stochastic:
            fun_se[rows] = values.std(axis=1, ddof=1) / n**0.5 if n > 1 else np.nan
        nfev[rows] += n
    return Final(fun, fun_se, nfev, status, memory)


def _history_per_problem(ending: Ending) -> dict[str, NDArray[Any]]:
    """Return the history of problems that began one after the other, by their own iterations."""
    history, state, before = ending.history, ending.state, ending.config.start_evals
    each = history.first_nfev - before if history.size else 0
    return history.per_problem(state.began[0], state.counts[0], each, before)


def _solutions(ending: Ending) -> NDArray[Any]:
    """Return the last iterates or, if those of a stochastic function are averaged, their means.

    If "auto" knows the solution of a noisy function, return that one.
    """
    if (known := _known_solution(ending)) is not None:
        return known.x[None].astype(ending.config.dtype)
    state, start = ending.state, ending.config.step.tail_from
    x = state.full.x
    if state.full.tail and start is not None:
        n = state.counts[0] - start
        x = np.where(
            ((n > 0) & (state.status != Status.TARGET))[:, None],
            state.full.tail[0] / np.maximum(n, 1)[:, None].astype(x.dtype),
            x,
        )
    return ending.config.inside(x)


def _known_solution(ending: Ending) -> Solution | None:
    """Return the solution of a noisy f that "auto" knows, unless the best evaluated point is the solution."""
    if ending.violation is not None:  # of an infeasible problem
        return ending.solution
    lowest = np.isin(ending.state.status, (Status.TARGET, Status.INTERRUPTED)).any()
    return None if lowest else ending.solution


def _final_samples(ending: Ending, used: int) -> int:
    """Return the number of evaluations per final value: 1, or the oracle's samples if f is stochastic."""
    n = ending.method.oracle.samples if ending.config.stochastic else 1
    limit = ending.config.limits.max_evals
    return n if limit is None else max(0, min(n, limit - used))


def message_of(status: NDArray[Any], story: Story) -> str:
    """Return the message: why the problems ended and, for "auto", what was observed, done and chosen."""
    method = story.method
    if status.size == 1:
        text = Status(int(status[0])).message
    else:
        kinds, numbers = np.unique(status, return_counts=True)
        text = " ".join(f"{n} of {status.size}: {Status(int(s)).message}" for s, n in zip(kinds, numbers, strict=True))
    if story.auto:
        text += f" {story.auto}."
    if story.chosen:
        text += f" {story.chosen}"
    # A schedule of the user's own may have a gamma, too.
    elif hasattr(method.schedule, "gamma") and (status == Status.COMPLETED).all() and story.is_high.all():
        ends = f"{_range(story.t)}, from {_range(story.t1)}"
        text += f" t is still {ends}: more iterations, or a smaller gamma, lower it."
    return " ".join(filter(None, (text, *story.remarks)))


def _range(t: NDArray[Any]) -> str:
    """Format one number, or the smallest and the largest."""
    low, high = float(t.min()), float(t.max())
    return f"{low:.3g}" if low == high else f"{low:.3g}..{high:.3g}"
