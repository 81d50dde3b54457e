"""A record of the run, thinned so that it never grows beyond a given number of rows."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slgh import checks

ELEMENTS = 4_000_000
"""A column holds at most about this many numbers, whatever the number of problems."""


class Row(NamedTuple):
    """What is recorded of an iteration, of the problems that were active: the figures by their columns' names."""

    iteration: int
    nfev: int
    active: NDArray[np.intp]
    figures: dict[str, Any]


class History:
    """Every `stride`-th iteration; when the record is full, every other row goes and the stride doubles.

    Parameters
    ----------
    keep
        How many rows at most; "full": all of them; "x": all of them, with the iterates; None, 0 or False: nothing.
    B
        The number of problems. Those that have ended repeat their last row.
    watched
        Further columns.
    iterations
        Where problems begin at different times: how many iterations each may have. The stride is then what it would be
        at the end, so that problems that begin at its multiples are recorded at the same of their own iterations.
    """

    def __init__(
        self, keep: int | str | None, B: int, watched: tuple[str, ...] = (), *, iterations: int | None = None
    ) -> None:
        if isinstance(keep, str):
            checks.choice("history", keep, ("full", "x"))
        elif keep is not None and keep is not False:
            checks.count("history", keep, 0)
        self.with_x = keep == "x"
        self.B = B
        self.columns = ("fun", "t", "fun_best", *(("x",) if self.with_x else ()), *watched)
        """What is recorded of each problem."""
        self.limit: float = math.inf
        if not isinstance(keep, str):
            self.limit = max(2, min(int(keep), ELEMENTS // B)) if keep else 0
        self.stride = 1
        self.iterations = iterations
        while iterations is not None and self.limit and -(-iterations // self.stride) >= self.limit:
            self.stride *= 2
        self.rows: list[Row] = []
        self.ended: dict[str, NDArray[Any]] = {}
        """The last figures of the problems that have ended, in arrays over all problems."""
        self.closed = np.zeros(B, bool)
        """Of which problems there are such."""

    def wants(self, k: int) -> bool:
        """Whether iteration k is to be recorded."""
        return self.limit != 0 and k % self.stride == 0

    def record(self, row: Row) -> None:
        """Append a row."""
        self.rows.append(row)
        if self.iterations is None and len(self.rows) >= self.limit:
            self.stride *= 2
            self.rows = self.rows[::2]

    def end(self, which: NDArray[np.bool_], row: Row) -> None:
        """These of the active problems end with this row."""
        for name in self.columns:
            part = row.figures[name]
            if name not in self.ended:
                self.ended[name] = np.zeros((self.B, *part.shape[1:]), part.dtype)
            self.ended[name][row.active[which]] = part[which]
        self.closed[row.active[which]] = True

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Columns with a leading axis of recorded iterations, those of the problems as (rows, B, ...)."""
        columns: dict[str, NDArray[Any]] = {
            "iteration": np.array([row.iteration for row in self.rows], int),
            "nfev": np.array([row.nfev for row in self.rows], int),
        }
        for name in self.columns:
            column = [self._filled(name, row) for row in self.rows]
            columns[name] = np.array(column) if column else np.empty((0, self.B))
        return columns

    def own(self, began: NDArray[np.int64], nit: NDArray[np.int64], each: int, before: int) -> dict[str, NDArray[Any]]:
        """The columns by the problems' own iterations, of which each had `nit` (B,) from the one it `began` in.

        `before` and `each` are evaluations: before the first iteration, and in each.
        """
        rows = [(row, (row.iteration - began[row.active]) // self.stride) for row in self.rows]
        R = -(-int(nit.max(initial=0)) // self.stride) if rows else 0
        iteration = np.arange(R) * self.stride
        columns: dict[str, NDArray[Any]] = {"iteration": iteration, "nfev": before + (iteration + 1) * each}
        reached = np.full(self.B, -1)
        for row, r in rows:
            reached[row.active] = np.maximum(reached[row.active], np.minimum(r, R - 1))
        beyond = iteration[:, None] // self.stride > reached
        for name in self.columns:
            first = rows[0][0].figures[name] if rows else np.empty(0)
            column = np.full((R, self.B, *first.shape[1:]), np.nan, first.dtype)
            for row, r in rows:
                there = r < R
                column[r[there], row.active[there]] = row.figures[name][there]
            for b in np.flatnonzero(beyond.any(axis=0) & (reached >= 0)):
                column[beyond[:, b], b] = self.ended[name][b] if self.closed[b] else column[reached[b], b]
            columns[name] = column
        return columns

    def _filled(self, name: str, row: Row) -> NDArray[Any]:
        """A row's figure of all problems."""
        part: NDArray[Any] = row.figures[name]
        if row.active.size < self.B:
            filled = self.ended[name].copy()
            filled[row.active] = part
            return filled
        return part

    def saved(self) -> dict[str, NDArray[Any]]:
        """What `load` goes on from: the columns; or rows as they are, where each has problems of its own."""
        if self.iterations is None:
            return self.arrays()
        width = max((row.active.size for row in self.rows), default=0)

        def padded(part: NDArray[Any], fill: float) -> NDArray[Any]:
            return np.concatenate([part, np.full((width - len(part), *part.shape[1:]), fill, part.dtype)])

        kept = {name: [padded(row.figures[name], np.nan) for row in self.rows] for name in self.columns}
        active = [padded(row.active, -1) for row in self.rows]
        numbers = {"iteration": [row.iteration for row in self.rows], "nfev": [row.nfev for row in self.rows]}
        return {name: np.array(column) for name, column in {**numbers, "active": active, **kept}.items()}

    def load(self, columns: dict[str, NDArray[Any]], ended: dict[str, NDArray[Any]], stride: int) -> None:
        """Go on from what was `saved`."""
        everyone = np.broadcast_to(np.arange(self.B), (len(columns["iteration"]), self.B))
        rows = zip(columns["iteration"], columns["nfev"], columns.get("active", everyone), strict=True)
        self.rows = [
            Row(int(k), int(n), active[there], {name: columns[name][i][there] for name in self.columns})
            for i, (k, n, active) in enumerate(rows)
            for there in [active >= 0]
        ]
        self.ended, self.stride = ended, stride
