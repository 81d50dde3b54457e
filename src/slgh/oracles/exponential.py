r"""Samples weighted by exp(-N f): the oracle of power-transformed Gaussian smoothing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from slgh import checks
from slgh.oracles.estimators import SampleSums, SamplingOracle, query_around, select, zero_bad, zeroth_order_cosine
from slgh.protocols import Array, Context, Conversation, Estimate, Leaves, Noise


@dataclass(frozen=True, slots=True, kw_only=True)
class Exponential(SamplingOracle):
    r"""Estimate the gradient of -E exp(-N f(x + t u)) from M points around x, up to a factor.

    .. math::
        g = -\frac{1}{M t} \sum_{i=1}^M w_i u_i, \qquad
        w_i = \exp\left(-N \left(f(x + t u_i) - \min_j f(x + t u_j)\right)\right)

    M = `samples` evaluations, N = `sharpness`, :math:`u_i \sim N(0, I_d)`. The least value is subtracted so that no
    exponential overflows. This scales g by an unknown positive factor, which differs between iterations, so the update
    must use the direction of g only. f(x) takes one more evaluation, and is evaluated only if it is needed. All points
    of an iteration share one xi, because their values are compared with each other.

    Parameters
    ----------
    samples
        M, at least 2: the weights compare samples with each other.
    sharpness
        N, in units of 1/f: for b f it is N/b. Let s be the standard deviation of f over the samples. If N is far below
        1/s, all weights are alike, and g is noise. If it is far above, only the lowest sample has weight. For a nearly
        linear f the expected cosine between g and the gradient is greatest at N = 1/s, where M of these samples are as
        good as M/e antithetic pairs.

    References
    ----------
    Xu. Global optimization with a power-transformed objective and Gaussian smoothing. ICML 2025.
    """

    name: ClassVar[str] = "exponential"

    samples: int = 10
    sharpness: float

    def __post_init__(self) -> None:
        checks.count("samples", self.samples, 2)
        checks.real("sharpness", self.sharpness, above=0)

    def cost(self, first: bool, ctx: Context) -> int:
        return self.samples + int("f" in ctx.needs)

    def observe(self, x: Array, t: Array, state: Leaves, first: bool, noise: Noise, ctx: Context) -> Conversation:
        xp, d = ctx.xp, x.shape[-1]
        sums = SampleSums(self.samples, xp)
        center = None
        least: Array | None = None
        xi = noise.xi(1) if ctx.stochastic else None
        for m in ctx.chunks(self.samples, d):
            u = noise.normal(m)
            centers = int("f" in ctx.needs and center is None)
            answer = yield query_around(x, t, [u], centers=centers, xi=xi, ctx=ctx)
            center = select(answer, 0, 1) if centers else center
            sampled = select(answer, centers, centers + m)
            values, ok = sampled.values, sampled.ok
            sums.count(ok, m)
            sums.add_values("F", values, ok)
            if ok is not None:  # the largest number is never the least value, unless there is no other
                values = xp.where(ok > 0, values, float(xp.finfo(values.dtype).max))
            before, least = least, xp.min(values, axis=1)
            if before is not None:  # earlier chunks were weighted against another least value
                least = xp.minimum(before, least)
                sums.totals["g"] *= xp.exp(self.sharpness * (least - before))[:, None]
            weights = zero_bad(xp.exp(self.sharpness * (least[:, None] - values)), ok)
            sums.add("g", ctx.weighted_sum(-weights, u))
        ok, rejected = sums.ok_and_rejected(center)
        return Estimate(
            g=sums.slope("g", t),
            ok=ok,
            rejected=rejected,
            cosine=zeroth_order_cosine(self.samples / math.e, d),
            f=None if center is None else center.values[:, 0],
            F=sums.mean("F"),
        ), ()
