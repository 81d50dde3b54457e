"""Landscape check: is f smooth, rugged, singular or noisy along a few lines from the start?"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from slgh.auto.agreement import agreed_values, agrees
from slgh.auto.evaluation import Evaluating, Evaluation, Floats

POINTS = 16
"""Points per line, the start included."""

MAX_LINES = 6

MAX_SHARE = 0.06
"""Maximum share of the budget. If f is noisy, all lines are evaluated once more."""

LINE_LENGTH = 0.5
"""Length of a line, as a share of the way to a random point of the region. In many variables the bowl under the ripples
begins to hide them: in 640 variables the training function f3 counts as smooth in 3 of 40 draws. Lines of half the
length would see its ripples, but not those of Rastrigin's function, which are wider."""

RUGGED_SIGN_CHANGES = 4.5
"""f is rugged if the median number of sign changes of its second differences along a line is at least this. A quartic
has at most 2, Rastrigin's function about 6, pure noise 10, and 13 are possible. In 40 draws on the training functions
of benchmarks/coco.py in 20, 40 and 160 variables, f3, f15 and f17 always count as rugged. Of the smooth ones, those
with the most sign changes, f2 and f10, do so in at most 4 draws."""

OUTLIERS_MAX_UNEQUAL = 0.5
"""f has outliers, instead of noise everywhere, if at most this share of its points has two values that differ. That is
the case with up to 29 % of outliers. A search on values that agree would need too many evaluations with more."""

OUTLIERS_MIN_DISTINCT = 0.5
"""Minimum share of distinct values on the lines for outliers. Noisy counts of a few events agree by chance."""

POLE_RATIO = 40.0
"""f has poles if its largest value is this many interquartile ranges above the median, over all lines. About 95 % of
the draws exceed it on clusters of 10 to 18 atoms (powers -10 and -6 of the distance, Morse with rho of 6 and 14). On
the training functions of benchmarks/coco.py in 2 to 40 variables the largest of 330 draws is 15, on ions in a trap,
Gaussian mixtures, Rastrigin's function and a small network 12."""

POLE_MAX_REPEATS = 3
"""Maximum number of values above half of the largest one, measured from the median. More are a wall of constant height,
such as a penalty, where gradients are small."""

ROUNDING_ULPS = 16
"""Differences below this many ulps count as zero."""


class Landscape(IntEnum):
    """Shape of f along lines from the start."""

    SMOOTH = 0
    RUGGED = 1
    NOISY = 2
    SMOOTH_WITH_OUTLIERS = 3
    """Most values have no noise, and f is smooth beneath the others."""
    RUGGED_WITH_OUTLIERS = 4
    SINGULAR = 5
    """A few values are far above all others, as near a pole."""

    @property
    def rugged(self) -> bool:
        """True if f is rugged, with or without outliers."""
        return self in (Landscape.RUGGED, Landscape.RUGGED_WITH_OUTLIERS)

    @property
    def has_outliers(self) -> bool:
        """True if most values have no noise, but not all."""
        return self in (Landscape.SMOOTH_WITH_OUTLIERS, Landscape.RUGGED_WITH_OUTLIERS)

    @property
    def words(self) -> str:
        """Name for a message."""
        return self.name.lower().replace("_", " ")


def affordable_lines(budget: int) -> int:
    """Return the number of lines that a budget of evaluations allows, 0 if it is too small."""
    return min(MAX_LINES, int(MAX_SHARE * budget) // (POINTS + 1))


def check_landscape(x: Floats, ends: Floats, eps: float, *, gradients: bool = False) -> Evaluating[Landscape]:
    """Evaluate f on the lines from x (d,) toward the `ends` (n, d), and classify it.

    Second differences do not contain the slope, which in many variables hides everything else. f is noisy if it returns
    different values at the same point. Two kinds of points are evaluated again: the start, which is on every line, and
    the point of each line with the largest second difference, where an outlier would be if most values had no noise.

    Parameters
    ----------
    eps
        Machine epsilon of x.
    gradients
        True if the run has gradients. Then poles are seen, and outliers are not distinguished from other noise.
    """
    n = len(ends)
    share = np.linspace(0.0, LINE_LENGTH, POINTS)[None, :, None]
    points = x + share * (ends - x)[:, None, :]
    points = np.where(np.isfinite(points), points, (1 - share) * x + share * ends[:, None, :])  # ends - x may overflow
    values = yield Evaluation(points.reshape(n * POINTS, -1))
    lines = _known(values.reshape(n, POINTS))
    with np.errstate(over="ignore"):
        second = _known(np.diff(lines, 2))
    rounding = ROUNDING_ULPS * _precision(lines, eps) * np.fmax.reduce(np.abs(lines), axis=1)
    sharpest = 1 + np.argmax(np.nan_to_num(np.abs(second)), axis=1)
    again = yield Evaluation(points[np.arange(n), sharpest])
    starts = np.broadcast_to(lines[0, 0], n)
    if not (_same(lines[:, 0], starts, rounding) and _same(lines[np.arange(n), sharpest], _known(again), rounding)):
        if gradients:
            return Landscape.NOISY
        return (yield from _check_outliers(points, values.reshape(n, POINTS), eps))
    if gradients and has_poles(lines):
        return Landscape.SINGULAR
    return Landscape.RUGGED if _is_rugged(second, rounding) else Landscape.SMOOTH


def _check_outliers(points: Floats, lines: Floats, eps: float) -> Evaluating[Landscape]:
    """Classify a noisy f by its values on lines (n, POINTS), at points (n, POINTS, d).

    If most values have no noise, the lines are evaluated again, until two values of each point agree.
    """
    n = len(lines)
    starts = lines[:, 0]
    # Noise everywhere makes all values at the start distinct. Outliers do so half the time if they are 70 % of them.
    if n > 1 and len(np.unique(starts)) == n:
        return Landscape.NOISY
    first, rest = lines.ravel(), points.reshape(n * POINTS, -1)
    again = yield Evaluation(rest)
    unequal = ~agrees(first, again, eps)
    distinct = len(np.unique(first)) / first.size
    if np.mean(unequal) > OUTLIERS_MAX_UNEQUAL or distinct < OUTLIERS_MIN_DISTINCT:
        return Landscape.NOISY
    exact = first.copy()
    found = yield from agreed_values(Evaluation(rest[unequal]), eps, seen=np.stack([first, again], axis=1)[unequal])
    exact[unequal] = found.values
    exact = _known(exact.reshape(n, POINTS))
    with np.errstate(over="ignore"):
        second = _known(np.diff(exact, 2))
    rounding = ROUNDING_ULPS * _precision(exact, eps) * np.fmax.reduce(np.abs(exact), axis=1)
    return Landscape.RUGGED_WITH_OUTLIERS if _is_rugged(second, rounding) else Landscape.SMOOTH_WITH_OUTLIERS


def has_poles(values: Floats) -> bool:
    """Return True if a few finite values are far above all others."""
    finite = values[np.isfinite(values)]
    if finite.size == 0:
        return False
    with np.errstate(over="ignore"):
        low, middle, high = np.quantile(finite, [0.25, 0.5, 0.75])
        height = finite - middle
        far = np.max(height) > POLE_RATIO * (high - low) > 0
    return bool(far and np.count_nonzero(height > np.max(height) / 2) <= POLE_MAX_REPEATS)


def _is_rugged(second: Floats, rounding: Floats) -> bool:
    """Return True if the second differences (n, POINTS - 2) change sign often. `rounding` (n,) counts as zero."""
    changes = [_sign_changes(*line) for line in zip(second, rounding, strict=True)]
    return bool(np.median(changes) >= RUGGED_SIGN_CHANGES)


def _known(values: Floats) -> Floats:
    """Replace values that are not finite by NaN."""
    return np.where(np.isfinite(values), values, np.nan)


def _precision(values: Floats, eps: float) -> float:
    """Return the machine epsilon of f's values. If all fit into single precision, f is computed in it.

    Such values are mostly sums of many terms, which depend on the number of points per call. Hence the factor 4:
    without it, one of 40 networks with 784 inputs counted as noisy.
    """
    with np.errstate(over="ignore"):
        single = values.astype(np.float32) == values
    return max(eps, 4 * float(np.finfo(np.float32).eps)) if np.all(single | np.isnan(values)) else eps


def _same(once: Floats, twice: Floats, rounding: Floats) -> bool:
    """Return True if two evaluations agree up to rounding. NaN equals NaN."""
    return bool(np.all((np.abs(once - twice) <= rounding) | (np.isnan(once) & np.isnan(twice))))


def _sign_changes(second: Floats, rounding: float) -> int:
    """Count sign changes of second differences above rounding. If some are unknown, return a large count."""
    if np.isnan(second).any():
        return POINTS
    return int(np.count_nonzero(np.diff(np.sign(second[np.abs(second) > rounding]))))
