r"""Geometric decay of t: SLGH_r of Algorithms 2, 3 and 4."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from slgh import checks
from slgh.protocols import Array, Estimate, Leaves


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    r"""Shrink t by a constant factor, down to a floor (SLGH_r).

    .. math:: t_{k+1} = \max(\gamma\, t_k,\ \epsilon')

    The floor :math:`\epsilon'` is the run's `floor`, or sqrt(nu) with `noise=nu` (Algorithm 4).

    Parameters
    ----------
    t1
        Initial smoothing radius.
    gamma
        :math:`\gamma`, the factor by which t falls.

    Notes
    -----
    Algorithms 2 and 3 have no floor for SLGH_r; pass `floor=0` for that. The default floor is the radius below which
    differences of f are rounding errors, and 0 for a closed form.
    """

    name: ClassVar[str] = "ratio"
    planned: ClassVar[bool] = False
    needs: ClassVar[frozenset[str]] = frozenset()

    t1: float
    gamma: float = 0.999

    def __post_init__(self) -> None:
        checks.real("t1", self.t1, above=0)
        checks.real("gamma", self.gamma, above=0, below=1)

    def init(self, t: Array, floor: Array, xp: Any) -> Leaves:
        return ()

    def next(self, t: Array, estimate: Estimate, state: Leaves, floor: Array, xp: Any) -> tuple[Array, Leaves]:
        return xp.maximum(self.gamma * t, floor), state
