r"""Descent of t along F: SLGH_d of Algorithms 2, 3 and 4."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from slgh import checks
from slgh.protocols import Array, Estimate, Leaves


@dataclass(frozen=True, slots=True, kw_only=True)
class Derivative:
    r"""Step t down the slope of F, and at least by the factor gamma, down to a floor (SLGH_d).

    .. math:: t_{k+1} = \max\{\min\{t_k - \eta\, G_t,\ \gamma\, t_k\},\ \epsilon'\}

    Parameters
    ----------
    t1
        Initial smoothing radius.
    eta
        :math:`\eta`, the step size of t.
    gamma
        :math:`\gamma`, the factor by which t falls at least.
    slope
        "trace": :math:`G_t = \operatorname{tr} \operatorname{Hess}_x F`, as in the paper's estimator (9) and its
        experiments (the heat equation after a change of time). "exact": :math:`G_t = \partial F / \partial t`, which
        is t times the trace.
    """

    name: ClassVar[str] = "derivative"
    planned: ClassVar[bool] = False

    t1: float
    eta: float
    gamma: float = 0.999
    slope: str = "trace"

    def __post_init__(self) -> None:
        checks.real("t1", self.t1, above=0)
        checks.real("eta", self.eta, above=0)
        checks.real("gamma", self.gamma, above=0, below=1)
        checks.choice("slope", self.slope, ("trace", "exact"))

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"trace" if self.slope == "trace" else "slope"})

    def init(self, t: Array, floor: Array, xp: Any) -> Leaves:
        return ()

    def next(self, t: Array, estimate: Estimate, state: Leaves, floor: Array, xp: Any) -> tuple[Array, Leaves]:
        G: Array = estimate.trace if self.slope == "trace" else estimate.slope
        return xp.maximum(xp.minimum(t - self.eta * G, self.gamma * t), floor), state
