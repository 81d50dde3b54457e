r"""Gaussian wells: bounded, Lipschitz and smooth, as the paper's Assumption A1 requires."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from slgh import checks
from slgh.problems.problem import Problem, SmoothedFunction, smoothed_problem
from slgh.protocols import device_of


class Wells(SmoothedFunction):
    r"""A sum of Gaussian wells, and its Gaussian smoothing: the wells widen and flatten.

    .. math::
        F(x, t) = -\sum_j w_j \left(\frac{s_j^2}{s_j^2 + t^2}\right)^{d/2}
        \exp\left(-\frac{|x - c_j|^2}{2 (s_j^2 + t^2)}\right)

    with centers c (n, d), widths s (n,) and depths w (n,); a hill has a negative depth.
    """

    def __init__(self, c: NDArray[Any], s: NDArray[Any], w: NDArray[Any]) -> None:
        self.c, self.s, self.w = c, s, w

    @property
    def L0(self) -> float:
        """Lipschitz constant of f, and by Lemma 3.2 of F(., t)."""
        return float(np.sum(np.abs(self.w) / self.s) * np.exp(-0.5))

    @property
    def L1(self) -> float:
        """Lipschitz constant of the gradient of f, and by Lemma 3.2 of that of F(., t)."""
        return float(np.sum(np.abs(self.w) / self.s**2))

    @property
    def span(self) -> float:
        """Upper bound of sup f - inf f: the sum of all depths and heights."""
        return float(np.sum(np.abs(self.w)))

    def _terms(self, x: Any, t: Any) -> tuple[Any, Any, Any]:
        """Return each well's value (..., n), offset (..., n, d) and variance (..., n)."""
        xp = array_namespace(x)
        c, s, w = (xp.asarray(a, dtype=x.dtype, device=device_of(x)) for a in (self.c, self.s, self.w))
        z = x[..., None, :] - c
        v = s**2 + t[..., None] ** 2
        value = w * (s**2 / v) ** (x.shape[-1] / 2) * xp.exp(-(z * z).sum(axis=-1) / (2 * v))
        return value, z, v

    def value(self, x: Any, t: Any) -> Any:
        return -self._terms(x, t)[0].sum(axis=-1)

    def grad(self, x: Any, t: Any) -> Any:
        value, z, v = self._terms(x, t)
        return ((value / v)[..., None] * z).sum(axis=-2)

    def trace(self, x: Any, t: Any) -> Any:
        value, z, v = self._terms(x, t)
        return (value / v * (x.shape[-1] - (z * z).sum(axis=-1) / v)).sum(axis=-1)


def wells(d: int = 2) -> Problem:
    """Return a deep wide well at the origin between two shallow narrow ones, at (3, 0, ...) and (-2, -2, ...).

    Descent from the start, close to a shallow well, stays in it. After smoothing with t = 2 only the deep one is left.

    Parameters
    ----------
    d
        Number of variables.

    Examples
    --------
    >>> bool(wells().minimum < -1)
    True
    """
    checks.count("d", d)
    c = np.zeros((3, d))
    c[1, 0], c[2, :] = 3.0, -2.0 * (2 / d) ** 0.5
    smooth = Wells(c, np.array([1.0, 0.4, 0.4]), np.array([1.0, 0.4, 0.3]))
    best = np.zeros((1, d))
    for _ in range(100):
        best -= smooth.grad(best, np.zeros(1))
    x0 = np.zeros(d)
    x0[0] = 3.5
    return smoothed_problem(
        smooth,
        name="wells",
        x0=x0,
        minimizers=best,
        minimum=float(smooth.value(best[0], np.zeros(()))),
        parameters={"t1": 2.0, "step": 0.1, "max_iter": 1000},
    )
