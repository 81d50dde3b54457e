"""Search on a Gaussian process: evaluate f where the expected improvement is largest.

The process models f in one coordinate per ordered variable, which is the middle of the cell of a discrete value, and
one per category or boolean. It learns from all values at once, also from those with other categories. `mixed_search`
alternates between its suggestions and descents.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from slgh.auto.evaluation import Floats
from slgh.auto.gaussian_process import Model, condition, first_parameters, fit_parameters, squared_differences
from slgh.space import Boolean, Categorical, Space

# The constants were chosen on the training problems of benchmarks/tuning.py.

MAX_SNAPPED = 1000
"""Maximum number of values of an integer whose cells the coordinates respect. Finer cells hardly matter."""

CANDIDATES = 500
"""Random points, and points near the lowest ones, among which the search looks for the largest improvement."""

LOWEST = 5
"""Number of the lowest points near which there are candidates."""

SPREADS = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
"""Standard deviations of these candidates. One is drawn per candidate."""

CLIMBERS = 4
"""Number of best candidates that climb to a larger improvement by random steps."""

CLIMBS = 5
"""Rounds of these steps."""

STEPS_PER_CLIMB = 50
"""Steps per climber and round."""

MAX_LARGE_SPREADS = 2
"""Round k leaves out the k largest spreads, at most this many."""

CATEGORY_SHARE = 0.5
"""A category changes with this share of the probability of a variable, or few candidates would keep all of them."""

CHOICE_EVERY = 3
"""Every third suggestion is the best one for another choice of one category or boolean, drawn at random. It should
improve on the lowest value with that choice. Otherwise one choice is abandoned before its best other values are
known."""

REFIT_GROWTH = 1.1
"""Factor of the number of values from one fit of the lengths to the next."""


class Coordinates:
    """Coordinates (n, q) of points of a search space: variables in [0, 1], or codes of unordered values."""

    def __init__(self, space: Space) -> None:
        self.columns: list[_Column] = []
        for slot in space.slots:
            parameter = slot.parameter
            if isinstance(parameter, Categorical | Boolean) and parameter.size:
                self.columns.append(_Column(slot.begin, slot.end, np.stack(list(parameter.points())), True))
            else:
                count = parameter.count
                few = count is not None and count <= MAX_SNAPPED
                for i in range(slot.begin, slot.end):
                    points = np.stack(list(parameter.points())) if few else None
                    self.columns.append(_Column(i, i + 1, points, False))
        self.d = space.d
        self.coded = np.array([column.coded for column in self.columns])
        self.q = len(self.columns)

    def of(self, z: Floats) -> Floats:
        """Return the coordinates (n, q) of points z (n, d)."""
        found = np.empty((len(z), self.q))
        for j, column in enumerate(self.columns):
            part = z[:, column.begin : column.end]
            if column.coded:
                found[:, j] = np.argmax(part, axis=1) if part.shape[1] > 1 else part[:, 0] >= 0.5
            else:
                found[:, j] = column.snapped(part[:, 0])
        return found

    def points(self, coordinates: Floats) -> Floats:
        """Return the points z (n, d)."""
        z = np.empty((len(coordinates), self.d))
        for j, column in enumerate(self.columns):
            if column.coded:
                assert column.points is not None
                z[:, column.begin : column.end] = column.points[coordinates[:, j].astype(int)]
            else:
                z[:, column.begin] = coordinates[:, j]
        return z

    def design(self, n: int, rng: np.random.Generator) -> Floats:
        """Draw n points of a Latin hypercube, (n, q): each coordinate has one point per n-th of its range."""
        u = (np.stack([rng.permutation(n) for _ in self.columns], axis=1) + rng.random((n, self.q))) / n
        return self._in_cells(u)

    def random(self, n: int, rng: np.random.Generator) -> Floats:
        """Draw n uniform points (n, q)."""
        return self._in_cells(rng.random((n, self.q)))

    def _in_cells(self, u: Floats) -> Floats:
        """Map uniform numbers (n, q) to coordinates."""
        for j, column in enumerate(self.columns):
            u[:, j] = np.floor(u[:, j] * column.count) if column.coded else column.snapped(u[:, j])
        return u

    def moved(self, coordinates: Floats, spreads: Floats, rng: np.random.Generator) -> Floats:
        """Change some coordinates of points (n, q) at random, with standard deviations (n,)."""
        n, q = coordinates.shape
        # Some points change one or two coordinates, others half of them or all.
        changes = rng.random((n, q)) < rng.choice([1 / q, 2 / q, 0.5, 1.0], size=n)[:, None]
        changes[np.arange(n), rng.integers(q, size=n)] = True
        steps = rng.standard_normal((n, q))
        new = coordinates.copy()
        for j, column in enumerate(self.columns):
            rows = changes[:, j]
            if column.coded:
                rows = rows & (rng.random(n) < CATEGORY_SHARE)
                shift = rng.integers(1, column.count, size=n)
                new[rows, j] = ((coordinates[:, j] + shift) % column.count)[rows]
            else:
                width = np.maximum(spreads, column.cell)
                moved = np.mod(coordinates[:, j] + width * steps[:, j], 2.0)
                new[rows, j] = column.snapped(np.minimum(moved, 2.0 - moved))[rows]
        return new


@dataclass(frozen=True)
class _Column:
    """A coordinate, its variables z[begin:end], and the points z of its values if they are few."""

    begin: int
    end: int
    points: Floats | None
    coded: bool

    @property
    def count(self) -> int:
        """Number of values."""
        return 0 if self.points is None else len(self.points)

    @property
    def cell(self) -> float:
        """Mean width of the cells."""
        return 0.0 if self.points is None else 1.0 / len(self.points)

    def snapped(self, z: Floats) -> Floats:
        """Return the nearest middles of cells."""
        if self.points is None:
            return z
        middles = self.points[:, 0]
        return np.asarray(middles[np.searchsorted((middles[1:] + middles[:-1]) / 2, z, side="right")])


class Surrogate:
    """A Gaussian process of the values seen so far, and the points that it suggests."""

    def __init__(self, space: Space, rng: np.random.Generator) -> None:
        self.coordinates, self.rng = Coordinates(space), rng
        self.parameters = first_parameters(self.coordinates.q)
        self.fitted = 0
        """Number of values of the last fit."""
        self.suggestions = 0

    def first_points(self) -> Floats:
        """Return the first design, (n, d)."""
        return self.coordinates.points(self.coordinates.design(self.coordinates.q + 1, self.rng))

    def suggest(self, z: Floats, values: Floats, n: int, is_new: Callable[[Floats], bool]) -> Floats:
        """Return up to n new points (n, d), given values (m,) at points z (m, d)."""
        coordinates = self.coordinates
        at, values, coded = coordinates.of(z), warped(values), coordinates.coded
        if len(values) >= REFIT_GROWTH * self.fitted:
            squared = squared_differences(at, coded)
            self.parameters, self.fitted = fit_parameters(squared, values, self.parameters), len(values)
        found: list[Floats] = []
        for _ in range(n):
            model = condition(at, coded, squared_differences(at, coded), values, self.parameters)
            best = self._most_promising(model, at, values, is_new)
            if best is None:
                break
            found.append(coordinates.points(best[None])[0])
            # The next point of the same round supposes that f is the mean of the process here.
            at, values = np.concatenate([at, best[None]]), np.append(values, model.predict(best[None])[0])
        return np.array(found).reshape(len(found), coordinates.d)

    def _most_promising(
        self, model: Model, at: Floats, values: Floats, is_new: Callable[[Floats], bool]
    ) -> Floats | None:
        """Return the coordinates (q,) with the largest expected improvement, or None if all candidates are known."""
        coordinates, rng = self.coordinates, self.rng
        order = np.argsort(values, kind="stable")
        starts, lowest = at[order[:LOWEST]], float(values[order[0]])
        self.suggestions += 1
        choice = self._other_choice(at[order[0]]) if self.suggestions % CHOICE_EVERY == 0 else None
        if choice is not None:
            with_choice = order[at[order, choice[0]] == choice[1]]
            starts = np.concatenate([at[with_choice[:LOWEST]], starts[:1]])
            lowest = float(values[with_choice[0]]) if with_choice.size else lowest

        def chosen(points: Floats) -> Floats:
            if choice is not None:
                points[:, choice[0]] = choice[1]
            return points

        # Half of the neighbors are those of the lowest point.
        near = np.where(rng.random(CANDIDATES) < 0.5, 0, rng.integers(len(starts), size=CANDIDATES))
        moved = coordinates.moved(starts[near], rng.choice(SPREADS, CANDIDATES), rng)
        pool = chosen(np.concatenate([coordinates.random(CANDIDATES, rng), moved]))
        gains = log_expected_improvement(model, pool, lowest)
        for climb in range(CLIMBS):
            top = np.repeat(np.argsort(-gains, kind="stable")[:CLIMBERS], STEPS_PER_CLIMB)
            spreads = rng.choice(SPREADS[min(climb, MAX_LARGE_SPREADS) :], top.size)
            moved = chosen(coordinates.moved(pool[top], spreads, rng))
            pool = np.concatenate([pool, moved])
            gains = np.append(gains, log_expected_improvement(model, moved, lowest))
        known = {row.tobytes() for row in at}  # points of this round are not known to `is_new`
        for i in np.argsort(-gains, kind="stable").tolist():
            if pool[i].tobytes() not in known and is_new(coordinates.points(pool[i : i + 1])[0]):
                return np.asarray(pool[i])
        return None

    def _other_choice(self, best: Floats) -> tuple[int, int] | None:
        """Draw a coordinate and a code that differs from the one of `best` (q,). None without categories."""
        columns = self.coordinates.columns
        codes = [(j, k) for j, c in enumerate(columns) if c.coded for k in range(c.count) if best[j] != k]
        return codes[int(self.rng.integers(len(codes)))] if codes else None


def warped(values: Floats) -> Floats:
    """Return values with mean 0 and variance 1, in which those above the median differ by logarithms.

    Bad hyperparameters may have huge losses. The process would otherwise model little else. Infinite values count as
    the largest finite one.
    """
    finite = np.isfinite(values)
    if not finite.any():
        return np.zeros_like(values)
    values = np.where(finite, values, values[finite].max())
    middle, lowest = float(np.median(values)), float(values.min())
    scale = middle - lowest
    if scale > 0:
        above = np.maximum(values - middle, 0.0)
        values = np.where(above > 0, middle + scale * np.log1p(above / scale), values)
    deviation = float(values.std())
    return np.asarray((values - values.mean()) / (deviation if deviation > 0 else 1.0))


def log_expected_improvement(model: Model, points: Floats, lowest: float) -> Floats:
    """Return the logarithm of the expected improvement (m,) over the lowest value at points (m, q)."""
    from scipy.special import log_ndtr

    mean, deviation = model.predict(points)
    u = (lowest - mean) / deviation
    density = np.exp(-(u**2) / 2) / math.sqrt(2 * math.pi)
    with np.errstate(divide="ignore", invalid="ignore"):
        direct = np.log(u * np.exp(log_ndtr(u)) + density)
        tail = -(u**2) / 2 - 0.5 * math.log(2 * math.pi) - 2 * np.log(np.abs(u))
    return np.asarray(np.log(deviation) + np.where(u > -6, direct, tail))
