r"""Central differences: pairs x + t u and x - t u, along normals, along signs, or with learned widths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from slgh import checks
from slgh.oracles.estimators import (
    SampleSums,
    SamplingOracle,
    both_good,
    repeat_xi,
    select,
    zero_bad,
    zeroth_order_cosine,
)
from slgh.oracles.ranks import Pairs, centered_ranks, rank_pairs
from slgh.protocols import Answer, Array, Context, Conversation, Estimate, Leaves, Noise, Query


@dataclass(frozen=True, slots=True, kw_only=True)
class Antithetic(SamplingOracle):
    r"""Estimate the gradient of F from M antithetic pairs, without f(x).

    .. math::
        g = \frac{1}{M} \sum_{i=1}^M \frac{f(x + t u_i) - f(x - t u_i)}{2t}\, u_i, \qquad
        \operatorname{tr} H \approx \frac{1}{M} \sum_{i=1}^M \frac{(u_i^\top u_i - d)
        (f(x + t u_i) + f(x - t u_i) - 2 f(x))}{2t^2},

    M = `samples` pairs, 2M evaluations. The even part of f cancels in g, and with it the variance that the curvature of
    f adds to forward differences. f(x) takes one more evaluation, and is evaluated only if the schedule needs f or the
    trace. Both points of a pair share their xi; `xi="shared"` uses one xi per iteration.

    Parameters
    ----------
    samples
        M, the number of pairs per iteration.
    values
        "raw": f itself. "ranks": in g, each of the 2M values is replaced by its rank among them, from -1/2 to 1/2, so
        that g is the same for f and for any increasing function of f (fitness shaping). f, F and the trace use the
        values.
    xi
        For a stochastic f. "pairs": each pair has its own :math:`\xi`. "shared": one :math:`\xi` per iteration.

    Notes
    -----
    With ranks the directions of the whole minibatch are kept until all values are known. The expected cosine is that
    of raw values; for a nearly linear f that of ranks is lower by at most 1 - sqrt(3 / pi), 2.3 %.
    """

    name: ClassVar[str] = "antithetic"
    provides: ClassVar[frozenset[str]] = frozenset({"f", "F", "trace", "slope"})
    rounding: ClassVar[float | None] = 1 / 3

    values: str = "raw"
    xi: str = "pairs"

    def __post_init__(self) -> None:
        SamplingOracle.__post_init__(self)
        checks.choice("values", self.values, ("raw", "ranks"))
        checks.choice("xi", self.xi, ("pairs", "shared"))

    def cost(self, first: bool, ctx: Context) -> int:
        centers = 0 if not self._centered(ctx) else self.samples if self._paired(ctx) else 1
        return centers + 2 * self.samples

    def _paired(self, ctx: Context) -> bool:
        return ctx.stochastic and self.xi == "pairs"

    def _centered(self, ctx: Context) -> bool:
        return bool(ctx.needs & {"f", "trace", "slope"})

    # Subclasses choose the directions, scale them or the estimate, and learn from the even part of f.

    def _directions(self, m: int, t: Array, noise: Noise, xp: Any) -> Array:
        """Return the next m directions at radius t (B,), as (B, m, d), valid until the next call."""
        return noise.normal(m)

    def _rescaled(self, g: Array, t: Array, xp: Any) -> Array:
        """Return the estimate for a mean of directions times slopes, g (B, d)."""
        return g

    def _widths(self, state: Leaves, xp: Any) -> Array | None:
        """Return the widths w (B, d): the points are x + t w u. None: all are 1."""
        return None

    def _lesson(self, even: Answer, u: Array, ctx: Context) -> Array | None:
        """Return a sum over some directions, (B, d), to learn from the even part of f along them."""
        return None

    def _learned(self, state: Leaves, lesson: Array | None, xp: Any) -> Leaves:
        """Return what to remember after an iteration with this mean of the lessons."""
        return state

    def _add_pairs(self, sums: SampleSums, odd: Array, even: Answer, u: Array, ctx: Context) -> None:
        """Add to the sums a chunk of pairs with this odd and this even part of the values."""
        lesson = self._lesson(even, u, ctx)
        sums.add("g", ctx.weighted_sum(odd, u))
        if lesson is not None:
            sums.add("lesson", lesson)

    def observe(self, x: Array, t: Array, state: Leaves, first: bool, noise: Noise, ctx: Context) -> Conversation:
        xp, d = ctx.xp, x.shape[-1]
        paired, centered = self._paired(ctx), self._centered(ctx)
        widths = self._widths(state, xp)
        sums = SampleSums(self.samples, xp)
        center = None
        ranked: list[Pairs] = []
        xi = noise.xi(1) if ctx.stochastic and not paired else None
        chunks = ctx.chunks(self.samples, d)
        for m in chunks:
            u = self._directions(m, t, noise, xp)
            xi = noise.xi(m) if paired else xi
            centers = 0 if not centered else m if paired else int(center is None)
            points = ctx.antithetic_points(x, t, u, widths, centers)
            answer = yield Query("fun", points, xi=repeat_xi(xi, points, xp), centers=centers, samples=m)
            plus, minus = select(answer, centers, centers + m), select(answer, centers + m, centers + 2 * m)
            ok = both_good(plus.ok, minus.ok)
            if centered:
                center = select(answer, 0, centers) if centers else center
                assert center is not None
                ok = both_good(ok, None if center.ok is None else xp.broadcast_to(center.ok, plus.values.shape))
                if paired:
                    sums.add_values("f", center.values, ok)
            sums.count(ok, m)
            even = zero_bad((plus.values + minus.values) / 2, ok)
            if self.values == "raw":
                self._add_pairs(sums, zero_bad(plus.values - minus.values, ok), Answer(even, ok), u, ctx)
            else:  # the noise reuses the memory of u for the next chunk
                u_kept = u if len(chunks) == 1 else xp.asarray(u, copy=True)
                ranked.append(Pairs(plus.values, minus.values, ok, u_kept))
            sums.add("F", xp.sum(even, axis=1))
            if center is not None and ctx.needs & {"trace", "slope"}:
                bend = zero_bad(even - center.values, ok)
                sums.add("trace", xp.vecdot(bend, xp.vecdot(u, u) - d))
        for odd, even, pairs in rank_pairs(ranked, xp) if ranked else ():
            self._add_pairs(sums, odd, Answer(even, pairs.ok), pairs.u, ctx)
        trace = sums.mean("trace")
        trace = None if trace is None else trace / (t * t)
        ok, rejected = sums.ok_and_rejected()
        g = self._rescaled(sums.slope("g", 2 * t), t, xp)
        return Estimate(
            g=g if widths is None else g / widths,
            widths=widths,
            ok=ok,
            rejected=rejected,
            cosine=zeroth_order_cosine(self.samples, d),
            f=sums.mean("f") if paired or center is None else center.values[:, 0],
            F=sums.mean("F"),
            trace=trace,
            slope=None if trace is None else trace * t,
        ), self._learned(state, sums.mean("lesson"), xp)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rademacher(Antithetic):
    r"""Estimate the gradient from M pairs along vectors of independent signs.

    .. math::
        g = \frac{1}{M} \sum_{i=1}^M \frac{f(x + t \Delta_i) - f(x - t \Delta_i)}{2t}\, \Delta_i^{-1}, \qquad
        \Delta_i \in \{-1, 1\}^d

    M = `samples` pairs, 2M evaluations; Spall uses M = 1. The componentwise inverse of a sign is the sign itself, so
    this is the antithetic oracle with the signs of its normal directions. t is Spall's :math:`c_k`. All points lie at
    the same distance from x, so they do not determine the trace.

    Parameters
    ----------
    samples
        M, the number of pairs per iteration.
    values
        "raw": f itself. "ranks": in g, each of the 2M values is replaced by its rank among them, from -1/2 to 1/2.
    xi
        For a stochastic f. "pairs": each pair has its own :math:`\xi`. "shared": one :math:`\xi` per iteration.

    References
    ----------
    Spall. Multivariate stochastic approximation using a simultaneous perturbation gradient approximation. IEEE
    Transactions on Automatic Control 37, 1992.
    """

    name: ClassVar[str] = "rademacher"
    provides: ClassVar[frozenset[str]] = frozenset({"f", "F"})

    def _directions(self, m: int, t: Array, noise: Noise, xp: Any) -> Array:
        u = noise.normal(m)
        return xp.copysign(xp.ones_like(u), u)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagonalScaling(Antithetic):
    r"""Estimate the gradient of F from M pairs at x + t w u and x - t w u, and learn the widths w (d,).

    .. math::
        g = \frac{1}{M} \sum_{i=1}^M \frac{f(x + t w u_i) - f(x - t w u_i)}{2t}\, \frac{u_i}{w}, \qquad
        \log w \leftarrow \log w - \frac{2 \rho}{M} \sum_{i=1}^M r_i\, (u_i^2 - 1)

    :math:`r_i`, from -1/2 to 1/2, is the rank among the pairs of the even part :math:`f(x + t w u_i) + f(x - t w u_i)`,
    which depends on the curvature and not on the slope. If long steps along a variable go with high values, f is steep
    there, and the width of the variable shrinks. (The formula is the natural gradient of the mean of f in log w, by
    ranks.) The geometric mean of the widths stays 1, so that t keeps its meaning. The first widths are 1, or if all
    variables have bounds, proportional to the box. f(x) is evaluated only if the schedule needs it.

    Parameters
    ----------
    samples
        M, the number of pairs per iteration.
    values
        "raw": f itself. "ranks": in g and in the even parts, each of the 2M values is replaced by its rank among them,
        so that only their order matters.
    xi
        For a stochastic f. "pairs": each pair has its own :math:`\xi`. "shared": one :math:`\xi` per iteration.
    rate
        :math:`\rho`; 0 keeps the first widths. If these are 1, this is the antithetic oracle.

    Notes
    -----
    Widths follow from ranks within a query. If the directions of an iteration do not fit into one query, from about
    100,000 variables on, little is learned, and nothing from queries of a single pair.
    """

    name: ClassVar[str] = "diagonal_scaling"
    provides: ClassVar[frozenset[str]] = frozenset({"f", "F"})

    rate: float = 0.03

    def __post_init__(self) -> None:
        Antithetic.__post_init__(self)
        checks.at_least("rate", self.rate, 0)

    def init(self, x: Array, ctx: Context) -> Leaves:
        return self.starting(ctx.xp.ones_like(x), ctx.xp)

    def starting(self, widths: Array, xp: Any) -> Leaves:
        """Return the memory for these first widths, (B, d)."""
        return (xp.log(widths),)

    def _widths(self, state: Leaves, xp: Any) -> Array:
        return xp.exp(state[0])

    def _lesson(self, even: Answer, u: Array, ctx: Context) -> Array | None:
        if u.shape[1] == 1:
            return None
        excess = u * u
        excess -= 1.0
        return ctx.weighted_sum(centered_ranks(even, ctx.xp), excess)

    def _learned(self, state: Leaves, lesson: Array | None, xp: Any) -> Leaves:
        if lesson is None:
            return state
        log_widths = state[0] - (2.0 * self.rate) * lesson
        return (log_widths - xp.mean(log_widths, axis=1, keepdims=True),)
