r"""Trust-region search on quadratic models with many points per round, for evaluations that run in parallel.

The model is the one of `model_search`: it interpolates f at points near the best one, and its Hessian changes as little
as possible from round to round. A round has two kinds of points. Steps minimize the model within balls of several
radii around delta, so that delta is right for one of them. The others are random points around the first step. They
keep the model accurate, and they find lower points where f is not quadratic.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import NamedTuple

import numpy as np

from slgh.auto.evaluation import Floats
from slgh.auto.model_search import Lagrange, minimize_quadratic, model_values, within

# The constants were chosen on the training functions of benchmarks/coco.py in 5 and 10 variables with 10 d to 50 d
# evaluations in 20 rounds. Most of them matter little. Radii up to 9 are better than up to 4.

RADII = (1.0, 3.0, 0.3, 9.0)
"""Radii of the steps, in units of delta."""

STEP_SHARE = 0.4
"""Share of the points of a round that are steps. The others are random."""

LEAST_SHRINK, MOST_SHRINK = 0.5, 0.1
"""Smallest factor of delta after a round of 2 d + 1 points or fewer, and after one of many points. Rounds with many
points renew the model, so that the search may trust a much smaller ball after one of them."""

MOST_GROWTH = 2.0
"""Largest factor of delta after a round."""

NEAR = 5.0
"""The model interpolates points within this many delta of the best one, but at least 2 d + 1."""

SAME = 0.1
"""Points that are this near to each other, in units of delta, count as one for the model."""


class RoundState(NamedTuple):
    """All points of a search that has ended, and its radius and model. It can be continued to a smaller radius."""

    points: Floats
    """(n, d)."""
    values: Floats
    """(n,)."""
    delta: float
    center: Floats
    """(d,), the origin of the model."""
    constant: float
    gradient: Floats
    hessian: Floats


def search_in_rounds(
    low: Floats,
    high: Floats,
    *,
    width: int,
    rng: np.random.Generator,
    radius: float = 1.0,
    radius_end: float = 1e-8,
    state: RoundState | None = None,
) -> Generator[Floats, Floats, RoundState]:
    """Minimize f from the origin: yield points (n, d) within the bounds, receive f (n,), return at convergence.

    Parameters
    ----------
    low, high
        Bounds (d,), infinite if there is none. The origin lies within them.
    width
        Number of points per round.
    rng
        Source of the random points.
    radius, radius_end
        First and last trust-region radius, by default 1 and 1e-8.
    state
        State of an earlier search in the same bounds, to continue it. `radius` does not matter then.
    """
    free = high > low
    d = int(np.count_nonzero(free))
    if state is None:
        span = float(np.min(np.where(free, high - low, np.inf), initial=np.inf))
        delta = min(radius, span / 2)
        points, values = yield from _first_points(low, high, delta)
        center, constant = points[0], float(values[0])
        gradient, hessian = np.zeros(low.size), np.zeros((low.size, low.size))
    else:
        points, values, delta, center, constant, gradient, hessian = state
    least = max(LEAST_SHRINK ** max(1.0, width / (2 * d + 1)), MOST_SHRINK)
    while d and delta > radius_end:
        best = int(np.argmin(values))
        moved = points[best] - center
        constant += gradient @ moved + 0.5 * moved @ hessian @ moved
        gradient = gradient + hessian @ moved
        center = points[best]
        used = _near(points, center, delta, d)
        shifts = points[used] - center
        missed = values[used] - model_values(shifts, constant, gradient, hessian)
        change = Lagrange(shifts).interpolate(missed)
        constant, gradient, hessian = constant + change[0], gradient + change[1], hessian + change[2]

        new = _round(gradient, hessian, delta, low - center, high - center, width, rng)
        found = np.asarray((yield within(center + new, low, high)))
        lowest = int(np.argmin(found))
        if found[lowest] < values[best]:
            length = float(np.linalg.norm(new[lowest]))
            delta = min(max(2 * length, least * delta), MOST_GROWTH * delta)
        else:
            delta *= least
        points, values = np.concatenate([points, within(center + new, low, high)]), np.append(values, found)
    return RoundState(points, values, delta, center, constant, gradient, hessian)


def _round(
    gradient: Floats, hessian: Floats, delta: float, low: Floats, high: Floats, width: int, rng: np.random.Generator
) -> Floats:
    """Return the points of a round, (width, d), relative to the best point."""
    steps: list[Floats] = []
    for factor in RADII[: max(1, math.ceil(STEP_SHARE * width))]:
        step = minimize_quadratic(gradient, hessian, factor * delta, low, high)
        # The minimum of the model is within several of the balls.
        if all(np.linalg.norm(step - other) > SAME * delta for other in steps):
            steps.append(step)
    around = rng.standard_normal((width - len(steps), gradient.size))
    around *= (delta * rng.random(len(around)) ** (1 / gradient.size) / np.linalg.norm(around, axis=1))[:, None]
    return np.concatenate([steps, steps[0] + around])


def _near(points: Floats, center: Floats, delta: float, d: int) -> list[int]:
    """Return the points that the model interpolates, the center first."""
    distance = np.linalg.norm(points - center, axis=1)
    used: list[int] = []
    for i in np.argsort(distance, kind="stable").tolist():
        if len(used) > 2 * d and distance[i] > NEAR * delta:
            break
        if len(used) == (d + 1) * (d + 2) // 2:
            break
        if not used or float(np.min(np.linalg.norm(points[used] - points[i], axis=1))) > SAME * delta:
            used.append(i)
    return used


def _first_points(low: Floats, high: Floats, delta: float) -> Generator[Floats, Floats, tuple[Floats, Floats]]:
    """Evaluate the origin and two more points along each axis, (2 d + 1, d), in two requests.

    If f decreased at the first point of an axis, the second lies further in the same direction. Otherwise it lies on
    the opposite side of the origin.
    """
    free = np.flatnonzero(high > low)
    ahead = np.where(high >= delta, delta, -delta)
    first = np.zeros((1 + free.size, low.size))
    first[1 + np.arange(free.size), free] = ahead[free]
    values = np.asarray((yield first))
    second = np.zeros((free.size, low.size))
    for row, i in enumerate(free.tolist()):
        candidates = (2 * ahead[i], -ahead[i]) if values[1 + row] < values[0] else (-ahead[i], 2 * ahead[i])
        inside = [c for c in candidates if low[i] <= c <= high[i]]
        second[row, i] = inside[0] if inside else 0.5 * ahead[i]
    return np.concatenate([first, second]), np.append(values, (yield second))
