r"""The function with a hole, Appendix D.4 of the paper."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace

from slgh import checks
from slgh.problems.problem import Problem


def hole(d: int = 2) -> Problem:
    r"""Return a bowl with a narrow hole that strong smoothing fills.

    .. math:: f(x) = \left\{\begin{matrix} x_1^2 & x_1 \ge 0 \\ x_1^2/50 & x_1 < 0 \end{matrix}\right\}
        - 150 \times 1.1^{-(x_1 - 10)^2 - x_2^2 - \dots - x_d^2}

    The minimum, f(9.319, 0, ...) = -56.670, lies in the hole. A decay of t by a fixed ratio misses it. Following the
    slope in t, as SLGH_d does, finds it.

    Parameters
    ----------
    d
        Number of variables.

    Examples
    --------
    >>> round(float(hole().fun(np.array([9.319, 0.0]))), 3)
    -56.67
    """
    checks.count("d", d)

    def fun(x: Any) -> Any:
        xp = array_namespace(x)
        first, rest = x[..., 0], x[..., 1:]
        bowl = xp.where(first >= 0, first**2, first**2 / 50)
        return bowl - 150 * 1.1 ** -((first - 10) ** 2 + xp.sum(rest * rest, axis=-1))

    start, best = np.zeros(d), np.zeros((1, d))
    start[0], best[0, 0] = 15.0, 9.3187006
    return Problem(
        name="hole",
        fun=fun,
        x0=start,
        minimizers=best,
        minimum=float(fun(best[0])),
        parameters={"t1": 5.0, "step": 0.01, "eta": 0.01, "samples": 10, "max_iter": 1000},
    )
