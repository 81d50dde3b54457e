r"""Local search under constraints: sequential quadratic programming in a trust region, from values or gradients.

Each step minimizes a quadratic model of the Lagrangian plus a price for the violations of the linearized constraints,

.. math:: \min_s \; \nabla f^T s + \tfrac12 s^T B s + w \sum_i \mathrm{viol}_i(c(x) + J s),
    \qquad \|s\|_\infty \le \Delta,

which is the Sl1QP method of Fletcher (*Practical Methods of Optimization*, 2nd ed., section 14.4). The step is accepted
if f + w viol falls. Otherwise a second-order correction is tried first: the same program with the constraints evaluated
at the rejected point [1]_ (section 18.3 on the Maratos effect). B is learned by damped BFGS updates (procedure 18.2).
The price w grows until the linearized constraints can be met (section 18.5).

References
----------
.. [1] J. Nocedal, S. J. Wright, *Numerical Optimization*, 2nd ed., Springer, 2006.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from slgh.auto.evaluation import Evaluating, Evaluation, Floats
from slgh.auto.local_search import SearchRegion
from slgh.auto.quadratic_program import Program, ProgramSolution, solve
from slgh.engine.constraints import Constraints, Rows, excess

FIRST_RADIUS = 2.5
"""First trust-region radius, in units of the search region. With bounds it is a quarter of the box."""

LAST_RADIUS = 1e-9
"""The search has converged when the radius is this small, in units of the search region."""

SMALLEST_GAIN = 1e-12
"""The search has converged when the model predicts no larger gain, relative to the scaled values."""

FIRST_PRICE = 10.0
"""First price of a violation. The gradients of f and of the constraints are scaled to norm 1 at the start."""

LARGEST_PRICE = 1e8
"""Maximum price. Beyond, rounding errors of the violations hide f."""

LINEAR_ERROR = 1e-9
"""A larger violation of the linearized constraints raises the price."""

DAMPING = 0.2
"""Powell's constant: the curvature along a step is at least this share of that of the model."""

RESCALE = 30.0
"""The units of f and of the constraints are chosen again when the norm of a gradient has changed by this factor."""

HOPELESS = 3.0
"""A feasible search ends if this many times the predicted gain would not bring it below the incumbent."""

NEAR_BOUND = 0.9
"""Share of the way to a bound that is left after a bad value there."""

MIN_STEPS = 6
"""Minimum number of steps before a search is found hopeless."""


class Constrained(NamedTuple):
    """Point at which a search ended, f and the largest violation there, and True if it has converged."""

    x: Floats
    fun: float
    violation: float
    converged: bool


class CutShort(Exception):
    """The budget does not allow the next evaluations, or the start is not finite."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """Value of the best feasible point so far, infinite if there is none, and the largest violation of such points."""

    fun: float
    tolerance: float


class ConstrainedObjective:
    """f and the constraints at points of a search region, within the budget."""

    def __init__(self, region: SearchRegion, budget: int, constraints: Constraints, *, gradients: bool) -> None:
        self.region, self.left, self.constraints, self.gradients = region, budget, constraints, gradients
        self.eps = float(np.finfo(region.dtype).eps)

    def values(self, x: Floats, *, is_step: bool = False) -> Evaluating[Rows]:
        """Evaluate at points x (n, d). Raise CutShort if they are too many."""
        if len(x) > self.left:
            raise CutShort
        self.left -= len(x)
        return self.constraints.rows((yield Evaluation(x, is_step=is_step)), x)

    def jacobian(self, x: Floats, base: Rows) -> Evaluating[Floats]:
        """Return the derivatives (1 + m, d) by the variables in units of the region, 0 where they are not finite."""
        region, n = self.region, x.size
        free = np.flatnonzero(region.high > region.low)
        if self.gradients:
            if self.left < 1:
                raise CutShort
            self.left -= 1
            slopes = self.constraints.slopes((yield Evaluation(x[None], gradient=True)), x)
        else:
            step = np.sqrt(self.eps) * np.maximum(region.unit, np.abs(x))
            moved = region.nearest(x + np.where(x + step <= region.high, step, -step))
            points = np.repeat(x[None], free.size, axis=0)
            points[np.arange(free.size), free] = moved[free]
            rows = yield from self.values(points)
            slopes = np.zeros((1 + base.c.shape[1], n))
            change = np.column_stack([rows.f - base.f, rows.c - base.c]).T
            slopes[:, free] = change / (moved - x)[free]
        return np.where(np.isfinite(slopes), slopes, 0.0) * region.unit


@dataclass
class _Point:
    """Iterate of the search in its scaled units: z, f, c, the derivatives, and the point x with its raw values."""

    z: Floats
    x: Floats
    rows: Rows
    f: float
    c: Floats


class _Scales:
    """Units of f and of the constraints (1 + m,): the norms of their gradients."""

    def __init__(self, slopes: Floats, rows: Rows) -> None:
        norms = np.linalg.norm(slopes, axis=1)
        sizes = np.concatenate([np.abs(rows.f), np.abs(rows.c[0])])
        floor = np.maximum(1e-8 * np.where(np.isfinite(sizes), sizes, 0.0), 1e-150)
        self.all = np.where(norms > floor, norms, np.maximum(floor * 1e8, 1.0))

    def differs(self, other: _Scales) -> bool:
        """Return True if one of the units has changed a lot."""
        return bool(np.abs(np.log(other.all / self.all)).max() > np.log(RESCALE))

    def point(self, z: Floats, x: Floats, rows: Rows) -> _Point:
        return _Point(z, x, rows, float(rows.f[0]) / self.all[0], rows.c[0] / self.all[1:])


def constrained_search(
    objective: ConstrainedObjective, target: Target, *, radius: float = FIRST_RADIUS
) -> Evaluating[Constrained]:
    """Descend from the start of the region until convergence, or until the budget is spent.

    Parameters
    ----------
    target
        Best feasible value of earlier phases. A search that will not get below it stops early.
    radius
        First trust-region radius.
    """
    region = objective.region
    x = region.nearest(region.x)
    now: _Point | None = None
    fallback = Constrained(x, np.inf, np.inf, False)
    try:
        rows = yield from objective.values(x[None], is_step=True)
        if not (np.isfinite(rows.f).all() and np.isfinite(rows.c).all()):
            return fallback
        slopes = yield from objective.jacobian(x, rows)
        scales = _Scales(slopes, rows)
        now = scales.point(np.zeros(x.size), x, rows)
        low, high = rows.low / scales.all[1:], rows.high / scales.all[1:]
        price, delta = FIRST_PRICE, radius
        B = np.eye(x.size)
        fresh, steps = True, 0
        z_low, z_high = region.bounds()

        def merit(f: float, c: Floats) -> float:
            return f + price * float(excess(c, low, high).sum())

        while delta > LAST_RADIUS:
            g, J = slopes[0] / scales.all[0], slopes[1:] / scales.all[1:, None]
            box = np.maximum(z_low - now.z, -delta), np.minimum(z_high - now.z, delta)
            step, multipliers, price = _step(g, B, J, now.c, low, high, price, box)
            violated = excess(now.c, low, high).sum()
            linear = excess(now.c + J @ step, low, high).sum()
            gain = -float(g @ step + 0.5 * step @ B @ step) + price * float(violated - linear)
            if gain <= SMALLEST_GAIN * max(1.0, abs(now.f) * 1e-2):
                return _end(now, converged=True)
            feasible = float(now.rows.violations[0]) <= target.tolerance
            if feasible and steps >= MIN_STEPS and now.f - HOPELESS * gain > target.fun / scales.all[0]:
                return _end(now, converged=True)
            x_new = region.at(now.z + step)
            rows = yield from objective.values(x_new[None], is_step=True)
            steps += 1
            new = scales.point((x_new - region.x) / region.unit, x_new, rows)
            ratio = _ratio(merit(now.f, now.c) - merit(new.f, new.c), gain)
            if ratio < 0.1 and np.isfinite(new.c).all() and len(now.c):
                # Second-order correction: the linearization is moved to the values at the new point.
                shifted = new.c - J @ step
                bent, _, _ = _step(g, B, J, shifted, low, high, price, box, raises=False)
                x_bent = region.at(now.z + bent)
                rows = yield from objective.values(x_bent[None], is_step=True)
                second = scales.point((x_bent - region.x) / region.unit, x_bent, rows)
                bent_ratio = _ratio(merit(now.f, now.c) - merit(second.f, second.c), gain)
                if bent_ratio > max(ratio, 1e-4):
                    new, ratio, step = second, bent_ratio, bent
            length = float(np.abs(step).max())
            if not np.isfinite(new.f + new.c.sum()):
                # f may be undefined on a bound, such as log(0). The search then stays away from it.
                z_low = np.where(new.z <= z_low, now.z + NEAR_BOUND * (z_low - now.z), z_low)
                z_high = np.where(new.z >= z_high, now.z + NEAR_BOUND * (z_high - now.z), z_high)
            if not ratio > 1e-4:
                delta = 0.3 * min(delta, length)
                continue
            old_slopes = slopes
            slopes = yield from objective.jacobian(new.x, new.rows)
            moved = new.z - now.z
            change = slopes - old_slopes
            y = change[0] / scales.all[0] + (change[1:] / scales.all[1:, None]).T @ multipliers
            B = _bfgs(B, moved, y, fresh=fresh)
            fresh = False
            now = new
            if scales.differs(current := _Scales(slopes, now.rows)):
                B = B * (scales.all[0] / current.all[0])
                scales, price, fresh = current, FIRST_PRICE, True
                now = scales.point(now.z, now.x, now.rows)
                low, high = now.rows.low / scales.all[1:], now.rows.high / scales.all[1:]
            if ratio < 0.25:
                delta = max(0.5 * min(delta, length), 2 * LAST_RADIUS)
            elif ratio > 0.75:
                delta = max(delta, 2.5 * length)
        return _end(now, converged=True)
    except CutShort:
        return fallback if now is None else _end(now, converged=False)


def _end(point: _Point, *, converged: bool) -> Constrained:
    """Return the outcome of a search."""
    return Constrained(point.x, float(point.rows.f[0]), float(point.rows.violations[0]), converged)


def _ratio(gained: float, predicted: float) -> float:
    """Return the share of the predicted gain that was gained, -inf for bad values."""
    return gained / predicted if np.isfinite(gained) else -np.inf


def _step(
    g: Floats,
    B: Floats,
    J: Floats,
    c: Floats,
    low: Floats,
    high: Floats,
    price: float,
    box: tuple[Floats, Floats],
    *,
    raises: bool = True,
) -> tuple[Floats, Floats, float]:
    """Return the step (d,), the multipliers (m,) and the price, which is raised until the step can be feasible."""
    below, above = np.isfinite(low), np.isfinite(high)
    rows = np.concatenate([J[above], -J[below]])
    right = np.concatenate([(high - c)[above], (c - low)[below]])
    free = np.flatnonzero(box[1] > box[0])
    if not free.size:
        return np.zeros(g.size), np.zeros(len(c)), price

    def solved(price: float) -> tuple[ProgramSolution, float]:
        part = np.ix_(free, free)
        found = solve(Program(g[free], B[part], rows[:, free], right, price, box[0][free], box[1][free]))
        return found, float(np.maximum(rows[:, free] @ found.step - right, 0.0).sum())

    found, left = solved(price)
    while raises and left > LINEAR_ERROR and price < LARGEST_PRICE:
        other, other_left = solved(10 * price)
        if other_left > 0.9 * left:
            break
        found, left, price = other, other_left, 10 * price
    step = np.zeros(g.size)
    step[free] = found.step
    multipliers = np.zeros(len(c))
    n = int(above.sum())
    multipliers[above] += found.multipliers[:n]
    multipliers[below] -= found.multipliers[n:]
    return step, multipliers, price


def _bfgs(B: Floats, s: Floats, y: Floats, *, fresh: bool) -> Floats:
    """Return the damped BFGS update of B. The first one scales B to the curvature that was seen."""
    ss = float(s @ s)
    if not ss > 0 or not np.isfinite(y).all():
        return B
    if fresh and (sy := float(s @ y)) > 0:
        B = np.eye(s.size) * min(max(float(y @ y) / sy, 1e-4), 1e4)
    Bs = B @ s
    sBs, sy = float(s @ Bs), float(s @ y)
    if sBs <= 1e-300:
        return B
    if sy < DAMPING * sBs:
        share = (1 - DAMPING) * sBs / (sBs - sy)
        y = share * y + (1 - share) * Bs
        sy = float(s @ y)
    B = B - np.outer(Bs, Bs) / sBs + np.outer(y, y) / sy
    return 0.5 * (B + B.T)
