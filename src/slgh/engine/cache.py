"""Values of points that were evaluated before, so that an expensive function is not called for them again.

A cached value counts as an evaluation. So a run with a cache is bit for bit the run without it, and only faster.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slgh import checks
from slgh.protocols import Array, Query

DEFAULT_SIZE = 100_000
"""Number of values that `cache=True` keeps. In ten variables they take about 30 MB."""

Key = tuple[str, int, bytes]
"""Kind of the query, the problem, and the bits of the point."""


class Cache:
    """The latest values at points. Values are those of a query: numbers, or gradients (d,)."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.hits = 0
        """Number of values that were not computed again."""
        self._values: OrderedDict[Key, Any] = OrderedDict()

    def keys(self, query: Query, rows: NDArray[np.intp], host: Callable[[Array], NDArray[Any]]) -> list[Key]:
        """Return the keys of the points of all problems, in order. `rows` are the numbers of the problems."""
        points = np.ascontiguousarray(host(query.points))
        return [
            (query.what, int(row), point.tobytes()) for row, group in zip(rows, points, strict=True) for point in group
        ]

    def find(self, key: Key) -> Any:
        """Return the value of a key, or None if it is not known."""
        if key not in self._values:
            return None
        self._values.move_to_end(key)
        return self._values[key]

    def store(self, keys: Iterable[Key], values: Iterable[Any]) -> None:
        """Keep values. If there are too many, forget those that were not needed for longest."""
        self._values.update(zip(keys, values, strict=True))
        while len(self._values) > self.size:
            self._values.popitem(last=False)


def read_cache(cache: Any, *, stochastic: bool, closed_form: bool, watched: bool) -> Cache | None:
    """Return the cache that the user asks for, or None."""
    cache = checks.plain(cache)
    if cache is None or cache is False:
        return None
    if cache is not True:
        checks.count("cache", cache)
    if stochastic:
        raise checks.ArgumentValueError("`cache` needs a fun without sample_xi: its values differ at the same point.")
    if closed_form:
        raise checks.ArgumentValueError("`cache` is for functions, and a closed form takes no time. Leave it out.")
    if watched:
        raise checks.ArgumentValueError("`cache` and `watch` exclude each other. Leave one of them out.")
    return Cache(DEFAULT_SIZE if cache is True else int(cache))
