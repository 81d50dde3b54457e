r"""Gradients of f, at x itself (GD, SGD) or averaged over Gaussian directions (first-order SLGH by sampling)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slgh import checks
from slgh.oracles.estimators import add, around, count, mean, repeat, verdict
from slgh.protocols import Array, Context, Conversation, Estimate, Leaves, Noise, Query


@dataclass(frozen=True, slots=True, kw_only=True)
class Gradient:
    r"""The gradient at x itself; t plays no part.

    .. math:: g = \nabla f(x) \quad\text{or}\quad \frac{1}{M} \sum_{i=1}^M \nabla \bar f(x; \xi_i)

    M = `samples` for a stochastic f. One value of f is asked for too (with the first xi), so that the run can be
    followed, stopped at a target and defended against bad values.
    """

    name: ClassVar[str] = "gradient"
    asks: ClassVar[str] = "gradients"
    exact: ClassVar[bool] = True
    provides: ClassVar[frozenset[str]] = frozenset({"f"})
    rounding: ClassVar[float | None] = None
    period: ClassVar[int] = 1

    samples: int = 1

    def __post_init__(self) -> None:
        checks.count("samples", self.samples)

    def init(self, x: Array, ctx: Context) -> Leaves:
        return ()

    def cost(self, first: bool, ctx: Context) -> int:
        """Evaluations of f and of its gradient in an iteration."""
        return 1 + (self.samples if ctx.stochastic else 1)

    def observe(self, x: Array, t: Array, state: Leaves, first: bool, noise: Noise, ctx: Context) -> Conversation:
        xp, d = ctx.xp, x.shape[-1]
        samples = self.samples if ctx.stochastic else 1
        gradient = good = value = None
        for m in ctx.chunks(samples, d):
            xi = noise.xi(m) if ctx.stochastic else None
            if value is None:
                value = yield Query("fun", x[:, None, :], xi=None if xi is None else xi[:, :1], centers=1)
            answer = yield Query("grad", repeat(x, m, xp), xi=xi)
            gradient = add(gradient, xp.sum(answer.values, axis=1))
            good = add(good, count(answer.ok, m, xp))
        assert value is not None
        assert good is not None
        ok, rejected = verdict(good, samples, xp, value)
        return Estimate(
            g=mean(gradient, good, xp),
            ok=ok,
            rejected=rejected,
            cosine=1.0,
            f=value.values[:, 0],
        ), ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledGradient:
    r"""The gradient of F by sampling gradients of f, and with it the slope in t at no extra cost.

    .. math::
        \nabla_x F \approx \frac{1}{M} \sum_{i=1}^M \nabla f(x + t u_i), \qquad
        \frac{\partial F}{\partial t} \approx \frac{1}{M} \sum_{i=1}^M u_i^\top \nabla f(x + t u_i)
        = t \operatorname{tr} \operatorname{Hess} F

    M = `samples`, :math:`u_i \sim N(0, I_d)`; a stochastic f has its own xi_i for each direction. Nothing cancels as t
    falls, so the default floor of t is only where x + t u is x.
    """

    name: ClassVar[str] = "sampled_gradient"
    asks: ClassVar[str] = "gradients"
    exact: ClassVar[bool] = False
    provides: ClassVar[frozenset[str]] = frozenset({"f", "trace", "slope"})
    rounding: ClassVar[float | None] = 1.0
    period: ClassVar[int] = 1

    samples: int = 1

    def __post_init__(self) -> None:
        checks.count("samples", self.samples)

    def init(self, x: Array, ctx: Context) -> Leaves:
        return ()

    def cost(self, first: bool, ctx: Context) -> int:
        """Evaluations of f and of its gradient in an iteration."""
        return 1 + self.samples

    def observe(self, x: Array, t: Array, state: Leaves, first: bool, noise: Noise, ctx: Context) -> Conversation:
        xp, d = ctx.xp, x.shape[-1]
        gradient = good = slope = value = None
        for m in ctx.chunks(self.samples, d):
            u = noise.normal(m)
            xi = noise.xi(m) if ctx.stochastic else None
            if value is None:
                value = yield Query("fun", x[:, None, :], xi=None if xi is None else xi[:, :1], centers=1)
            answer = yield around(x, t, [u], centers=0, xi=xi, ctx=ctx, what="grad")
            gradient = add(gradient, xp.sum(answer.values, axis=1))
            good = add(good, count(answer.ok, m, xp))
            if ctx.needs & {"trace", "slope"}:
                slope = add(slope, xp.sum(xp.vecdot(answer.values, u), axis=1))
        assert value is not None
        assert good is not None
        slope = None if slope is None else mean(slope, good, xp)
        ok, rejected = verdict(good, self.samples, xp, value)
        return Estimate(
            g=mean(gradient, good, xp),
            ok=ok,
            rejected=rejected,
            cosine=1.0,
            f=value.values[:, 0],
            trace=None if slope is None else slope / t,
            slope=slope,
        ), ()
