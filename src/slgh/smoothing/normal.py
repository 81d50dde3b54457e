r"""The normal distribution function and density as SymPy functions of a mean and a variance.

.. math:: \Phi(\mu, v) = P(\mu + \sqrt v\, w \ge 0), \qquad
    \varphi(\mu, v) = \frac{1}{\sqrt{2 \pi v}} \exp\left(-\frac{\mu^2}{2 v}\right)

A half-line smoothed by a Gaussian is made of these two. Their derivatives stay within the pair, so that no 1/v is left
where it cancels: v may be 0.
"""

from __future__ import annotations

from typing import Any

import sympy as sp


class normal_cdf(sp.Function):  # type: ignore[misc]
    r"""The probability that a normal variable of mean mu and variance v is positive, and its derivatives."""

    nargs = 2

    def fdiff(self, argindex: int = 1) -> Any:
        mu, v = self.args
        return normal_pdf(mu, v) if argindex == 1 else -mu / (2 * v) * normal_pdf(mu, v)


class normal_pdf(sp.Function):  # type: ignore[misc]
    r"""The density of that variable at 0, and its derivatives."""

    nargs = 2

    def fdiff(self, argindex: int = 1) -> Any:
        mu, v = self.args
        if argindex == 1:
            return -mu / v * self
        return (mu**2 / (2 * v**2) - 1 / (2 * v)) * self


def as_erf(expression: Any) -> Any:
    """The expression with both written in functions that SymPy knows."""
    return expression.replace(normal_cdf, lambda mu, v: (1 + sp.erf(mu / sp.sqrt(2 * v))) / 2).replace(
        normal_pdf, lambda mu, v: sp.exp(-(mu**2) / (2 * v)) / sp.sqrt(2 * sp.pi * v)
    )
