"""A table of the paper: its rows are run through `minimize` and compared with the printed figures."""

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
from slgh.paper.experiment import Drawing, Findings, Job, Record, Tick
from slgh.plotting.explorer import Box, Explorer, explore
from slgh.plotting.figures import Runs
from slgh.plotting.path import Path, thinned
from slgh.plotting.table import Table
from slgh.problems import Problem
from slgh.result import Result, Status

INTERVAL = (0.025, 0.975)
"""The quantiles between which a printed figure of a stochastic method must lie."""

FEW = 20
"""With fewer seeds there is no such interval to speak of."""

KEPT = 1000
"""How many iterations of a run are kept for the figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of a table of the paper: a method with its parameters, and the figures as they are printed."""

    label: str
    method: str
    x: tuple[str, ...]
    fun: str
    params: Mapping[str, Any] = field(default_factory=dict)
    remark: str = ""
    """Why the row cannot agree, where the paper misprints."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcome:
    """A row that was run over S seeds: where it ended, (S, d) and (S,), and on which way, (k,), (k, S, d), (k, S)."""

    row: Row
    x: NDArray[np.float64]
    fun: NDArray[np.float64]
    iteration: NDArray[np.int64]
    path_x: NDArray[np.float64]
    path_t: NDArray[np.float64]

    @property
    def quantiles(self) -> NDArray[np.float64]:
        """Of x and f, (3, d + 1): the median, and the ends of the interval over seeds."""
        return np.quantile(np.column_stack([self.x, self.fun]), (0.5, *INTERVAL), axis=0)

    def runs(self, problem: Problem) -> Runs:
        """f and t over the iterations, of all seeds."""
        return Runs(
            label=self.row.label, iteration=self.iteration, fun=np.asarray(problem.fun(self.path_x)), t=self.path_t
        )

    def path(self, problem: Problem) -> Path:
        """The way of the seed whose end is the median."""
        s = int(np.argsort(self.fun)[len(self.fun) // 2])
        x = self.path_x[:, s]
        return Path(
            label=self.row.label, iteration=self.iteration, x=x, t=self.path_t[:, s], fun=np.asarray(problem.fun(x))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperTable:
    """A table of the paper, an experiment. `closed_form`: run on the smoothed form, so that nothing is random."""

    name: str
    title: str
    problem: Callable[[], Problem]
    rows: tuple[Row, ...]
    closed_form: bool
    box: Box
    """Where the explorer looks."""
    drawings: Callable[[Problem, Sequence[Outcome]], tuple[Drawing, ...]]
    """The paper's figures."""
    seeds: int = 1

    def jobs(self) -> list[Job]:
        """One for each row."""
        return [Job(label=row.label, run=partial(run_row, self, row)) for row in self.rows]

    def conclude(self, records: Sequence[Record]) -> Findings:
        """Our figures beside the printed ones, the figures and the explorer."""
        problem = self.problem()
        outcomes = [Outcome(row=row, **record) for row, record in zip(self.rows, records, strict=True)]
        return Findings(
            tables=(self.compare(outcomes),),
            data=[self.as_dict(o) for o in outcomes],
            drawings=self.drawings(problem, outcomes),
            explore=partial(self.explore, problem, outcomes),
        )

    def compare(self, outcomes: Sequence[Outcome]) -> Table:
        """The paper's table with ours beside it."""
        over = "" if self.closed_form else f"; ours: median and 95 % interval over {self.seeds} seeds"
        headings = ("method", "paper (x, y)", "paper f", "ours (x, y)", "ours f", "verdict")
        rows = []
        for o in outcomes:
            verdict = judge(self, o.row, o.x, o.fun)
            verdict = verdict if not o.row.remark else f"{verdict}: {o.row.remark}"
            *point, value = (self.shown(*figures) for figures in o.quantiles.T)
            rows.append((o.row.label, ", ".join(o.row.x), o.row.fun, ", ".join(point), value, verdict))
        return Table(title=self.title + over, headings=headings, rows=tuple(rows))

    def shown(self, median: float, low: float, high: float) -> str:
        """A figure of ours, with its interval where there is one."""
        return f"{median:.4g}" if self.closed_form else f"{median:.4g} [{low:.3g}, {high:.3g}]"

    def as_dict(self, outcome: Outcome) -> dict[str, Any]:
        """A row for JSON."""
        row = outcome.row
        return {
            "row": row.label,
            "paper": [*row.x, row.fun],
            "method": row.method,
            "parameters": dict(row.params),
            "seeds": self.seeds,
            **{
                name: {"x": figures[:-1].tolist(), "fun": float(figures[-1])}
                for name, figures in zip(("median", "low", "high"), outcome.quantiles, strict=True)
            },
            "verdict": judge(self, row, outcome.x, outcome.fun),
            "remark": row.remark,
        }

    def explore(self, problem: Problem, outcomes: Sequence[Outcome]) -> Explorer:
        """The homotopy with the way of each method through it."""
        return explore(
            problem.smooth if problem.smooth is not None else problem.fun,
            name=self.name,
            title=self.title,
            box=self.box,
            t1=problem.parameters["t1"],
            paths=[o.path(problem) for o in outcomes],
            minimizers=problem.minimizers,
        )


def run_row(table: PaperTable, row: Row, tick: Tick) -> Record:
    """Run a row over all seeds; Ctrl-C ends it. It takes seconds: a callback to tell of them would double them."""
    result = run(table, row, history="x")
    tick(1.0)
    if (result.status == Status.INTERRUPTED).any():
        raise KeyboardInterrupt
    record = result.history
    keep = thinned(len(record["iteration"]), KEPT)
    return {
        "x": result.x,
        "fun": result.fun,
        "iteration": np.append(record["iteration"][keep], int(result.nit.max())),
        "path_x": np.concatenate([record["x"][keep], result.x[None]]),
        "path_t": np.concatenate([record["t"][keep], result.t[None]]),
    }


def run(table: PaperTable, row: Row, *, asarray: Callable[[NDArray[Any]], Any] = np.asarray, **options: Any) -> Result:
    """Run a row over all seeds in one batch, on arrays that `asarray` makes."""
    problem = table.problem()
    common = dict(problem.parameters)
    params = {name: common.pop(name) for name in ("step", "max_iter")}
    if not table.closed_form:
        params["samples"] = common["samples"]
    result = minimize(
        problem.smooth if table.closed_form else problem.fun,
        asarray(np.tile(problem.x0, (table.seeds, 1))),
        method=row.method,
        batched=True,
        vectorized=True,
        seed=0,
        **params | dict(row.params) | options,
    )
    result.update({name: backend_of(result[name]).host(result[name]) for name in ("x", "fun", "t")})
    return result


def judge(table: PaperTable, row: Row, x: NDArray[Any], fun: NDArray[Any]) -> str:
    """ "match": each figure within one unit of its last printed digit; "within interval"; "differs"; or not known."""
    printed = [*row.x, row.fun]
    ours = np.column_stack([x, fun])
    if table.closed_form:
        good = all(abs(o - float(p)) < unit(p) for o, p in zip(ours[0], printed, strict=True))
        return "match" if good else "differs"
    if len(ours) < FEW:
        return "too few seeds"
    low, high = np.quantile(ours, INTERVAL, axis=0)
    good = all(a - unit(p) <= float(p) <= b + unit(p) for a, b, p in zip(low, high, printed, strict=True))
    return "within interval" if good else "differs"


def unit(printed: str) -> float:
    """One unit of the last printed digit.

    >>> unit("0.468"), unit("3.36e-2"), unit("12.63")
    (0.001, 0.0001, 0.01)
    """
    exponent = Decimal(printed).as_tuple().exponent
    assert isinstance(exponent, int)
    return float(Decimal(1).scaleb(exponent))
