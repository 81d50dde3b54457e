"""Exact values of a function with outliers: a point is evaluated again until two of its values agree.

If most values have no noise, two equal ones have none. A search on such values is a search without noise, for about
AGREEMENT_COST evaluations per value. Averages cannot do this: one gross outlier among n values moves their mean by 1/n
of its size. The median of three is exact as often as two of three agree, but two evaluations are mostly enough.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slgh.auto.evaluation import Evaluating, Evaluation, Floats
from slgh.auto.local_search import LocalMinimum

AGREEMENT_COST = 2.5
"""Evaluations per value if 20 % of the values are outliers: 2 + 0.36 + 0.10 + ..."""

MAX_VALUES = 6
"""Maximum number of values of one point. If no two of them agree, its value is unknown (NaN). With 20 % of outliers,
this happens at one point in 600."""

ROUNDING_ULPS = 16
"""Values that differ by at most this many ulps agree."""


class Agreed(NamedTuple):
    """Values (n,) that two evaluations have returned, NaN if none, and the number of evaluations."""

    values: Floats
    used: int


def agreed_values(
    evaluation: Evaluation, eps: float, budget: float = math.inf, seen: Floats | None = None
) -> Evaluating[Agreed]:
    """Evaluate points until two values of each agree, with at most `budget` evaluations.

    Parameters
    ----------
    eps
        Machine epsilon of x.
    seen
        Values of the points (n, k) that are already known, all different.
    """
    used = 0
    if seen is None:
        seen = (yield evaluation)[:, None]
        used = len(seen)
    values, unknown = np.full(len(seen), np.nan), np.arange(len(seen))
    while unknown.size and seen.shape[1] < MAX_VALUES and used + unknown.size <= budget:
        again = yield Evaluation(evaluation.points[unknown])
        used += again.size
        agree = agrees(seen, again[:, None], eps).any(axis=1)
        values[unknown[agree]] = again[agree]
        unknown, seen = unknown[~agree], np.column_stack([seen, again])[~agree]
    return Agreed(values, used)


def agrees(a: Floats, b: Floats, eps: float) -> NDArray[np.bool_]:
    """Return True where two values agree. All values that are not finite agree with each other."""
    with np.errstate(invalid="ignore", over="ignore"):
        near = np.abs(a - b) <= ROUNDING_ULPS * eps * np.abs(b)
    return np.where(np.isfinite(a) & np.isfinite(b), near, np.isfinite(a) == np.isfinite(b))


def search_agreed(search: Evaluating[LocalMinimum], budget: int, eps: float) -> Evaluating[LocalMinimum]:
    """Run a local search on values that agree. It ends early if `budget` does not allow its next values."""
    lowest, lowest_x = math.inf, None
    try:
        evaluation = next(search)
        while 2 * len(evaluation.points) <= budget:
            found = yield from agreed_values(evaluation, eps, budget)
            budget -= found.used
            for x, value in zip(evaluation.points, found.values.tolist(), strict=True):
                if math.isfinite(value) and value < lowest:
                    lowest, lowest_x = value, x
            evaluation = search.send(found.values)
    except StopIteration as end:
        minimum: LocalMinimum = end.value
        return minimum
    finally:
        search.close()
    return LocalMinimum(evaluation.points[0] if lowest_x is None else lowest_x, lowest, False)
