r"""Differences along directions on the unit sphere: the smoothed gradient oracle of Hazan et al. (2016)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slgh import checks
from slgh.oracles.estimators import (
    add,
    around,
    count,
    cut,
    kept,
    mean,
    rise,
    slope_mean,
    verdict,
    zeroth_order_cosine,
)
from slgh.protocols import Array, Context, Conversation, Estimate, Leaves, Noise


@dataclass(frozen=True, slots=True, kw_only=True)
class Sphere:
    r"""Estimate the gradient of f smoothed over the ball of radius t.

    .. math:: g = \frac{d}{M t} \sum_{i=1}^M (f(x + t s_i) - f(x))\, s_i, \qquad s_i = u_i / |u_i|

    M = `samples` directions; M + 1 evaluations, or 2M for a stochastic f, each direction having its own xi.

    Notes
    -----
    Hazan, Levy and Shalev-Shwartz use one value a direction, without f(x). Subtracting f(x) leaves the
    expectation as it is and removes a variance of order f(x)^2 d^2 / t^2.

    References
    ----------
    Hazan, Levy, Shalev-Shwartz. On graduated optimization for stochastic non-convex problems. ICML 2016.
    """

    name: ClassVar[str] = "sphere"
    asks: ClassVar[str] = "values"
    exact: ClassVar[bool] = False
    provides: ClassVar[frozenset[str]] = frozenset({"f", "F"})
    rounding: ClassVar[float | None] = 1 / 2
    period: ClassVar[int] = 1

    samples: int = 1

    def __post_init__(self) -> None:
        checks.count("samples", self.samples)

    def init(self, x: Array, ctx: Context) -> Leaves:
        return ()

    def cost(self, first: bool, ctx: Context) -> int:
        """Evaluations in an iteration."""
        return 2 * self.samples if ctx.stochastic else self.samples + 1

    def observe(self, x: Array, t: Array, state: Leaves, first: bool, noise: Noise, ctx: Context) -> Conversation:
        xp, d = ctx.xp, x.shape[-1]
        gradient = good = center = f = F = None
        for m in ctx.chunks(self.samples, d):
            u = noise.normal(m)
            s = u / xp.sqrt(xp.vecdot(u, u))[..., None]
            xi = noise.xi(m) if ctx.stochastic else None
            centers = m if ctx.stochastic else int(center is None)
            answer = yield around(x, t, [s], centers=centers, xi=xi, ctx=ctx)
            center = cut(answer, 0, centers) if centers else center
            assert center is not None
            difference, ok = rise(cut(answer, centers, centers + m), center)
            gradient = add(gradient, ctx.weighted_sum(difference, s))
            good = add(good, count(ok, m, xp))
            if ctx.stochastic:
                f = add(f, xp.sum(kept(center.values, ok), axis=1))
            F = add(F, xp.sum(kept(difference + center.values, ok), axis=1))
        assert center is not None
        assert good is not None
        ok_all, rejected = verdict(good, self.samples, xp)
        return Estimate(
            g=slope_mean(gradient, good, t / d, xp),
            ok=ok_all,
            rejected=rejected,
            cosine=zeroth_order_cosine(self.samples, d),
            f=center.values[:, 0] if f is None else mean(f, good, xp),
            F=mean(F, good, xp),
        ), ()
