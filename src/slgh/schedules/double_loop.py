r"""Decay of t each time an inner loop has settled: GradOpt and ZOGradOpt, Algorithm 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from slgh import checks
from slgh.protocols import Array, Estimate, Leaves


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubleLoop:
    r"""Shrink t once `n0` iterations of the inner loop have changed the objective by no more than `eps0`.

    .. math:: t_{k+1} = \gamma\, t_k \text{ when } \#\{|\Delta_j| \le \epsilon_0\} = N_0, \text{ else } t_k

    The count restarts at each t. With an infinite `eps0`, inner loops have exactly `n0` iterations.

    Parameters
    ----------
    t1
        Initial smoothing radius.
    gamma
        :math:`\gamma`, the factor by which t falls.
    eps0
        :math:`\epsilon_0`, the largest change of the objective that counts as none.
    n0
        :math:`N_0`, the number of such changes after which t falls.
    rule
        The change :math:`\Delta_k`. "f": :math:`f(x_k) - f(x_{k-1})`. "F", for closed forms:
        :math:`F(x_{k+1}, t_k) - F(x_k, t_k)`. "minibatch": as "f", with the means of f(x + t u) over the minibatch.

    Notes
    -----
    "minibatch" is the rule that the paper prints. The noise of the two independent means is so large that t hardly ever
    falls. The paper's results follow from "f", and those of the closed forms from "F". "f" and "minibatch" take no
    extra evaluation, and act one iteration after the change.
    """

    name: ClassVar[str] = "double_loop"
    planned: ClassVar[bool] = False

    t1: float
    gamma: float = 0.5
    eps0: float = 1e-3
    n0: int = 50
    rule: str = "f"

    def __post_init__(self) -> None:
        checks.real("t1", self.t1, above=0)
        checks.real("gamma", self.gamma, above=0, below=1)
        if self.eps0 != float("inf"):
            checks.at_least("eps0", self.eps0, 0)
        checks.count("n0", self.n0)
        checks.choice("rule", self.rule, ("f", "F", "minibatch"))

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"f": {"f"}, "F": {"F", "F_next"}, "minibatch": {"F"}}[self.rule])

    def init(self, t: Array, floor: Array, xp: Any) -> Leaves:
        return xp.full_like(t, float("inf")), xp.zeros_like(t)

    def next(self, t: Array, estimate: Estimate, state: Leaves, floor: Array, xp: Any) -> tuple[Array, Leaves]:
        before, settled = state
        if self.rule == "F":
            before, after = estimate.F, estimate.F_next
        else:
            after = estimate.f if self.rule == "f" else estimate.F
        settled = settled + xp.astype(xp.abs(after - before) <= self.eps0, t.dtype)
        fall = settled >= self.n0
        return (
            xp.where(fall, xp.maximum(self.gamma * t, floor), t),
            (after, xp.where(fall, xp.zeros_like(settled), settled)),
        )
