r"""Classical momentum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from slgh import checks
from slgh.protocols import Array, Estimate, Leaves


@dataclass(frozen=True, slots=True, kw_only=True)
class Momentum:
    r"""Descend with a velocity.

    .. math:: v_{k+1} = \mu\, v_k - \beta\, g_k, \qquad x_{k+1} = x_k + v_{k+1}

    The first velocity, :math:`v_1`, is 0.

    Parameters
    ----------
    step
        :math:`\beta`, the step size of x.
    momentum
        :math:`\mu`, the decay rate of the velocity.

    References
    ----------
    Sutskever, Martens, Dahl, Hinton. On the importance of initialization and momentum in deep learning. ICML 2013.
    """

    name: ClassVar[str] = "momentum"

    step: float
    momentum: float = 0.9

    def __post_init__(self) -> None:
        checks.real("step", self.step, above=0)
        checks.real("momentum", self.momentum, above=0, below=1)

    def init(self, x: Array, xp: Any) -> Leaves:
        return (xp.zeros_like(x),)

    def apply(self, x: Array, estimate: Estimate, t: Array, state: Leaves, xp: Any) -> tuple[Array, Leaves]:
        v = self.momentum * state[0] - self.step * estimate.g
        return x + v, (v,)
