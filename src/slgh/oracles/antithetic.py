r"""Central differences along Gaussian directions: pairs x + t u and x - t u."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from slgh import checks
from slgh.oracles.estimators import (
    add,
    both,
    both_ways,
    count,
    cut,
    kept,
    mean,
    slope_mean,
    verdict,
    zeroth_order_cosine,
)
from slgh.oracles.ranks import Pairs, by_ranks
from slgh.protocols import Answer, Array, Context, Conversation, Estimate, Leaves, Noise


class Sums(NamedTuple):
    """Sums over pairs, (B, d) each: slopes times directions, and what else was learned; None where nothing was yet."""

    slopes: Any = None
    lessons: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Antithetic:
    r"""Estimate the gradient of F from M antithetic pairs, without f(x).

    .. math::
        g = \frac{1}{M} \sum_{i=1}^M \frac{f(x + t u_i) - f(x - t u_i)}{2t}\, u_i, \qquad
        \operatorname{tr} H \approx \frac{1}{M} \sum_{i=1}^M \frac{(u_i^\top u_i - d)
        (f(x + t u_i) + f(x - t u_i) - 2 f(x))}{2t^2},

    M = `samples` pairs, 2M evaluations. The even part of f drops out of g, and with it the variance that the
    curvature of f brings into forward differences. f(x) is asked for (one evaluation more) only where the schedule
    needs f or the trace. Both points of a pair share their xi; `xi="shared"` uses one xi an iteration.

    Parameters
    ----------
    values
        "raw": f as it is. "ranks": in g, each of the 2M values is replaced by its rank among them, from -1/2 to 1/2, so
        that g is the same for f and for any increasing function of f (fitness shaping). f, F and the trace stay those
        of the values.

    Notes
    -----
    With ranks the directions of the whole minibatch are kept until all values are known. The expected cosine is that
    of raw values; for a nearly linear f that of ranks is lower by at most 1 - sqrt(3 / pi), 2.3 %.
    """

    name: ClassVar[str] = "antithetic"
    asks: ClassVar[str] = "values"
    exact: ClassVar[bool] = False
    provides: ClassVar[frozenset[str]] = frozenset({"f", "F", "trace", "slope"})
    rounding: ClassVar[float | None] = 1 / 3
    period: ClassVar[int] = 1

    samples: int = 1
    values: str = "raw"
    xi: str = "pairs"

    def __post_init__(self) -> None:
        checks.count("samples", self.samples)
        checks.choice("values", self.values, ("raw", "ranks"))
        checks.choice("xi", self.xi, ("pairs", "shared"))

    def init(self, x: Array, ctx: Context) -> Leaves:
        return ()

    def cost(self, first: bool, ctx: Context) -> int:
        """Evaluations in an iteration."""
        centers = 0 if not self._centered(ctx) else self.samples if self._paired(ctx) else 1
        return centers + 2 * self.samples

    def _paired(self, ctx: Context) -> bool:
        return ctx.stochastic and self.xi == "pairs"

    def _centered(self, ctx: Context) -> bool:
        return bool(ctx.needs & {"f", "trace", "slope"})

    def _directions(self, m: int, noise: Noise, xp: Any) -> Array:
        """The next m of them, (B, m, d), valid until the next call."""
        return noise.normal(m)

    def _widths(self, state: Leaves, xp: Any) -> Array | None:
        """How far the points lie from x in each variable, (B, d), in units of t u; None: 1 in all of them."""
        return None

    def _lesson(self, even: Answer, u: Array, ctx: Context) -> Array | None:
        """What the even part of f along some directions teaches, as a sum over them, (B, d); None: nothing."""
        return None

    def _learned(self, state: Leaves, lessons: Array | None, good: Any, xp: Any) -> Leaves:
        """What to remember after an iteration, from the sum of its lessons and the number of pairs that were good."""
        return state

    def _weighed(self, sums: Sums, odd: Array, even: Answer, u: Array, ctx: Context) -> Sums:
        """The sums with those of another chunk of pairs, whose values have this odd and this even part."""
        lesson = self._lesson(even, u, ctx)
        return Sums(
            add(sums.slopes, ctx.weighted_sum(odd, u)), sums.lessons if lesson is None else add(sums.lessons, lesson)
        )

    def observe(self, x: Array, t: Array, state: Leaves, first: bool, noise: Noise, ctx: Context) -> Conversation:
        xp, d = ctx.xp, x.shape[-1]
        paired, centered = self._paired(ctx), self._centered(ctx)
        widths = self._widths(state, xp)
        good = center = f = F = trace = None
        sums = Sums()
        ranked: list[Pairs] = []
        xi = noise.xi(1) if ctx.stochastic and not paired else None
        chunks = ctx.chunks(self.samples, d)
        for m in chunks:
            u = self._directions(m, noise, xp)
            xi = noise.xi(m) if paired else xi
            centers = 0 if not centered else m if paired else int(center is None)
            answer = yield both_ways(x, t, u, widths=widths, centers=centers, xi=xi, ctx=ctx)
            plus, minus = cut(answer, centers, centers + m), cut(answer, centers + m, centers + 2 * m)
            ok = both(plus.ok, minus.ok)
            if centered:
                center = cut(answer, 0, centers) if centers else center
                assert center is not None
                ok = both(ok, None if center.ok is None else xp.broadcast_to(center.ok, plus.values.shape))
                if paired:
                    f = add(f, xp.sum(kept(center.values, ok), axis=1))
            good = add(good, count(ok, m, xp))
            even = kept((plus.values + minus.values) / 2, ok)
            if self.values == "raw":
                sums = self._weighed(sums, kept(plus.values - minus.values, ok), Answer(even, ok), u, ctx)
            else:
                u_kept = u if len(chunks) == 1 else xp.asarray(u, copy=True)
                ranked.append(Pairs(plus.values, minus.values, ok, u_kept))
            F = add(F, xp.sum(even, axis=1))
            if center is not None and ctx.needs & {"trace", "slope"}:
                bend = kept(even - center.values, ok)
                trace = add(trace, xp.vecdot(bend, xp.vecdot(u, u) - d))
        assert good is not None
        for odd, even, pairs in by_ranks(ranked, xp) if ranked else ():
            sums = self._weighed(sums, odd, Answer(even, pairs.ok), pairs.u, ctx)
        trace = None if trace is None else mean(trace, good, xp) / (t * t)
        if center is not None:
            f = center.values[:, 0] if f is None else mean(f, good, xp)
        ok_all, rejected = verdict(good, self.samples, xp)
        g = slope_mean(sums.slopes, good, 2 * t, xp)
        return Estimate(
            g=g if widths is None else g / widths,
            widths=widths,
            ok=ok_all,
            rejected=rejected,
            cosine=zeroth_order_cosine(self.samples, d),
            f=f,
            F=mean(F, good, xp),
            trace=trace,
            slope=None if trace is None else trace * t,
        ), self._learned(state, sums.lessons, good, xp)
