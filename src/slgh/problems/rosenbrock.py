r"""Rosenbrock's valley, Appendix D.2 of the paper."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace

from slgh import checks
from slgh.problems.problem import Problem, SmoothedFunction, smoothed_problem


class SmoothRosenbrock(SmoothedFunction):
    r"""The Gaussian smoothing of Rosenbrock's function.

    .. math:: F(x, t) = \sum_i 100\left[(x_{i+1} - x_i^2 - t^2)^2 + t^2 + 4 x_i^2 t^2 + 2 t^4\right] + (1 - x_i)^2 + t^2

    In two variables this is the paper's printed polynomial.
    """

    def value(self, x: Any, t: Any) -> Any:
        a, b, t = x[..., :-1], x[..., 1:], t[..., None]
        r = b - a * a - t * t
        return (100 * (r * r + t * t + 4 * a * a * t * t + 2 * t**4) + (1 - a) ** 2 + t * t).sum(axis=-1)

    def grad(self, x: Any, t: Any) -> Any:
        a, b, t = x[..., :-1], x[..., 1:], t[..., None]
        r = b - a * a - t * t
        forth, back = 400 * a * (2 * t * t - r) - 2 * (1 - a), 200 * r
        xp = array_namespace(x)
        none = xp.zeros_like(back[..., :1])
        return xp.concat([forth, none], axis=-1) + xp.concat([none, back], axis=-1)

    def trace(self, x: Any, t: Any) -> Any:
        a, b, t = x[..., :-1], x[..., 1:], t[..., None]
        return (100 * (2 + 8 * a * a + 8 * t * t - 4 * (b - a * a - t * t)) + 2).sum(axis=-1)


def rosenbrock(d: int = 2) -> Problem:
    r"""Return Rosenbrock's function in d >= 2 variables.

    .. math:: f(x) = \sum_{i=1}^{d-1} 100 (x_{i+1} - x_i^2)^2 + (1 - x_i)^2

    A curved flat valley leads to the minimum f(1, ..., 1) = 0. The start is the paper's (-3, 2), repeated.

    Parameters
    ----------
    d
        Number of variables, at least 2.

    Examples
    --------
    >>> float(rosenbrock(3).fun(np.ones(3)))
    0.0
    """
    checks.count("d", d, 2)
    return smoothed_problem(
        SmoothRosenbrock(),
        name="rosenbrock",
        x0=np.resize([-3.0, 2.0], d),
        minimizers=np.ones((1, d)),
        minimum=0.0,
        parameters={"t1": 1.5, "step": 1e-4, "max_iter": 20000},
    )
