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
    """

    def __init__(self, keep: int | str | None, B: int, watched: tuple[str, ...] = ()) -> None:
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
        self.rows: list[Row] = []
        self.ended: dict[str, NDArray[Any]] = {}
        """The last figures of the problems that have ended, in arrays over all problems."""

    def wants(self, k: int) -> bool:
        """Whether iteration k is to be recorded."""
        return self.limit != 0 and k % self.stride == 0

    def record(self, row: Row) -> None:
        """Append a row."""
        self.rows.append(row)
        if len(self.rows) >= self.limit:
            self.stride *= 2
            self.rows = self.rows[::2]

    def end(self, which: NDArray[np.bool_], row: Row) -> None:
        """These of the active problems end with this row."""
        for name in self.columns:
            part = row.figures[name]
            if name not in self.ended:
                self.ended[name] = np.zeros((self.B, *part.shape[1:]), part.dtype)
            self.ended[name][row.active[which]] = part[which]

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

    def _filled(self, name: str, row: Row) -> NDArray[Any]:
        """A row's figure of all problems."""
        part: NDArray[Any] = row.figures[name]
        if row.active.size < self.B:
            filled = self.ended[name].copy()
            filled[row.active] = part
            return filled
        return part

    def load(self, columns: dict[str, NDArray[Any]], ended: dict[str, NDArray[Any]], stride: int) -> None:
        """Go on from a saved record."""
        everyone = np.arange(self.B)
        self.rows = [
            Row(int(k), int(n), everyone, {name: columns[name][i] for name in self.columns})
            for i, (k, n) in enumerate(zip(columns["iteration"], columns["nfev"], strict=True))
        ]
        self.ended, self.stride = ended, stride
