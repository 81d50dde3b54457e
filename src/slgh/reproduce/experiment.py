"""An experiment of the paper: declared as rows, run through `minimize`, compared with the printed figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slgh.backends import backend_of
from slgh.minimize import minimize
from slgh.problems import Problem
from slgh.result import Result

INTERVAL = (0.025, 0.975)
"""The quantiles between which a printed figure of a stochastic method must lie."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A table of the paper. `closed_form`: run on the smoothed form, so that nothing is random."""

    name: str
    title: str
    problem: Callable[[], Problem]
    rows: tuple[Row, ...]
    closed_form: bool
    seeds: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A row that was run: its result over all seeds, and how it compares."""

    row: Row
    result: Result
    verdict: str

    @property
    def x(self) -> NDArray[Any]:
        """The median solution."""
        return np.asarray(np.median(self.result.x, axis=0))

    @property
    def fun(self) -> tuple[float, float, float]:
        """f: the median, and the ends of the interval over seeds."""
        low, middle, high = np.quantile(self.result.fun, (INTERVAL[0], 0.5, INTERVAL[1]))
        return float(middle), float(low), float(high)


def run_row(
    experiment: Experiment, row: Row, *, asarray: Callable[[NDArray[Any]], Any] = np.asarray, **options: Any
) -> Outcome:
    """Run a row over all seeds in one batch, on arrays that `asarray` makes."""
    problem = experiment.problem()
    common = dict(problem.parameters)
    params = {name: common.pop(name) for name in ("step", "max_iter")}
    if not experiment.closed_form:
        params["samples"] = common["samples"]
    result = minimize(
        problem.smooth if experiment.closed_form else problem.fun,
        asarray(np.tile(problem.x0, (experiment.seeds, 1))),
        method=row.method,
        batched=True,
        vectorized=True,
        seed=0,
        **params | dict(row.params) | options,
    )
    result.update({name: backend_of(result[name]).host(result[name]) for name in ("x", "fun")})
    return Outcome(row=row, result=result, verdict=judge(experiment, row, result))


def judge(experiment: Experiment, row: Row, result: Result) -> str:
    """ "match": each figure within one unit of its last printed digit; "within interval"; or "differs"."""
    printed = [*row.x, row.fun]
    ours = np.column_stack([result.x, result.fun])
    if experiment.closed_form:
        good = all(abs(o - float(p)) < unit(p) for o, p in zip(ours[0], printed, strict=True))
        return "match" if good else "differs"
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
