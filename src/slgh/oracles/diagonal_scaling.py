r"""Antithetic pairs with a learned width for each variable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from slgh import checks
from slgh.oracles.antithetic import Antithetic
from slgh.oracles.ranks import centered_ranks
from slgh.protocols import Answer, Array, Context, Leaves


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagonalScaling(Antithetic):
    r"""Estimate the gradient of F from M pairs at x + t w u and x - t w u, and learn the widths w (d,).

    .. math::
        g = \frac{1}{M} \sum_{i=1}^M \frac{f(x + t w u_i) - f(x - t w u_i)}{2t}\, \frac{u_i}{w}, \qquad
        \log w \leftarrow \log w - \frac{2 \rho}{M} \sum_{i=1}^M r_i\, (u_i^2 - 1)

    r_i, from -1/2 to 1/2, is the rank among the pairs of the even part f(x + t w u_i) + f(x - t w u_i), which depends
    on the curvature and not on the slope. If long steps along a variable go with high values, f is steep there, and the
    width of the variable shrinks. (The formula is the natural gradient of the mean of f in log w, by ranks.) The
    geometric mean of the widths stays 1, so that t keeps its meaning. The first widths are 1, or if all variables have
    bounds, proportional to the box. f(x) is evaluated only if the schedule needs it.

    Parameters
    ----------
    rate
        :math:`\rho`; 0 keeps the first widths. If these are 1, this is the antithetic oracle.
    values
        "raw": f itself. "ranks": in g and in the even parts, each of the 2M values is replaced by its rank among them,
        so that only their order matters.

    Notes
    -----
    Widths follow from ranks within a query. If the directions of an iteration do not fit into one query, from about
    100,000 variables on, little is learned, and nothing from queries of a single pair.
    """

    name: ClassVar[str] = "diagonal_scaling"
    provides: ClassVar[frozenset[str]] = frozenset({"f", "F"})

    rate: float = 0.03

    def __post_init__(self) -> None:
        Antithetic.__post_init__(self)
        checks.at_least("rate", self.rate, 0)

    def init(self, x: Array, ctx: Context) -> Leaves:
        return self.starting(ctx.xp.ones_like(x), ctx.xp)

    def starting(self, widths: Array, xp: Any) -> Leaves:
        """Return the memory for these first widths, (B, d)."""
        return (xp.log(widths),)

    def _widths(self, state: Leaves, xp: Any) -> Array:
        return xp.exp(state[0])

    def _lesson(self, even: Answer, u: Array, ctx: Context) -> Array | None:
        if u.shape[1] == 1:
            return None
        excess = u * u
        excess -= 1.0
        return ctx.weighted_sum(centered_ranks(even, ctx.xp), excess)

    def _learned(self, state: Leaves, lesson: Array | None, xp: Any) -> Leaves:
        if lesson is None:
            return state
        log_widths = state[0] - (2.0 * self.rate) * lesson
        return (log_widths - xp.mean(log_widths, axis=1, keepdims=True),)
