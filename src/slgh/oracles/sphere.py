r"""Differences along directions on the unit sphere: the smoothed gradient oracle of Hazan et al. (2016)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slgh.oracles.estimators import SampleSums, SamplingOracle, differences, query_around, select, zeroth_order_cosine
from slgh.protocols import Array, Context, Conversation, Estimate, Leaves, Noise


@dataclass(frozen=True, slots=True, kw_only=True)
class Sphere(SamplingOracle):
    r"""Estimate the gradient of f smoothed over the ball of radius t.

    .. math:: g = \frac{d}{M t} \sum_{i=1}^M (f(x + t s_i) - f(x))\, s_i, \qquad s_i = u_i / |u_i|

    M = `samples` directions. An iteration takes M + 1 evaluations, or 2M for a stochastic f, where each direction has
    its own xi.

    Parameters
    ----------
    samples
        M, the number of directions per iteration.

    Notes
    -----
    Hazan, Levy and Shalev-Shwartz use one value per direction, without f(x). Subtracting f(x) does not change the
    expectation, and removes a variance of order f(x)^2 d^2 / t^2.

    References
    ----------
    Hazan, Levy, Shalev-Shwartz. On graduated optimization for stochastic non-convex problems. ICML 2016.
    """

    name: ClassVar[str] = "sphere"

    def cost(self, first: bool, ctx: Context) -> int:
        return 2 * self.samples if ctx.stochastic else self.samples + 1

    def observe(self, x: Array, t: Array, state: Leaves, first: bool, noise: Noise, ctx: Context) -> Conversation:
        xp, d = ctx.xp, x.shape[-1]
        sums = SampleSums(self.samples, xp)
        center = None
        for m in ctx.chunks(self.samples, d):
            u = noise.normal(m)
            s = u / xp.sqrt(xp.vecdot(u, u))[..., None]
            xi = noise.xi(m) if ctx.stochastic else None
            centers = m if ctx.stochastic else int(center is None)
            answer = yield query_around(x, t, [s], centers=centers, xi=xi, ctx=ctx, samples=m)
            center = select(answer, 0, centers) if centers else center
            assert center is not None
            rise, ok = differences(select(answer, centers, centers + m), center)
            sums.add("g", ctx.weighted_sum(rise, s))
            sums.count(ok, m)
            if ctx.stochastic:
                sums.add_values("f", center.values, ok)
            sums.add_values("F", rise + center.values, ok)
        assert center is not None
        ok, rejected = sums.ok_and_rejected()
        return Estimate(
            g=sums.slope("g", t / d),
            ok=ok,
            rejected=rejected,
            cosine=zeroth_order_cosine(self.samples, d),
            f=sums.mean("f") if ctx.stochastic else center.values[:, 0],
            F=sums.mean("F"),
        ), ()
