"""A table of the paper on a test function: run its rows with `minimize` and compare with the printed numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slgh.backends import backend_of
from slgh.minimize import minimize
from slgh.paper.experiment import Drawing, Findings, Job, Record, Tick, require_complete
from slgh.plotting.explorer import Box, Explorer, explore
from slgh.plotting.figures import RunCurves
from slgh.plotting.path import Path, thinned
from slgh.plotting.table import Table, interval_decimals
from slgh.problems import Problem
from slgh.result import Result

INTERVAL = (0.025, 0.975)
"""Quantiles over seeds. A printed number of a stochastic method must lie between them."""

MIN_SEEDS_FOR_INTERVAL = 20
"""With fewer seeds the quantiles mean little, and no verdict is given."""

REPRODUCED = ("match", "within interval")
"""Verdicts of rows that agree with the paper."""

MAX_PATH_POINTS = 1000
"""Maximum number of iterations of a run kept for the figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """A row of a table of the paper: a method with its parameters, and the numbers as printed."""

    label: str
    method: str
    x: Sequence[str]
    fun: str
    params: Mapping[str, Any] = field(default_factory=dict)
    remark: str = ""
    """Reason why the row cannot agree, where the paper has a misprint."""

    @property
    def printed(self) -> tuple[str, ...]:
        """x and f."""
        return (*self.x, self.fun)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowOutcome:
    """A row run with S seeds: the end points, (S, d) and (S,), and the paths to them, (k,), (k, S, d) and (k, S)."""

    row: TableRow
    x: NDArray[np.float64]
    fun: NDArray[np.float64]
    iteration: NDArray[np.int64]
    path_x: NDArray[np.float64]
    path_t: NDArray[np.float64]

    @property
    def quantiles(self) -> NDArray[np.float64]:
        """Median and interval over seeds of x and f, (3, d + 1)."""
        return np.quantile(np.column_stack([self.x, self.fun]), (0.5, *INTERVAL), axis=0)

    def runs(self, problem: Problem) -> RunCurves:
        """f and t over the iterations, for all seeds."""
        fun = np.asarray(problem.fun(self.path_x))
        return RunCurves(label=self.row.label, iteration=self.iteration, fun=fun, t=self.path_t)

    def path(self, problem: Problem) -> Path:
        """Path of the seed whose final f is the median."""
        s = int(np.argsort(self.fun)[len(self.fun) // 2])
        x = self.path_x[:, s]
        fun = np.asarray(problem.fun(x))
        return Path(label=self.row.label, iteration=self.iteration, x=x, t=self.path_t[:, s], fun=fun)


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperTable:
    """A table of the paper as an experiment. `closed_form`: the smoothed form is minimized, and nothing is random."""

    name: str
    title: str
    problem: Callable[[], Problem]
    rows: tuple[TableRow, ...]
    closed_form: bool
    box: Box
    """Region shown by the explorer."""
    watch: str
    """Hint for the reader: the main thing to see in the explorer."""
    drawings: Callable[[Problem, Sequence[RowOutcome]], tuple[Drawing, ...]]
    """The paper's figures."""
    seeds: int = 1

    def jobs(self) -> list[Job]:
        """One job per row."""
        return [Job(label=row.label, run=partial(record_row, self, row)) for row in self.rows]

    def conclude(self, records: Sequence[Record]) -> Findings:
        """Return the comparison with the printed numbers, the figures and the explorer."""
        problem = self.problem()
        outcomes = [RowOutcome(row=row, **record) for row, record in zip(self.rows, records, strict=True)]
        return Findings(
            tables=(self.compare(outcomes),),
            data=[self.as_dict(o) for o in outcomes],
            drawings=self.drawings(problem, outcomes),
            explore=partial(self.explore, problem, outcomes),
            watch=self.watch,
            reproduced=(sum(judge(self, o.row, o.x, o.fun) in REPRODUCED for o in outcomes), len(outcomes)),
        )

    def compare(self, outcomes: Sequence[RowOutcome]) -> Table:
        """The paper's table beside the measured numbers."""
        rows = []
        for o in outcomes:
            *point, value = (self.shown(*numbers) for numbers in o.quantiles.T)
            verdict = judge(self, o.row, o.x, o.fun)
            rows.append((o.row.label, ", ".join(o.row.x), o.row.fun, ", ".join(point), value, verdict))
        notes = [] if self.closed_form else [f"slgh: median [95 % interval] over {self.seeds} seeds."]
        notes += [f"{o.row.label}: {o.row.remark}." for o in outcomes if o.row.remark]
        return Table(
            title=self.title,
            headings=("method", "paper (x, y)", "paper f", "slgh (x, y)", "slgh f", "verdict"),
            rows=tuple(rows),
            note=" ".join(notes),
            optional=("slgh (x, y)", "paper (x, y)"),
        )

    def shown(self, median: float, low: float, high: float) -> str:
        """Format a measured number, with its interval if the table is stochastic."""
        return f"{median:.4g}" if self.closed_form else with_interval(median, low, high)

    def as_dict(self, outcome: RowOutcome) -> dict[str, Any]:
        """Return a row for JSON."""
        row = outcome.row
        return {
            "row": row.label,
            "paper": list(row.printed),
            "method": row.method,
            "parameters": dict(row.params),
            "seeds": self.seeds,
            **{
                name: {"x": numbers[:-1].tolist(), "fun": float(numbers[-1])}
                for name, numbers in zip(("median", "low", "high"), outcome.quantiles, strict=True)
            },
            "verdict": judge(self, row, outcome.x, outcome.fun),
            "remark": row.remark,
        }

    def explore(self, problem: Problem, outcomes: Sequence[RowOutcome]) -> Explorer:
        """The homotopy with the path of each method."""
        return explore(
            problem.smooth if problem.smooth is not None else problem.fun,
            name=self.name,
            title=self.title,
            box=self.box,
            t1=problem.parameters["t1"],
            paths=[o.path(problem) for o in outcomes],
            minimizers=problem.minimizers,
        )

    def row(self, label: str) -> TableRow:
        """Return the row with this label."""
        return next(row for row in self.rows if row.label == label)


def with_interval(median: float, low: float, high: float) -> str:
    """Format a median and its interval with equal decimals.

    >>> with_interval(12.6321, 12.6318, 12.6324), with_interval(-0.000266, -0.0201, 0.0109)
    ('12.63 [12.63, 12.63]', '0.000 [-0.020, 0.011]')
    """
    decimals = interval_decimals(median, low, high)
    middle, *ends = (f"{number:z.{decimals}f}" for number in (median, low, high))
    return f"{middle} [{', '.join(ends)}]"


def record_row(table: PaperTable, row: TableRow, tick: Tick) -> Record:
    """Run a row with all seeds and return its record.

    A row takes seconds, and a callback to report progress would double that.
    """
    result = require_complete(run_row(table, row, history="x"))
    tick(1.0)
    history = result.history
    keep = thinned(len(history["iteration"]), MAX_PATH_POINTS)
    return {
        "x": result.x,
        "fun": result.fun,
        "iteration": np.append(history["iteration"][keep], int(result.nit.max())),
        "path_x": np.concatenate([history["x"][keep], result.x[None]]),
        "path_t": np.concatenate([history["t"][keep], result.t[None]]),
    }


def run_row(
    table: PaperTable, row: TableRow, *, asarray: Callable[[NDArray[Any]], Any] = np.asarray, **options: Any
) -> Result:
    """Run a row with all seeds in one batch, on arrays made by `asarray`."""
    problem = table.problem()
    names = ("step", "max_iter") if table.closed_form else ("step", "max_iter", "samples")
    result = minimize(
        problem.smooth if table.closed_form else problem.fun,
        asarray(np.tile(problem.x0, (table.seeds, 1))),
        method=row.method,
        batched=True,
        vectorized=True,
        seed=0,
        **{name: problem.parameters[name] for name in names} | dict(row.params) | options,
    )
    result.update({name: backend_of(result[name]).host(result[name]) for name in ("x", "fun", "t")})
    return result


def judge(table: PaperTable, row: TableRow, x: NDArray[Any], fun: NDArray[Any]) -> str:
    """Return the verdict on the end points of a row.

    A deterministic row is a "match" if each number is within one unit of its last printed digit. A stochastic row is
    "within interval" if each printed number, give or take one unit, is. Otherwise the row "differs".
    """
    ours = np.column_stack([x, fun])
    if table.closed_form:
        good = all(abs(o - float(p)) < unit(p) for o, p in zip(ours[0], row.printed, strict=True))
        return "match" if good else "differs"
    if len(ours) < MIN_SEEDS_FOR_INTERVAL:
        return "too few seeds"
    low, high = np.quantile(ours, INTERVAL, axis=0)
    good = all(a - unit(p) <= float(p) <= b + unit(p) for a, b, p in zip(low, high, row.printed, strict=True))
    return "within interval" if good else "differs"


def unit(printed: str) -> float:
    """Return one unit of the last printed digit.

    >>> unit("0.468"), unit("3.36e-2"), unit("12.63")
    (0.001, 0.0001, 0.01)
    """
    exponent = Decimal(printed).as_tuple().exponent
    assert isinstance(exponent, int)
    return float(Decimal(1).scaleb(exponent))
