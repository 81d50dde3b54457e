r"""Probabilities of the cells of the unit cube under the noise of the homotopy.

A run evaluates f at P(z + t u), where u ~ N(0, 1) and P reflects into [0, 1]. An integer is constant on a cell of
[0, 1], and a category is the largest of several variables. So F(z, t), the mean of f, is the sum of f over the values,
weighted by their probabilities. These are smooth in z for t > 0, although f has steps.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

UNIFORM_T = 4.0
"""From this t on, a reflected normal variable is uniform up to 2 exp(-pi^2 t^2 / 2) < 1e-33."""

TAIL = 9.0
"""Normal tails beyond this many standard deviations are below the precision of a double."""

NODES = 24
"""Gauss-Legendre nodes per panel. Panels end at z and at z +- 1, 2, 4 and 8 t, so the integrand is nearly a polynomial
on each."""

PANEL_ENDS = (-8.0, -4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0, 8.0)


def _normal_cdf(x: Floats) -> Floats:
    from scipy.special import ndtr  # here, since `import slgh.space` must stay light

    return np.asarray(ndtr(x))


def _images(t: float) -> NDArray[np.int64]:
    """Return the periods m of the reflection, of length 2, that the noise reaches."""
    reach = math.ceil(1 + TAIL * t / 2)
    return np.arange(-reach, reach + 1)


def reflected_cdf(s: Floats, z: float, t: float) -> Floats:
    r"""Return the probability of P(z + t u) <= s, for s (n,) in [0, 1].

    P maps the intervals [2m - s, 2m + s] to [0, s], so that it is
    :math:`\sum_m \Phi((2m + s - z) / t) - \Phi((2m - s - z) / t)`.
    """
    s = np.asarray(s, float)
    if t <= 0:
        return np.where(s >= z, 1.0, 0.0)
    if t >= UNIFORM_T:
        return s.copy()
    center = 2.0 * _images(t)[:, None] - z
    return np.asarray((_normal_cdf((center + s) / t) - _normal_cdf((center - s) / t)).sum(axis=0))


def reflected_density(s: Floats, z: float, t: float) -> Floats:
    """Return the density of P(z + t u) at s (n,) in [0, 1]."""
    if t >= UNIFORM_T:
        return np.ones_like(s)
    center = 2.0 * _images(t)[:, None] - z
    heights = np.exp(-(((center + s) / t) ** 2) / 2) + np.exp(-(((center - s) / t) ** 2) / 2)
    return np.asarray(heights.sum(axis=0) / (t * math.sqrt(2 * math.pi)))


def cell_probabilities(edges: Floats, z: float, t: float) -> Floats:
    """Return the probability (n,) of each cell [edges[k], edges[k + 1]) of [0, 1]."""
    if t <= 0:
        found = np.zeros(len(edges) - 1)
        found[min(int(np.searchsorted(edges, z, side="right")) - 1, len(found) - 1)] = 1.0
        return found
    return np.clip(np.diff(reflected_cdf(edges, z, t)), 0.0, 1.0)  # rounding may exceed these


def largest_probabilities(z: Floats, t: Floats) -> Floats:
    r"""Return the probability (k,) that each of P(z_i + t_i u_i) is the largest.

    It is :math:`\int_0^1 p_i(s) \prod_{j \neq i} C_j(s) ds` with the densities p and the distribution functions C of
    the reflected variables.
    """
    k = len(z)
    if not (t > 0).all():
        found = np.zeros(k)
        found[int(np.argmax(z))] = 1.0
        return found
    ends = [0.0, 1.0, *(float(a + b * c) for a, b in zip(z, t, strict=True) for c in PANEL_ENDS)]
    panels = np.unique(np.clip(ends, 0, 1))
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    half = np.diff(panels) / 2
    s = (panels[:-1, None] + half[:, None] * (nodes + 1)).ravel()
    w = (half[:, None] * weights).ravel()
    below = np.stack([reflected_cdf(s, a, b) for a, b in zip(z.tolist(), t.tolist(), strict=True)])
    density = np.stack([reflected_density(s, a, b) for a, b in zip(z.tolist(), t.tolist(), strict=True)])
    others = np.stack([np.prod(np.delete(below, i, axis=0), axis=0) for i in range(k)])
    return np.asarray(np.clip((density * others) @ w, 0.0, 1.0))
