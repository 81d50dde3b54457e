r"""The exact gradient of F and its slope in t, from a closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slgh.oracles.estimators import SampleSums, SamplingOracle, query_value, repeat
from slgh.protocols import Answer, Array, Context, Conversation, Estimate, Leaves, Noise, Query


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedForm(SamplingOracle):
    r"""Evaluate what Algorithm 2 needs from a closed form.

    .. math::
        g = \nabla_x F(x, t), \qquad \frac{\partial F}{\partial t}, \quad \operatorname{tr}\operatorname{Hess}_x F

    For a stochastic f these are means over M = `samples` draws of xi,
    :math:`\frac1M \sum_i \nabla_x \bar F(x, t; \xi_i)`. f(x) = F(x, 0) is evaluated too. There is no floor: a closed
    form loses no precision as t falls to 0.

    Parameters
    ----------
    samples
        M, the number of draws of :math:`\xi` per iteration for a stochastic f. Otherwise it has no effect.
    """

    name: ClassVar[str] = "closed_form"
    asks: ClassVar[str] = "closed form"
    exact: ClassVar[bool] = True
    provides: ClassVar[frozenset[str]] = frozenset({"f", "F", "F_next", "grad_f", "trace", "slope"})
    rounding: ClassVar[float | None] = None

    def cost(self, first: bool, ctx: Context) -> int:
        each = 1 + len(ctx.needs & {"F", "trace", "slope"})
        return 1 + (self.samples if ctx.stochastic else 1) * each + len(ctx.needs & {"F_next", "grad_f"})

    def observe(self, x: Array, t: Array, state: Leaves, first: bool, noise: Noise, ctx: Context) -> Conversation:
        xp = ctx.xp
        samples = self.samples if ctx.stochastic else 1
        xi = noise.xi(samples) if ctx.stochastic else None
        value = yield query_value(x, xi)
        points = repeat(x, samples, xp)

        def sum_up(answer: Answer) -> SampleSums:
            sums = SampleSums(samples, xp)
            sums.add("values", xp.sum(answer.values, axis=1))
            sums.count(answer.ok, samples)
            return sums

        def query(what: str) -> Query:
            return Query(what, points, t=t[:, None], xi=xi)

        gradient = yield query("F.grad")
        sums = sum_up(gradient)
        F = sum_up((yield query("F"))).mean("values") if "F" in ctx.needs else None
        trace = sum_up((yield query("F.trace"))).mean("values") if "trace" in ctx.needs else None
        slope = sum_up((yield query("F.dt"))).mean("values") if "slope" in ctx.needs else None
        grad_f = None
        if "grad_f" in ctx.needs:
            answer = yield Query("grad", x[:, None, :])
            grad_f = answer.values[:, 0, :]
            if answer.ok is not None:  # a bad gradient, replaced by 0, must not pass for the least one
                grad_f = xp.where(answer.ok > 0, grad_f, xp.inf)
        ok, rejected = sums.ok_and_rejected(value)
        return Estimate(
            g=sums.mean("values") if samples > 1 else gradient.values[:, 0, :],
            ok=ok,
            rejected=rejected,
            cosine=1.0,
            grad_f=grad_f,
            f=value.values[:, 0],
            F=F,
            trace=trace,
            slope=slope,
        ), ()
