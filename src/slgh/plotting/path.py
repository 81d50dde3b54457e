"""The path of a run: x, t and f over the iterations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slgh.backends import backend_of
from slgh.result import Result

COLUMNS = ("iteration", "x", "t", "fun")
"""The arrays of a `Path`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Path:
    """Recorded iterations of one problem in ascending order, including the final point."""

    label: str
    iteration: NDArray[np.int64]
    """(k,)."""
    x: NDArray[np.float64]
    """(k, d)."""
    t: NDArray[np.float64]
    """(k,)."""
    fun: NDArray[np.float64]
    """f(x), (k,)."""

    def take(self, rows: NDArray[Any], label: str | None = None) -> Path:
        """Return the recorded iterations selected by indices or a mask."""
        selected = {name: getattr(self, name)[rows] for name in COLUMNS}
        return replace(self, label=self.label if label is None else label, **selected)

    def thin(self, most: int) -> Path:
        """Return about `most` of the recorded iterations; see `thinned`."""
        return self.take(thinned(len(self.iteration), most))


def thinned(n: int, most: int) -> NDArray[np.intp]:
    """Return which of n rows to keep: all of the first, where x moves most, then evenly spaced ones, and the last.

    >>> thinned(1000, 10)
    array([  0,   1,   2,   3, 145, 288, 430, 572, 714, 857, 999])
    """
    if n <= most:
        return np.arange(n)
    first = most // 3
    return np.concatenate([np.arange(first), np.linspace(first, n - 1, most - first + 1).round().astype(np.intp)])


def path_of(result: Result, label: str = "", *, problem: int = 0) -> Path:
    """Return the path of a result with history="x"; for a batch, the path of one problem.

    f is taken from the history: f(x), or, in the iterations of "auto", the mean over the samples around x.
    """
    record = result.history
    if not record or "x" not in record:
        raise ValueError('`result` must have its iterates, which `history="x"` records in slgh.minimize.')
    batched = record["x"].ndim == 3
    columns = {}
    for name in ("x", "t", "fun"):
        recorded, end = record[name], np.asarray(backend_of(result[name]).host(result[name]))
        recorded, end = (recorded[:, problem], end[problem]) if batched else (recorded, end)
        columns[name] = np.concatenate([recorded, [end]]).astype(float)
    nit = int(np.asarray(result.nit).ravel()[problem if batched else 0])
    path = Path(label=label, iteration=np.append(record["iteration"], nit), **columns)
    # In a batch the history goes on until the last problem ends.
    return path.take(np.append(record["iteration"] < nit, True))
