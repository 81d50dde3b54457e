r"""The six convergence theorems: step size, burn-in, tuned gamma, and the inequality that their proofs sum.

Every proof of the paper (Sections 3.3 and 4.2, Appendices B and C) sums one inequality over the iterations,

.. math::
    a_k\, E|\nabla f(x_k)|^2 \le A \left(E F(x_k, t_k) - E F(x_{k+1}, t_{k+1}) + L_0 \sqrt d\, |t_{k+1} - t_k|
    + 2 \nu\, [t_{k+1} \ne t_k]\right) + s_k,

and divides by the sum of the weights :math:`a_k`; the bracket telescopes. The theorems differ in the weight
:math:`a_k`, the surplus :math:`s_k`, and A (1, or 4 where f is known up to an error nu).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

INFINITE_T = 1e60
"""Stands for T -> infinity: all terms that vanish in the limit are below rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    r"""The constants of a function and of its smoothing, from which the bounds are computed.

    Parameters
    ----------
    L1, L0
        f is L1-smooth and L0-Lipschitz (Assumption A1).
    d
        The number of variables.
    t1, floor
        The first and the least smoothing radius.
    sigma
        :math:`E|\nabla \bar f(x; \xi) - \nabla f(x)|^2 \le \sigma^2` (Assumption A2).
    nu
        The error of f' (Assumption A3).
    gap, span
        :math:`f(x_1) - f^*`, and an upper bound of :math:`f(x) - f^*` for all x.
    """

    L1: float
    d: int
    t1: float
    floor: float = 0.0
    L0: float = math.inf
    sigma: float = 0.0
    nu: float = 0.0
    gap: float = math.inf
    span: float = math.inf

    def smoothness(self, t: Any) -> Any:
        """Return L1(t) = L1 + 2 nu / t^2, the smoothness of F'(., t) (Lemma C.7)."""
        return self.L1 + 2 * self.nu / (t * t) if self.nu else self.L1

    def error(self, t: Any) -> Any:
        """Return (nu / t)^2, the square of the largest contribution of the error to a difference quotient."""
        return (self.nu / t) ** 2 if self.nu else 0.0


class Powers(NamedTuple):
    """The contribution one + t * (t_k) + t2 * (t_k)^2 of an iteration; coefficients are numbers, or arrays over k."""

    one: Any = 0.0
    t: Any = 0.0
    t2: Any = 0.0

    def at(self, t: Any) -> Any:
        """Return the value at t."""
        return self.one + self.t * t + self.t2 * t * t


class Theorem(ABC):
    """A convergence theorem of the paper: the step beta, the burn-in, the weight a, the surplus s and A."""

    name: ClassVar[str]
    about: ClassVar[str]
    order: ClassVar[str]
    """ "first" or "zeroth"."""
    stochastic: ClassVar[bool]
    factor: ClassVar[float] = 1.0
    """A, the factor of the descent of F."""
    xhat: ClassVar[str] = "uniform"
    """Rule that selects the theorem's point: uniformly from k0+1..T, or the "argmin" of |grad f|."""

    def k1(self, d: int, eps: float) -> float:
        """Return the first candidate for the burn-in, with the constant 1 in Theta."""
        return (d if self.order == "zeroth" else 1) * float(eps ** (-4 if self.stochastic else -2))

    @abstractmethod
    def shrunk(self, d: int, eps: float) -> float:
        """Return t_k / t1 at the end of the burn-in k2, with the constant 1 in O: k2 is log_gamma of it."""

    @abstractmethod
    def step(self, c: Constants, n: float, t: Any) -> Any:
        """Return beta at radius t, if n = T - k0 iterations follow the burn-in."""

    @abstractmethod
    def weight(self, c: Constants, beta: Any, L: Any) -> Any:
        """Return a, if F(., t) is L-smooth."""

    @abstractmethod
    def surplus(self, c: Constants, beta: Any, L: Any, error: Any) -> Powers:
        """Return s: the growth, plus the possible excess of |grad f|^2 over |grad F|^2; `error` is (nu / t)^2."""

    def growth(self, c: Constants, beta: Any, L: Any, error: Any) -> Powers:
        """Return a bound on the growth of A E F(x, t) in an iteration, without its descent: all of s, or less."""
        return self.surplus(c, beta, L, error)

    def tuned(self, d: int, eps: float) -> float:
        """Return the gamma for which k2 = k1 (at least 1). The theorem needs a gamma that is no larger."""
        return float(self.shrunk(d, eps) ** (1 / max(1.0, self.k1(d, eps))))

    def burn_in(self, d: int, eps: float, gamma: float) -> int:
        """Return k0 = min(k1, k2), rounded up."""
        # With the tuned gamma, k1 and k2 differ only by rounding, which must not change the integer.
        k2 = math.log(self.shrunk(d, eps)) / math.log(gamma)
        return math.ceil(min(self.k1(d, eps), k2) * (1 - 1e-9))

    def residue(self, c: Constants) -> float:
        """Return the limit of the bound as T grows, which is due to the error and the floor of t."""
        beta, L = self.step(c, INFINITE_T, c.floor), c.smoothness(c.floor)
        return float(self.surplus(c, beta, L, c.error(c.floor)).at(c.floor) / self.weight(c, beta, L))


class Theorem34(Theorem):
    r"""Theorem 3.4: SLGH, deterministic.

    .. math::
        \beta = \frac{1}{L_1}, \quad k_1 = \epsilon^{-2}, \quad k_2 = \log_\gamma d^{-3/2}, \quad
        a = \beta - \frac{L_1}{2} \beta^2 = \frac{1}{2 L_1}, \quad s_k = a L_0 L_1 (d + 3)^{3/2} t_k

    With the step 1/L1, F grows only by the change of t. :math:`\hat x` is the iterate with the least
    :math:`|\nabla f|` of all; the burn-in is a device of the proof.
    """

    name, about = "3.4", "first-order, deterministic"
    order, stochastic = "first", False
    xhat = "argmin"

    def shrunk(self, d: int, eps: float) -> float:
        return float(d**-1.5)

    def step(self, c: Constants, n: float, t: Any) -> Any:
        return 1 / c.L1

    def weight(self, c: Constants, beta: Any, L: Any) -> Any:
        return beta - L * beta**2 / 2

    def growth(self, c: Constants, beta: Any, L: Any, error: Any) -> Powers:
        return Powers(one=L * beta**2 * c.sigma**2 / 2)

    def surplus(self, c: Constants, beta: Any, L: Any, error: Any) -> Powers:
        gap = self.weight(c, beta, L) * c.L0 * c.L1 * (c.d + 3) ** 1.5
        return self.growth(c, beta, L, error)._replace(t=gap)


class Theorem35(Theorem34):
    r"""Theorem 3.5: SLGH, stochastic.

    .. math::
        \beta = \min\left\{\frac{1}{L_1}, \frac{1}{\sqrt{T - k_0}}\right\}, \quad k_1 = \epsilon^{-4}, \quad
        k_2 = \log_\gamma \min\{d^{-1/2}, d^{-3/2} \epsilon^{-2}\}, \quad
        s_k = a L_0 L_1 (d + 3)^{3/2} t_k + \frac{L_1}{2} \beta^2 \sigma^2

    and a as in Theorem 3.4. F may grow by the last term in each iteration.
    """

    name, about = "3.5", "first-order, stochastic"
    stochastic = True
    xhat = "uniform"

    def shrunk(self, d: int, eps: float) -> float:
        return float(min(d**-0.5, d**-1.5 * eps**-2))

    def step(self, c: Constants, n: float, t: Any) -> Any:
        return min(1 / c.L1, n**-0.5)


class Theorem41(Theorem):
    r"""Theorem 4.1: ZOSLGH, deterministic.

    .. math::
        \beta = \frac{1}{2 (d + 4) L_1}, \quad k_1 = d \epsilon^{-2}, \quad k_2 = \log_\gamma d^{-1/2}, \quad
        a = \beta - (d + 4) L_1 \beta^2, \quad
        s_k = \beta L_0 L_1 (d + 3)^{3/2} t_k + \frac{L_1^3}{4} \beta^2 (d + 6)^3 t_k^2

    The growth during the burn-in is bounded by all of :math:`s_k`.
    """

    name, about = "4.1", "zeroth-order, deterministic"
    order, stochastic = "zeroth", False

    def shrunk(self, d: int, eps: float) -> float:
        return float(d**-0.5)

    def step(self, c: Constants, n: float, t: Any) -> Any:
        return 1 / (2 * (c.d + 4) * c.L1)

    def weight(self, c: Constants, beta: Any, L: Any) -> Any:
        return beta - (c.d + 4) * L * beta**2

    def surplus(self, c: Constants, beta: Any, L: Any, error: Any) -> Powers:
        return Powers(
            one=L * beta**2 * (c.d + 4) * c.sigma**2,
            t=beta * c.L0 * c.L1 * (c.d + 3) ** 1.5,
            t2=L**3 * beta**2 * (c.d + 6) ** 3 / 4,
        )


class Theorem42(Theorem41):
    r"""Theorem 4.2: ZOSLGH, stochastic.

    .. math::
        \beta = \min\left\{\frac{1}{2 (d + 4) L_1}, \frac{1}{\sqrt{(T - k_0)(d + 4)}}\right\}, \quad
        k_1 = d \epsilon^{-4}, \quad s_k = \ldots + L_1 \beta^2 (d + 4) \sigma^2

    with :math:`k_2`, a and the other terms of :math:`s_k` as in Theorem 4.1.

    Notes
    -----
    The proof divides by :math:`\beta - 2 (d + 4) L_1 \beta^2`, which can be 0; a is meant. Its sum from k = 1 is one
    from :math:`k_0 + 1`, and its :math:`\sigma^2 T` is :math:`\sigma^2 (T - k_0)`.
    """

    name, about = "4.2", "zeroth-order, stochastic"
    stochastic = True

    def step(self, c: Constants, n: float, t: Any) -> Any:
        return min(1 / (2 * (c.d + 4) * c.L1), (n * (c.d + 4)) ** -0.5)


class TheoremC1(Theorem41):
    r"""Theorem C.1: ZOSLGH on f' with :math:`|f' - f| \le \nu`, deterministic; t has the floor :math:`\sqrt\nu`.

    .. math::
        \beta_k = \frac{1}{16 (d + 4) L_1(t_k)}, \quad k_1 = d \epsilon^{-2}, \quad k_2 = \log_\gamma d^{-1}, \quad
        A = 4, \quad a_k = \beta_k - 8 (d + 4) L_1(t_k) \beta_k^2,

    .. math::
        s_k = 2 L_1(t_k) \beta_k^2 \left(L_1^2 (d + 6)^3 t_k^2 + 8 d \frac{\nu^2}{t_k^2}\right)
        + \beta_k \left(\frac{L_1^2}{2} (d + 6)^3 t_k^2 + \frac{8}{\pi} \frac{\nu^2}{t_k^2}\right)

    with :math:`L_1(t) = L_1 + 2 \nu / t^2`. The weights differ from one iteration to the next, so the proof bounds a
    weighted mean; for the plain one it has to be divided by the least weight, that of the least t, where
    :math:`L_1(\sqrt\nu) = L_1 + 2`.

    Notes
    -----
    :math:`t_{k_0+1} - t_{T+1} = t_{k_0+1}` in the proof leaves out the floor.
    """

    name, about = "C.1", "zeroth-order with error, deterministic"
    factor = 4.0

    def shrunk(self, d: int, eps: float) -> float:
        return 1 / d

    def step(self, c: Constants, n: float, t: Any) -> Any:
        return 1 / (16 * (c.d + 4) * c.smoothness(t))

    def weight(self, c: Constants, beta: Any, L: Any) -> Any:
        return beta - 8 * (c.d + 4) * L * beta**2

    def surplus(self, c: Constants, beta: Any, L: Any, error: Any) -> Powers:
        noise = 8 * (c.d + 4) * L * beta**2 * c.sigma**2
        return Powers(
            one=noise + (16 * c.d * L * beta**2 + 8 / math.pi * beta) * error,
            t2=(2 * L * beta**2 + beta / 2) * c.L1**2 * (c.d + 6) ** 3,
        )


class TheoremC2(TheoremC1):
    r"""Theorem C.2: ZOSLGH on f' with :math:`|f' - f| \le \nu`, stochastic; t has the floor :math:`\sqrt\nu`.

    .. math::
        \beta_k = \min\left\{\frac{1}{16 (d + 4) L_1(t_k)}, \frac{1}{\sqrt{(T - k_0)(d + 4)}}\right\}, \quad
        k_1 = d \epsilon^{-4}, \quad s_k = \ldots + 8 (d + 4) L_1(t_k) \beta_k^2 \sigma^2

    with :math:`k_2`, A, :math:`a_k` and the other terms of :math:`s_k` as in Theorem C.1.

    Notes
    -----
    Where the proof rearranges, two of the :math:`\beta_k^2` have lost their square, and :math:`\sigma^2` its
    :math:`L_1(t_k)` before that.
    """

    name, about = "C.2", "zeroth-order with error, stochastic"
    stochastic = True

    def step(self, c: Constants, n: float, t: Any) -> Any:
        return np.minimum(1 / (16 * (c.d + 4) * c.smoothness(t)), (n * (c.d + 4)) ** -0.5)


THEOREMS: dict[str, Theorem] = {
    part.name: part() for part in (Theorem34, Theorem35, Theorem41, Theorem42, TheoremC1, TheoremC2)
}
