"""Local search from values of f or from its gradient, as a generator of requests."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from slgh.auto.model_search import search
from slgh.auto.quasi_newton import lbfgsb
from slgh.auto.request import Floats, Request

T = TypeVar("T")
Asking = Generator[Request, Floats, T]
"""A computation that yields requests, is sent their answers, and returns a T."""

UNIT = 0.4
"""The solver's unit of length in units of t1 and the widths: its first step is 1 long. A tenth of the box."""

MEMORY = 100
"""Pairs that L-BFGS-B remembers. On the ellipsoid f10 of BBOB in 40 variables, 20,000 evaluations by differences end at
f - fopt = 127 with its usual 10, at 4 with 60 and at 0.6 with 120 (training instances 1 to 3)."""

MEMORY_NUMBERS = 10_000_000
"""Unless that is more numbers than this."""

FEW, SHORT = 10, 30
"""In up to 10 variables, a budget below 30 gradients by differences goes to a model-based search, which needs none."""

STILL = 3
"""Calls in a row that change f by rounding alone end the solver."""

STEEP = 1000.0
"""How long the first gradient is in the solver's units: L-BFGS-B takes the Hessian for 1 at first, and does better
to begin with too long a step, which it then shortens, than with too short a one."""

ROUGHLY = 1e-9
"""f hardly changes where a step changes it by this share of where the solver began."""

CHUNK = 1 << 22
"""So many numbers the points of one request have at most."""


class LocalMinimum(NamedTuple):
    """The lowest point found, f there, and whether the solver came to its end, not the budget."""

    x: Floats
    fun: float
    converged: bool


class Spent(Exception):
    """The budget does not allow what the solver would ask next."""


class Settled(Exception):
    """f changes by rounding alone, or the solver has left all bounds."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where the solver works: from `x`, in units of `unit` (d,), within `low` and `high`, on numbers of `dtype`."""

    x: Floats
    unit: Floats
    low: Floats
    high: Floats
    dtype: Any

    def at(self, z: Floats) -> Floats:
        """The point x + unit z, rounded as the user's function will see it, within the bounds."""
        return np.asarray(np.clip((self.x + self.unit * z).astype(self.dtype).astype(float), self.low, self.high))

    def nearest(self, x: Floats) -> Floats:
        """The finite point within the bounds that is nearest to x, rounded as the user's function will see it."""
        largest = float(np.finfo(self.dtype).max)
        inside = np.clip(x, np.maximum(self.low, -largest), np.minimum(self.high, largest))
        return inside.astype(self.dtype).astype(float)

    def bounds(self) -> tuple[Floats, Floats]:
        """Those of z."""
        return (self.low - self.x) / self.unit, (self.high - self.x) / self.unit


def polish(place: Place, budget: int, incumbent: float, *, gradients: bool) -> Asking[LocalMinimum]:
    """Descend from a place by at most `budget` evaluations.

    By L-BFGS-B on forward differences, and from where they see nothing more on central ones; on gradients where there
    are any. In few variables and on a short budget by quadratic models. Unless it gets below the `incumbent`, it stops
    as soon as f hardly changes.
    """
    d = place.x.size
    objective = _Counted(place, budget)
    if not gradients and d <= FEW and budget < SHORT * (d + 1):
        return (yield from _model_based(objective))
    return (yield from _lbfgsb(objective, incumbent, gradients=gradients))


class _Counted:
    """f in the solver's units, within the budget; keeps the lowest point.

    Values count from the first one, in units that make the first gradient STEEP long, so that the solver sees the same
    numbers for f and for a multiple of it.
    """

    def __init__(self, place: Place, budget: int) -> None:
        self.place, self.left = place, budget
        self.x, self.fun = place.x, np.inf
        self.first, self.size, self.worst = np.nan, 0.0, -np.inf
        self.still = 0
        self.eps = float(np.finfo(place.dtype).eps)

    def request(self, points: Floats, *, gradient: bool = False, stands: bool = False) -> Asking[Floats]:
        if len(points) > self.left:
            raise Spent
        self.left -= len(points)
        return np.asarray((yield Request(points, gradient, stands)), float)

    def see(self, x: Floats, fun: float) -> float:
        """Book the value at x; in the solver's units, where one that is not finite is higher than all before."""
        if np.isnan(self.first):
            if not np.isfinite(fun):
                raise Spent
            self.first = fun
            self.size = self.size or abs(fun) or 1.0
        if not np.isfinite(fun):
            return (self.worst - self.first) / self.size + STEEP
        self.still = self.still + 1 if abs(fun - self.fun) <= 4 * self.eps * abs(self.fun) else 0
        self.worst = max(self.worst, fun)
        if fun < self.fun:
            self.x, self.fun = x, fun
        return (fun - self.first) / self.size

    def at(self, z: Floats) -> Floats:
        """Where z is, if that is a point: f may fall so far that the solver's numbers overflow."""
        x = self.place.at(z)
        if not np.isfinite(x).all():
            raise Settled
        return x

    def value(self, z: Floats) -> Asking[float]:
        x = self.at(z)
        values = yield from self.request(x[None], stands=True)
        return self.see(x, float(values[0]))

    def with_differences(self, z: Floats, *, central: bool) -> Asking[tuple[float, Floats]]:
        """f and its gradient from d or 2 d values more."""
        place, x = self.place, self.at(z)
        step = self.eps ** (1 / 3 if central else 1 / 2) * np.maximum(place.unit, np.abs(x))
        up = np.where(x + step <= place.high, step, -step)
        ahead = place.nearest(x + up)
        back = place.nearest(x - up) if central else x
        fun, slope = None, np.empty(x.size)
        for start in range(0, x.size, rows := max(1, CHUNK // x.size)):
            these = np.arange(start, min(x.size, start + rows))
            sides = [_moved(x, these, side) for side in ((ahead, back) if central else (ahead,))]
            points = np.concatenate([x[None], *sides] if fun is None else sides)
            values = yield from self.request(points, stands=fun is None)
            if fun is None:
                fun, values = float(values[0]), values[1:]
            before = values[these.size :] if central else fun
            slope[these] = (values[: these.size] - before) / (ahead - back)[these]
        assert fun is not None
        gradient = self.scaled(slope)
        return self.see(x, fun), gradient

    def with_gradient(self, z: Floats) -> Asking[tuple[float, Floats]]:
        x = self.at(z)
        values = yield from self.request(x[None], stands=True)
        slopes = yield from self.request(x[None], gradient=True)
        gradient = self.scaled(slopes[0])
        return self.see(x, float(values[0])), gradient

    def scaled(self, slope: Floats) -> Floats:
        """A gradient in the solver's units, 0 where it is not finite."""
        slope = np.where(np.isfinite(slope), slope, 0.0) * self.place.unit
        if not self.size:
            peak = float(np.max(np.abs(slope), initial=0.0)) or 1.0
            self.size = peak * float(np.linalg.norm(slope / peak)) / STEEP or 1.0
        return slope / self.size

    def settled(self) -> bool:
        return self.still >= STILL

    def outcome(self, *, converged: bool) -> LocalMinimum:
        return LocalMinimum(self.x, self.fun, converged)


def _moved(x: Floats, these: NDArray[np.intp], to: Floats) -> Floats:
    """Copies of x, the i-th with the i-th of `these` variables moved, (n, d)."""
    points = np.repeat(x[None], these.size, axis=0)
    points[np.arange(these.size), these] = to[these]
    return points


def _lbfgsb(f: _Counted, incumbent: float, *, gradients: bool) -> Asking[LocalMinimum]:
    """L-BFGS-B until nothing changes, then once more on central differences from there."""
    place = f.place
    memory = max(10, min(MEMORY, MEMORY_NUMBERS // place.x.size))

    def descend(ask: Callable[[Floats], Asking[tuple[float, Floats]]], tolerance: float = 0.0) -> Asking[None]:
        f.still = 0
        solver = lbfgsb((f.x - place.x) / place.unit, *place.bounds(), memory=memory, tolerance=tolerance)
        try:
            z = next(solver)
            while not f.settled():
                z = solver.send((yield from ask(z)))
        except (StopIteration, Settled):
            return

    quick = f.with_gradient if gradients else partial(f.with_differences, central=False)
    try:
        if incumbent < np.inf:
            yield from descend(quick, ROUGHLY)
            if not f.fun < incumbent:
                return f.outcome(converged=True)
        yield from descend(quick)
        before = np.inf
        while not gradients and f.fun < before - 4 * f.eps * abs(f.fun):
            before = f.fun
            yield from descend(partial(f.with_differences, central=True))
    except Spent:
        return f.outcome(converged=False)
    return f.outcome(converged=True)


def _model_based(f: _Counted) -> Asking[LocalMinimum]:
    """A trust-region search on quadratic models of values."""
    solver = search(*f.place.bounds())
    try:
        z = next(solver)
        while True:
            z = solver.send((yield from f.value(z)))
    except Spent:
        return f.outcome(converged=False)
    except (StopIteration, Settled):
        return f.outcome(converged=True)
