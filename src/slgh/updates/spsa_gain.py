r"""Descent with a step that falls as a power of the iteration's number: stochastic approximation, SPSA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from slgh import checks
from slgh.protocols import Array, Estimate, Leaves

STABILITY = 0.1
"""A as a share of the iterations, Spall's advice: at most a tenth of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpsaGain:
    r"""Step against the gradient, the step falling as a power of the number of the iteration.

    .. math:: x_{k+1} = x_k - \frac{\beta}{(k + A)^p}\, g_k, \qquad k = 1, 2, \dots

    Parameters
    ----------
    step
        :math:`\beta`, Spall's a. His advice: such that :math:`\beta |g| / (1 + A)^p` is how far x should move in the
        first iterations.
    step_power
        p, Spall's alpha. 0.602 is hardly above the least for which convergence is proved with radii that fall as
        :math:`k^{-0.101}`. In the limit 1 is the best, with 1/6.
    offset
        A, which keeps the first steps from being far larger than the others; None is a tenth of the iterations.
    iterations
        Filled in by the run from `max_iter` and `max_evals`.

    References
    ----------
    Spall. Implementation of the simultaneous perturbation algorithm for stochastic optimization. IEEE Transactions on
    Aerospace and Electronic Systems 34, 1998.
    """

    name: ClassVar[str] = "spsa_gain"
    planned: ClassVar[bool] = True

    step: float
    step_power: float = 0.602
    offset: float | None = None
    iterations: int | None = None

    def __post_init__(self) -> None:
        checks.real("step", self.step, above=0)
        checks.real("step_power", self.step_power, above=0)
        if self.offset is not None:
            checks.at_least("offset", self.offset, 0)

    def init(self, x: Array, xp: Any) -> Leaves:
        """k + A, before the first iteration."""
        A = self.offset
        if A is None:
            assert self.iterations is not None
            A = STABILITY * self.iterations
        return (xp.full_like(x[:, 0], A),)

    def apply(self, x: Array, estimate: Estimate, t: Array, state: Leaves, xp: Any) -> tuple[Array, Leaves]:
        since = state[0] + 1.0
        return x - (self.step / since**self.step_power)[:, None] * estimate.g, (since,)
