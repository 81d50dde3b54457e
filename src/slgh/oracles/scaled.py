r"""Antithetic pairs whose widths are learnt, one for each variable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slgh import checks
from slgh.oracles.asking import (
    add,
    around,
    both,
    count,
    cut,
    kept,
    mean,
    rise,
    slope_mean,
    verdict,
    zeroth_order_cosine,
)
from slgh.oracles.ranks import Pairs, centred_ranks, rank_differences
from slgh.parts import Answer, Array, Context, Conversation, Leaves, Noise, Observed


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled:
    r"""Estimate the gradient of F from M pairs at x + t w u and x - t w u, and learn the widths w (d,) on the way.

    .. math::
        g = \frac{1}{M} \sum_{i=1}^M \frac{f(x + t w u_i) - f(x - t w u_i)}{2t}\, \frac{u_i}{w}, \qquad
        \log w \leftarrow \log w - \frac{2 \rho}{M} \sum_{i=1}^M r_i\, (u_i^2 - 1)

    r_i, from -1/2 to 1/2, is the rank among the pairs of the even part f(x + t w u_i) + f(x - t w u_i), which sees the
    curvature and nothing of the slope: where long steps along a variable go with high values, f is steep there, and its
    width shrinks. (The formula is the natural gradient of the mean of f in log w, by ranks.) The geometric mean of the
    widths stays 1, so that t keeps its meaning. f(x) is asked for only where the schedule needs it.

    Parameters
    ----------
    rate
        :math:`\rho`; 0 keeps all widths at 1, which is the antithetic oracle.
    values
        "raw": f as it is. "ranks": also in g, each of the 2M values is replaced by its rank among them.

    Notes
    -----
    Widths follow from ranks within a query. Where the directions of an iteration do not fit one query, from about
    100,000 variables on, little is learnt, and nothing from queries of a single pair.
    """

    name: ClassVar[str] = "scaled"
    asks: ClassVar[str] = "values"
    exact: ClassVar[bool] = False
    provides: ClassVar[frozenset[str]] = frozenset({"f", "F"})
    rounding: ClassVar[float | None] = 1 / 3
    period: ClassVar[int] = 1

    samples: int = 1
    rate: float = 0.03
    values: str = "raw"
    xi: str = "pairs"

    def __post_init__(self) -> None:
        checks.count("samples", self.samples)
        checks.at_least("rate", self.rate, 0)
        checks.choice("values", self.values, ("raw", "ranks"))
        checks.choice("xi", self.xi, ("pairs", "shared"))

    def init(self, x: Array, ctx: Context) -> Leaves:
        return (ctx.xp.zeros_like(x),)

    def cost(self, first: bool, ctx: Context) -> int:
        """Evaluations in an iteration."""
        centres = 0 if "f" not in ctx.needs else self.samples if self._paired(ctx) else 1
        return centres + 2 * self.samples

    def _paired(self, ctx: Context) -> bool:
        return ctx.stochastic and self.xi == "pairs"

    def observe(self, x: Array, t: Array, state: Leaves, first: bool, noise: Noise, ctx: Context) -> Conversation:
        xp, d = ctx.xp, x.shape[-1]
        paired = self._paired(ctx)
        (log_widths,) = state
        widths = xp.exp(log_widths)
        gradient = good = f = F = lesson = None
        ranked: list[Pairs] = []
        xi = noise.xi(1) if ctx.stochastic and not paired else None
        chunks = ctx.chunks(self.samples, d)
        for m in chunks:
            u = noise.normal(m)
            xi = noise.xi(m) if paired else xi
            centres = 0 if "f" not in ctx.needs else m if paired else int(f is None)
            stretched = u * widths[:, None, :]
            answer = yield around(x, t, [stretched, -stretched], centres=centres, xi=xi, ctx=ctx)
            plus, minus = cut(answer, centres, centres + m), cut(answer, centres + m, centres + 2 * m)
            odd, ok = rise(plus, minus)
            if centres:
                centre = cut(answer, 0, centres)
                ok = both(ok, centre.ok if paired or centre.ok is None else xp.broadcast_to(centre.ok, odd.shape))
                odd = kept(odd, ok)
                f = add(f, xp.sum(kept(centre.values, ok), axis=1)) if paired else centre.values[:, 0]
            if self.values == "raw":
                gradient = add(gradient, ctx.weigh(odd, u))
            else:
                u_kept = u if len(chunks) == 1 else xp.asarray(u, copy=True)
                ranked.append(Pairs(Answer(plus.values, ok), Answer(minus.values, ok), u_kept))
            good = add(good, count(ok, m, xp))
            even = kept((plus.values + minus.values) / 2, ok)
            F = add(F, xp.sum(even, axis=1))
            if m > 1:
                lesson = add(lesson, ctx.weigh(centred_ranks(Answer(even, ok), xp), u * u - 1.0))
        assert good is not None
        for odd, u in rank_differences(ranked, xp) if ranked else ():
            gradient = add(gradient, ctx.weigh(odd, u))
        if lesson is not None:
            log_widths = log_widths - (2.0 * self.rate) * mean(lesson, good, xp)
            log_widths = log_widths - xp.mean(log_widths, axis=1, keepdims=True)
        ok_all, rejected = verdict(good, self.samples, xp)
        return Observed(
            g=slope_mean(gradient, good, 2 * t, xp) / widths,
            widths=widths,
            ok=ok_all,
            rejected=rejected,
            cosine=zeroth_order_cosine(self.samples, d),
            f=mean(f, good, xp) if paired and f is not None else f,
            F=mean(F, good, xp),
        ), (log_widths,)
