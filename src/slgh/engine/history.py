"""A record of the run, thinned so that it never grows beyond a given number of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slgh import checks

ELEMENTS = 4_000_000
"""A column holds at most about this many numbers, whatever the number of problems."""


class History:
    """Rows of the whole batch, every `stride`-th iteration; when full, every other row goes and the stride doubles.

    Parameters
    ----------
    keep
        How many rows at most; "full": all of them; "x": all of them, with the iterates; None, 0 or False: nothing.
    B
        The number of problems. Those that have ended repeat their last row.
    """

    def __init__(self, keep: int | str | None, B: int) -> None:
        if isinstance(keep, str):
            checks.choice("history", keep, ("full", "x"))
        elif keep is not None and keep is not False:
            checks.count("history", keep, 0)
        self.with_x = keep == "x"
        self.rows: int | None
        if isinstance(keep, str):
            self.rows = None
        elif keep:
            self.rows = max(2, min(int(keep), ELEMENTS // B))
        else:
            self.rows = 0
        self.columns = ("iteration", "nfev", "fun", "t", "fun_best", *(("x",) if self.with_x else ()))
        self.stride = 1
        self.table: list[tuple[Any, ...]] = []

    def wants(self, k: int) -> bool:
        """Whether iteration k is to be recorded."""
        return self.rows != 0 and k % self.stride == 0

    def record(self, row: dict[str, Any]) -> None:
        """Append a row; what is no column is left out."""
        self.table.append(tuple(row[name] for name in self.columns))
        if self.rows is not None and len(self.table) >= self.rows:
            self.stride *= 2
            self.table = self.table[::2]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The columns as arrays with leading axis of recorded iterations."""
        return {name: np.array([row[i] for row in self.table]) for i, name in enumerate(self.columns)}

    def load(self, arrays: dict[str, NDArray[Any]], stride: int) -> None:
        """Go on from a saved record."""
        self.table = list(zip(*(arrays[name] for name in self.columns), strict=True))
        self.stride = stride
