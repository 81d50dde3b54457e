"""Local search from values of f or from its gradient, as a generator of evaluations."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slgh.auto import model_search
from slgh.auto.evaluation import MAX_REQUEST_NUMBERS, Evaluating, Evaluation, Floats
from slgh.auto.quasi_newton import lbfgsb
from slgh.auto.round_search import search_in_rounds
from slgh.engine import bad_values

UNIT = 0.4
"""The solver's unit of length, in units of t1 and the widths. With bounds it is a tenth of the box."""

REACH = 10.0
"""First limit on the move of a variable in one step of L-BFGS-B, in units of t1 and the widths. Where f is concave or
nearly flat, a quasi-Newton step is arbitrarily long."""

MEMORY = 100
"""Correction pairs of L-BFGS-B. On the ellipsoid f10 of BBOB in 40 variables, 20,000 evaluations with differences reach
f - fopt = 127 with the usual 10 pairs, 4 with 60 and 0.6 with 120 (training instances 1 to 3)."""

MAX_MEMORY_NUMBERS = 10_000_000
"""Maximum number of array elements in the correction pairs."""

MODEL_MAX_VARIABLES = 10
"""Maximum number of variables for the model-based search, which needs no gradient."""

MODEL_MAX_GRADIENTS = 30
"""Maximum budget for the model-based search, in gradients by differences."""

ROUNDS_MAX_GRADIENTS = 12
"""The same if points are evaluated in rounds, which differences fill well."""

MAX_STALLED_CALLS = 3
"""The solver ends after this many evaluations in a row that change f by no more than rounding."""

ROUNDING_ULPS = 4
"""Changes of f up to this many ulps are rounding."""

FIRST_GRADIENT_NORM = 1000.0
"""Norm of the first gradient in the solver's units. L-BFGS-B starts with the identity as Hessian. A first step that is
too long, which it then shortens, is better than one that is too short."""

STEEP_GRADIENT_NORM = 1.0
"""A search that gives up early has reached no minimum if its gradient is longer, in the solver's units. At minima found
with ROUGH_TOLERANCE it is a hundred times shorter, and at failures of the line search a hundred times longer."""

ROUGH_TOLERANCE = 1e-9
"""A search that is not below the incumbent stops if a step changes f by less than this, relative to its size."""


class LocalMinimum(NamedTuple):
    """Lowest point found, and f there."""

    x: Floats
    fun: float
    converged: bool
    """True if the solver converged before the budget was spent."""
    steep: bool = False
    """True if the solver gave up where f still has a slope."""
    found: tuple[LocalMinimum, ...] = ()
    """Minima of searches side by side. Empty: there is one search, or none has converged."""

    @property
    def minima(self) -> tuple[LocalMinimum, ...]:
        """Minima at which searches have converged."""
        return self.found or ((self,) if self.converged and not self.steep and np.isfinite(self.fun) else ())


class CutShort(Exception):
    """The budget does not allow the next evaluations, or f is not finite at the start."""


class Converged(Exception):
    """f changes by no more than rounding, or the solver's numbers have overflowed."""


@dataclass(frozen=True, kw_only=True)
class SearchRegion:
    """Start `x`, units of length `unit`, and bounds, (d,) each. `dtype` is that of the points that f sees.

    Changes of f up to `ftol` max(1, |f|) count as none.
    """

    x: Floats
    unit: Floats
    low: Floats
    high: Floats
    dtype: Any
    ftol: float = 0.0

    def at(self, z: Floats) -> Floats:
        """Return the point x + unit z, rounded as f will see it, within the bounds."""
        return np.asarray(np.clip((self.x + self.unit * z).astype(self.dtype).astype(float), self.low, self.high))

    def nearest(self, x: Floats) -> Floats:
        """Return the finite point within the bounds nearest to x, rounded as f will see it."""
        return np.clip(x, *self.finite_bounds).astype(self.dtype).astype(float)

    @cached_property
    def finite_bounds(self) -> tuple[Floats, Floats]:
        """The bounds, or the largest numbers where there is none."""
        largest = float(np.finfo(self.dtype).max)
        return np.maximum(self.low, -largest), np.minimum(self.high, largest)

    def bounds(self) -> tuple[Floats, Floats]:
        """Return the bounds of z."""
        return (self.low - self.x) / self.unit, (self.high - self.x) / self.unit


def local_search(
    region: SearchRegion,
    budget: int,
    incumbent: float,
    *,
    gradients: bool,
    on_nonfinite: str = "reject",
    width: int = 1,
    rng: np.random.Generator | None = None,
) -> Evaluating[LocalMinimum]:
    """Descend from a point with at most `budget` evaluations.

    The solver is L-BFGS-B, with gradients if there are any. Otherwise it uses forward differences and, once they make
    no more progress, central differences. For few variables and a small budget, the solver is a trust-region search on
    quadratic models.

    Parameters
    ----------
    incumbent
        Lowest value of earlier phases. A search that does not get below it stops as soon as f hardly changes.
    gradients
        True if gradients can be evaluated.
    on_nonfinite
        Bad-value policy. "penalize" replaces bad values by the worst finite one of this search.
    width
        Number of points per round of the search on quadratic models. More than one need `rng`, the source of random
        points.
    """
    d = region.x.size
    objective = SearchObjective(region, budget, on_nonfinite=on_nonfinite)
    if not gradients and d <= MODEL_MAX_VARIABLES:
        if rng is not None and width > 1:
            if budget < ROUNDS_MAX_GRADIENTS * (d + 1):
                solver = search_in_rounds(*region.bounds(), width=width, rng=rng)
                return (yield from _run_models(objective, solver, objective.values))
        elif budget < MODEL_MAX_GRADIENTS * (d + 1):
            return (yield from _run_models(objective, model_search.search(*region.bounds()), objective.value))
    return (yield from _run_lbfgsb(objective, incumbent, gradients=gradients))


class SearchObjective:
    """f in the solver's units, within the budget. It keeps the lowest point.

    Values are relative to the first one if `relative` is True, in units that give the first gradient the norm
    FIRST_GRADIENT_NORM. So the solver sees the same numbers for f and for a multiple of it.
    """

    def __init__(self, region: SearchRegion, budget: int, *, on_nonfinite: str, relative: bool = True) -> None:
        self.region, self.left = region, budget
        self.x, self.fun = region.x, np.inf
        self.zero = np.nan if relative else 0.0
        """Value that is 0 to the solver, NaN before the first one."""
        self.size = 0.0
        """Unit of values, 0 if it is not chosen yet."""
        self.gradient = np.zeros_like(region.x)
        """Gradient at the lowest point in the solver's units, 0 if it is not known."""
        self.worst = -np.inf
        """Worst finite value at the solver's points."""
        self.on_nonfinite = on_nonfinite
        self.penalty = np.array([-np.inf])
        """(1,) worst finite value of all points, those of differences included. "penalize" uses it."""
        self.stalled = 0
        """Number of evaluations in a row that have changed f by no more than rounding."""
        self.eps = float(np.finfo(region.dtype).eps)

    @property
    def origin(self) -> Floats:
        """Lowest point so far, in the solver's units."""
        return (self.x - self.region.x) / self.region.unit

    def rounding(self, fun: float) -> float:
        """Return the largest change of f that counts as none where its value is `fun`: rounding, or the tolerance."""
        return max(ROUNDING_ULPS * self.eps * abs(fun), self.region.ftol * max(1.0, abs(fun)))

    def begin_descent(self) -> None:
        """Count stalled evaluations from 0 again."""
        self.stalled = 0

    def request(self, points: Floats, *, gradient: bool = False, is_step: bool = False) -> Evaluating[Floats]:
        """Evaluate f, or its gradient, at points (n, d). Raise CutShort if they are too many."""
        if len(points) > self.left:
            raise CutShort
        self.left -= len(points)
        values = np.asarray((yield Evaluation(points, gradient, is_step)), float)
        # `accept` and `scaled` cope with bad values, so that "reject" has nothing to do.
        return values if gradient or self.on_nonfinite == "reject" else self._clean(values)

    def _clean(self, values: Floats) -> Floats:
        """Apply the bad-value policy. Values that it drops are NaN."""
        finite = np.isfinite(values)
        answer, self.penalty = bad_values.clean(
            values[None], None if finite.all() else finite[None], self.penalty, self.on_nonfinite, np
        )
        usable = np.ones(values.shape, bool) if answer.ok is None else answer.ok[0] > 0
        return np.where(usable, answer.values[0], np.nan)

    def accept(self, x: Floats, fun: float) -> float:
        """Keep the value at x, and return it in the solver's units. A bad value becomes higher than all others."""
        if self.worst == -np.inf:
            if not np.isfinite(fun):
                raise CutShort
            self.zero = fun if np.isnan(self.zero) else self.zero
            self.size = self.size or abs(fun) or 1.0
        if not np.isfinite(fun):
            return (self.worst - self.zero) / self.size + FIRST_GRADIENT_NORM
        self.stalled = self.stalled + 1 if abs(fun - self.fun) <= self.rounding(self.fun) else 0
        self.worst = max(self.worst, fun)
        if fun < self.fun:
            self.x, self.fun = x, fun
        return (fun - self.zero) / self.size

    def at(self, z: Floats) -> Floats:
        """Return the point x of the solver's z."""
        x = self.region.at(z)
        if not np.isfinite(x).all():  # f is unbounded below, and the solver's numbers have overflowed
            raise Converged
        return x

    def value(self, z: Floats) -> Evaluating[float]:
        """Return f."""
        x = self.at(z)
        values = yield from self.request(x[None], is_step=True)
        return self.accept(x, float(values[0]))

    def values(self, z: Floats) -> Evaluating[Floats]:
        """Return f at points z (n, d). Raise CutShort after the last ones that the budget allows."""
        x = np.array([self.at(row) for row in z[: max(1, self.left)]])
        values = yield from self.request(x, is_step=True)
        found = np.array([self.accept(*pair) for pair in zip(x, values.tolist(), strict=True)])
        if len(x) < len(z):
            raise CutShort
        return found

    def with_differences(self, z: Floats, *, central: bool) -> Evaluating[tuple[float, Floats]]:
        """Return f and its gradient from d or 2 d more values."""
        region, x = self.region, self.at(z)
        step = self.eps ** (1 / 3 if central else 1 / 2) * np.maximum(region.unit, np.abs(x))
        up = np.where(x + step <= region.high, step, -step)
        ahead = region.nearest(x + up)
        back = region.nearest(x - up) if central else x
        fun, slope = None, np.empty(x.size)  # x itself is evaluated in the first request
        per_request = max(1, MAX_REQUEST_NUMBERS // x.size)
        for start in range(0, x.size, per_request):
            these = np.arange(start, min(x.size, start + per_request))
            sides = [_moved(x, these, side) for side in ((ahead, back) if central else (ahead,))]
            points = np.concatenate([x[None], *sides] if fun is None else sides)
            values = yield from self.request(points, is_step=fun is None)
            if fun is None:
                fun, values = float(values[0]), values[1:]
            before = values[these.size :] if central else fun
            slope[these] = (values[: these.size] - before) / (ahead - back)[these]
        assert fun is not None
        return self._accept_with(x, fun, self.scaled(slope))

    def with_gradient(self, z: Floats) -> Evaluating[tuple[float, Floats]]:
        """Return f and its gradient."""
        x = self.at(z)
        values = yield from self.request(x[None], is_step=True)
        slopes = yield from self.request(x[None], gradient=True)
        return self._accept_with(x, float(values[0]), self.scaled(slopes[0]))

    def _accept_with(self, x: Floats, fun: float, gradient: Floats) -> tuple[float, Floats]:
        """Accept the value at x, and return it with the gradient there."""
        if fun < self.fun:
            self.gradient = gradient
        return self.accept(x, fun), gradient

    @property
    def is_steep(self) -> bool:
        """True if f falls from the lowest point in a direction that the bounds allow."""
        low, high, slope = self.x <= self.region.low, self.x >= self.region.high, self.gradient
        inward = np.where((low & (slope > 0)) | (high & (slope < 0)), 0.0, slope)
        return float(np.linalg.norm(inward)) > STEEP_GRADIENT_NORM

    def scaled(self, slope: Floats) -> Floats:
        """Return a gradient in the solver's units, 0 where it is not finite. The first one sets the unit of values."""
        slope = np.where(np.isfinite(slope), slope, 0.0) * self.region.unit
        if not self.size:
            # The norm of slope / peak neither overflows nor underflows.
            peak = float(np.max(np.abs(slope), initial=0.0)) or 1.0
            self.size = peak * float(np.linalg.norm(slope / peak)) / FIRST_GRADIENT_NORM or 1.0
        return slope / self.size

    def outcome(self, *, converged: bool) -> LocalMinimum:
        return LocalMinimum(self.x, self.fun, converged)


def _moved(x: Floats, these: NDArray[np.intp], to: Floats) -> Floats:
    """Return copies of x, (n, d), the i-th with the i-th of `these` variables moved."""
    points = np.repeat(x[None], these.size, axis=0)
    points[np.arange(these.size), these] = to[these]
    return points


def _run_lbfgsb(f: SearchObjective, incumbent: float, *, gradients: bool) -> Evaluating[LocalMinimum]:
    """Run L-BFGS-B until it converges. Without gradients, run it again from there with central differences."""
    region = f.region
    memory = max(10, min(MEMORY, MAX_MEMORY_NUMBERS // region.x.size))

    def descend(
        evaluate: Callable[[Floats], Evaluating[tuple[float, Floats]]], tolerance: float = 0.0
    ) -> Evaluating[None]:
        """Run L-BFGS-B from the lowest point so far, with this `tolerance` of `lbfgsb`."""
        f.begin_descent()
        solver = lbfgsb(f.origin, *region.bounds(), memory=memory, tolerance=tolerance, reach=REACH / UNIT)
        try:
            z = next(solver)
            while f.stalled < MAX_STALLED_CALLS:
                z = solver.send((yield from evaluate(z)))
        except (StopIteration, Converged):
            return

    evaluate = f.with_gradient if gradients else partial(f.with_differences, central=False)
    try:
        if incumbent < np.inf:
            yield from descend(evaluate, ROUGH_TOLERANCE)
            if not f.fun < incumbent:
                return f.outcome(converged=True)._replace(steep=f.is_steep)
        yield from descend(evaluate)
        before = np.inf
        while not gradients and f.fun < before - f.rounding(f.fun):
            before = f.fun
            yield from descend(partial(f.with_differences, central=True))
    except CutShort:
        return f.outcome(converged=False)
    return f.outcome(converged=True)


def _run_models(
    f: SearchObjective, solver: Generator[Any, Any, Any], answer: Callable[[Any], Evaluating[Any]]
) -> Evaluating[LocalMinimum]:
    """Run a trust-region search on quadratic models. `answer` evaluates f at what the solver yields."""
    try:
        z = next(solver)
        while True:
            z = solver.send((yield from answer(z)))
    except CutShort:
        return f.outcome(converged=False)
    except (StopIteration, Converged):
        return f.outcome(converged=True)
