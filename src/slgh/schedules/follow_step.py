r"""Radii that follow the length of the steps: AdaDGS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from slgh import checks
from slgh.protocols import Array, Estimate, Leaves


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowStep:
    r"""Move t halfway to the length of the last step, and start again from t1 if the run is stuck.

    .. math::
        t_{k+1} = \max\left(\frac{t_k + |g_k|}{2},\ \epsilon'\right), \qquad
        t_{k+1} = t_1 \text{ if } |f(x_k) - f(x_{k-1})| \le \epsilon\, |f(x_{k-1})| \text{ and } k \ge r + R

    :math:`|g_k|` is the length of the step, as the oracle `directional_search` returns it, and r is the iteration of
    the last restart. The floor :math:`\epsilon'` is the run's `floor`.

    Parameters
    ----------
    t1
        The first radius, and that of a restart. AdaDGS takes five times the width of the domain, and adds a random 10 %
        to it. Here it is exact, because the directions are random.
    stuck
        :math:`\epsilon`, the relative change of f below which the run is stuck.
    patience
        R, the least number of iterations between two restarts.

    References
    ----------
    Tran, Zhang. AdaDGS: an adaptive black-box optimization method with a nonlocal directional Gaussian smoothing
    gradient. 2020 (arXiv:2011.02009). The constants are those of the authors' program.
    """

    name: ClassVar[str] = "follow_step"
    planned: ClassVar[bool] = False
    needs: ClassVar[frozenset[str]] = frozenset({"f"})

    t1: float
    stuck: float = 1e-3
    patience: int = 10

    def __post_init__(self) -> None:
        checks.real("t1", self.t1, above=0)
        checks.at_least("stuck", self.stuck, 0)
        checks.count("patience", self.patience)

    def init(self, t: Array, floor: Array, xp: Any) -> Leaves:
        """Return f before, the iterations since the last restart, and t1."""
        return xp.full_like(t, xp.inf), xp.zeros_like(t), t

    def next(self, t: Array, estimate: Estimate, state: Leaves, floor: Array, xp: Any) -> tuple[Array, Leaves]:
        before, since, t1 = state
        assert estimate.f is not None
        length = xp.sqrt(xp.vecdot(estimate.g, estimate.g))
        known = xp.where(xp.isfinite(before), before, xp.zeros_like(before))
        change = xp.where(xp.isfinite(before), xp.abs(estimate.f - known), xp.ones_like(known))
        restart = (change <= self.stuck * xp.abs(known)) & (since + 1.0 >= self.patience)
        lower = xp.maximum((t + length) / 2, floor)
        return xp.where(restart, t1, lower), (estimate.f, xp.where(restart, 0.0, since + 1.0), t1)
