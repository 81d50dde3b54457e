r"""A hill with a long tail: descent never ends, and the gradient vanishes about as slowly as theory allows."""

from __future__ import annotations

import numpy as np

from slgh import checks
from slgh.problems.problem import Problem, smoothed_problem
from slgh.problems.wells import Wells


def slide(d: int = 2) -> Problem:
    r"""Return a sum of hills of widths 2^j and heights 2^(-j/10), j = 0..12, which decays about as :math:`|x|^{-1/10}`.

    The gradient decays as :math:`|x|^{-11/10}`, and descent finds one of size eps after about
    :math:`\epsilon^{-21/11}` iterations (while eps is above 1e-4, where the widest hill ends). This is almost the
    :math:`\epsilon^{-2}` that any smooth function allows. The infimum, 0, is not attained, so `minimizers` is empty.

    Parameters
    ----------
    d
        Number of variables.

    Examples
    --------
    >>> bool(slide().fun(slide().x0) > 5)
    True
    """
    checks.count("d", d)
    j = np.arange(13.0)
    smooth = Wells(np.zeros((len(j), d)), 2.0**j, -(2.0 ** (-j / 10)))
    x0 = np.zeros(d)
    x0[0] = 0.5
    return smoothed_problem(
        smooth,
        name="slide",
        x0=x0,
        minimizers=np.empty((0, d)),
        minimum=0.0,
        parameters={"t1": 1.0, "step": 1 / smooth.L1, "max_iter": 1000},
    )
