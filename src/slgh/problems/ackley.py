r"""Ackley's function, Appendix D.1 of the paper."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace

from slgh import checks
from slgh.problems.problem import Problem


def ackley(d: int = 2) -> Problem:
    r"""Return Ackley's function in d variables.

    .. math::
        f(x) = -20 \exp\left(-0.2 \sqrt{\tfrac1d \sum x_i^2}\right)
        - \exp\left(\tfrac1d \sum \cos 2\pi x_i\right) + e + 20

    Many small local minima around the global one, f(0) = 0.

    Parameters
    ----------
    d
        Number of variables.

    Notes
    -----
    The paper prints the step size 0.1, with which descent is unstable on the ripple, whose curvature is about 54. Its
    table is reproduced with 0.01 and a minibatch of 1000, which are the `parameters` here.

    >>> bool(abs(ackley(3).fun(np.zeros(3))) < 1e-15)
    True
    """
    checks.count("d", d)

    def fun(x: Any) -> Any:
        xp = array_namespace(x)
        bowl = -20 * xp.exp(-0.2 * xp.sqrt(xp.mean(x * x, axis=-1)))
        return bowl - xp.exp(xp.mean(xp.cos(2 * np.pi * x), axis=-1)) + (np.e + 20)

    return Problem(
        name="ackley",
        fun=fun,
        x0=np.full(d, 5.0),
        minimizers=np.zeros((1, d)),
        minimum=0.0,
        parameters={"t1": 1.0, "step": 0.01, "samples": 1000, "max_iter": 1000},
    )
