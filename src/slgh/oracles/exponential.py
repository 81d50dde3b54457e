r"""Samples weighted by exp(-N f), with a constant N or one that grows as t falls: power-transformed smoothing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from slgh import checks
from slgh.oracles.estimators import (
    SampleSums,
    SamplingOracle,
    both_good,
    query_around,
    repeat_xi,
    select,
    zero_bad,
    zeroth_order_cosine,
)
from slgh.protocols import Array, Context, Conversation, Estimate, Leaves, Noise, Query


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

    # Subclasses let N grow.

    def _power(self, t: Array, state: Leaves, xp: Any) -> tuple[Any, Leaves]:
        """Return N, a float or (B, 1), and what to remember."""
        return self.sharpness, ()

    def observe(self, x: Array, t: Array, state: Leaves, first: bool, noise: Noise, ctx: Context) -> Conversation:
        xp, d = ctx.xp, x.shape[-1]
        N, memory = self._power(t, state, xp)
        sums = SampleSums(self.samples, xp)
        center = None
        least: Array | None = None
        xi = noise.xi(1) if ctx.stochastic else None
        for m in ctx.chunks(self.samples, d):
            u = noise.normal(m)
            centers = int("f" in ctx.needs and center is None)
            answer = yield query_around(x, t, [u], centers=centers, xi=xi, ctx=ctx, samples=m)
            center = select(answer, 0, 1) if centers else center
            sampled = select(answer, centers, centers + m)
            values, ok = sampled.values, sampled.ok
            sums.count(ok, m)
            sums.add_values("F", values, ok)
            weights, faded, least = weigh(values, ok, least, N, xp)
            if faded is not None:
                sums.totals["g"] *= faded
            sums.add("g", ctx.weighted_sum(-weights, u))
        ok, rejected = sums.ok_and_rejected(center)
        return Estimate(
            g=sums.slope("g", t),
            ok=ok,
            rejected=rejected,
            cosine=zeroth_order_cosine(self.samples / math.e, d),
            f=None if center is None else center.values[:, 0],
            F=sums.mean("F"),
        ), memory


def weigh(values: Array, ok: Array | None, before: Array | None, N: Any, xp: Any) -> tuple[Array, Array | None, Array]:
    """Return the weights exp(-N (f - least)) of further values (B, m), and the least value so far, (B,).

    `before` is the least value of earlier chunks. The second result, (B, 1), is the factor that turns sums of their
    weights into sums of weights against the new least value; None: there were none.
    """
    if ok is not None:  # the largest number is never the least value, unless there is no other
        values = xp.where(ok > 0, values, float(xp.finfo(values.dtype).max))
    least, faded = xp.min(values, axis=1), None
    if before is not None:
        least = xp.minimum(before, least)
        faded = xp.exp(N * (least - before)[:, None])
    return zero_bad(xp.exp(N * (least[:, None] - values)), ok), faded, least


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressiveExponential(Exponential):
    r"""Estimate the gradient of -E exp(-N f(x + t u)) from M points around x, with a power N that grows as t falls.

    .. math::
        g = -\frac{1}{M t} \sum_{i=1}^M w_i u_i, \qquad
        w_i = \exp\left(-N_k \left(f(x + t u_i) - \min_j f(x + t u_j)\right)\right), \qquad
        N_k = N_1 \left(\frac{t_1}{t_k}\right)^p

    M = `samples` evaluations, :math:`N_1` = `sharpness`, p = `growth`, and :math:`t_1` is the first radius. All else is
    as for `exponential`: g has an unknown positive factor, and the update must use its direction only.

    Parameters
    ----------
    samples
        M, at least 2: the weights compare samples with each other.
    sharpness
        :math:`N_1`, in units of 1/f.
    growth
        p. The weights are best if N is about 1/s, where s is the standard deviation of f over the samples. That falls
        as t for a nearly linear f (p = 1, the default), and as t^2 around a minimum (p = 2). 0 keeps N.

    Notes
    -----
    The paper lets N grow and :math:`\sigma` (here t) fall along the run, and uses gradients of f: that is
    `progressive_gradient`. This oracle is its counterpart from values. Only the abstract
    of the paper was available, so the power law in t is slgh's choice.

    References
    ----------
    Xu. Progressive power homotopy for non-convex optimization. 2026 (arXiv:2601.15915).

    Xu. Power homotopy for zeroth-order non-convex optimizations. 2025 (arXiv:2511.13592): values, and a constant N.
    """

    name: ClassVar[str] = "progressive_exponential"

    growth: float = 1.0

    def __post_init__(self) -> None:
        Exponential.__post_init__(self)
        checks.at_least("growth", self.growth, 0)

    def init(self, x: Array, ctx: Context) -> Leaves:
        return (ctx.xp.zeros_like(x[:, 0]),)

    def _power(self, t: Array, state: Leaves, xp: Any) -> tuple[Any, Leaves]:
        (t1,) = state  # 0 before the first iteration
        t1 = xp.where(t1 > 0, t1, t)
        N = xp.clip(self.sharpness * (t1 / t) ** self.growth, max=float(xp.finfo(t.dtype).max))
        return N[:, None], (t1,)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressiveGradient(ProgressiveExponential):
    r"""Estimate the gradient of -log E exp(-N f(x + t u)) / N from gradients of f, with N growing as t falls.

    .. math::
        g = \frac{\sum_{i=1}^M w_i \nabla f(x + t u_i)}{\sum_{i=1}^M w_i}, \qquad
        w_i = \exp\left(-N_k f(x + t u_i)\right), \qquad
        N_k = N_1 \left(\frac{t_1}{t_k}\right)^p

    M = `samples` values and as many gradients, at the same points. The weights sum to 1, so g is a mean of gradients of
    f and has their scale: the paper's estimate of the gradient of E exp(-N f) is g times an unknown positive factor.
    For N = 0 this is `sampled_gradient`. All points of an iteration share one xi.

    Parameters
    ----------
    samples
        M, at least 2.
    sharpness
        :math:`N_1`, in units of 1/f.
    growth
        p, by default 1. 0 keeps N.

    Notes
    -----
    Only the abstract of the paper was available, so the power law in t (the paper's sigma) is slgh's choice.

    References
    ----------
    Xu. Progressive power homotopy for non-convex optimization. 2026 (arXiv:2601.15915).
    """

    name: ClassVar[str] = "progressive_gradient"
    asks: ClassVar[str] = "gradients"
    rounding: ClassVar[float | None] = 1.0

    def cost(self, first: bool, ctx: Context) -> int:
        return 2 * self.samples + int("f" in ctx.needs)

    def observe(self, x: Array, t: Array, state: Leaves, first: bool, noise: Noise, ctx: Context) -> Conversation:
        xp, d = ctx.xp, x.shape[-1]
        N, memory = self._power(t, state, xp)
        sums = SampleSums(self.samples, xp)
        center = None
        least: Array | None = None
        xi = noise.xi(1) if ctx.stochastic else None
        for m in ctx.chunks(self.samples, d):
            centers = int("f" in ctx.needs and center is None)
            query = query_around(x, t, [noise.normal(m)], centers=centers, xi=xi, ctx=ctx)
            answer = yield query
            points = query.points[:, centers:, :]
            slopes = yield Query("grad", points, xi=repeat_xi(xi, points, xp))
            center = select(answer, 0, 1) if centers else center
            sampled = select(answer, centers, centers + m)
            ok = both_good(sampled.ok, slopes.ok)
            sums.count(ok, m)
            sums.add_values("F", sampled.values, ok)
            weights, faded, least = weigh(sampled.values, ok, least, N, xp)
            if faded is not None:
                sums.totals["g"] *= faded
                sums.totals["weight"] *= faded[:, 0]
            sums.add("g", ctx.weighted_sum(weights, slopes.values))
            sums.add("weight", xp.sum(weights, axis=1))
        ok, rejected = sums.ok_and_rejected(center)
        weight = sums.totals["weight"]
        return Estimate(
            g=sums.totals["g"] / xp.where(weight > 0, weight, 1.0)[:, None],
            ok=ok,
            rejected=rejected,
            cosine=1.0,
            f=None if center is None else center.values[:, 0],
            F=sums.mean("F"),
        ), memory
