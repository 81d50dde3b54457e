"""The path of a run: x, t and f over the iterations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slgh.backends import backend_of
from slgh.checks import ArgumentValueError
from slgh.result import Phase, Result

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
    phases: tuple[Phase, ...] = ()
    """Phases of "auto", by their iterations."""

    def take(self, rows: NDArray[Any], label: str | None = None) -> Path:
        """Return the recorded iterations selected by indices or a mask."""
        selected = {name: getattr(self, name)[rows] for name in COLUMNS}
        return replace(self, label=self.label if label is None else label, **selected)

    def pieces(self) -> list[tuple[str, Path]]:
        """Return the parts that are drawn as one line each: the phases by name, or the path itself if it has none.

        The final point of "auto" is the best one of all phases. It belongs to none.
        """
        if not self.phases:
            return [("", self)]
        numbers, found = self.phase_numbers(), []
        for i, phase in enumerate(self.phases):
            rows = np.flatnonzero(numbers == i)
            if rows.size:
                piece = self.take(rows)
                found.append((phase.name, piece if piece.t[0] > 0 else piece.improvements()))
        return found

    def phase_numbers(self) -> NDArray[np.intp]:
        """Return the index into `phases` of each recorded iteration, (k,). The final point has the next number."""
        return np.searchsorted([phase.stop for phase in self.phases], self.iteration, side="right")

    def without_restarts(self) -> Path:
        """Return the iterations before the restarts, and the final point."""
        restarts = [i for i, phase in enumerate(self.phases) if phase.name == "restarts"]
        return self.take(~np.isin(self.phase_numbers(), restarts))

    def improvements(self) -> Path:
        """Return the iterations that are better than all before, without the rejected trial points of a search."""
        before = np.fmin.accumulate(np.concatenate([[np.inf], self.fun[:-1]]))
        rows = np.flatnonzero(self.fun < before)
        return self.take(rows if rows.size else np.arange(1))

    def framed(self) -> NDArray[np.float64]:
        """Return the points (n, d) that a picture must show: all, or for "auto" the homotopies and the ends.

        Trial points of local searches, and restarts from random points, may be far away from anything of interest.
        """
        if not self.phases:
            return self.x
        shown = [piece.x for name, piece in self.pieces() if name == "homotopy"]
        if not shown:  # local searches alone: the points that were better than all before
            shown = [self.improvements().x]
        return np.concatenate([self.x[:1], *shown, self.x[-1:]])

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
        raise ArgumentValueError('`result` must have its iterates, which `history="x"` records in slgh.minimize.')
    batched = record["x"].ndim == 3
    columns = {}
    for name in ("x", "t", "fun"):
        recorded, end = record[name], np.asarray(backend_of(result[name]).host(result[name]))
        recorded, end = (recorded[:, problem], end[problem]) if batched else (recorded, end)
        columns[name] = np.concatenate([recorded, [end]]).astype(float)
    phases = () if batched else tuple(result.get("phases", ()))
    nit = int(np.asarray(result.nit).ravel()[problem if batched else 0])
    path = Path(label=label, iteration=np.append(record["iteration"], nit), phases=phases, **columns)
    # In a batch the history goes on until the last problem ends.
    return path.take(np.append(record["iteration"] < nit, True))
