"""Asynchronous evaluation: when an iteration may close before all values have arrived, and what is kept of the rest.

The points of an `Optimizer` are numbered: request 0, 1, ... of the run, and the index of the point in its request. The
log of a run is the sequence of places whose values arrived, with an event (request, CLOSED) where a request was closed.
The iterates are a function of the log and of f, so that the log repeats the run bit for bit.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Iterable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from slgh.engine.checkpoint import Arrays, expect
from slgh.protocols import Query

Place: TypeAlias = tuple[int, int]
"""Number of a request, and index of a point in it."""

CLOSED = -1
"""Index of the event that a request was closed."""

MIN_VALUES_SHARE = 2 / 3
"""Share of the values that must arrive before a request may close. With 10 % stragglers that take 10 times as long, 8
workers were busy for 95 % of the time and more with 2/3, for 82 % with 0.8, and for all of it with 1/2. But 1/2 drops
values that are about to arrive: at equal times, f was higher."""

MIN_SAMPLES_SHARE = 1 / 2
"""Share of the samples that must be complete. A pair is lost if one of its two values is missing."""


def may_close(query: Query, received: Collection[int]) -> bool:
    """Return True if a request may close when only the values at these of its points have arrived."""
    n = query.points.shape[1]
    if not query.samples or len(received) < MIN_VALUES_SHARE * n:
        return False
    has_value = np.isin(np.arange(n), list(received))
    common, parts = np.split(has_value, [n % query.samples])
    complete = parts.reshape(-1, query.samples).all(axis=0)
    return bool(common.all() and complete.sum() >= MIN_SAMPLES_SHARE * query.samples)


def order_of_points(query: Query) -> list[int]:
    """Return the points in the order in which they are handed out: sample by sample, so that pairs become complete."""
    n = query.points.shape[1]
    if not query.samples:
        return list(range(n))
    common = n % query.samples
    return [*range(common), *np.arange(common, n).reshape(-1, query.samples).T.ravel().tolist()]


class Arrivals:
    """Log of a run, and the points of its closed requests whose values have not arrived."""

    def __init__(self, d: int, dtype: np.dtype[Any]) -> None:
        self.request = 0
        """Number of the current request."""
        self.late: dict[Place, NDArray[Any]] = {}
        """Points (d,) of closed requests that have no value yet."""
        self.x_best, self.f_best = np.zeros(d, dtype), math.inf
        """Lowest point among those whose values arrived late. It never changes the iterates."""
        self._log = array("q")  # two numbers per event: a list of tuples would take ten times the memory

    @property
    def log(self) -> NDArray[np.int64]:
        """Events so far, (n, 2)."""
        return np.array(self._log, np.int64).reshape(-1, 2)

    def add(self, index: int) -> None:
        """Log a value of the current request, or that it is CLOSED."""
        self._log.extend((self.request, index))

    def close(self, points: NDArray[Any], missing: Iterable[int]) -> None:
        """Close the current request, whose points (n, d) have no value yet where they are `missing`."""
        self.add(CLOSED)
        self.late |= {(self.request, i): points[i].copy() for i in missing}

    def add_late(self, place: Place, value: float) -> None:
        """Log a value of a closed request."""
        self._log.extend(place)
        point = self.late.pop(place)
        if math.isfinite(value) and value < self.f_best:
            self.x_best, self.f_best = point, value

    def save(self) -> Arrays:
        """Return the arrays that `load` continues from."""
        return {
            "log": self.log,
            "request": np.array(self.request, np.int64),
            "late": np.array(list(self.late), np.int64).reshape(-1, 2),
            "late_points": np.array(list(self.late.values()), self.x_best.dtype).reshape(-1, self.x_best.size),
            "x_best": self.x_best,
            "f_best": np.array(self.f_best),
        }

    def load(self, arrays: Arrays) -> None:
        """Continue from the arrays of `save`."""
        d = self.x_best.size
        log, late = expect(arrays, "log", (None, 2), "i"), expect(arrays, "late", (None, 2), "i")
        points = expect(arrays, "late_points", (len(late), d), "f")
        self.request = int(expect(arrays, "request", (), "i"))
        if (log < [0, CLOSED]).any() or (log[:, 0] > self.request).any() or (late < 0).any():
            raise ValueError("its log of arrivals is invalid")
        self._log = array("q", log.ravel().tolist())
        self.late = {(int(r), int(i)): point for (r, i), point in zip(late, points, strict=True)}
        self.x_best = expect(arrays, "x_best", (d,), "f")
        self.f_best = float(expect(arrays, "f_best", (), "f"))
