r"""A step that follows the smoothing radius, and so needs no tuning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from slgh import checks
from slgh.parts import Array, Leaves, Observed


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleFree:
    r"""Move by a fixed share of the radius of the sampling shell, whatever the size of the gradient.

    .. math:: x_{k+1} = x_k - \alpha\, c\, t_k \sqrt{d}\; g_k / |g_k|

    t sqrt(d) is the radius of the shell on which x + t u lies; c is the expected cosine between g and the
    gradient of F, sqrt(M / (M + d)) for M zeroth-order samples and 1 for an exact gradient. The step is the same for
    f and for a + b f. Where g = 0 there is no direction, and x stays.
    """

    name: ClassVar[str] = "scale_free"

    alpha: float = 0.5

    def __post_init__(self) -> None:
        checks.real("alpha", self.alpha, above=0)

    def init(self, x: Array, xp: Any) -> Leaves:
        return ()

    def apply(self, x: Array, seen: Observed, t: Array, state: Leaves, xp: Any) -> tuple[Array, Leaves]:
        peak = xp.max(xp.abs(seen.g), axis=-1, keepdims=True)
        g = seen.g / xp.where(peak > 0, peak, xp.ones_like(peak))
        length = xp.sqrt(xp.vecdot(g, g))
        distance = self.alpha * seen.cosine * x.shape[-1] ** 0.5 * t
        return x - (distance / xp.where(length > 0, length, xp.ones_like(length)))[:, None] * g, state
