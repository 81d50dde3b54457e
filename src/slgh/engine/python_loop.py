"""The Python loop: one iteration at a time, seen by the host."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slgh.engine.history import Row
from slgh.engine.step import PATIENCE, Info, step
from slgh.protocols import Query
from slgh.result import Status

if TYPE_CHECKING:
    from slgh.engine.run import Run

NONE = np.zeros(1, bool)
"""None of the problems."""


def iterate(run: Run) -> Generator[Query, Any, None]:
    """One iteration of the active problems, and what follows from it."""
    first = run.k % run.plan.method.oracle.period == 0
    k: Any = run.k if run.batch_size is None else run.backend.native(run.k - run.began[0, run.members])
    run.state, info = yield from step(run.state, k, first, run.noise, run.plan)
    run.k += 1
    run.mark()
    if run.history.wants(run.k - 1):
        run.history.record(_row(run, info))
    host = run.backend.host
    stopped, failure = False, None
    if run.callback is not None:
        try:
            stopped = run.called_back(host(info.x), _known(run, info), host(info.t))
        except BaseException as error:
            failure = error  # raised below, when the problems that end here have ended
    given_up = NONE if info.ok is None else host(run.state.bad) >= PATIENCE
    reached = _reached(run, info)
    done = NONE if info.done is None else host(info.done)
    spent = NONE if run.batch_size is None else run.k - run.began[0, run.active] >= run.iterations
    if any(why is not NONE and why.any() for why in (given_up, reached, done, spent)):
        which = np.broadcast_to(given_up | reached | done | spent, run.active.shape)
        if run.history.limit:
            run.history.end(which, _row(run, info))
        here = done | reached if run.plan.ctx.stochastic else done
        if here.any():
            x = np.where(np.broadcast_to(here, which.shape)[:, None], host(info.x), host(run.state.x))
            run.state = run.state._replace(x=run.backend.native(x))
        status = np.where(given_up, Status.NONFINITE, run.limit)
        run.end(which, np.where(done, Status.WATCHED, np.where(reached, Status.TARGET, status)))
    if failure is not None:
        raise failure
    run.after_contact(stopped=stopped)


def _row(run: Run, info: Info) -> Row:
    """What the history records of an iteration."""
    host = run.backend.host
    t = host(info.t)
    best = np.full_like(t, np.nan) if run.plan.ctx.stochastic else host(run.state.f_best)
    figures = {"fun": _known(run, info), "t": t, "fun_best": best}
    if run.history.with_x:
        figures["x"] = run.inside(host(info.x))
    if run.plan.watch is not None:
        figures |= {name: host(leaf) for name, leaf in zip(run.plan.watch.names, run.state.watch, strict=True)}
    return Row(run.k - 1, run.nfev, run.active, figures)


def _known(run: Run, info: Info) -> NDArray[Any]:
    """f at the iterates, NaN where it is not known."""
    host = run.backend.host
    if info.f is None:
        return np.full_like(host(info.t), np.nan)
    return host(info.f) if info.ok is None else np.where(host(info.ok), host(info.f), np.nan)


def _reached(run: Run, info: Info) -> NDArray[np.bool_]:
    """Which problems have reached the target: by a value, or for a stochastic fun by its estimate at x."""
    target = run.limits.target
    if target is None:
        return NONE
    found = _known(run, info) if run.plan.ctx.stochastic else run.backend.host(run.state.f_best)
    return np.asarray(found <= target)
