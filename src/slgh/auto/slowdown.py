"""End a local search that has slowed down, so that a homotopy gets a share of a small budget.

In many variables a bowl can hide the ripples on it from the landscape check. A local search then settles between the
ripples, and its last improvements take the rest of the budget.
"""

from __future__ import annotations

import math

from slgh.auto.evaluation import Evaluating
from slgh.auto.local_search import LocalMinimum

GAIN_SHARES = (0.3, 0.45, 0.6)
"""Shares of the budget at which the lowest value is noted. A search that still descends gains at least 0.23 times as
much between 0.45 and 0.6 as between 0.3 and 0.45. One that is stuck between ripples gains at most 0.084 times as much.
This was measured on the training functions of benchmarks/coco.py and on rippled spheres, in 160 and 640 variables."""

SLOW_GAIN_RATIO = 0.15
"""A search has slowed down if the gain of the second interval is less than this share of that of the first."""


def end_if_slow(search: Evaluating[LocalMinimum], budget: int) -> Evaluating[LocalMinimum]:
    """Run a local search that has this budget, and end it at the last of GAIN_SHARES if it has slowed down."""
    marks: list[float] = []
    used, lowest = 0, math.inf
    try:
        evaluation = next(search)
        while True:
            values = yield evaluation
            for x, value in zip(evaluation.points, values.tolist(), strict=True):
                if value < lowest:
                    lowest, lowest_x = value, x
            used += len(values)
            while len(marks) < len(GAIN_SHARES) and used >= GAIN_SHARES[len(marks)] * budget:
                marks.append(lowest)
                if len(marks) == len(GAIN_SHARES) and marks[1] - marks[2] < SLOW_GAIN_RATIO * (marks[0] - marks[1]):
                    return LocalMinimum(lowest_x, lowest, False)
            evaluation = search.send(values)
    except StopIteration as end:
        found: LocalMinimum = end.value
        return found
    finally:
        search.close()
