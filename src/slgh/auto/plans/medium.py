"""Plans for a budget that allows a homotopy and a local search, in an order that depends on the landscape."""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any

from slgh.auto.phases import HomotopyEnd, Phases
from slgh.engine.requests import Request
from slgh.engine.run import Run

# The shares below are round numbers that did well on the training functions of benchmarks/coco.py. No search was made.

RUGGED_LOCAL_SHARE = 0.12
"""Share of the budget kept for the local search of a rugged f."""

RUGGED_LOCAL_MIN_GRADIENTS = 15
"""Minimum budget for the local search of a rugged f, in gradient evaluations, up to RUGGED_LOCAL_MAX_SHARE."""

RUGGED_LOCAL_MAX_SHARE = 0.3
"""Maximum share of the budget that RUGGED_LOCAL_MIN_GRADIENTS may keep."""

SECOND_HOMOTOPY_MIN_GRADIENTS = 30
"""After the first minimum of a smooth f, a homotopy follows if this many gradient evaluations are left."""

SECOND_HOMOTOPY_SHARE = 0.4
"""Share of the evaluations left that this homotopy gets."""

RESTART_MIN_GRADIENTS = 6
"""After the local search of a rugged f, another homotopy follows if this many gradient evaluations are left."""

RESTART_RADIUS = 0.2
"""First t of this homotopy, which starts from the best point, as a share of t1."""

RESTART_SHARE = 0.7
"""Share of the evaluations left that this homotopy gets."""

SLOWDOWN_MIN_VARIABLES = 100
"""Minimum number of variables for a local search that ends if it has slowed down. In 20 and 40 variables, the landscape
check sees the ripples, and ending the search made the smooth training functions worse."""

SLOWDOWN_MIN_GRADIENTS, SLOWDOWN_MAX_GRADIENTS = 40, 80
"""Budgets of such a local search, in gradient evaluations. With less it descends still, with more it converges."""


def minimize(phases: Phases, run: Run, budget: int, gradient_cost: int) -> Generator[Request, Any, None]:
    """Begin with a homotopy if f is rugged, and with a local search if it is smooth."""
    if phases.rugged:
        yield from _minimize_rugged(phases, run, budget, gradient_cost)
    else:
        yield from _minimize_smooth(phases, run, budget, gradient_cost)


def _minimize_rugged(phases: Phases, run: Run, budget: int, gradient_cost: int) -> Generator[Request, Any, None]:
    """Run a homotopy, a local search from the lowest point, and restarts there as long as the budget lasts."""
    least = min(RUGGED_LOCAL_MIN_GRADIENTS * gradient_cost, RUGGED_LOCAL_MAX_SHARE * budget)
    kept = max(RUGGED_LOCAL_SHARE * budget, least)
    yield from phases.homotopy(run, phases.x0, phases.t1, phases.left - int(kept))
    yield from phases.local_search(run, phases.lowest(run).x, spread=RESTART_RADIUS)
    phases.restarting = True
    while "restarts" in phases.enabled and phases.left > RESTART_MIN_GRADIENTS * gradient_cost:
        before = phases.lowest(run)
        end = yield from phases.homotopy(run, before.x, RESTART_RADIUS * phases.t1, int(RESTART_SHARE * phases.left))
        if end.note == HomotopyEnd.NO_ITERATION:
            break
        if (lowest := phases.lowest(run)).fun < before.fun:
            yield from phases.local_search(run, lowest.x, spread=RESTART_RADIUS)


def _minimize_smooth(phases: Phases, run: Run, budget: int, gradient_cost: int) -> Generator[Request, Any, None]:
    """Run a local search. If it ends early, add a homotopy, and local searches from random points."""
    yield from _first_local_search(phases, run, budget, gradient_cost)
    if "homotopy" in phases.enabled and phases.left > SECOND_HOMOTOPY_MIN_GRADIENTS * gradient_cost:
        share = SECOND_HOMOTOPY_SHARE if "restarts" in phases.enabled else 1 - RUGGED_LOCAL_SHARE
        end = yield from phases.homotopy(run, phases.x0, phases.t1, int(share * phases.left))
        yield from phases.local_search(run, end.x)
    yield from _local_searches_elsewhere(phases, run, gradient_cost)


def _first_local_search(phases: Phases, run: Run, budget: int, gradient_cost: int) -> Generator[Request, Any, None]:
    """Search from x0. If that slows down, let a homotopy from there have the rest of a small budget."""
    may_slow = (
        phases.x0.size >= SLOWDOWN_MIN_VARIABLES
        and SLOWDOWN_MIN_GRADIENTS * gradient_cost <= budget < SLOWDOWN_MAX_GRADIENTS * gradient_cost
        and "homotopy" in phases.enabled
        and not run.has_gradients
    )
    found = yield from phases.local_search(run, phases.x0, ends_if_slow=may_slow)
    if may_slow and not found.note and math.isfinite(found.fun) and phases.left > gradient_cost:
        evals = int((1 - RUGGED_LOCAL_SHARE) * phases.left)
        yield from phases.homotopy(run, found.x, RESTART_RADIUS * phases.t1, evals)
        yield from phases.local_search(run, phases.lowest(run).x)


def _local_searches_elsewhere(phases: Phases, run: Run, gradient_cost: int) -> Generator[Request, Any, None]:
    """Search from random points, as long as the budget allows it and each search uses some of it."""
    phases.restarting = True
    before = phases.left + 1
    while "restarts" in phases.enabled and gradient_cost < phases.left < before:
        before = phases.left
        yield from phases.local_search(run, phases.random_points(1)[0], endless=True)
