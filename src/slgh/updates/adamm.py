r"""AdaMM: Adam with the maximum of second moments, the update of ZOAdaMM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from slgh import checks
from slgh.protocols import Array, Estimate, Leaves


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaMM:
    r"""Descend along the first moment, scaled by the largest second moment so far.

    .. math::
        m_k = \beta_1 m_{k-1} + (1-\beta_1) g_k, \quad v_k = \beta_2 v_{k-1} + (1-\beta_2) g_k^2, \quad
        \hat v_k = \max(\hat v_{k-1}, v_k), \quad x_{k+1} = x_k - \beta\, m_k / \sqrt{\hat v_k}

    At the start, :math:`m_0 = 0` and :math:`\hat v_0 = v_0`. The defaults are the paper's.

    Parameters
    ----------
    step
        :math:`\beta`, the step size of x.
    beta1
        :math:`\beta_1`, the decay rate of the first moment.
    beta2
        :math:`\beta_2`, the decay rate of the second moment.
    v0
        :math:`v_0`, the initial second moment.

    References
    ----------
    Chen, Liu, Xu, Li, Lin, Hong, Cox. ZO-AdaMM: zeroth-order adaptive momentum method for black-box optimization.
    NeurIPS 2019.
    """

    name: ClassVar[str] = "adamm"

    step: float
    beta1: float = 0.9
    beta2: float = 0.3
    v0: float = 1e-5

    def __post_init__(self) -> None:
        checks.real("step", self.step, above=0)
        checks.real("beta1", self.beta1, above=0, below=1)
        checks.real("beta2", self.beta2, above=0, below=1)
        checks.real("v0", self.v0, above=0)

    def init(self, x: Array, xp: Any) -> Leaves:
        v0 = xp.full_like(x, self.v0)
        return xp.zeros_like(x), v0, v0

    def apply(self, x: Array, estimate: Estimate, t: Array, state: Leaves, xp: Any) -> tuple[Array, Leaves]:
        m, v, v_hat = state
        m = self.beta1 * m + (1 - self.beta1) * estimate.g
        v = self.beta2 * v + (1 - self.beta2) * estimate.g * estimate.g
        v_hat = xp.maximum(v_hat, v)
        return x - self.step * m / xp.sqrt(v_hat), (m, v, v_hat)
