r"""The exact gradient of F and its slope in t, from a closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slgh import checks
from slgh.oracles.estimators import count, mean, repeat, verdict
from slgh.protocols import Answer, Array, Context, Conversation, Estimate, Leaves, Noise, Query


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedForm:
    r"""Ask a closed form for what Algorithm 2 needs.

    .. math::
        g = \nabla_x F(x, t), \qquad \frac{\partial F}{\partial t}, \quad \operatorname{tr}\operatorname{Hess}_x F

    or their means over M = `samples` draws of xi, :math:`\frac1M \sum_i \nabla_x \bar F(x, t; \xi_i)`, for a
    stochastic f. f(x) = F(x, 0) is asked for too. A closed form has no floor: nothing is lost as t falls to 0.
    """

    name: ClassVar[str] = "closed_form"
    asks: ClassVar[str] = "closed form"
    exact: ClassVar[bool] = True
    provides: ClassVar[frozenset[str]] = frozenset({"f", "F", "F_next", "grad_f", "trace", "slope"})
    rounding: ClassVar[float | None] = None
    period: ClassVar[int] = 1

    samples: int = 1

    def __post_init__(self) -> None:
        checks.count("samples", self.samples)

    def init(self, x: Array, ctx: Context) -> Leaves:
        return ()

    def cost(self, first: bool, ctx: Context) -> int:
        """Evaluations of f, F and its derivatives in an iteration."""
        each = 1 + len(ctx.needs & {"F", "trace", "slope"})
        return 1 + (self.samples if ctx.stochastic else 1) * each + len(ctx.needs & {"F_next", "grad_f"})

    def observe(self, x: Array, t: Array, state: Leaves, first: bool, noise: Noise, ctx: Context) -> Conversation:
        xp = ctx.xp
        samples = self.samples if ctx.stochastic else 1
        xi = noise.xi(samples) if ctx.stochastic else None
        value = yield Query("fun", x[:, None, :], xi=None if xi is None else xi[:, :1], centers=1)
        points = repeat(x, samples, xp)
        gradient = yield Query("F.grad", points, t=t[:, None], xi=xi)

        def average(answer: Answer) -> Array:
            return mean(xp.sum(answer.values, axis=1), count(answer.ok, samples, xp), xp)

        F = average((yield Query("F", points, t=t[:, None], xi=xi))) if "F" in ctx.needs else None
        trace = average((yield Query("F.trace", points, t=t[:, None], xi=xi))) if "trace" in ctx.needs else None
        slope = average((yield Query("F.dt", points, t=t[:, None], xi=xi))) if "slope" in ctx.needs else None
        grad_f = None
        if "grad_f" in ctx.needs:
            answer = yield Query("grad", x[:, None, :])
            grad_f = answer.values[:, 0, :]
            if answer.ok is not None:  # what is not finite must not pass for the least one
                grad_f = xp.where(answer.ok > 0, grad_f, xp.inf)
        ok, rejected = verdict(count(gradient.ok, samples, xp), samples, xp, value)
        return Estimate(
            g=average(gradient) if samples > 1 else gradient.values[:, 0, :],
            ok=ok,
            rejected=rejected,
            cosine=1.0,
            grad_f=grad_f,
            f=value.values[:, 0],
            F=F,
            trace=trace,
            slope=slope,
        ), ()
