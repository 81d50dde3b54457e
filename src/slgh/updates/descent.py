r"""Gradient descent, with a constant step or one that falls within each inner loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from slgh import checks
from slgh.protocols import Array, Estimate, Leaves


@dataclass(frozen=True, slots=True, kw_only=True)
class Descent:
    r"""Step against the gradient, as in all algorithms of the paper.

    .. math:: x_{k+1} = x_k - \beta\, g_k

    Parameters
    ----------
    step
        :math:`\beta`, the step size of x.
    """

    name: ClassVar[str] = "descent"

    step: float

    def __post_init__(self) -> None:
        checks.real("step", self.step, above=0)

    def init(self, x: Array, xp: Any) -> Leaves:
        return ()

    def apply(self, x: Array, estimate: Estimate, t: Array, state: Leaves, xp: Any) -> tuple[Array, Leaves]:
        return x - self.step * estimate.g, state


@dataclass(frozen=True, slots=True, kw_only=True)
class Harmonic:
    r"""Step against the gradient with a step of beta / j in the j-th iteration since t last changed.

    .. math:: x_{k+1} = x_k - \frac{\beta}{j}\, g_k

    This is the inner loop of the original GradOpt (Hazan et al., 2016), from which the paper departs. :math:`\beta` is
    `step`, their 1/sigma. Their averaging of iterates and their projection onto a shrinking ball are omitted.

    Parameters
    ----------
    step
        :math:`\beta`, the step size of x.
    """

    name: ClassVar[str] = "harmonic"

    step: float

    def __post_init__(self) -> None:
        checks.real("step", self.step, above=0)

    def init(self, x: Array, xp: Any) -> Leaves:
        return xp.zeros_like(x[:, 0]), xp.full_like(x[:, 0], -1.0)

    def apply(self, x: Array, estimate: Estimate, t: Array, state: Leaves, xp: Any) -> tuple[Array, Leaves]:
        j, t_before = state
        j = xp.where(t == t_before, j, xp.zeros_like(j)) + 1.0
        return x - (self.step / j)[:, None] * estimate.g, (j, t)
