r"""Chain of links after lower bounds for first-order methods: a variable matters once the previous one has moved."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace

from slgh import checks
from slgh.problems.problem import Problem, SmoothedFunction, smoothed_problem

GATE = 0.2
"""Width s of a gate, in units of the distance that a variable has to move."""


class Chain(SmoothedFunction):
    r"""A chain of n links between the first n variables, and its Gaussian smoothing.

    .. math::
        f(x) = -\frac{1}{n} \sum_{i=1}^n g(\sqrt n\, x_{i-1})\, h(\sqrt n\, x_i), \qquad
        g(z) = e^{-(z - 1)^2 / 2 s^2}, \quad h(z) = e^{-(z - 1)^2 / 2},

    with g = 1 in the first link. At the start x = 0 every gate but the first is shut. f has a slope in :math:`x_i`
    once :math:`x_{i-1}` is near :math:`1/\sqrt n`. A link is a product of functions of two variables, and smoothing
    widens both:

    .. math:: E\, e^{-(z + \tau u - 1)^2 / 2 v} = \sqrt{\frac{v}{v + \tau^2}}\ e^{-(z - 1)^2 / 2 (v + \tau^2)}

    with :math:`z = \sqrt n\, x_i` and :math:`\tau = \sqrt n\, t`.

    Notes
    -----
    After Carmon, Duchi, Hinder and Sidford (2020), who use bumps of compact support and :math:`\Phi`, the normal
    distribution function. Gaussians smooth as easily, need no error function, and attain their minimum, at
    :math:`x_i = 1/\sqrt n`. Their gates are not quite shut (:math:`g(0) = e^{-12.5}`).
    The scale :math:`\sqrt n` keeps L1 and f's range (-1, 0) the same for all n, while a gradient larger than some
    :math:`0.2 / \sqrt n` remains until the last link is closed: :math:`O(\epsilon^{-2})` iterations for
    :math:`\epsilon = 0.2 / \sqrt n`.

    References
    ----------
    Y. Carmon, J. C. Duchi, O. Hinder, A. Sidford, Lower bounds for finding stationary points I, Mathematical
    Programming 184, 2020.
    """

    def __init__(self, n: int) -> None:
        self.n = n

    @property
    def L0(self) -> float:
        r"""A Lipschitz constant of f.

        The derivative by :math:`x_i` has one term from its own link, at most :math:`e^{-1/2} / \sqrt n`, and one from
        its gate, at most :math:`e^{-1/2} / (s \sqrt n)`; there are n of them.
        """
        return float(np.exp(-0.5) * (1 + (1 / GATE if self.n > 1 else 0)))

    @property
    def L1(self) -> float:
        r"""A Lipschitz constant of the gradient: the largest row sum of the tridiagonal Hessian, entry by entry.

        :math:`|h''| \le 1` and :math:`|g''| \le 1/s^2` on the diagonal, :math:`|g' h'| \le e^{-1} / s` on either side.
        """
        return float(1 + (1 / GATE**2 if self.n > 1 else 0) + (min(self.n, 3) - 1) * np.exp(-1) / GATE)

    @property
    def span(self) -> float:
        """sup f - inf f: every link lies in (-1/n, 0)."""
        return 1.0

    def _links(self, x: Any, t: Any) -> tuple[Any, Any, Any, Any]:
        """Return g h of each link and sqrt(n) x - 1, (..., n) each, and the variances of h and of g, (..., 1) each."""
        xp = array_namespace(x)
        tau2 = (self.n * t * t)[..., None]
        z = self.n**0.5 * x[..., : self.n] - 1
        wide, narrow = 1 + tau2, GATE**2 + tau2
        h = xp.exp(-z * z / (2 * wide)) / wide**0.5
        shut = xp.exp(-(z * z) / (2 * narrow)) * GATE / narrow**0.5
        g = xp.concat([xp.ones_like(h[..., :1]), shut[..., :-1]], axis=-1)
        return g * h, z, wide, narrow

    def value(self, x: Any, t: Any) -> Any:
        return -self._links(x, t)[0].sum(axis=-1) / self.n

    def grad(self, x: Any, t: Any) -> Any:
        xp = array_namespace(x)
        link, z, wide, narrow = self._links(x, t)
        following = xp.concat([link[..., 1:], xp.zeros_like(link[..., :1])], axis=-1)
        slope = z * (link / wide + following / narrow) / self.n**0.5
        return xp.concat([slope, xp.zeros_like(x[..., self.n :])], axis=-1)

    def trace(self, x: Any, t: Any) -> Any:
        link, z, wide, narrow = self._links(x, t)
        own = link * (1 / wide - (z / wide) ** 2)
        gates = link[..., 1:] * (1 / narrow - (z[..., :-1] / narrow) ** 2)
        return own.sum(axis=-1) + gates.sum(axis=-1)


def chain(d: int = 2, links: int | None = None) -> Problem:
    """Return a chain of links. Variables without a link have no effect.

    Parameters
    ----------
    d
        Number of variables.
    links
        Number of links, at most d. None: d.

    Examples
    --------
    >>> chain(9, links=4).minimum
    -1.0
    """
    checks.count("d", d)
    n = d if links is None else links
    checks.count("links", n)
    if n > d:
        raise checks.ArgumentValueError(
            f"`links` must be an integer <= d = {d}, since each link needs a variable, got links={links!r}."
        )
    smooth = Chain(n)
    best = np.zeros((1, d))
    best[0, :n] = n**-0.5
    return smoothed_problem(
        smooth,
        name="chain",
        x0=np.zeros(d),
        minimizers=best,
        minimum=-1.0,
        parameters={"t1": 0.1 * n**-0.5, "step": 1 / smooth.L1, "max_iter": 100 * n},
    )
