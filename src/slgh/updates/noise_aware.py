r"""Gradient descent with a step that shrinks as the error of f becomes visible: Algorithm 4."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from slgh import checks
from slgh.protocols import Array, Estimate, Leaves


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseAware:
    r"""Step against the gradient of a function known up to an error nu, as in Theorems C.1 and C.2.

    .. math::
        x_{k+1} = x_k - \beta(t_k)\, g_k, \qquad
        \beta(t) = \min\left\{\frac{1}{16 (d + 4) L_1(t)},\ c\right\}, \qquad L_1(t) = L_1 + \frac{2 \nu}{t^2}

    :math:`L_1(t)` bounds the curvature of the smoothed f', where :math:`|f' - f| \le \nu` and f is `L1`-smooth. `cap`
    is c, in Theorem C.2 (stochastic f) :math:`1 / \sqrt{(T - k_0)(d + 4)}`; None is no cap (Theorem C.1). Use it with
    the floor :math:`\sqrt\nu`, `noise=nu`: as t falls below that, the step vanishes with :math:`t^2`. Without an error
    (:math:`\nu = 0`) use `Descent`.

    Parameters
    ----------
    L1
        Lipschitz constant of the gradient of f.
    nu
        :math:`\nu`, the maximum error of the values of f.
    cap
        c, the maximum step size. None: no maximum.
    """

    name: ClassVar[str] = "noise_aware"

    L1: float
    nu: float
    cap: float | None = None

    def __post_init__(self) -> None:
        checks.real("L1", self.L1, above=0)
        checks.real("nu", self.nu, above=0)
        if self.cap is not None:
            checks.real("cap", self.cap, above=0)

    def init(self, x: Array, xp: Any) -> Leaves:
        return ()

    def step(self, t: Array, d: int, xp: Any) -> Array:
        """Return beta(t), (B,). The fraction is expanded by t^2, so that t = 0 gives 0."""
        t2 = t * t
        beta = t2 / (16.0 * (d + 4) * (self.L1 * t2 + 2.0 * self.nu))
        return beta if self.cap is None else xp.minimum(beta, self.cap)

    def apply(self, x: Array, estimate: Estimate, t: Array, state: Leaves, xp: Any) -> tuple[Array, Leaves]:
        return x - self.step(t, x.shape[1], xp)[:, None] * estimate.g, state
