"""Plan for a search space with integers, categories or booleans, where f is constant on cells of the unit cube.

Searches by differences would see no slope there. A space with no more points than the budget is enumerated. With a
small budget, a Gaussian process and a mixed search alternate. With a larger one, covariance homotopies and mixed
searches from the lowest point alternate.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from slgh.auto.covariance import Incumbent, default_samples
from slgh.auto.phases import Phases
from slgh.auto.wide_search import is_small
from slgh.engine.requests import Request
from slgh.engine.run import Run

HOMOTOPY_SHARE = 0.4
"""Share of the evaluations left for a covariance homotopy. It ends earlier if it converges."""

SEARCH_SHARE = 0.5
"""Share of the evaluations left for a mixed search that follows it."""

LEAST_TURN = 200
"""Minimum evaluations of each, if they are left. Mixed searches learn from the points that they know."""

MAX_SAMPLES_GROWTH = 6
"""The samples of the covariance homotopies double up to 2^6 times."""


def suits(phases: Phases) -> bool:
    """Return True if f is constant on cells, and more than the homotopy may run."""
    return phases.config.discrete and bool({"local_search", "covariance"} & set(phases.enabled))


def minimize(phases: Phases, run: Run) -> Generator[Request, Any, None]:
    """Enumerate, or alternate between covariance homotopies and mixed searches."""
    phases.use_reserve()
    phases.lowest(run)  # the start, after which `left` is known
    space = phases.config.space
    assert space is not None
    if (count := space.count) is not None and count - 1 <= phases.left:
        yield from phases.enumeration(run)
        return
    searches = "local_search" in phases.enabled
    homotopies = "covariance" in phases.enabled
    small = searches and is_small(phases.config.limits.max_evals or 0, phases.x0.size)
    n, before = 0, phases.left + 1
    while 0 < phases.left < before:
        before = phases.left
        if homotopies and not small:
            yield from _covariance(phases, run, n, searches=searches)
        if searches and phases.left > 0:
            whole = small or not homotopies
            yield from phases.mixed_search(run, None if whole else _turn(phases, SEARCH_SHARE), surrogate=small)
        phases.restarting = True
        if "restarts" not in phases.enabled and not small:
            break
        n += 1


def _turn(phases: Phases, share: float) -> int:
    """Return the evaluations of the next turn."""
    return min(phases.left, max(int(share * phases.left), LEAST_TURN))


def _covariance(phases: Phases, run: Run, n: int, *, searches: bool) -> Generator[Request, Any, None]:
    """Run the n-th covariance homotopy: from the start, then from random points with more and more samples."""
    d = phases.x0.size
    samples = max(default_samples(d) << min(n, MAX_SAMPLES_GROWTH), phases.width)
    evals = _turn(phases, HOMOTOPY_SHARE) if searches else phases.left
    if evals < samples:
        return
    x = phases.x0 if n == 0 else phases.random_points(1)[0]
    best = phases.lowest(run)
    yield from phases.covariance(run, x, phases.t1, samples, Incumbent(best.x, best.fun, settled=False), evals)
