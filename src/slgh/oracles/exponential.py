r"""Samples weighted by exp(-N f): the oracle of power-transformed Gaussian smoothing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from slgh import checks
from slgh.oracles.estimators import add, around, count, cut, kept, mean, slope_mean, verdict, zeroth_order_cosine
from slgh.protocols import Array, Context, Conversation, Estimate, Leaves, Noise


@dataclass(frozen=True, slots=True, kw_only=True)
class Exponential:
    r"""Estimate the gradient of -E exp(-N f(x + t u)) from M points around x, up to a factor.

    .. math::
        g = -\frac{1}{M t} \sum_{i=1}^M w_i u_i, \qquad
        w_i = \exp\left(-N \left(f(x + t u_i) - \min_j f(x + t u_j)\right)\right)

    M = `samples` evaluations, N = `sharpness`, :math:`u_i \sim N(0, I_d)`. The least value is subtracted so that no
    exponential overflows. That scales g by an unknown positive factor, another one in each iteration: it belongs with
    an update that looks at the direction alone. f(x) is asked for (one evaluation more) only where it is needed. All
    points of an iteration share one xi, because their values are compared with each other.

    Parameters
    ----------
    samples
        M, at least 2: the weights compare samples with each other.
    sharpness
        N, in units of 1/f: for b f it is N/b. Far below 1/s, s the standard deviation of f over the samples, all
        weights are alike, and g is noise; far above, the lowest sample alone has weight. For a nearly linear f the
        expected cosine between g and the gradient is greatest at N = 1/s, where M of these samples are worth M/e
        antithetic pairs.

    References
    ----------
    Xu. Global optimization with a power-transformed objective and Gaussian smoothing. ICML 2025.
    """

    name: ClassVar[str] = "exponential"
    asks: ClassVar[str] = "values"
    exact: ClassVar[bool] = False
    provides: ClassVar[frozenset[str]] = frozenset({"f", "F"})
    rounding: ClassVar[float | None] = 1 / 2
    period: ClassVar[int] = 1

    samples: int = 10
    sharpness: float

    def __post_init__(self) -> None:
        checks.count("samples", self.samples, 2)
        checks.real("sharpness", self.sharpness, above=0)

    def init(self, x: Array, ctx: Context) -> Leaves:
        return ()

    def cost(self, first: bool, ctx: Context) -> int:
        """Evaluations in an iteration."""
        return self.samples + int("f" in ctx.needs)

    def observe(self, x: Array, t: Array, state: Leaves, first: bool, noise: Noise, ctx: Context) -> Conversation:
        xp, d = ctx.xp, x.shape[-1]
        gradient = good = center = F = None
        least: Array = None
        xi = noise.xi(1) if ctx.stochastic else None
        for m in ctx.chunks(self.samples, d):
            u = noise.normal(m)
            centers = int("f" in ctx.needs and center is None)
            answer = yield around(x, t, [u], centers=centers, xi=xi, ctx=ctx)
            center = cut(answer, 0, 1) if centers else center
            values, ok = cut(answer, centers, centers + m)
            good = add(good, count(ok, m, xp))
            F = add(F, xp.sum(kept(values, ok), axis=1))
            if ok is not None:  # the largest number is never the least value, unless there is no other
                values = xp.where(ok > 0, values, float(xp.finfo(values.dtype).max))
            before, least = least, xp.min(values, axis=1)
            if gradient is not None:  # what was weighted against another least value is weighted anew
                least = xp.minimum(before, least)
                gradient *= xp.exp(self.sharpness * (least - before))[:, None]
            weights = kept(xp.exp(self.sharpness * (least[:, None] - values)), ok)
            gradient = add(gradient, ctx.weighted_sum(-weights, u))
        assert good is not None
        ok_all, rejected = verdict(good, self.samples, xp, center)
        return Estimate(
            g=slope_mean(gradient, good, t, xp),
            ok=ok_all,
            rejected=rejected,
            cosine=zeroth_order_cosine(self.samples / math.e, d),
            f=None if center is None else center.values[:, 0],
            F=mean(F, good, xp),
        ), ()
