"""Plan for a small budget in few variables: searches on quadratic models, without landscape check and homotopy."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from slgh.auto.phases import Phases
from slgh.auto.replay_log import PhaseOutcome
from slgh.auto.wide_search import HOP_RADIUS, HOP_SPREAD, is_small
from slgh.engine.requests import Request
from slgh.engine.run import Run


def suits(phases: Phases, run: Run) -> bool:
    """Return True if a run from values alone has a small budget, may use these phases, and has no declared noise."""
    max_evals = phases.config.limits.max_evals or 0
    allowed = {"local_search", "restarts"} <= set(phases.enabled) and "noise" not in phases.config.given
    return not run.has_gradients and allowed and is_small(max_evals, phases.x0.size)


def minimize(phases: Phases, run: Run) -> Generator[Request, Any, None]:
    """Search from x0, then in turn near the lowest point and from random points, until the budget is spent."""
    phases.use_reserve()
    start = phases.lowest(run)
    if phases.left < 1:
        return
    yield from phases.wide_search(run, start.x, None, start_value=start.fun)
    phases.restarting = True
    before, n = phases.left + 1, 0
    while 0 < phases.left < before:
        before = phases.left
        yield from search_again(phases, run, n)
        n += 1


def search_again(phases: Phases, run: Run, n: int) -> Generator[Request, Any, PhaseOutcome]:
    """Search from near the lowest point, or from a random point if n, the number of such searches so far, is odd."""
    lowest = min(phases.log.outcomes, key=lambda o: o.fun)
    if n % 2:
        return (yield from phases.wide_search(run, phases.random_points(1)[0], lowest))
    hop = lowest.x + HOP_SPREAD * phases.unit * phases.rng().standard_normal(lowest.x.size)
    near = phases.region(lowest.x).nearest(hop)
    return (yield from phases.wide_search(run, near, lowest, radius=HOP_RADIUS))
