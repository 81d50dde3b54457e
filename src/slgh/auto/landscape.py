"""A look at f before anything else is decided: is it smooth, rugged or noisy along a few lines through the start?"""

from __future__ import annotations

from collections.abc import Generator
from enum import IntEnum

import numpy as np

from slgh.auto.request import Floats, Request

POINTS = 16
"""Points on a line, the start among them."""

LINES = 6
"""So many lines at most."""

SHARE = 0.06
"""And no more of the budget than this share for them."""

REACH = 0.5
"""How long a line is, as a part of the way to a point drawn from the whole region. In many variables the bowl under the
ripples begins to drown them: of 40 draws in 640 variables the training function f3 is taken for smooth in 3. Half as
long a line would see them there, but not those of Rastrigin's function, which are wider."""

BENDS = 4.5
"""f is rugged where its second differences along a line change their sign this often, by the median over the lines. A
quartic has 2 such changes at most, Rastrigin's function about 6, pure noise 10, of the 13 that are possible. Of 40
draws on the training functions of benchmarks/coco.py in 20, 40 and 160 variables, f3, f15 and f17 are taken for rugged
in all, and of the smooth ones those with the most bends, f2 and f10, in 4 at most."""

ROUNDING = 16
"""Differences of so many units in the last place are none."""


class Landscape(IntEnum):
    """What f looks like."""

    SMOOTH = 0
    RUGGED = 1
    NOISY = 2


def affordable_lines(budget: int) -> int:
    """How many lines a budget of evaluations allows: 0 where it is too small to look."""
    return min(LINES, int(SHARE * budget) // (POINTS + 1))


def look(x: Floats, ends: Floats, eps: float) -> Generator[Request, Floats, Landscape]:
    """Ask for f on the lines from x (d,) toward the `ends` (n, d), and judge; `eps` is that of f's numbers.

    Second differences do not see the slope, which in many variables drowns everything else. Where f is asked twice and
    answers differently, it is noisy: at the start, which is on every line, and where each line bends most sharply,
    which is where an outlier would be if most values had no noise.
    """
    n = len(ends)
    share = np.linspace(0.0, REACH, POINTS)[None, :, None]
    points = x + share * (ends - x)[:, None, :]
    points = np.where(np.isfinite(points), points, (1 - share) * x + share * ends[:, None, :])  # ends - x may overflow
    values = yield Request(points.reshape(n * POINTS, -1))
    lines = _known(values.reshape(n, POINTS))
    with np.errstate(over="ignore"):
        second = _known(np.diff(lines, 2))
    rounding = ROUNDING * _eps(lines, eps) * np.fmax.reduce(np.abs(lines), axis=1)
    sharpest = 1 + np.argmax(np.nan_to_num(np.abs(second)), axis=1)
    again = yield Request(points[np.arange(n), sharpest])
    starts = np.broadcast_to(lines[0, 0], n)
    if not (_same(lines[:, 0], starts, rounding) and _same(lines[np.arange(n), sharpest], _known(again), rounding)):
        return Landscape.NOISY
    bends = [_bends(*line) for line in zip(second, rounding, strict=True)]
    return Landscape.RUGGED if np.median(bends) >= BENDS else Landscape.SMOOTH


def _known(values: Floats) -> Floats:
    """The values, NaN where they are not finite."""
    return np.where(np.isfinite(values), values, np.nan)


def _eps(values: Floats, eps: float) -> float:
    """That of f's numbers: where all are numbers of single precision, they were computed so, whatever their type is.

    Four times that, since such values are mostly sums of many terms, which depend on how many points f is asked for at
    once: of 40 networks of 784 inputs one was taken for noisy without it.
    """
    with np.errstate(over="ignore"):
        single = values.astype(np.float32) == values
    return max(eps, 4 * float(np.finfo(np.float32).eps)) if np.all(single | np.isnan(values)) else eps


def _same(once: Floats, twice: Floats, rounding: Floats) -> bool:
    """Whether f has answered the same twice; NaN is the same as NaN."""
    return bool(np.all((np.abs(once - twice) <= rounding) | (np.isnan(once) & np.isnan(twice))))


def _bends(second: Floats, rounding: float) -> int:
    """How often second differences change their sign, but for rounding; where not all are known, more than possible."""
    if np.isnan(second).any():
        return POINTS
    return int(np.count_nonzero(np.diff(np.sign(second[np.abs(second) > rounding]))))
