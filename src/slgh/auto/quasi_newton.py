"""L-BFGS-B as a generator: SciPy's compiled solver, driven one evaluation at a time.

`scipy.optimize.minimize` calls the function from inside the solver. A run that waits there for a value would need a
thread of its own. SciPy's compiled routine instead returns whenever it needs a value, so it can be suspended anywhere.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np

from slgh.auto.evaluation import Floats

EPS = float(np.finfo(float).eps)

MAX_LINE_SEARCH_STEPS = 20
"""SciPy's default."""

SMALLEST_CUT = 1e-6
"""Smallest share of a step that is left by one cut. Numbers must not overflow."""

NEW_ITERATION = 1
"""Code in `task[0]`: the solver has finished an iteration."""

EVALUATE = 3
"""Code in `task[0]`: the solver needs f and its gradient at x. All other codes mean that it has ended."""


def lbfgsb(
    x: Floats, low: Floats, high: Floats, *, memory: int, tolerance: float, reach: float
) -> Generator[Floats, tuple[float, Floats], None]:
    """Minimize from x (d,): yield points within the bounds, receive f and its gradient (d,), return at convergence.

    Parameters
    ----------
    low, high
        Bounds (d,), infinite if there is none.
    memory
        Number of correction pairs that approximate the Hessian.
    tolerance
        Stop when a step lowers f by no more than this, relative to max(|f|, 1).
    reach
        Maximum move of a variable in one step. It doubles when a step that was cut to it has lowered f.
    """
    # SciPy's private module. It is imported here, so that a SciPy without it fails in local searches only.
    from scipy.optimize import _lbfgsb

    setulb: Any = _lbfgsb.setulb  # its stub requires arrays where it takes numbers
    n, m = x.size, memory
    bounded_low, bounded_high = np.isfinite(low), np.isfinite(high)
    # 0: unbounded, 1: lower bound only, 2: both, 3: upper bound only.
    kind = np.where(bounded_low, np.where(bounded_high, 2, 1), np.where(bounded_high, 3, 0)).astype(np.int32)
    lower, upper = np.where(bounded_low, low, 0.0), np.where(bounded_high, high, 0.0)
    x = np.clip(x, low, high)
    f, g = 0.0, np.zeros(n)
    # The routine's memory, in the sizes that it requires.
    work, integers = np.zeros(2 * m * n + 5 * n + 11 * m * m + 8 * m), np.zeros(3 * n, np.int32)
    task, line_task = np.zeros(2, np.int32), np.zeros(2, np.int32)
    saved = np.zeros(4, np.int32), np.zeros(44, np.int32), np.zeros(29)
    latest: tuple[Floats, float, Floats] | None = None  # last evaluation: point, f and gradient
    start, f_start, g_start, was_cut = x.copy(), f, g, False  # of the current line search
    while True:
        setulb(
            *(m, x, lower, upper, kind, f, g, tolerance / EPS, 0.0, work, integers),
            *(task, *saved, MAX_LINE_SEARCH_STEPS, line_task),
        )
        # The routine updates x, the work arrays and `task` in place.
        if task[0] == EVALUATE:
            move = x - start
            longest = float(np.max(np.abs(move)))
            if reach < longest < np.inf:
                # Too far to evaluate. Pretend that f is a parabola along the step, with its minimum within reach: the
                # line search tries that point next. (A minimum beyond half the step could pass for a success.)
                slope, share = float(g_start @ move), min(0.5, max(reach / longest, SMALLEST_CUT))
                f, g, was_cut = f_start + slope * (1 - 0.5 / share), g_start * (1 - 1 / share), True
                continue
            if latest is None or not np.array_equal(x, latest[0]):  # a restarted line search repeats its first point
                value, gradient = yield x.copy()
                first, latest = latest is None, (x.copy(), value, np.array(gradient, float))
                if first:
                    start, f_start, g_start = latest
            _, f, g = latest
        elif task[0] == NEW_ITERATION:
            start, f_start, g_start = x.copy(), f, g
            reach, was_cut = 2 * reach if was_cut else reach, False
        else:
            return
