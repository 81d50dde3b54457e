"""Repeated values of a noisy function: the share of signal, which of two points is lower, and an average."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from slgh.auto.evaluation import Evaluating, Evaluation, Floats

SIGNAL_VALUES = 20
"""Values at a point, and as many around it, that measure the share of signal. Their spreads have errors of 20 %."""

TRIMMED_LARGEST = 0.2
"""Share of the largest deviations that a spread leaves out, since they may be outliers."""

ROUND = 5
"""Values of each point per round of a race."""

SIGNIFICANT = 2.5
"""A race ends if the ranks of the two samples differ by this many standard deviations. With equal points, this ends one
in 20 races of 6 rounds."""

OUTLIER = 10.0
"""A value this many robust standard deviations away from the median is an outlier. Normal noise has none."""

TRIMMED_EACH_END = 0.2
"""Share of the values that a trimmed mean leaves out at either end. With normal noise, it is as good as the mean of
4 % fewer values. With Cauchy noise, its variance is finite, unlike that of the mean."""


class Average(NamedTuple):
    """Average of the values at a point, and its standard error. Both are infinite if unknown."""

    value: float
    error: float


def signal_share(x: Floats, around: Floats) -> Evaluating[float]:
    """Return the share of the variance of values at the points `around` x (n, d) that is not noise, from 0 to 1."""
    noise = _spread((yield Evaluation(np.repeat(x[None], len(around), axis=0))))
    both = _spread((yield Evaluation(around)))
    return max(0.0, 1 - (noise / both) ** 2) if both > 0 else 0.0


def _spread(values: Floats) -> float:
    """Return the mean absolute deviation of the finite values from their median, without the largest ones."""
    values = values[np.isfinite(values)]
    if not values.size:
        return 0.0
    distance = np.sort(np.abs(values - np.median(values)))
    return float(np.mean(distance[: max(1, round((1 - TRIMMED_LARGEST) * distance.size))]))


def race(old: Floats, new: Floats, budget: int) -> Evaluating[bool]:
    """Evaluate two points (d,) in turn with at most `budget` evaluations. Return True if `new` is lower.

    The ranks of the values decide (Mann and Whitney's test), as in the homotopy: the mean of a noise with a long tail
    follows its few largest values. The race ends early if the difference is significant.
    """
    score, values = 0.0, np.empty((2, 0))
    while budget >= 2:
        n = min(ROUND, budget // 2)
        answer = yield Evaluation(np.repeat([old, new], n, axis=0))
        budget -= 2 * n
        values = np.concatenate([values, np.where(np.isfinite(answer), answer, np.inf).reshape(2, n)], axis=1)
        score = _rank_score(*values)
        if abs(score) >= SIGNIFICANT:
            break
    return bool(score > 0)


def _rank_score(old: Floats, new: Floats) -> float:
    """Return by how many standard deviations the n values `new` are lower than the n values `old`."""
    n = old.size
    wins, losses = np.count_nonzero(new < old[:, None]), np.count_nonzero(new > old[:, None])
    return (wins - losses) / math.sqrt(n * n * (2 * n + 1) / 3)


def average_at(x: Floats, budget: int) -> Evaluating[Average]:
    """Spend all of the budget on values at x (d,), and return their average."""
    values = (yield Evaluation(np.repeat(x[None], budget, axis=0))) if budget > 0 else np.empty(0)
    return average(values)


def average(values: Floats) -> Average:
    """Return the mean of the finite values (n,), or their trimmed mean if there are outliers, and its standard error.

    A mean follows its largest outlier. The error of the trimmed mean is that of Tukey and McLaughlin, from the
    winsorized variance.
    """
    values = np.sort(values[np.isfinite(values)])
    n = values.size
    if not n:
        return Average(math.inf, math.inf)
    cut = int(TRIMMED_EACH_END * n) if has_outliers(values) else 0
    mean = float(np.mean(values[cut : n - cut]))
    if n == 1:
        return Average(mean, math.inf)
    winsorized = np.clip(values, values[cut], values[n - cut - 1])
    return Average(mean, float(np.std(winsorized, ddof=1)) / ((1 - 2 * cut / n) * math.sqrt(n)))


def has_outliers(values: Floats) -> bool:
    """Return True if one of the finite values (n,) is so far from all others that it would dominate their mean."""
    distance = np.abs(values - np.median(values))
    return values.size >= ROUND and bool(distance.max() > OUTLIER * 1.4826 * np.median(distance))
