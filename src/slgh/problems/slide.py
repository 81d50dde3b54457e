r"""A hill with a long tail: descent never arrives, and its gradient vanishes about as slowly as theory allows."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray

from slgh import checks
from slgh.problems.problem import Problem


class Slide:
    r"""Gaussian hills on one spot, and their Gaussian smoothing.

    .. math::
        F(x, t) = \sum_j w_j \left(\frac{s_j^2}{s_j^2 + t^2}\right)^{d/2}
        \exp\left(-\frac{|x|^2}{2 (s_j^2 + t^2)}\right)

    with widths s (n,) and heights w (n,).
    """

    def __init__(self, s: NDArray[Any], w: NDArray[Any]) -> None:
        self.s, self.w = s, w

    @property
    def L0(self) -> float:
        """A Lipschitz constant of f: each hill is nowhere steeper than w e^(-1/2) / s."""
        return float(np.sum(self.w / self.s) * np.exp(-0.5))

    @property
    def L1(self) -> float:
        """A Lipschitz constant of the gradient of f: no hill bends more than w / s^2, at its top."""
        return float(np.sum(self.w / self.s**2))

    @property
    def span(self) -> float:
        """sup f - inf f: the height of the hills, which fall to 0 far away."""
        return float(np.sum(self.w))

    def _terms(self, x: Any, t: Any) -> tuple[Any, Any, Any]:
        """Each hill's value (..., n), |x|^2 (..., 1) and each hill's variance (..., n)."""
        xp = array_namespace(x)
        s, w = (xp.asarray(a, dtype=x.dtype, device=device(x)) for a in (self.s, self.w))
        r2 = (x * x).sum(axis=-1)[..., None]
        v = s**2 + t[..., None] ** 2
        return w * (s**2 / v) ** (x.shape[-1] / 2) * xp.exp(-r2 / (2 * v)), r2, v

    def value(self, x: Any, t: Any) -> Any:
        return self._terms(x, t)[0].sum(axis=-1)

    def grad(self, x: Any, t: Any) -> Any:
        value, _, v = self._terms(x, t)
        return -(value / v).sum(axis=-1)[..., None] * x

    def trace(self, x: Any, t: Any) -> Any:
        value, r2, v = self._terms(x, t)
        return (value / v * (r2 / v - x.shape[-1])).sum(axis=-1)

    def dt(self, x: Any, t: Any) -> Any:
        return t * self.trace(x, t)


def slide(d: int = 2) -> Problem:
    r"""Hills of widths 2^j and heights 2^(-j/10), j = 0..12, whose sum falls about as :math:`|x|^{-1/10}`.

    So the gradient falls as :math:`|x|^{-11/10}`, and descent finds one of size eps after about
    :math:`\epsilon^{-21/11}` iterations (while it is above 1e-4, where the widest hill ends): almost the
    :math:`\epsilon^{-2}` that any smooth function allows. The infimum, 0, is nowhere attained: `minimizers` is empty.

    >>> bool(slide().fun(slide().x0) > 5)
    True
    """
    checks.count("d", d)
    j = np.arange(13.0)
    smooth = Slide(2.0**j, 2.0 ** (-j / 10))
    x0 = np.zeros(d)
    x0[0] = 0.5
    return Problem(
        name="slide",
        fun=lambda x: smooth.value(x, 0 * x[..., 0]),
        grad=lambda x: smooth.grad(x, 0 * x[..., 0]),
        smooth=smooth,
        x0=x0,
        minimizers=np.empty((0, d)),
        minimum=0.0,
        parameters={"t1": 1.0, "step": 1 / smooth.L1, "max_iter": 1000},
    )
