"""How much of the differences between values of a noisy function is noise."""

from __future__ import annotations

import numpy as np

from slgh.auto.evaluation import Evaluating, Evaluation, Floats

VALUES = 20
"""Values at the point, and as many around it. Their spreads have errors of about 20 %."""

TRIMMED = 0.2
"""Share of the largest deviations that a spread leaves out, since they may be outliers."""


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
    return float(np.mean(distance[: max(1, round((1 - TRIMMED) * distance.size))]))
