"""Plan for a large budget from values: each phase has a bounded share, and restarts compete for the rest."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np

from slgh.auto import restarts
from slgh.auto.covariance import CovarianceEnd, Incumbent, default_samples, learning_cost
from slgh.auto.phases import PLAN_STREAM, Phases
from slgh.auto.plans import small
from slgh.auto.plans.medium import RESTART_RADIUS
from slgh.auto.replay_log import PhaseOutcome
from slgh.auto.restarts import Kind, Race
from slgh.engine.requests import Request
from slgh.engine.run import Run

LARGE_BUDGET = 1.5
"""A budget is large from this many times the cost of learning a metric. Covariance homotopies then take part."""

SMOOTH_SHARE = 0.35
"""Maximum share of a large budget for the first local search of a smooth f."""

RUGGED_SHARE = 0.6
"""Maximum share of a large budget for the first homotopy of a rugged f."""

RUGGED_EVALS_PER_SQUARE = 120
"""Maximum evaluations of this homotopy, in units of d^2. In 2 variables a longer one is no better than restarts,
in 20 it is."""

RUGGED_EVALS_PER_VARIABLE = 1000
"""Another maximum, in units of d. Longer homotopies end hardly lower."""

RUGGED_LOCAL_SHARE = 0.3
"""Maximum share of a large budget for the local search that follows this homotopy."""

REFINE_RADIUS_CONVERGED = 1e-5
"""First t of the covariance homotopy that follows the first local search, in units of t1, if f is smooth and the search
has converged. If it has reached the minimum, the homotopy ends soon. If it has not, t grows again."""

REFINE_RADIUS = 0.01
"""The same if f is rugged, or the search has not converged."""

GLOBAL_MAX_VARIABLES = 3
"""In at most this many variables, the covariance homotopy of a rugged f begins at t1. There, searching the whole region
again lowers f more than refining the best point."""

WIDE_SEARCH_MAX_VARIABLES = 3
"""In at most this many variables, restarts of local searches are searches on wide quadratic models. On the multimodal
training functions with 1,000 d evaluations, they find the minimum more often there, in 5 variables equally often, and
they take more time per evaluation."""

REFINE_SHARE = 0.8
"""Maximum share of the evaluations left for this homotopy if restarts follow, but it gets at least the cost of
learning a metric."""

RACE_SHARE = 0.25
"""Maximum share of the evaluations left for one restart of a local search, but it gets RACE_MIN_GRADIENTS."""

RACE_MIN_GRADIENTS = 30
"""Minimum budget of this local search, in gradient evaluations. Most end before."""

MIN_GAIN = 1e-9
"""A restart that lowers f by no more than this, relative to its size, has found nothing new."""


def suits(phases: Phases, run: Run, budget: int) -> bool:
    """Return True if covariance homotopies take part."""
    needed = LARGE_BUDGET * learning_cost(phases.x0.size)
    return budget >= needed and not run.has_gradients and {"covariance", "homotopy"} <= set(phases.enabled)


def minimize(phases: Phases, run: Run, budget: int) -> Generator[Request, Any, None]:
    """Begin with the phase that suits the landscape, on a bounded share of the budget. Then let restarts compete."""
    d, rugged = phases.x0.size, phases.rugged
    if rugged:
        most = min(RUGGED_EVALS_PER_SQUARE * d, RUGGED_EVALS_PER_VARIABLE) * d
        yield from phases.homotopy(run, phases.x0, phases.t1, min(int(RUGGED_SHARE * budget), most))
        evals = int(RUGGED_LOCAL_SHARE * budget)
        yield from phases.local_search(run, phases.lowest(run).x, evals, spread=RESTART_RADIUS)
        trusted, radius = False, REFINE_RADIUS if d > GLOBAL_MAX_VARIABLES else 1.0
    else:
        found = yield from phases.local_search(run, phases.x0, int(SMOOTH_SHARE * budget))
        trusted = bool(found.note)
        radius = REFINE_RADIUS_CONVERGED if trusted else REFINE_RADIUS
    best = phases.lowest(run)
    if not np.isfinite(best.fun):  # f may be finite nowhere, which a homotopy finds out
        yield from phases.homotopy(run, phases.x0, phases.t1, int(RUGGED_SHARE * phases.left))
        best = phases.lowest(run)
    # Without an incumbent, since near it the homotopy would soon be behind.
    nothing = Incumbent(best.x, np.inf, False)
    share = REFINE_SHARE if "restarts" in phases.enabled else 1.0
    most = max(learning_cost(d), int(share * phases.left))
    found = yield from phases.covariance(run, best.x, radius * phases.t1, default_samples(d), nothing, most)
    if "restarts" in phases.enabled:
        yield from race(phases, run, found, trusted=trusted)


def race(phases: Phases, run: Run, found: PhaseOutcome, *, trusted: bool) -> Generator[Request, Any, None]:
    """Restart until the budget is spent. `found` is the outcome of the first covariance homotopy.

    `trusted`: local searches converge, so they get more at first.
    """
    phases.restarting = True
    kinds = [kind for kind in Kind if kind is not Kind.LOCAL_SEARCH or "local_search" in phases.enabled]
    contest, best, idle = restarts.begin(phases.x0.size, trusted=trusted, kinds=kinds), phases.lowest(run), 0
    settled_at = np.inf  # lowest value at which a covariance homotopy has converged
    while phases.left > 0 and idle < len(kinds):
        if found.phase == "covariance" and CovarianceEnd(found.note).settled:
            settled_at = min(settled_at, found.fun)
        kind, left = contest.next(phases.left), phases.left
        incumbent = Incumbent(best.x, best.fun, settled_at <= best.fun)
        found = yield from _restart(phases, run, contest, kind, incumbent)
        now = phases.lowest(run)
        contest = contest.after(kind, left - phases.left, improved=now.fun < best.fun - MIN_GAIN * abs(now.fun))
        best, idle = now, idle + 1 if phases.left == left else 0


def _restart(
    phases: Phases, run: Run, race: Race, kind: Kind, best: Incumbent
) -> Generator[Request, Any, PhaseOutcome]:
    """Run one restart of this kind."""
    d = best.x.size
    if kind is Kind.HOMOTOPY:
        end = yield from phases.homotopy(run, best.x, RESTART_RADIUS * phases.t1, min(phases.left, learning_cost(d)))
        if (lowest := phases.lowest(run)).fun < best.fun and "local_search" in phases.enabled:
            share = _race_share(phases, d)
            return (yield from phases.local_search(run, lowest.x, share, spread=RESTART_RADIUS))
        return end
    if kind is Kind.LOCAL_SEARCH and d <= WIDE_SEARCH_MAX_VARIABLES:
        return (yield from small.search_again(phases, run, race.count[kind]))
    x = best.x if kind is Kind.NEAR else phases.random_points(1)[0]
    if kind is Kind.LOCAL_SEARCH:
        return (yield from phases.local_search(run, x, _race_share(phases, d)))
    rng = phases.rng(PLAN_STREAM)
    samples = restarts.choose_samples(kind, d, race.count[Kind.GROWING], phases.left, rng)
    radius = restarts.choose_radius(kind, rng)
    return (yield from phases.covariance(run, x, radius * phases.t1, samples, best))


def _race_share(phases: Phases, d: int) -> int:
    """Return the maximum evaluations of a restart of a local search."""
    return min(phases.left, max(int(RACE_SHARE * phases.left), RACE_MIN_GRADIENTS * (d + 1)))
