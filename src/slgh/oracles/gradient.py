r"""Gradients of f, at x itself (GD, SGD) or averaged over Gaussian directions (first-order SLGH by sampling)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slgh.oracles.estimators import SampleSums, SamplingOracle, query_around, query_value, repeat
from slgh.protocols import Array, Context, Conversation, Estimate, Leaves, Noise, Query


@dataclass(frozen=True, slots=True, kw_only=True)
class Gradient(SamplingOracle):
    r"""Evaluate the gradient at x itself, whatever t is.

    .. math:: g = \nabla f(x) \quad\text{or}\quad \frac{1}{M} \sum_{i=1}^M \nabla \bar f(x; \xi_i)

    M = `samples` for a stochastic f. One value of f is evaluated too (with the first xi), for the history, the target
    and the policy for bad values.

    Parameters
    ----------
    samples
        M, the number of draws of :math:`\xi` per iteration for a stochastic f. Otherwise it has no effect.
    """

    name: ClassVar[str] = "gradient"
    asks: ClassVar[str] = "gradients"
    exact: ClassVar[bool] = True
    provides: ClassVar[frozenset[str]] = frozenset({"f"})
    rounding: ClassVar[float | None] = None

    def cost(self, first: bool, ctx: Context) -> int:
        return 1 + (self.samples if ctx.stochastic else 1)

    def observe(self, x: Array, t: Array, state: Leaves, first: bool, noise: Noise, ctx: Context) -> Conversation:
        xp, d = ctx.xp, x.shape[-1]
        samples = self.samples if ctx.stochastic else 1
        sums = SampleSums(samples, xp)
        value = None
        for m in ctx.chunks(samples, d):
            xi = noise.xi(m) if ctx.stochastic else None
            if value is None:
                value = yield query_value(x, xi)
            answer = yield Query("grad", repeat(x, m, xp), xi=xi)
            sums.add("g", xp.sum(answer.values, axis=1))
            sums.count(answer.ok, m)
        assert value is not None
        ok, rejected = sums.ok_and_rejected(value)
        return Estimate(g=sums.mean("g"), ok=ok, rejected=rejected, cosine=1.0, f=value.values[:, 0]), ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledGradient(SamplingOracle):
    r"""Estimate the gradient of F from gradients of f, and with it the slope in t at no extra cost.

    .. math::
        \nabla_x F \approx \frac{1}{M} \sum_{i=1}^M \nabla f(x + t u_i), \qquad
        \frac{\partial F}{\partial t} \approx \frac{1}{M} \sum_{i=1}^M u_i^\top \nabla f(x + t u_i)
        = t \operatorname{tr} \operatorname{Hess} F

    M = `samples`, :math:`u_i \sim N(0, I_d)`; for a stochastic f each direction has its own :math:`\xi_i`. Nothing
    cancels as t falls, so the default floor of t is the radius below which x + t u rounds to x.

    Parameters
    ----------
    samples
        M, the number of directions per iteration.
    """

    name: ClassVar[str] = "sampled_gradient"
    asks: ClassVar[str] = "gradients"
    provides: ClassVar[frozenset[str]] = frozenset({"f", "trace", "slope"})
    rounding: ClassVar[float | None] = 1.0

    def cost(self, first: bool, ctx: Context) -> int:
        return 1 + self.samples

    def observe(self, x: Array, t: Array, state: Leaves, first: bool, noise: Noise, ctx: Context) -> Conversation:
        xp, d = ctx.xp, x.shape[-1]
        sums = SampleSums(self.samples, xp)
        value = None
        for m in ctx.chunks(self.samples, d):
            u = noise.normal(m)
            xi = noise.xi(m) if ctx.stochastic else None
            if value is None:
                value = yield query_value(x, xi)
            answer = yield query_around(x, t, [u], centers=0, xi=xi, ctx=ctx, what="grad")
            sums.add("g", xp.sum(answer.values, axis=1))
            sums.count(answer.ok, m)
            if ctx.needs & {"trace", "slope"}:
                sums.add("slope", xp.sum(xp.vecdot(answer.values, u), axis=1))
        assert value is not None
        ok, rejected = sums.ok_and_rejected(value)
        slope = sums.mean("slope")
        return Estimate(
            g=sums.mean("g"),
            ok=ok,
            rejected=rejected,
            cosine=1.0,
            f=value.values[:, 0],
            trace=None if slope is None else slope / t,
            slope=slope,
        ), ()
