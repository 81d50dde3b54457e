r"""Adam: steps along bias-corrected moments of the gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from slgh import checks
from slgh.protocols import Array, Estimate, Leaves


@dataclass(frozen=True, slots=True, kw_only=True)
class Adam:
    r"""Descend along bias-corrected moments of the gradient.

    .. math::
        m_k = \beta_1 m_{k-1} + (1-\beta_1) g_k, \quad v_k = \beta_2 v_{k-1} + (1-\beta_2) g_k^2, \quad
        x_{k+1} = x_k - \beta \frac{m_k / (1-\beta_1^k)}{\sqrt{v_k / (1-\beta_2^k)} + \delta}

    Parameters
    ----------
    step
        :math:`\beta`, the step size of x.
    beta1
        :math:`\beta_1`, the decay rate of the first moment.
    beta2
        :math:`\beta_2`, the decay rate of the second moment.
    delta
        :math:`\delta`, a small number that keeps the divisor above 0.

    References
    ----------
    Kingma, Ba. Adam: a method for stochastic optimization. ICLR 2015.
    """

    name: ClassVar[str] = "adam"

    step: float
    beta1: float = 0.9
    beta2: float = 0.999
    delta: float = 1e-8

    def __post_init__(self) -> None:
        checks.real("step", self.step, above=0)
        checks.real("beta1", self.beta1, above=0, below=1)
        checks.real("beta2", self.beta2, above=0, below=1)
        checks.real("delta", self.delta, above=0)

    def init(self, x: Array, xp: Any) -> Leaves:
        return xp.zeros_like(x), xp.zeros_like(x), xp.zeros_like(x[:, 0])

    def apply(self, x: Array, estimate: Estimate, t: Array, state: Leaves, xp: Any) -> tuple[Array, Leaves]:
        m, v, k = state
        g, k = estimate.g, k + 1.0
        m = self.beta1 * m + (1 - self.beta1) * g
        v = self.beta2 * v + (1 - self.beta2) * g * g
        m_hat = m / (1.0 - self.beta1**k)[:, None]
        v_hat = v / (1.0 - self.beta2**k)[:, None]
        return x - self.step * m_hat / (xp.sqrt(v_hat) + self.delta), (m, v, k)
