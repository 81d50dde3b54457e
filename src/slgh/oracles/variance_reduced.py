r"""Forward differences with a control variate for finite sums: the oracle of ZOSVRG."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slgh import checks
from slgh.oracles.estimators import (
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
from slgh.protocols import Answer, Array, Context, Conversation, Estimate, Leaves, Noise


@dataclass(frozen=True, slots=True, kw_only=True)
class VarianceReduced:
    r"""Estimate the gradient of a finite sum, corrected by a full estimate at a snapshot.

    .. math::
        g = \frac{1}{M} \sum_{i=1}^M \left[\hat\nabla f_{\xi_i}(x; u_i) - \hat\nabla f_{\xi_i}(\tilde x; u_i)\right]
        + \frac{1}{N} \sum_{j=1}^N \hat\nabla f_j(\tilde x; u_j), \qquad
        \hat\nabla f_j(x; u) = \frac{f_j(x + t u) - f_j(x)}{t} u

    The snapshot :math:`\tilde x` is x itself in every `period`-th iteration, where the second sum is taken over all
    N = `terms` components (2N more evaluations); the others cost 4M, M = `samples`.

    Notes
    -----
    Both estimates of a pair share u_i, as they share xi_i: without that nothing cancels. Where no value of a snapshot
    is finite, the one before stays.

    References
    ----------
    Liu, Kailkhura, Chen, Ting, Chang, Amini. Zeroth-order stochastic variance reduction for nonconvex
    optimization. NeurIPS 2018.
    """

    name: ClassVar[str] = "variance_reduced"
    asks: ClassVar[str] = "values"
    exact: ClassVar[bool] = False
    provides: ClassVar[frozenset[str]] = frozenset({"f"})
    rounding: ClassVar[float | None] = 1 / 2

    samples: int = 1
    period: int = 10
    terms: int | None = None

    def __post_init__(self) -> None:
        checks.count("samples", self.samples)
        checks.count("period", self.period)
        if self.terms is not None:
            checks.count("terms", self.terms)

    def init(self, x: Array, ctx: Context) -> Leaves:
        return x, ctx.xp.zeros_like(x), ctx.xp.zeros_like(x[:, 0])

    def cost(self, first: bool, ctx: Context) -> int:
        """Evaluations in an iteration."""
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
            snapshot, gradient, good, start = x, None, None, 0
            for m in ctx.chunks(self._terms, d):
                u = noise.normal(m)
                answer = yield around(x, t, [u], centers=m, xi=noise.every_xi(start, start + m), ctx=ctx)
                difference, ok = _halves(answer)
                gradient = add(gradient, ctx.weighted_sum(difference, u))
                good = add(good, count(ok, m, xp))
                start += m
            full = slope_mean(gradient, good, t, xp)
            some, lost = verdict(good, self._terms, xp)
            known = xp.ones_like(t) if some is None else xp.astype(some, t.dtype)
        gradient = good = f = None
        for m in ctx.chunks(self.samples, d):
            u, xi = noise.normal(m), noise.xi(m)
            here = yield around(x, t, [u], centers=m, xi=xi, ctx=ctx)
            there = yield around(snapshot, t, [u], centers=m, xi=xi, ctx=ctx)
            new, ok_new = _halves(here)
            old, ok_old = _halves(there)
            ok = both(ok_new, ok_old)
            gradient = add(gradient, ctx.weighted_sum(kept(new - old, ok), u))
            good = add(good, count(ok, m, xp))
            f = add(f, xp.sum(kept(here.values[:, :m], ok), axis=1))
        assert good is not None
        ok_all, rejected = verdict(good, self.samples, xp)
        ok_all = known > 0 if ok_all is None else ok_all & (known > 0)
        if lost is not None:
            rejected = add(rejected, lost)
        return Estimate(
            g=slope_mean(gradient, good, t, xp) + full,
            ok=ok_all,
            rejected=rejected,
            cosine=zeroth_order_cosine(self.samples, d),
            f=mean(f, good, xp),
        ), (snapshot, full, known)


def _halves(answer: Answer) -> tuple[Array, Array | None]:
    """Differences between the second half of the points (moved) and the first (centers)."""
    m = answer.values.shape[1] // 2
    return rise(cut(answer, m, 2 * m), cut(answer, 0, m))
