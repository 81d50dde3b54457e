r"""f and its gradient at x itself, from differences or from the user's gradient, for local searches.

A bad value of f(x) is infinite, so that a line search rejects x. A bad difference or gradient is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slgh.oracles.estimators import SamplingOracle, differences, query_value, select
from slgh.protocols import Answer, Array, Context, Conversation, Estimate, Leaves, Noise, Query, device_of


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalDifferences(SamplingOracle):
    r"""Estimate the gradient of f by forward differences along the axes.

    .. math:: g_i = (f(x + h_i e_i) - f(x)) / h_i

    h_i is negative where x + h would be above the upper bound. t has no effect.

    Parameters
    ----------
    samples
        d, the number of differences per iteration.
    """

    name: ClassVar[str] = "local_differences"
    rounding: ClassVar[float | None] = 1 / 2

    def starting(self, widths: Array, h: Array, high: Array) -> Leaves:
        """Return the memory for widths of the search, lengths h > 0, and upper bounds, (B, d) each."""
        return widths, h, high

    def init(self, x: Array, ctx: Context) -> Leaves:
        xp = ctx.xp
        h = xp.finfo(x.dtype).eps ** 0.5 * xp.maximum(xp.abs(x), xp.ones_like(x))
        return self.starting(xp.ones_like(x), h, xp.full_like(x, xp.inf))

    def cost(self, first: bool, ctx: Context) -> int:
        return 1 + self.samples

    def observe(self, x: Array, t: Array, state: Leaves, first: bool, noise: Noise, ctx: Context) -> Conversation:
        xp, d = ctx.xp, x.shape[-1]
        widths, h, high = state
        moved = xp.where(x + h <= high, x + h, x - h)
        h = moved - x  # as rounded
        h = xp.where(h == 0, xp.ones_like(h), h)
        axes, at, center = xp.arange(d, device=device_of(x)), 0, None
        parts, lost = [], xp.zeros_like(t)
        for m in ctx.chunks(d, d):
            chosen = axes[at : at + m, None] == axes
            points = xp.where(chosen[None, :, :], moved[:, None, :], x[:, None, :])
            centers = int(center is None)
            if center is None:
                points = xp.concat([x[:, None, :], points], axis=1)
            answer = yield Query("fun", points, centers=centers)
            center = select(answer, 0, 1) if center is None else center
            change, ok = differences(select(answer, centers, centers + m), center)
            parts.append(change / h[:, at : at + m])
            lost = lost if ok is None else lost + xp.sum(1.0 - ok, axis=1)
            at += m
        assert center is not None
        g = parts[0] if len(parts) == 1 else xp.concat(parts, axis=1)
        return Estimate(g=g, cosine=1.0, rejected=lost, f=value_or_inf(center, ctx), widths=widths), state


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalGradient(SamplingOracle):
    """Evaluate f and its gradient at x itself. t and `samples` have no effect."""

    name: ClassVar[str] = "local_gradient"
    asks: ClassVar[str] = "gradients"
    rounding: ClassVar[float | None] = None

    def starting(self, widths: Array, h: Array, high: Array) -> Leaves:
        """Return the memory for widths of the search (B, d). Exact gradients need no h, and no bounds."""
        return (widths,)

    def init(self, x: Array, ctx: Context) -> Leaves:
        return (ctx.xp.ones_like(x),)

    def cost(self, first: bool, ctx: Context) -> int:
        return 2

    def observe(self, x: Array, t: Array, state: Leaves, first: bool, noise: Noise, ctx: Context) -> Conversation:
        value = yield query_value(x, None)
        answer = yield Query("grad", x[:, None, :])
        return Estimate(g=answer.values[:, 0, :], cosine=1.0, f=value_or_inf(value, ctx), widths=state[0]), state


def value_or_inf(center: Answer, ctx: Context) -> Array:
    """Return f(x) (B,), infinite where it is bad."""
    value = center.values[:, 0]
    return value if center.ok is None else ctx.xp.where(center.ok[:, 0] > 0, value, ctx.xp.inf)
