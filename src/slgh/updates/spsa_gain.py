r"""Gradient descent with a step that falls as a power of the iteration's number: SPSA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from slgh import checks
from slgh.protocols import Array, Estimate, Leaves

OFFSET_FRACTION = 0.1
"""Default of A as a fraction of the iterations. Spall recommends at most a tenth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpsaGain:
    r"""Step against the gradient with a step that falls as a power of the number of the iteration.

    .. math:: x_{k+1} = x_k - \frac{\beta}{(k + A)^p}\, g_k, \qquad k = 1, 2, \dots

    Parameters
    ----------
    step
        :math:`\beta`, Spall's a. He recommends to choose it such that :math:`\beta |g| / (1 + A)^p` is the distance
        that x should move in the first iterations.
    step_power
        p, Spall's alpha. 0.602 is hardly above the least exponent with a proof of convergence for radii that fall as
        :math:`k^{-0.101}`. In the limit, 1 is best, with the exponent 1/6 of the radius.
    offset
        A, which keeps the first steps from being much larger than the others; None is a tenth of the iterations.
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
        """Return k + A before the first iteration."""
        A = self.offset
        if A is None:
            assert self.iterations is not None
            A = OFFSET_FRACTION * self.iterations
        return (xp.full_like(x[:, 0], A),)

    def apply(self, x: Array, estimate: Estimate, t: Array, state: Leaves, xp: Any) -> tuple[Array, Leaves]:
        since = state[0] + 1.0
        return x - (self.step / since**self.step_power)[:, None] * estimate.g, (since,)
