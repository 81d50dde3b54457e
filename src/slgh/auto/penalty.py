"""Exact penalty: a homotopy on f plus a price for violations, from values of f and its constraints."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from slgh.auto.evaluation import Evaluating, Floats
from slgh.engine.constraints import Constraints, Rows, excess

T = TypeVar("T")

PRICE = 10.0
"""Price of a typical violation, in units of the spread of f. Both are those of the first samples."""


def penalized(search: Evaluating[T], constraints: Constraints, price: float = PRICE) -> Evaluating[T]:
    """Run a search on f + price * violations. It gets the values that the answers of the engine lead to.

    The unit of a constraint is the median of its violations among the first samples, so that all constraints count
    alike, and that of f the distance between its quartiles. A NaN stays NaN.
    """
    units: Floats | None = None
    try:
        evaluation = next(search)
        while True:
            answer = yield evaluation
            rows = constraints.rows(answer, evaluation.points)
            if units is None:
                units = price * _units(rows)
            violations = np.where(np.isfinite(rows.c), excess(rows.c, rows.low, rows.high), np.nan)
            evaluation = search.send(rows.f + violations @ units)
    except StopIteration as end:
        found: T = end.value
        return found
    finally:
        search.close()


def _units(rows: Rows) -> Floats:
    """Return the spread of f over the typical violation of each constraint, (m,)."""
    f = rows.f[np.isfinite(rows.f)]
    spread = float(np.subtract(*np.quantile(f, [0.75, 0.25]))) if f.size else 0.0
    spread = spread or (float(np.abs(f).max(initial=0.0)) or 1.0)
    violations = excess(rows.c, rows.low, rows.high)
    violations = np.where(np.isfinite(violations) & (violations > 0), violations, np.nan)
    typical = np.array([np.median(v[~np.isnan(v)]) if (~np.isnan(v)).any() else 1.0 for v in violations.T])
    return spread / typical
