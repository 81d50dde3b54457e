"""Local search for few variables and small budgets: quadratic models that begin with a wide trust region.

A wide region sees the slope of f beneath ripples, and one search costs little more for it. So a small budget has no
landscape check and no homotopy. It has several such searches: one from x0, then others from points near the lowest one
and from random points. Those that cannot get below the lowest point end early, at a large radius.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial

import numpy as np

from slgh.auto import model_search
from slgh.auto.evaluation import Evaluating, Floats
from slgh.auto.local_search import Converged, CutShort, LocalMinimum, SearchObjective, SearchRegion
from slgh.auto.model_search import SearchState
from slgh.auto.round_search import RoundState, search_in_rounds

# The constants were chosen on the training functions of benchmarks/coco.py and on eleven others (ridges, steps, rotated
# ellipsoids, and textbook functions) in 2, 3, 5 and 10 variables. From about 300 evaluations on, the landscape check,
# homotopies and L-BFGS-B do better there. A first radius of 3 has better mean ranks than 0.5 and 1, and slightly better
# ones than 2 and 4. Three other plans were no better: random points before the first search, d + 1 first points, and
# ending the first search early to have more searches.

MAX_VARIABLES = 20
"""Maximum number of variables."""

MAX_EVALS = 300
"""Maximum budget, or MAX_EVALS_PER_VARIABLE if that is more."""

MAX_EVALS_PER_VARIABLE = 20

LARGEST_EVALS_PER_VARIABLE = 100
"""Maximum budget per variable in any case."""

FIRST_RADIUS = 3.0
"""First radius from x0 and from random points, in the unit of the search region. In a box it is 0.3 of the width."""

HOP_RADIUS = 1.5
"""First radius from points near the lowest one."""

HOP_SPREAD = 1.0
"""Standard deviation of these points per variable, in the same unit."""

ROUGH_RADIUS = 1e-2
"""All searches but the first end at this radius if they are not promising."""

SAME_DISTANCE = 10 * ROUGH_RADIUS
"""A search that is this near to the incumbent by then has found the same minimum again."""

LAST_RADIUS = 1e-7


def is_small(max_evals: int, d: int) -> bool:
    """Return True if a budget of `max_evals` evaluations in d variables is best spent on these searches."""
    most = min(max(MAX_EVALS, MAX_EVALS_PER_VARIABLE * d), LARGEST_EVALS_PER_VARIABLE * d)
    return d <= MAX_VARIABLES and max_evals <= most


def wide_search(
    region: SearchRegion,
    budget: int,
    incumbent: LocalMinimum | None = None,
    *,
    radius: float = FIRST_RADIUS,
    start_value: float | None = None,
    on_nonfinite: str = "reject",
    width: int = 1,
    rng: np.random.Generator | None = None,
) -> Evaluating[LocalMinimum]:
    """Descend from a point with at most `budget` evaluations.

    Parameters
    ----------
    incumbent
        Lowest minimum of earlier searches, None in the first one. A search that is not promising ends early.
    radius
        First radius of the trust region.
    start_value
        f at the start, if it is known.
    width
        Number of points per round. More than one need `rng`, the source of random points.
    """
    f = SearchObjective(region, budget, on_nonfinite=on_nonfinite)
    bounds = region.bounds()
    try:
        radius_end = LAST_RADIUS if incumbent is None else ROUGH_RADIUS
        if rng is not None and width > 1:
            in_rounds = partial(search_in_rounds, *bounds, width=width, rng=rng, radius=radius)
            found = yield from _run_rounds(f, in_rounds(radius_end=radius_end))
            if incumbent is not None and _is_promising(f, found, incumbent):
                yield from _run_rounds(f, in_rounds(radius_end=LAST_RADIUS, state=found))
            return f.outcome(converged=True)
        state = yield from _run(f, model_search.search(*bounds, radius=radius, radius_end=radius_end), start_value)
        if incumbent is not None and state is not None and _is_promising(f, state, incumbent):
            yield from _run(f, model_search.search(*bounds, radius_end=LAST_RADIUS, state=state))
    except CutShort:
        return f.outcome(converged=False)
    except Converged:
        pass
    return f.outcome(converged=True)


def _run(
    f: SearchObjective, solver: Generator[Floats, float, SearchState | None], start_value: float | None = None
) -> Evaluating[SearchState | None]:
    """Answer the solver until it converges. Return its state."""
    try:
        z = next(solver)
        if start_value is not None:
            z = solver.send(f.accept(f.region.x, start_value))
        while True:
            z = solver.send((yield from f.value(z)))
    except StopIteration as end:
        state: SearchState | None = end.value
        return state


def _run_rounds(f: SearchObjective, solver: Generator[Floats, Floats, RoundState]) -> Evaluating[RoundState]:
    """Answer a solver with many points per round until it converges. Return its state."""
    try:
        z = next(solver)
        while True:
            z = solver.send((yield from f.values(z)))
    except StopIteration as end:
        state: RoundState = end.value
        return state


def _is_promising(f: SearchObjective, state: SearchState | RoundState, incumbent: LocalMinimum) -> bool:
    """Return True if the search can still get below the incumbent.

    The values of the interpolation points show how much f varies within the current radius.
    """
    if f.fun < incumbent.fun:
        return True
    spread = f.size * float(np.median(state.values) - np.min(state.values))
    distance = float(np.linalg.norm((f.x - incumbent.x) / f.region.unit))
    return f.fun - spread < incumbent.fun and distance > SAME_DISTANCE
