r"""Forward differences along Gaussian directions: the paper's zeroth-order oracle, equations (7) and (9)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slgh import checks
from slgh.oracles.estimators import SampleSums, SamplingOracle, differences, query_around, select, zeroth_order_cosine
from slgh.protocols import Array, Context, Conversation, Estimate, Leaves, Noise


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward(SamplingOracle):
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
        "u": v = u, so that the slope in t costs nothing. "v": separate directions, which take M more queries, as in
        the paper's Algorithm 3. Both are unbiased. Neither is computed unless the schedule needs the slope.
    xi
        For a stochastic f. "pairs": each direction i has its own :math:`\xi_i` in
        :math:`f(x + t u_i; \xi_i) - f(x; \xi_i)`, 2M queries. "shared": one xi per iteration, M + 1 queries.

    Notes
    -----
    The paper calls :math:`\tilde g_t` the derivative in t. It estimates tr Hess F; dF/dt is t times that.
    """

    name: ClassVar[str] = "forward"
    provides: ClassVar[frozenset[str]] = frozenset({"f", "F", "trace", "slope"})

    slope_from: str = "u"
    xi: str = "pairs"

    def __post_init__(self) -> None:
        SamplingOracle.__post_init__(self)
        checks.choice("slope_from", self.slope_from, ("u", "v"))
        checks.choice("xi", self.xi, ("pairs", "shared"))

    def cost(self, first: bool, ctx: Context) -> int:
        centers = self.samples if self._paired(ctx) else 1
        return centers + self.samples * (2 if self._separate(ctx) else 1)

    def _paired(self, ctx: Context) -> bool:
        return ctx.stochastic and self.xi == "pairs"

    def _separate(self, ctx: Context) -> bool:
        return self.slope_from == "v" and bool(ctx.needs & {"trace", "slope"})

    def observe(self, x: Array, t: Array, state: Leaves, first: bool, noise: Noise, ctx: Context) -> Conversation:
        xp, d = ctx.xp, x.shape[-1]
        paired, separate = self._paired(ctx), self._separate(ctx)
        sums, trace_sums, trace, center = SampleSums(self.samples, xp), None, None, None
        if ctx.needs & {"trace", "slope"}:
            trace_sums = SampleSums(self.samples, xp)
        xi = noise.xi(1) if ctx.stochastic and not paired else None
        for m in ctx.chunks(self.samples, d):
            u = noise.normal(m)
            v = noise.normal(m, stream=1) if separate else u
            xi = noise.xi(m) if paired else xi
            centers = m if paired else int(center is None)
            directions = [u, v] if separate else [u]
            # The dropped samples of separate directions would be counted twice.
            samples = 0 if separate else m
            answer = yield query_around(x, t, directions, centers=centers, xi=xi, ctx=ctx, samples=samples)
            center = select(answer, 0, centers) if centers else center
            assert center is not None
            rise, ok = differences(select(answer, centers, centers + m), center)
            sums.add("g", ctx.weighted_sum(rise, u))
            sums.count(ok, m)
            if paired:
                sums.add_values("f", center.values, ok)
            if "F" in ctx.needs:
                sums.add_values("F", rise + center.values, ok)
            if trace_sums is not None:
                if separate:
                    rise, ok = differences(select(answer, centers + m, centers + 2 * m), center)
                trace_sums.add("trace", xp.vecdot(rise, xp.vecdot(v, v) - d))
                trace_sums.count(ok, m)
        assert center is not None
        ok, rejected = sums.ok_and_rejected()
        if trace_sums is not None:
            trace = trace_sums.mean("trace") / (t * t)
        if trace_sums is not None and separate:
            _, lost = trace_sums.ok_and_rejected()
            rejected = rejected if lost is None else lost if rejected is None else lost + rejected
        return Estimate(
            g=sums.slope("g", t),
            ok=ok,
            rejected=rejected,
            cosine=zeroth_order_cosine(self.samples, d),
            f=sums.mean("f") if paired else center.values[:, 0],
            F=sums.mean("F"),
            trace=trace,
            slope=None if trace is None else trace * t,
        ), ()
