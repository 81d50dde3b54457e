"""Record of a run, thinned so that it never has more than a given number of rows."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slgh import checks
from slgh.engine.checkpoint import Arrays, expect

MAX_COLUMN_NUMBERS = 4_000_000
"""Approximate maximum number of elements in a column of one number per problem, for any number of problems."""

MAX_UNPACKED_ROWS = 1024
"""Maximum number of rows kept as HistoryRow objects before they are packed into arrays. An object takes about 24 times
the memory of its numbers. The default history has fewer rows and is packed only at the end of the run."""


class HistoryRow(NamedTuple):
    """Record of one iteration of the active problems."""

    iteration: int
    nfev: int
    active: NDArray[np.intp]
    figures: Arrays
    """Entries (active problems, ...) by the name of their column."""


class History:
    """Rows of every `stride`-th iteration. When the record is full, every other row is dropped and the stride doubles.

    Parameters
    ----------
    keep
        Maximum number of rows. "full": no maximum. "x": no maximum, with the iterates. None, 0 or False: no rows.
    B
        Number of problems. Problems that have ended repeat their last row.
    watched
        Names of further columns.
    d
        Number of variables.
    iterations
        Maximum number of iterations per problem, if problems begin at different times. The stride is then constant,
        and problems begin at its multiples. So all problems are recorded at the same numbers of their own iterations.
    """

    def __init__(
        self,
        keep: int | str | None,
        B: int,
        watched: tuple[str, ...] = (),
        *,
        d: int = 1,
        iterations: int | None = None,
    ) -> None:
        if isinstance(keep, str):
            checks.choice("history", keep, ("full", "x"))
        elif keep is not None and keep is not False:
            checks.count("history", keep, 0)
        self.with_x = keep == "x"
        self.B, self.d = B, d
        self.columns = ("fun", "t", "fun_best", *(("x",) if self.with_x else ()), *watched)
        """Names of the columns with an entry per problem."""
        self.limit: float = math.inf
        if not isinstance(keep, str):
            self.limit = max(2, min(int(keep), MAX_COLUMN_NUMBERS // B)) if keep else 0
        self.stride = 1
        self.iterations = iterations
        # The stride that a history of this many iterations would end with.
        while iterations is not None and self.limit and -(-iterations // self.stride) >= self.limit:
            self.stride *= 2
        self._blocks: list[Arrays] = []
        """All rows but the recent ones, as arrays: see `_packed`."""
        self._recent: list[HistoryRow] = []
        self.size = 0
        """Number of rows."""
        self.ended: Arrays = {}
        """Last entries of problems, (B, ...) by the name of their column. They fill the rows after a problem's end."""
        self.closed = np.zeros(B, bool)
        """True for problems whose entries in `ended` are set."""

    def wants(self, k: int) -> bool:
        """Return True if iteration k is to be recorded."""
        return self.limit != 0 and k % self.stride == 0

    def record(self, row: HistoryRow) -> None:
        """Append a row."""
        self._recent.append(row)
        self.size += 1
        if len(self._recent) >= MAX_UNPACKED_ROWS:
            self._blocks.append(self._packed(self._recent))
            self._recent = []
        if self.iterations is None and self.size >= self.limit:
            self.stride *= 2
            self.size = -(-self.size // 2)
            if self._blocks:
                columns = self._joined()
                self._blocks, self._recent = [{name: column[::2].copy() for name, column in columns.items()}], []
            else:
                self._recent = self._recent[::2]

    @property
    def first_nfev(self) -> int:
        """Number of evaluations after the first recorded iteration."""
        return int(self._blocks[0]["nfev"][0]) if self._blocks else self._recent[0].nfev

    def _packed(self, rows: list[HistoryRow]) -> Arrays:
        """Pack rows into arrays.

        Columns are (rows, B, ...), and problems that have ended repeat their last entries. If problems begin at
        different times, columns have the entries of the active problems only, one row after the other. `sizes` is then
        the number of problems per row, and `active` names them.
        """
        packed: Arrays = {
            "iteration": np.array([row.iteration for row in rows], int),
            "nfev": np.array([row.nfev for row in rows], int),
        }
        if self.iterations is None:
            return packed | {name: np.array([self._filled(name, row) for row in rows]) for name in self.columns}
        packed["sizes"] = np.array([row.active.size for row in rows], int)
        packed["active"] = np.concatenate([row.active for row in rows])
        return packed | {name: np.concatenate([row.figures[name] for row in rows]) for name in self.columns}

    def _all_blocks(self) -> list[Arrays]:
        """Return all rows, packed."""
        return [*self._blocks, *([self._packed(self._recent)] if self._recent else [])]

    def _joined(self) -> Arrays:
        """Return all rows in new arrays. There must be at least one."""
        blocks = self._all_blocks()
        return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}

    def close(self, problems: NDArray[np.intp], figures: Arrays) -> None:
        """Set the last entries of n problems, (n, ...) per column. They are set again if a problem continues."""
        for name, last in figures.items():
            if problems.size == self.B:
                self.ended[name] = last
                continue
            if name not in self.ended:
                self.ended[name] = np.zeros((self.B, *last.shape[1:]), last.dtype)
            self.ended[name][problems] = last
        self.closed[problems] = True

    def reopen(self) -> None:
        """Continue all problems."""
        self.closed[:] = False

    def arrays(self) -> Arrays:
        """Return "iteration" and "nfev", (rows,), and the columns, (rows, B, ...)."""
        if self.size:
            return self._joined()
        none: Arrays = {"iteration": np.empty(0, int), "nfev": np.empty(0, int)}
        return none | {name: np.empty((0, self.B, *self._entry_shape(name))) for name in self.columns}

    def _entry_shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a problem's entry in a row of a column."""
        return (self.d,) if name == "x" else ()

    def per_problem(self, began: NDArray[np.int64], nit: NDArray[np.int64], each: int, before: int) -> Arrays:
        """Return the columns by each problem's own iterations, if problems begin at different times.

        Parameters
        ----------
        began, nit
            (B,) iteration of the run in which each problem began, and the number of its iterations.
        each, before
            Evaluations per iteration, and before the first one.
        """
        blocks = self._all_blocks()
        R = -(-int(nit.max(initial=0)) // self.stride) if blocks else 0
        iteration = np.arange(R) * self.stride
        columns: Arrays = {"iteration": iteration, "nfev": before + (iteration + 1) * each}
        # The row of each entry, and the last row of each problem.
        own = [(np.repeat(rows["iteration"], rows["sizes"]) - began[rows["active"]]) // self.stride for rows in blocks]
        reached = np.full(self.B, -1)
        for rows, r in zip(blocks, own, strict=True):
            np.maximum.at(reached, rows["active"], np.minimum(r, R - 1))
        beyond = iteration[:, None] // self.stride > reached
        for name in self.columns:
            first = blocks[0][name] if blocks else np.empty((0, *self._entry_shape(name)))
            column = np.full((R, self.B, *first.shape[1:]), np.nan, first.dtype)
            for rows, r in zip(blocks, own, strict=True):
                there = (r >= 0) & (r < R)
                column[r[there], rows["active"][there]] = rows[name][there]
            for b in np.flatnonzero(beyond.any(axis=0) & (reached >= 0)):
                column[beyond[:, b], b] = self.ended[name][b] if self.closed[b] else column[reached[b], b]
            columns[name] = column
        return columns

    def _filled(self, name: str, row: HistoryRow) -> NDArray[Any]:
        """Return one column of a row for all problems, (B, ...)."""
        part = row.figures[name]
        if row.active.size == self.B:
            return part
        # A run resumed from a checkpoint without history does not know the entries of problems that had ended.
        unknown = name not in self.ended
        filled = np.full((self.B, *part.shape[1:]), np.nan, part.dtype) if unknown else self.ended[name].copy()
        filled[row.active] = part
        return filled

    def save(self) -> Arrays:
        """Return the arrays that `load` continues from.

        If problems begin at different times, a row has the entries of its active problems, padded to equal length.
        """
        if self.iterations is None:
            return self.arrays()
        if not self.size:
            return {name: np.empty(0) for name in ("iteration", "nfev", "active", *self.columns)}
        rows = self._joined()
        sizes, width = rows["sizes"], int(rows["sizes"].max())
        there = np.arange(width) < sizes[:, None]

        def padded(part: NDArray[Any], fill: float) -> NDArray[Any]:
            column = np.full((len(sizes), width, *part.shape[1:]), fill, part.dtype)
            column[there] = part
            return column

        numbers = {"iteration": rows["iteration"], "nfev": rows["nfev"], "active": padded(rows["active"], -1)}
        return numbers | {name: padded(rows[name], np.nan) for name in self.columns}

    def load(
        self,
        columns: Arrays,
        ended: Arrays,
        stride: int,
        shapes: dict[str, tuple[int, ...]],
        *,
        closed: NDArray[np.bool_],
    ) -> None:
        """Continue from a checkpoint.

        Parameters
        ----------
        columns, ended, stride
            The arrays of `save`, and the attributes of these names.
        shapes
            Shape (B, ...) of the columns with more than one number per problem.
        closed
            (B,) True for problems that have ended.
        """
        self.closed = closed
        self._check(columns, ended, {name: shapes.get(name, (self.B,))[1:] for name in self.columns})
        self.ended, self.stride = ended, stride
        self._blocks, self._recent, self.size = [], [], len(columns["iteration"])
        if not self.size:
            return
        if self.iterations is not None:
            there = columns["active"] >= 0
            flat = {name: columns[name][there] for name in ("active", *self.columns)}
            columns = {**columns, **flat, "sizes": there.sum(axis=1)}
        self._blocks = [columns]

    def _check(self, columns: Arrays, ended: Arrays, each: dict[str, tuple[int, ...]]) -> None:
        """Raise ValueError unless the arrays of a checkpoint fit. `each` has the shape of an entry per column."""
        if ended and ended.keys() != each.keys():
            raise ValueError("its history lacks columns")
        for name in ended:
            expect(ended, name, (self.B, *each[name]))
        R, width = len(columns["iteration"]), self.B
        if not R:
            return
        for name in ("iteration", "nfev"):
            expect(columns, name, (R,), "i")
        if self.iterations is not None:
            active = expect(columns, "active", (R, None), "i")
            width = active.shape[1]
            if active.min(initial=0) < -1 or active.max(initial=0) >= self.B:
                raise ValueError("its history is of other problems")
        for name, shape in each.items():
            expect(columns, name, (R, width, *shape))
