r"""Forward differences with a control variate for finite sums: the oracle of ZOSVRG."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slgh import checks
from slgh.oracles.estimators import (
    SampleSums,
    SamplingOracle,
    both_good,
    differences,
    query_around,
    select,
    zero_bad,
    zeroth_order_cosine,
)
from slgh.protocols import Answer, Array, Context, Conversation, Estimate, Leaves, Noise


@dataclass(frozen=True, slots=True, kw_only=True)
class VarianceReduced(SamplingOracle):
    r"""Estimate the gradient of a finite sum, corrected by a full estimate at a snapshot.

    .. math::
        g = \frac{1}{M} \sum_{i=1}^M \left[\hat\nabla f_{\xi_i}(x; u_i) - \hat\nabla f_{\xi_i}(\tilde x; u_i)\right]
        + \frac{1}{N} \sum_{j=1}^N \hat\nabla f_j(\tilde x; u_j), \qquad
        \hat\nabla f_j(x; u) = \frac{f_j(x + t u) - f_j(x)}{t} u

    The snapshot :math:`\tilde x` is x itself in every `period`-th iteration, where the second sum is taken over all
    N = `terms` components (2N more evaluations). The other iterations take 4M evaluations, M = `samples`.

    Parameters
    ----------
    samples
        M, the number of directions, each with its own term, per iteration.
    period
        Iterations between two snapshots.
    terms
        N, the number of terms, filled in by the run from `sample_xi`.

    Notes
    -----
    Both estimates of a pair share u_i and xi_i: without that nothing cancels. If no value of a snapshot is finite, the
    previous one stays.

    References
    ----------
    Liu, Kailkhura, Chen, Ting, Chang, Amini. Zeroth-order stochastic variance reduction for nonconvex
    optimization. NeurIPS 2018.
    """

    name: ClassVar[str] = "variance_reduced"
    provides: ClassVar[frozenset[str]] = frozenset({"f"})

    period: int = 10
    terms: int | None = None

    def __post_init__(self) -> None:
        SamplingOracle.__post_init__(self)
        checks.count("period", self.period)
        if self.terms is not None:
            checks.count("terms", self.terms)

    def init(self, x: Array, ctx: Context) -> Leaves:
        return x, ctx.xp.zeros_like(x), ctx.xp.zeros_like(x[:, 0])

    def cost(self, first: bool, ctx: Context) -> int:
        return 4 * self.samples + (2 * self._terms if first else 0)

    @property
    def _terms(self) -> int:
        assert self.terms is not None
        return self.terms

    def observe(self, x: Array, t: Array, state: Leaves, first: bool, noise: Noise, ctx: Context) -> Conversation:
        xp, d = ctx.xp, x.shape[-1]
        snapshot, full, known = state
        lost = None
        if first:
            snapshot, start = x, 0
            sums = SampleSums(self._terms, xp)
            for m in ctx.chunks(self._terms, d):
                u = noise.normal(m)
                answer = yield query_around(x, t, [u], centers=m, xi=noise.every_xi(start, start + m), ctx=ctx)
                rise, ok = _differences(answer)
                sums.add("g", ctx.weighted_sum(rise, u))
                sums.count(ok, m)
                start += m
            full = sums.slope("g", t)
            some, lost = sums.ok_and_rejected()
            known = xp.ones_like(t) if some is None else xp.astype(some, t.dtype)
        sums = SampleSums(self.samples, xp)
        for m in ctx.chunks(self.samples, d):
            u, xi = noise.normal(m), noise.xi(m)
            here = yield query_around(x, t, [u], centers=m, xi=xi, ctx=ctx)
            there = yield query_around(snapshot, t, [u], centers=m, xi=xi, ctx=ctx)
            new, ok_new = _differences(here)
            old, ok_old = _differences(there)
            ok = both_good(ok_new, ok_old)
            sums.add("g", ctx.weighted_sum(zero_bad(new - old, ok), u))
            sums.count(ok, m)
            sums.add_values("f", here.values[:, :m], ok)
        ok, rejected = sums.ok_and_rejected()
        if lost is not None:
            rejected = lost if rejected is None else rejected + lost
        return Estimate(
            g=sums.slope("g", t) + full,
            ok=known > 0 if ok is None else ok & (known > 0),
            rejected=rejected,
            cosine=zeroth_order_cosine(self.samples, d),
            f=sums.mean("f"),
        ), (snapshot, full, known)


def _differences(answer: Answer) -> tuple[Array, Array | None]:
    """Return the differences between the second half of the points (moved) and the first (centers)."""
    m = answer.values.shape[1] // 2
    return differences(select(answer, m, 2 * m), select(answer, 0, m))
