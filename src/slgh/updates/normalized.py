r"""Steps of given length against the gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from slgh import checks
from slgh.protocols import Array, Estimate, Leaves


@dataclass(frozen=True, slots=True, kw_only=True)
class Normalized:
    r"""Move against the gradient by a given length, whatever the norm of the gradient.

    .. math:: x_{k+1} = x_k - \beta\, \frac{h}{h + k - 1}\, \frac{g_k}{|g_k|}, \qquad k = 1, 2, \dots

    :math:`\beta` is `step`, a length. If g = 0 there is no direction, and x stays.

    Parameters
    ----------
    step
        :math:`\beta`, the length of the first step.
    halving
        h: the step is halved after h iterations, and a third after 2h. None keeps it.
    """

    name: ClassVar[str] = "normalized"

    step: float
    halving: float | None = None

    def __post_init__(self) -> None:
        checks.real("step", self.step, above=0)
        if self.halving is not None:
            checks.real("halving", self.halving, above=0)

    def init(self, x: Array, xp: Any) -> Leaves:
        return () if self.halving is None else (xp.zeros_like(x[:, 0]),)

    def apply(self, x: Array, estimate: Estimate, t: Array, state: Leaves, xp: Any) -> tuple[Array, Leaves]:
        if self.halving is None:
            return x - self.step * unit(estimate.g, xp), ()
        (k,) = state
        return x - (self.step * self.halving / (self.halving + k))[:, None] * unit(estimate.g, xp), (k + 1.0,)


def unit(g: Array, xp: Any) -> Array:
    """Return g / |g| for each problem, (B, d), and 0 if g is 0."""
    # Scaled first, so that no square over- or underflows.
    peak = xp.max(xp.abs(g), axis=-1, keepdims=True)
    g = g / xp.where(peak > 0, peak, 1.0)
    length = xp.sqrt(xp.vecdot(g, g))[:, None]
    return g / xp.where(length > 0, length, 1.0)
