"""Plan for a small budget in few variables: searches on quadratic models, without landscape check and homotopy."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from slgh.auto.phases import Phases
from slgh.auto.plans.medium import RESTART_RADIUS
from slgh.auto.replay_log import PhaseOutcome
from slgh.auto.wide_search import HOP_RADIUS, HOP_SPREAD, is_small
from slgh.engine.requests import Request
from slgh.engine.run import Run

REFINE_MIN_GRADIENTS = 30
"""With points evaluated in rounds, a local search by differences follows the first search if the budget has at least
this many gradients. Rounds of differences converge faster than those of quadratic models."""

FIRST_ROUNDS_SHARE = 0.25
"""Share of the budget for the first search then. On the training functions in 5 variables with 250 evaluations, 0.25
and 0.4 are better than 0.5 and 0.6."""


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
    refines = phases.width > 1 and phases.left >= REFINE_MIN_GRADIENTS * (phases.x0.size + 1)
    first = int(FIRST_ROUNDS_SHARE * phases.left) if refines else None
    yield from phases.wide_search(run, start.x, None, start_value=start.fun, evals=first)
    if refines:
        yield from phases.local_search(run, phases.lowest(run).x, spread=RESTART_RADIUS)
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
