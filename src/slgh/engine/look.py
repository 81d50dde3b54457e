"""A look at f before anything else is decided: is it smooth, rugged or noisy along a few lines through the start?"""

from __future__ import annotations

from collections.abc import Generator
from enum import IntEnum

import numpy as np

from slgh.engine.request import Floats, Request

POINTS = 16
"""Points on a line, the start among them."""

LINES = 6
"""So many lines at most."""

SHARE = 0.06
"""And no more of the budget than this share for them."""

REACH = 0.5
"""How long a line is, as a part of the way to a point drawn from the whole region."""

BENDS = 4.5
"""f is rugged where its second differences along a line change their sign this often, by the median over the lines. A
quartic has 2 such changes at most, Rastrigin's function about 6, pure noise 10, of the 13 that are possible. Of the
training functions of benchmarks/coco.py the smooth ones have 4 at most, and the rugged ones 4.5 to 9."""

ROUNDING = 16
"""Differences of so many units in the last place are none."""


class Verdict(IntEnum):
    """What f looks like."""

    SMOOTH = 0
    RUGGED = 1
    NOISY = 2


def affordable_lines(budget: int) -> int:
    """How many lines a budget of evaluations allows: 0 where it is too small to look."""
    return min(LINES, int(SHARE * budget) // (POINTS + 1))


def look(x: Floats, ends: Floats, eps: float) -> Generator[Request, Floats, Verdict]:
    """Ask for f on the lines from x (d,) towards the `ends` (n, d), and judge; `eps` is that of f's numbers.

    Second differences do not see the slope, which in many variables drowns everything else. Where f is asked twice and
    answers differently, it is noisy: at the start, which is on every line, and where each line bends most sharply,
    which is where an outlier would be if most values had no noise.
    """
    n = ends.shape[0]
    points = x + np.linspace(0.0, REACH, POINTS)[None, :, None] * (ends - x)[:, None, :]
    values = yield Request(points.reshape(n * POINTS, -1))
    lines = values.reshape(n, POINTS)
    tiny = ROUNDING * eps
    finite = np.atleast_1d(np.isfinite(lines).all(axis=1))
    with np.errstate(invalid="ignore"):
        sharpest = 1 + np.argmax(np.abs(np.diff(lines, 2)), axis=1)
    again = yield Request(points[np.arange(n), sharpest])
    known, at, second = lines[finite], sharpest[finite], again[finite]
    once = np.stack([known[:, 0], np.take_along_axis(known, at[:, None], axis=1)[:, 0]])
    twice = np.stack([np.broadcast_to(known[:1, 0], second.shape), second])
    if not np.all(np.abs(once - twice) <= tiny * np.max(np.abs(known), axis=1)):
        return Verdict.NOISY
    bends = [_bends(line, tiny) if whole else POINTS for line, whole in zip(lines, finite, strict=True)]
    return Verdict.RUGGED if np.median(bends) >= BENDS else Verdict.SMOOTH


def _bends(line: Floats, tiny: float) -> int:
    """How often the second differences change their sign, those that may be rounding left out."""
    second = np.diff(line, 2)
    second = second[np.abs(second) > tiny * np.max(np.abs(line))]
    return int(np.count_nonzero(np.diff(np.sign(second))))
