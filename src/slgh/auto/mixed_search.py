"""Search in a space with integers, categories and booleans: quadratic models, neighborhoods, and kicks.

f is constant on cells of the unit cube. A quadratic model through points in different cells still sees the slope of f,
where differences of 1e-8 see none. Near the end the steps of a model are narrower than a cell. So the neighboring
values of each discrete parameter are tried one by one, and models refine the real variables alone. When nothing lowers
f any more, a kick changes some parameters at random, and the search begins again from there.

With a small budget, a Gaussian process of all values suggests where to begin (`surrogate_search.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slgh.auto.evaluation import Evaluating, Evaluation, Floats
from slgh.auto.local_search import LocalMinimum, SearchRegion, local_search
from slgh.auto.surrogate_search import Surrogate
from slgh.auto.wide_search import FIRST_RADIUS, HOP_RADIUS, MAX_VARIABLES, wide_search
from slgh.space import Boolean, Categorical, Parameter, Space
from slgh.space.tree import Slot

# The constants were chosen on ten training functions of 5 to 11 parameters with 50 and 200 evaluations and 10 seeds:
# losses of two models in their hyperparameters, Rastrigin's and Rosenbrock's functions with some integers, quadratic
# functions of integers, categories and booleans, a table of categories, ripples, and a basin for each category.

PATIENCE_PER_COORDINATE = 2
"""A Gaussian process may fail to lower f for this many evaluations, per coordinate and one more, before a descent."""

MODEL_SHARE = 0.4
"""Share of the evaluations left for models of all ordered variables. With 50 evaluations, 0.3 is too little for a model
in 8 variables."""

MODEL_EVALS_PER_VARIABLE = 6
"""Maximum evaluations of these models, per variable and one more."""

REFINE_EVALS_PER_VARIABLE = 5
"""Maximum evaluations of models of the real variables alone, per variable and one more."""

REFINE_RADIUS = 1.0
"""First radius of these models, in the unit of the search region, a tenth of the cube."""

KICK_RADIUS = 0.25
"""Standard deviation of the kick of a real variable: the default of the first t."""

KICK_CHANGES = 1.5
"""A kick changes as many parameters as a Poisson number with this mean plus one, but at least two."""

RANDOM_EVERY = 5
"""Every fifth kick goes to a random point, unless it changes a category. The first kicks must stay near."""

BASIN_EVERY = 2
"""Every second kick changes one category, and models look for the best ordered variables there. Otherwise another
category is judged at the values that suit the old one."""

BASIN_EVALS_PER_VARIABLE = 4
"""Maximum evaluations of these models, per ordered variable and one more."""

MAX_REDRAWS = 100
"""The search ends if this many kicks in a row lead to known points: nearly all points are known."""


class Spent(Exception):
    """The budget is spent."""


class Found(NamedTuple):
    """A point of the cube, and f there."""

    z: Floats
    fun: float


def mixed_search(
    space: Space,
    region: SearchRegion,
    budget: int,
    *,
    start_value: float,
    on_nonfinite: str = "reject",
    width: int = 1,
    surrogate: bool = False,
    rng: np.random.Generator,
) -> Evaluating[LocalMinimum]:
    """Search from the start of a region, whose value is known, with at most `budget` evaluations.

    Parameters
    ----------
    width
        Number of points per round of parallel evaluations.
    surrogate
        True to alternate between the suggestions of a Gaussian process and descents.
    """
    search = _MixedSearch(space, region, budget, on_nonfinite=on_nonfinite, width=width, rng=rng)
    search.note(region.x[None], np.array([start_value]))
    converged = False
    try:
        yield from search.run_on_surrogate() if surrogate else search.run(Found(region.x, start_value))
        converged = True
    except Spent:
        pass
    return LocalMinimum(search.best.z, search.best.fun, converged)


class _MixedSearch:
    """State of a search: the budget, the best point, and the values at which f is known."""

    def __init__(
        self,
        space: Space,
        region: SearchRegion,
        budget: int,
        *,
        on_nonfinite: str,
        width: int,
        rng: np.random.Generator,
    ) -> None:
        self.space, self.region, self.left = space, region, budget
        self.on_nonfinite, self.width, self.rng = on_nonfinite, width, rng
        self.best = Found(region.x, np.inf)
        self.known: set[tuple[Hashable, ...]] = set()
        """Keys of the values at which f is known."""
        self.points: list[Floats] = []
        """Points at which f is known."""
        self.values: list[float] = []
        self.real = self._variables(lambda parameter: parameter.count is None)
        self.unordered = [s for s in space.slots if isinstance(s.parameter, Categorical) and s.parameter.size]
        self.ordered = self._variables(lambda parameter: not isinstance(parameter, Categorical))
        if all(isinstance(s.parameter, Boolean | Categorical) for s in space.slots):
            self.ordered = self.ordered[:0]  # f has no more slope in them than the neighborhood shows

    def _variables(self, chosen: Callable[[Parameter], bool]) -> NDArray[np.intp]:
        """Return the variables of some parameters."""
        ranges = [np.arange(s.begin, s.end) for s in self.space.slots if chosen(s.parameter)]
        return np.concatenate([np.empty(0, np.intp), *ranges]).astype(np.intp)

    def key(self, z: Floats) -> tuple[Hashable, ...]:
        """Return the key of the values at z."""
        return self.space.key(self.space.decode(z))

    def note(self, points: Floats, values: Floats) -> None:
        """Note the values (n,) of f at points (n, d)."""
        for z, fun in zip(points, values.tolist(), strict=True):
            self.known.add(self.key(z))
            self.points.append(z)
            self.values.append(fun)
            if fun < self.best.fun:
                self.best = Found(z, fun)

    def evaluate(self, points: Floats) -> Evaluating[Floats]:
        """Return f at points (n, d), infinite for bad values. Raise Spent if the budget allows none of them."""
        points = points[: self.left]
        if not len(points):
            raise Spent
        self.left -= len(points)
        values = yield Evaluation(points, is_step=True)
        values = np.where(np.isfinite(values), values, np.inf)
        self.note(points, values)
        return values

    def run(self, start: Found) -> Evaluating[None]:
        """Descend, then again from kicks of the best point."""
        base = yield from self.descend(start, first=True)
        kicks = 0
        while True:
            kicks += 1
            found = yield from self.kick(base, kicks)
            if found is None:
                return
            if found.fun <= base.fun:
                base = found

    def run_on_surrogate(self) -> Evaluating[None]:
        """Follow a Gaussian process. When it no longer lowers f, descend from the best point, or from a kick of it."""
        surrogate = Surrogate(self.space, self.rng)
        yield from self.evaluate(surrogate.first_points())
        patience = PATIENCE_PER_COORDINATE * (surrogate.coordinates.q + 1)
        descended, kicks = np.inf, 0
        while True:
            failures, lowest = 0, self.best.fun
            while failures < patience:
                known = np.array(self.points), np.array(self.values)
                points = surrogate.suggest(*known, max(1, self.width), self.is_new)
                if not len(points):
                    break
                yield from self.evaluate(points)
                failures = 0 if self.best.fun < lowest else failures + len(points)
                lowest = self.best.fun
            if self.best.fun < descended:
                descended = (yield from self.descend(self.best, refine=True)).fun
            else:
                kicks += 1
                if (yield from self.kick(self.best, kicks)) is None:
                    return

    def kick(self, base: Found, kicks: int) -> Evaluating[Found | None]:
        """Descend from a kick, the `kicks`-th one, of a point. Return None if only known points are found."""
        if kicks % BASIN_EVERY == 0 and self.ordered.size and self.unordered:
            return (yield from self.other_basin(base))
        z = self.kicked(base.z, anywhere=kicks % RANDOM_EVERY == 0)
        if z is None:
            return None
        fun = (yield from self.evaluate(z[None]))[0]
        return (yield from self.descend(Found(z, float(fun))))

    def other_basin(self, base: Found) -> Evaluating[Found]:
        """Choose another category at random, and search on models of the ordered variables before it is judged."""
        slot = self.unordered[int(self.rng.integers(len(self.unordered)))]
        others = slot.parameter.neighbors(slot.of(base.z))
        z = slot.replaced(base.z, others[int(self.rng.integers(len(others)))])
        start = Found(z, float((yield from self.evaluate(z[None]))[0]))
        most = BASIN_EVALS_PER_VARIABLE * (self.ordered.size + 1)
        found = yield from self.models(start, self.ordered, most, HOP_RADIUS, base)
        return (yield from self.descend(found)) if found.fun < base.fun else base

    def descend(self, now: Found, *, first: bool = False, refine: bool = False) -> Evaluating[Found]:
        """Return a point that neither neighboring values nor models of the real variables improve.

        Models of all ordered variables come `first`. With `refine`, there are models of the real variables even if the
        neighboring values do not improve it.
        """
        if first:
            most = min(int(MODEL_SHARE * self.left), MODEL_EVALS_PER_VARIABLE * (self.ordered.size + 1))
            now = yield from self.models(now, self.ordered, most, FIRST_RADIUS)
        while True:
            before = now.fun
            now = yield from self.neighborhood(now)
            if first or refine or now.fun < before:
                most = REFINE_EVALS_PER_VARIABLE * (self.real.size + 1)
                now = yield from self.models(now, self.real, most, REFINE_RADIUS)
            first = refine = False
            if not now.fun < before:
                return now

    def models(
        self, now: Found, variables: NDArray[np.intp], evals: int, radius: float, incumbent: Found | None = None
    ) -> Evaluating[Found]:
        """Search on quadratic models of some variables. Beyond MAX_VARIABLES, descend by differences."""
        evals = min(evals, self.left)
        if not variables.size or evals < 1:
            return now
        full = self.region
        region = SearchRegion(
            x=now.z[variables],
            unit=full.unit[variables],
            low=full.low[variables],
            high=full.high[variables],
            dtype=full.dtype,
        )
        if variables.size > MAX_VARIABLES:
            lowest = np.inf if incumbent is None else incumbent.fun
            search = local_search(region, evals, lowest, gradients=False, on_nonfinite=self.on_nonfinite)
        else:
            best = None if incumbent is None else LocalMinimum(incumbent.z[variables], incumbent.fun, converged=True)
            search = wide_search(
                region,
                evals,
                best,
                radius=radius,
                start_value=now.fun if np.isfinite(now.fun) else None,
                on_nonfinite=self.on_nonfinite,
                width=self.width,
                rng=self.rng if self.width > 1 else None,
            )
        try:
            request = next(search)
            while True:
                points = np.tile(now.z, (len(request.points), 1))
                points[:, variables] = request.points
                values = yield from self.evaluate(points)
                if len(values) < len(points):
                    raise Spent
                lowest_at = int(np.argmin(values))
                now_best = Found(points[lowest_at], float(values[lowest_at]))
                if now_best.fun < now.fun:
                    now = now_best
                request = search.send(values)
        except StopIteration:
            return now
        finally:
            search.close()

    def neighborhood(self, now: Found) -> Evaluating[Found]:
        """Try the neighboring values of one discrete parameter at a time, until none of them lowers f."""
        while True:
            before = now.fun
            near = {s.name: s.parameter.neighbors(s.of(now.z)) for s in self.space.slots}
            moves = [(s, n) for s in self.space.slots for n in range(len(near[s.name]))]
            order = self.rng.permutation(len(moves)).tolist()
            while order:
                tried: list[tuple[Slot, Floats]] = []
                while order and len(tried) < max(1, self.width):
                    slot, n = moves[order.pop()]
                    parts = near[slot.name]
                    # A parameter that has moved may have fewer neighbors.
                    if n < len(parts) and self.is_new(z := slot.replaced(now.z, parts[n])):
                        tried.append((slot, z))
                if not tried:
                    continue
                values = yield from self.evaluate(np.stack([z for _, z in tried]))
                i = int(np.argmin(values))
                if values[i] < now.fun:
                    slot, z = tried[i]
                    now = yield from self.go_on(slot, now, Found(z, float(values[i])))
                    near[slot.name] = slot.parameter.neighbors(slot.of(now.z))
            if not now.fun < before:
                return now

    def go_on(self, slot: Slot, before: Found, now: Found) -> Evaluating[Found]:
        """Go on in the direction of a move that has lowered f, in steps that double. A category has no direction."""
        step = slot.of(now.z) - slot.of(before.z)
        while not isinstance(slot.parameter, Categorical):
            z = slot.replaced(now.z, np.clip(slot.of(now.z) + step, 0.0, 1.0))
            if not self.is_new(z):
                break
            fun = float((yield from self.evaluate(z[None]))[0])
            if not fun < now.fun:
                break
            now, step = Found(z, fun), 2 * step
        return now

    def is_new(self, z: Floats) -> bool:
        """Return True if f is not known for the values at z."""
        return self.key(z) not in self.known

    def kicked(self, z: Floats, *, anywhere: bool) -> Floats | None:
        """Return z with some parameters changed at random, or a random point. None if only known points are found."""
        rng, slots = self.rng, self.space.slots
        for _ in range(MAX_REDRAWS):
            new = rng.random(z.size) if anywhere else z
            changes = 0 if anywhere else max(2, 1 + rng.poisson(KICK_CHANGES))
            for i in rng.permutation(len(slots))[:changes].tolist():
                part = slots[i].of(new)
                others = slots[i].parameter.neighbors(part)
                if slots[i].parameter.count is None:
                    moved = np.mod(part + KICK_RADIUS * rng.standard_normal(part.size), 2)
                    part = np.minimum(moved, 2 - moved)
                elif others:
                    part = others[int(rng.integers(len(others)))]
                new = slots[i].replaced(new, part)
            if self.is_new(new):
                return new
        return None


def enumerate_points(space: Space, start: Floats, width: int) -> Evaluating[LocalMinimum]:
    """Evaluate f at all points of a finite space, except the start, in requests of `width` points."""
    best, known, grid = Found(start, np.inf), space.key(space.decode(start)), space.grid()
    points = (z for z in grid if space.key(space.decode(z)) != known)
    while part := list(islice(points, max(1, width))):
        values = yield Evaluation(np.stack(part), is_step=True)
        values = np.where(np.isfinite(values), values, np.inf)
        i = int(np.argmin(values))
        if values[i] < best.fun:
            best = Found(part[i], float(values[i]))
    return LocalMinimum(best.z, best.fun, converged=True)
