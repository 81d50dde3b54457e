r"""Steps proportional to the smoothing radius, which need no tuning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from slgh import checks
from slgh.protocols import Array, Estimate, Leaves
from slgh.updates.normalized import unit


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleFree:
    r"""Move by a fixed fraction of the radius of the sampling shell, whatever the norm of the gradient.

    .. math:: x_{k+1} = x_k - \alpha\, c\, t_k \sqrt{d}\; g_k / |g_k|

    t sqrt(d) is the radius of the shell on which x + t u lies; c is the expected cosine between g and the gradient of
    F, sqrt(M / (M + d)) for M zeroth-order samples and 1 for an exact gradient. The step is the same for f and for
    a + b f. If g = 0 there is no direction, and x stays. If the oracle samples with widths w, all this holds in the
    variables x / w: the direction is :math:`w (w g) / |w g|`.

    Parameters
    ----------
    alpha
        Step size as a fraction of the radius of the shell. On a sphere function with slowly falling t, the distance to
        the center settles at alpha / 2 in units of t sqrt(d): short steps keep x in the middle of its samples. Let q be
        the speed at which t falls, as a fraction of the fastest that x can follow. Beyond the distance 2 alpha / q, x
        is left behind, so a fast fall needs long steps. "auto" uses 2 q, between 0.2 and 1.
    """

    name: ClassVar[str] = "scale_free"

    alpha: float = 0.5

    def __post_init__(self) -> None:
        checks.real("alpha", self.alpha, above=0)

    def init(self, x: Array, xp: Any) -> Leaves:
        return (xp.full_like(x[:, 0], self.alpha),)

    def apply(self, x: Array, estimate: Estimate, t: Array, state: Leaves, xp: Any) -> tuple[Array, Leaves]:
        (alpha,) = state
        distance = (alpha * estimate.cosine * x.shape[-1] ** 0.5 * t)[:, None]
        if estimate.widths is None:
            return x - distance * unit(estimate.g, xp), state
        return x - distance * estimate.widths * unit(estimate.widths * estimate.g, xp), state
