"""Plan for runs with gradients: basin hops and homotopies compete for the budget."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator
from typing import Any

import numpy as np

from slgh.auto import basin_hops
from slgh.auto.basin_hops import Hops
from slgh.auto.contest import Contest, after_turn
from slgh.auto.landscape import Landscape
from slgh.auto.phases import PLAN_STREAM, Phases
from slgh.auto.plans.medium import RESTART_RADIUS, SECOND_HOMOTOPY_MIN_GRADIENTS
from slgh.engine.requests import Request
from slgh.engine.run import Run

RUGGED_HOMOTOPY_SHARE = 0.3
"""Share of the budget for the first homotopy of a rugged f if basin hops follow."""

TURNS = 10
"""Number of turns of the contest between basin hops and homotopies, if each has the same length."""


def suits(phases: Phases, run: Run) -> bool:
    """Return True if a run has gradients, and may hop."""
    return run.has_gradients and "basin_hops" in phases.enabled


def minimize(phases: Phases, run: Run, gradient_cost: int) -> Generator[Request, Any, None]:
    """Find a first minimum. Then let basin hops and homotopies compete for the budget.

    A singular f has no homotopy: the largest of its gradients would decide each step. On Morse clusters, local searches
    end far higher after a homotopy than from x0, even if the gradients of its samples have unit length.
    """
    use_homotopy, start = "homotopy" in phases.enabled and phases.landscape is not Landscape.SINGULAR, phases.x0
    if use_homotopy and phases.landscape is Landscape.RUGGED:
        yield from phases.homotopy(run, phases.x0, phases.t1, int(RUGGED_HOMOTOPY_SHARE * phases.left))
        start = phases.lowest(run).x
    found = yield from phases.hop_search(run, start)
    hops, contest = basin_hops.first_hops(found.x, found.fun), Contest()
    phases.restarting = True
    turn, before = phases.left // TURNS, phases.left + 1
    while gradient_cost <= phases.left < before:  # each turn uses some of it
        before, best = phases.left, hops.best.fun
        if not use_homotopy or contest.hops_are_next or phases.left < SECOND_HOMOTOPY_MIN_GRADIENTS * gradient_cost:
            hops = yield from _hops(phases, run, hops, turn, gradient_cost)
            spent, decrease = before - phases.left, _decrease(best, hops.best.fun)
            contest = dataclasses.replace(contest, hops=after_turn(contest.hops, spent, decrease))
        else:
            first = phases.homotopies == 0
            x, t = (phases.x0, phases.t1) if first else (hops.best.x, RESTART_RADIUS * phases.t1)
            end = yield from phases.homotopy(run, x, t, min(turn, phases.left))
            found = yield from phases.hop_search(run, end.x, hops)
            hops = basin_hops.visit(hops, found.x, found.fun)
            spent, decrease = before - phases.left, _decrease(best, hops.best.fun)
            contest = dataclasses.replace(contest, homotopy=after_turn(contest.homotopy, spent, decrease))


def _hops(phases: Phases, run: Run, hops: Hops, evals: int, gradient_cost: int) -> Generator[Request, Any, Hops]:
    """Hop until this many evaluations are spent."""
    end, before = phases.left - evals, phases.left + 1
    while max(gradient_cost, end) <= phases.left < before:  # each hop uses some of it
        before = phases.left
        rng = phases.rng(PLAN_STREAM)
        hop = basin_hops.propose(hops, phases.unit, phases.random_points(1)[0], rng)
        start = np.where(np.isnan(hop.x), hops.current.x, hop.x)
        start = phases.region(start).nearest(start)
        found = yield from phases.hop_search(run, start, hops, hop.level, name="basin_hops")
        hops = basin_hops.after(hops, hop, found.x, found.fun, cost=before - phases.left, converged=bool(found.note))
    return hops


def _decrease(before: float, now: float) -> float:
    """Return the decrease of f, the largest number if there was no finite value before."""
    return min(before - now, float(np.finfo(float).max)) if now < before else 0.0
