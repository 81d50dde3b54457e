r"""Forward differences along Gaussian directions: the paper's zeroth-order oracle, equations (7) and (9)."""

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
class Forward:
    r"""Estimate the gradient of F and the trace of its Hessian from f(x) and M points around it.

    .. math::
        \tilde g_x = \frac{1}{M} \sum_{i=1}^M \frac{f(x + t u_i) - f(x)}{t}\, u_i, \qquad
        \tilde g_t = \frac{1}{M} \sum_{i=1}^M \frac{(v_i^\top v_i - d)(f(x + t v_i) - f(x))}{t^2},

    with :math:`u_i, v_i \sim N(0, I_d)`: equations (7) and (9) of the paper, averaged over a minibatch.

    Parameters
    ----------
    samples
        M, the number of directions.
    slope_from
        "u": v = u, so that the slope in t costs nothing. "v": directions of its own, M more queries (the paper's
        Algorithm 3 to the letter). Both are unbiased. Without a schedule that needs the slope, neither is computed.
    xi
        For a stochastic f. "pairs": each direction i has its own xi_i in f(x + t u_i; xi_i) - f(x; xi_i), 2M queries.
        "shared": one xi an iteration, M + 1 queries.

    Notes
    -----
    The paper calls :math:`\tilde g_t` the derivative in t. It estimates tr Hess F; dF/dt is t times that.
    """

    name: ClassVar[str] = "forward"
    asks: ClassVar[str] = "values"
    exact: ClassVar[bool] = False
    provides: ClassVar[frozenset[str]] = frozenset({"f", "F", "trace", "slope"})
    rounding: ClassVar[float | None] = 1 / 2
    period: ClassVar[int] = 1

    samples: int = 1
    slope_from: str = "u"
    xi: str = "pairs"

    def __post_init__(self) -> None:
        checks.count("samples", self.samples)
        checks.choice("slope_from", self.slope_from, ("u", "v"))
        checks.choice("xi", self.xi, ("pairs", "shared"))

    def init(self, x: Array, ctx: Context) -> Leaves:
        return ()

    def cost(self, first: bool, ctx: Context) -> int:
        """Evaluations in an iteration."""
        centers = self.samples if self._paired(ctx) else 1
        return centers + self.samples * (2 if self._separate(ctx) else 1)

    def _paired(self, ctx: Context) -> bool:
        return ctx.stochastic and self.xi == "pairs"

    def _separate(self, ctx: Context) -> bool:
        return self.slope_from == "v" and bool(ctx.needs & {"trace", "slope"})

    def observe(self, x: Array, t: Array, state: Leaves, first: bool, noise: Noise, ctx: Context) -> Conversation:
        xp, d = ctx.xp, x.shape[-1]
        paired, separate = self._paired(ctx), self._separate(ctx)
        gradient = good = center = f = F = trace = traced = None
        xi = noise.xi(1) if ctx.stochastic and not paired else None
        for m in ctx.chunks(self.samples, d):
            u = noise.normal(m)
            v = noise.normal(m, stream=1) if separate else u
            xi = noise.xi(m) if paired else xi
            centers = m if paired else int(center is None)
            answer = yield around(x, t, [u, v] if separate else [u], centers=centers, xi=xi, ctx=ctx)
            center = cut(answer, 0, centers) if centers else center
            assert center is not None
            rise_u, ok_u = rise(cut(answer, centers, centers + m), center)
            gradient = add(gradient, ctx.weighted_sum(rise_u, u))
            good = add(good, count(ok_u, m, xp))
            if paired:
                f = add(f, xp.sum(kept(center.values, ok_u), axis=1))
            if "F" in ctx.needs:
                F = add(F, xp.sum(kept(rise_u + center.values, ok_u), axis=1))
            if ctx.needs & {"trace", "slope"}:
                rise_v, ok_v = rise_u, ok_u
                if separate:
                    rise_v, ok_v = rise(cut(answer, centers + m, centers + 2 * m), center)
                trace = add(trace, xp.vecdot(rise_v, xp.vecdot(v, v) - d))
                traced = add(traced, count(ok_v, m, xp))
        assert center is not None
        assert good is not None
        trace = None if trace is None else mean(trace, traced, xp) / (t * t)
        ok_all, rejected = verdict(good, self.samples, xp)
        if separate:
            _, lost = verdict(traced, self.samples, xp)
            rejected = rejected if lost is None else add(lost, 0.0 if rejected is None else rejected)
        return Estimate(
            g=slope_mean(gradient, good, t, xp),
            ok=ok_all,
            rejected=rejected,
            cosine=zeroth_order_cosine(self.samples, d),
            f=center.values[:, 0] if f is None else mean(f, good, xp),
            F=None if F is None else mean(F, good, xp),
            trace=trace,
            slope=None if trace is None else trace * t,
        ), ()
