r"""Himmelblau's function, Appendix D.3 of the paper."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace

from slgh.problems.problem import Problem, SmoothedFunction, smoothed_problem


class SmoothHimmelblau(SmoothedFunction):
    r"""The Gaussian smoothing of Himmelblau's function, as the paper prints it.

    .. math::
        F = x^4 + (2y + 6t^2 - 21)x^2 + (2y^2 + 2t^2 - 14)x + y^4 + (6t^2 - 13)y^2 + (2t^2 - 22)y
        + (6t^4 - 34t^2 + 170)
    """

    def value(self, x: Any, t: Any) -> Any:
        # The order differs from the printed one: at t = 0 this is bit-equal to f as a sum of squares.
        x, y, s = x[..., 0], x[..., 1], t * t
        f = (x**2 + y - 11) ** 2 + (x + y**2 - 7) ** 2
        return f + s * (6 * x**2 + 2 * x + 6 * y**2 + 2 * y - 34 + 6 * s)

    def grad(self, x: Any, t: Any) -> Any:
        xp = array_namespace(x)
        x, y, s = x[..., 0], x[..., 1], t * t
        return xp.stack(
            [
                4 * x**3 + 2 * (2 * y + 6 * s - 21) * x + 2 * y**2 + 2 * s - 14,
                2 * x**2 + 4 * x * y + 4 * y**3 + 2 * (6 * s - 13) * y + 2 * s - 22,
            ],
            axis=-1,
        )

    def trace(self, x: Any, t: Any) -> Any:
        x, y = x[..., 0], x[..., 1]
        return 12 * x**2 + 4 * x + 12 * y**2 + 4 * y + 24 * t * t - 68


def himmelblau() -> Problem:
    r"""Return Himmelblau's function.

    .. math:: f(x, y) = (x^2 + y - 11)^2 + (x + y^2 - 7)^2

    Four global minima with f = 0, and a local maximum near (-0.271, -0.923) to which strong smoothing leads.

    >>> float(himmelblau().fun(np.array([3.0, 2.0])))
    0.0
    """
    return smoothed_problem(
        SmoothHimmelblau(),
        name="himmelblau",
        x0=np.array([5.0, 5.0]),
        minimizers=np.array([[3.0, 2.0], [-2.805118, 3.131313], [-3.779310, -3.283186], [3.584428, -1.848127]]),
        minimum=0.0,
        parameters={"t1": 2.0, "step": 1e-4, "max_iter": 2000},
    )
