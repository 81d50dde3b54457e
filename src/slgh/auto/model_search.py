r"""Trust-region search on quadratic models of f, from values alone, one point at a time.

The model is the quadratic that interpolates f at a set of points and whose Hessian is as close as possible, in the
Frobenius norm, to the Hessian of the previous model [1]_. Each step minimizes the model within the bounds and the trust
region, a ball of radius delta. A second radius rho is a lower bound of delta. It shrinks only if the model is accurate
and steps no longer make progress.

The set starts with 2 d + 1 points. Each new point that makes progress is added until there are (d + 1)(d + 2) / 2,
enough for a full quadratic. Other new points replace old ones. If steps fail, as at a kink, distant points are dropped.

.. [1] M. J. D. Powell, "The BOBYQA algorithm for bound constrained optimization without derivatives", 2009.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import NamedTuple

import numpy as np

from slgh.auto.evaluation import Floats

GOOD_RATIO = 0.7
"""Actual over predicted decrease of f above which the ball may grow."""

FAIR_RATIO = 0.1
"""Actual over predicted decrease of f below which the ball shrinks."""

REPLACE_DISTANCE = 2.0
"""If a step fails, the farthest point is replaced if it is more than this many ball radii from the best one."""

DROP_DISTANCE = 4.0
"""Points that are more than this many ball radii from the best one may be dropped, except the nearest 2 d + 1."""

FAILURES_BEFORE_DROP = 2
"""They are dropped after this many failures in a row."""

MIN_UNCERTAINTY = 1e-3
"""Minimum uncertainty of the model at a new point, relative to the maximum at that distance. Points below it add only
rounding errors."""

MAX_SECULAR_STEPS = 60
"""Maximum number of steps to find the multiplier of a point on the boundary of the ball."""

SECULAR_TOLERANCE = 1e-10
"""Relative accuracy of the distance of that point."""


class SearchState(NamedTuple):
    """Interpolation points, radius and model of a search that has ended. It can be continued to a smaller radius."""

    points: Floats
    """(m, d)."""
    values: Floats
    """(m,)."""
    rho: float
    center: Floats
    """(d,), the origin of the model."""
    constant: float
    gradient: Floats
    hessian: Floats


def search(
    low: Floats,
    high: Floats,
    *,
    radius: float = 1.0,
    radius_end: float = 1e-8,
    state: SearchState | None = None,
) -> Generator[Floats, float, SearchState | None]:
    """Minimize f from the origin: yield points (d,) within the bounds, receive f at each, return at convergence.

    Parameters
    ----------
    low, high
        Bounds (d,), infinite if there is none. The origin lies within them.
    radius, radius_end
        First and last trust-region radius, by default 1 and 1e-8.
    state
        State of an earlier search in the same bounds, to continue it. `radius` does not matter then.

    Returns
    -------
    SearchState or None
        State at convergence, None if the bounds fix all variables.
    """
    free = np.flatnonzero(high > low)
    if not free.size:
        yield np.zeros(low.size)
        return None
    solver = _search_free(low[free], high[free], radius, radius_end, state)
    try:
        z = next(solver)
        while True:
            point = np.zeros(low.size)
            point[free] = z
            z = solver.send((yield point))
    except StopIteration as end:
        ended: SearchState = end.value
        return ended


def _search_free(
    low: Floats, high: Floats, radius: float, radius_end: float, state: SearchState | None
) -> Generator[Floats, float, SearchState]:
    """Run the search for variables of which none is fixed by its bounds."""
    d = low.size
    max_points = (d + 1) * (d + 2) // 2
    if state is None:
        rho = min(radius, float(np.min(high - low)) / 2)
        points, values = yield from _first_points(low, high, rho)
        center, constant, gradient, hessian = points[0], float(values[0]), np.zeros(d), np.zeros((d, d))
    else:
        points, values, rho, center, constant, gradient, hessian = state
        points, values = points.copy(), values.copy()
    rho_end = min(radius_end, rho)
    delta, failures = rho, 0
    while True:
        best = int(np.argmin(values))
        # Move the model's center to the best point, then correct the model where it misses the values.
        moved = points[best] - center
        constant += gradient @ moved + 0.5 * moved @ hessian @ moved
        gradient = gradient + hessian @ moved
        center = points[best].copy()
        lagrange = Lagrange(points - center)
        missed = values - model_values(points - center, constant, gradient, hessian)
        change = lagrange.interpolate(missed)
        constant, gradient, hessian = constant + change[0], gradient + change[1], hessian + change[2]

        step = minimize_quadratic(gradient, hessian, delta, low - center, high - center)
        length = float(np.linalg.norm(step))
        predicted = -(gradient @ step + 0.5 * step @ hessian @ step)
        if length >= 0.5 * rho and predicted > 0:
            point = within(center + step, low, high)
            value = yield point
            ratio = (values[best] - value) / predicted
            if ratio <= FAIR_RATIO:
                delta = 0.5 * length
            elif ratio <= GOOD_RATIO:
                delta = max(0.5 * delta, length)
            else:
                delta = max(0.5 * delta, 2 * length)
            delta = rho if delta <= 1.5 * rho else delta
            if ratio > FAIR_RATIO and len(values) < max_points and lagrange.is_new(step):
                points, values = np.concatenate([points, point[None]]), np.append(values, value)
            else:
                out = lagrange.replaceable(step, delta, lower=value < values[best], best=best)
                points[out], values[out] = point, value
            if ratio > FAIR_RATIO or (ratio > 0 and max(delta, length) > rho):
                failures = 0
                continue
        else:
            delta = max(0.1 * delta, rho)

        # The step failed. If points lie far away, the model may be inaccurate: drop or move them. Otherwise shrink rho.
        failures += 1
        best = int(np.argmin(values))
        distance = np.linalg.norm(points - points[best], axis=1)
        near = int(np.count_nonzero(distance <= DROP_DISTANCE * delta))
        if failures >= FAILURES_BEFORE_DROP and near < len(values) and len(values) > 2 * d + 1:
            nearest = np.argsort(distance, kind="stable")[: max(2 * d + 1, near)]
            points, values = points[nearest], values[nearest]
            continue
        far = int(np.argmax(distance))
        if distance[far] > REPLACE_DISTANCE * delta:
            reach = max(min(0.1 * float(distance[far]), 0.5 * delta), rho)
            sides = low - points[best], high - points[best]
            shift = Lagrange(points - points[best]).largest_at(far, reach, *sides)
            if shift.any():
                points[far] = within(points[best] + shift, low, high)
                values[far] = yield points[far].copy()
                continue
        if delta > rho:
            continue
        if rho <= rho_end:
            return SearchState(points, values, rho, center, constant, gradient, hessian)
        # Powell's rule, which makes the last two reductions about equal.
        shrink = rho / rho_end
        rho_next = rho_end if shrink <= 16 else float(np.sqrt(shrink)) * rho_end if shrink <= 250 else 0.1 * rho
        delta, rho = max(0.5 * rho, rho_next), rho_next


def _first_points(low: Floats, high: Floats, rho: float) -> Generator[Floats, float, tuple[Floats, Floats]]:
    """Evaluate the origin and two more points along each axis, (2 d + 1, d).

    If f decreased at the first point of an axis, the second lies further in the same direction. Otherwise it lies on
    the opposite side of the origin.
    """
    d = low.size
    points, values = np.zeros((2 * d + 1, d)), np.empty(2 * d + 1)
    values[0] = yield points[0].copy()
    for i in range(d):
        ahead = rho if high[i] >= rho else -rho
        points[1 + i, i] = ahead
        values[1 + i] = yield points[1 + i].copy()
        candidates = (2 * ahead, -ahead) if values[1 + i] < values[0] else (-ahead, 2 * ahead)
        inside = [c for c in candidates if low[i] <= c <= high[i]]
        points[1 + d + i, i] = inside[0] if inside else 0.5 * ahead
        values[1 + d + i] = yield points[1 + d + i].copy()
    return points, values


def within(point: Floats, low: Floats, high: Floats) -> Floats:
    """Return the nearest point within the bounds."""
    return np.minimum(np.maximum(point, low), high)


def model_values(shifts: Floats, constant: float, gradient: Floats, hessian: Floats) -> Floats:
    """Return the values (m,) of a quadratic at shifts (m, d) from its center."""
    return np.asarray(constant + shifts @ gradient + 0.5 * np.sum((shifts @ hessian) * shifts, axis=1))


class Lagrange:
    r"""The m least-norm quadratics that are 1 at one of m points and 0 at the others. `shifts` (m, d) are the points.

    A quadratic with the smallest :math:`\|H\|_F` that takes the values r at shifts :math:`y_j` has
    :math:`H = \sum_j \lambda_j y_j y_j^T`, and :math:`\lambda`, its constant and its gradient solve

    .. math:: \begin{pmatrix} A & P \\ P^T & 0 \end{pmatrix}
        \begin{pmatrix} \lambda \\ c \\ g \end{pmatrix} = \begin{pmatrix} r \\ 0 \end{pmatrix}, \qquad
        A_{jk} = \tfrac12 (y_j \cdot y_k)^2, \quad P_j = (1, y_j^T).
    """

    def __init__(self, shifts: Floats) -> None:
        m, d = shifts.shape
        self.m = m
        self.scale = float(np.max(np.abs(shifts))) or 1.0
        self.y = shifts / self.scale
        kkt = np.zeros((m + d + 1, m + d + 1))
        kkt[:m, :m] = 0.5 * (self.y @ self.y.T) ** 2
        kkt[:m, m] = kkt[m, :m] = 1.0
        kkt[:m, m + 1 :] = self.y
        kkt[m + 1 :, :m] = self.y.T
        try:
            self.inverse = np.linalg.inv(kkt)
        except np.linalg.LinAlgError:
            self.inverse = np.linalg.pinv(kkt)
        if not np.isfinite(self.inverse).all():
            self.inverse = np.linalg.pinv(kkt)

    def interpolate(self, values: Floats) -> tuple[float, Floats, Floats]:
        """Return constant, gradient and Hessian of the least-norm quadratic with these values (m,) at the points."""
        solution = self.inverse[:, : self.m] @ values
        return self._unscaled(solution)

    def _unscaled(self, solution: Floats) -> tuple[float, Floats, Floats]:
        """Return constant, gradient and Hessian from a solution of the linear system, which is in units of `scale`."""
        weights = solution[: self.m]
        hessian = (self.y.T * weights) @ self.y
        return float(solution[self.m]), solution[self.m + 1 :] / self.scale, hessian / self.scale**2

    def _row(self, shift: Floats) -> Floats:
        """Return the row that the linear system would have for a point at `shift`."""
        y = shift / self.scale
        return np.concatenate([0.5 * (self.y @ y) ** 2, [1.0], y])

    def at(self, shift: Floats) -> Floats:
        """Return the values (m,) of all Lagrange quadratics at a shift (d,) from the center."""
        return np.asarray(self.inverse[: self.m] @ self._row(shift))

    def is_new(self, shift: Floats) -> bool:
        """Return True if a point at `shift` adds enough information to the model."""
        row = self._row(shift)
        fourth = float(np.sum((shift / self.scale) ** 2)) ** 2
        return 0.5 * fourth - float(row @ self.inverse @ row) > MIN_UNCERTAINTY * fourth

    def replaceable(self, shift: Floats, delta: float, *, lower: bool, best: int) -> int:
        """Return the index of the point to replace by a new point at `shift`.

        Prefer points that are far away and whose removal keeps the interpolation well conditioned. If the new point is
        `lower` than the best one, distances are from the new point. Otherwise the best point is kept.
        """
        distance = np.linalg.norm(self.y * self.scale - (shift if lower else 0.0), axis=1)
        weight = np.maximum(1.0, distance / delta) ** 4 * np.abs(self.at(shift))
        if not lower:
            weight[best] = -1.0
        return int(np.argmax(weight))

    def largest_at(self, j: int, radius: float, low: Floats, high: Floats) -> Floats:
        """Return the shift within the ball and the bounds that maximizes |q|, q the Lagrange quadratic of point j."""
        _, gradient, hessian = self._unscaled(self.inverse[:, j])
        shifts = [minimize_quadratic(sign * gradient, sign * hessian, radius, low, high) for sign in (1.0, -1.0)]
        return max(shifts, key=lambda shift: abs(float(self.at(shift)[j])))


def minimize_quadratic(gradient: Floats, hessian: Floats, radius: float, low: Floats, high: Floats) -> Floats:
    """Minimize g . s + s . H s / 2 over \\|s\\| <= radius and low <= s <= high, where low <= 0 <= high.

    The result is exact if no bound is active. A variable that would leave its bounds is fixed there, and the problem is
    solved again for the others.
    """
    step = np.zeros(gradient.size)
    free = np.ones(gradient.size, bool)
    # A variable at a bound that the gradient pushes outward cannot move.
    free &= ~(((low >= 0) & (gradient > 0)) | ((high <= 0) & (gradient < 0)))
    while free.any():
        held = ~free
        left = radius**2 - float(step[held] @ step[held])  # squared radius of the ball for the free variables
        if left <= 0:
            break
        pull = gradient[free] + hessian[np.ix_(free, held)] @ step[held]
        part = _minimize_in_ball(pull, hessian[np.ix_(free, free)], float(np.sqrt(left)))
        below, above = part < low[free], part > high[free]
        out = below | above
        if not out.any():
            step[free] = part
            return step
        index = np.flatnonzero(free)
        step[index] = 0.0
        step[index[below]] = low[index[below]]
        step[index[above]] = high[index[above]]
        free[index[out]] = False
        norm = float(np.linalg.norm(step))
        if norm > radius:
            return step * (radius / norm)
    return step


def _minimize_in_ball(gradient: Floats, hessian: Floats, radius: float) -> Floats:
    """Minimize g . s + s . H s / 2 over \\|s\\| <= radius by the eigenvalues of H (Moré and Sorensen, 1983)."""
    if not (np.isfinite(gradient).all() and np.isfinite(hessian).all()):
        return np.zeros_like(gradient)
    eigenvalues, basis = np.linalg.eigh(hessian)
    pull = basis.T @ gradient
    least = float(eigenvalues[0])
    if least > 0:
        newton = -pull / eigenvalues
        if float(np.linalg.norm(newton)) <= radius:
            return np.asarray(basis @ newton)
    # On the boundary: find the multiplier with |(H + multiplier I)^-1 g| = radius.
    lower = max(0.0, -least)
    size = float(np.linalg.norm(pull))
    if size == 0.0 and least >= 0:
        return np.zeros_like(gradient)
    upper = lower + size / radius
    multiplier = upper
    for _ in range(MAX_SECULAR_STEPS):
        shifted = eigenvalues + multiplier
        if shifted[0] <= 0:
            lower, multiplier = multiplier, 0.5 * (multiplier + upper)
            continue
        scaled = pull / shifted
        norm = math.sqrt(float(scaled @ scaled))
        if norm <= radius:
            upper = multiplier
        else:
            lower = multiplier
        if abs(norm - radius) <= SECULAR_TOLERANCE * radius:
            break
        # Newton's method on 1 / norm - 1 / radius, which is almost linear in the multiplier. Bisect if it leaves the
        # interval.
        curvature = float(scaled @ (scaled / shifted))
        multiplier += (norm / radius - 1) * norm**2 / curvature if curvature > 0 else math.inf
        if not lower < multiplier < upper:
            multiplier = 0.5 * (lower + upper)
    shifted = np.maximum(eigenvalues + multiplier, np.finfo(float).tiny)
    step = -pull / shifted
    norm = float(np.linalg.norm(step))
    if norm < radius and least <= 0:
        # The hard case: the gradient has no component along the lowest eigenvector, so go along it to the boundary.
        step[0] = math.copysign(math.sqrt(step[0] ** 2 + radius**2 - norm**2), step[0] or 1.0)
    elif norm > radius:
        step *= radius / norm
    return np.asarray(basis @ step)
