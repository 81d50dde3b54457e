r"""Decay of t as a power of the iteration's number: SPSA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from slgh import checks
from slgh.protocols import Array, Estimate, Leaves


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLaw:
    r"""Decrease t as a power of the number of the iteration, down to a floor.

    .. math:: t_k = \max(t_1 / k^p,\ \epsilon'), \qquad k = 1, 2, \dots

    The floor :math:`\epsilon'` is the run's `floor`.

    Parameters
    ----------
    t1
        The first radius, Spall's c: about the standard deviation of the noise in f, or a small number without noise.
    t_power
        p, Spall's gamma. With the exponent 0.602 of the step (`slgh.updates.SpsaGain`), 0.101 is hardly above the least
        exponent with a proof of convergence. Spall found such slow decay best in runs of finite length. In the limit,
        1/6 is best, with the exponent 1 of the step.

    References
    ----------
    Spall. Implementation of the simultaneous perturbation algorithm for stochastic optimization. IEEE Transactions on
    Aerospace and Electronic Systems 34, 1998.
    """

    name: ClassVar[str] = "power_law"
    planned: ClassVar[bool] = False
    needs: ClassVar[frozenset[str]] = frozenset()

    t1: float
    t_power: float = 0.101

    def __post_init__(self) -> None:
        checks.real("t1", self.t1, above=0)
        checks.real("t_power", self.t_power, above=0)

    def init(self, t: Array, floor: Array, xp: Any) -> Leaves:
        return (xp.ones_like(t),)

    def next(self, t: Array, estimate: Estimate, state: Leaves, floor: Array, xp: Any) -> tuple[Array, Leaves]:
        k = state[0] + 1.0
        return xp.maximum(self.t1 / k**self.t_power, floor), (k,)
