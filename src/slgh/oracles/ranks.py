r"""Ranks instead of values, for an f of which only the order is meaningful. They are robust to outliers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from slgh.oracles.estimators import zero_bad
from slgh.protocols import Answer, Array


def centered_ranks(answer: Answer, xp: Any) -> Array:
    r"""Return the ranks of the n values of each problem, from -1/2 for the least to 1/2 for the greatest.

    .. math:: r_i = \frac{\#\{j : f_j < f_i\} - \#\{j : f_j > f_i\}}{2 (n - 1)}

    Equal values share the mean of their ranks. Bad values do not count in n and have the rank 0, as has a single value.
    (B, n) gives (B, n).

    Examples
    --------
    >>> import numpy as np
    >>> centered_ranks(Answer(np.array([[3.0, 1.0, 9.0, 3.0, 0.0]]), np.array([[1.0, 1.0, 1.0, 1.0, 0.0]])), np)
    array([[ 0. , -0.5,  0.5,  0. ,  0. ]])
    """
    balance, others = _balance(answer, xp)
    return zero_bad(balance / (2 * others), answer.ok)


def _balance(answer: Answer, xp: Any) -> tuple[Array, Any]:
    """Return for each value how many are below it minus how many are above, (B, n), and the number of other values."""
    values, ok = answer.values, answer.ok
    B, n = values.shape
    up_and_down = xp.concat([values, -values], axis=0)
    others: Any = max(n - 1, 1)
    if ok is not None:  # bad values sort last in both directions, so that they are below none
        up_and_down = xp.where(xp.concat([ok, ok], axis=0) > 0, up_and_down, xp.inf)
        others = xp.maximum(xp.sum(ok, axis=1, keepdims=True) - 1.0, 1.0)
    # A stable sort keeps equal values in the same order in both directions. The difference cancels that order.
    places = xp.argsort(xp.argsort(up_and_down, axis=1, stable=True), axis=1)
    return xp.astype(places[:B, :] - places[B:, :], values.dtype), others


class Pairs(NamedTuple):
    """A chunk of m antithetic pairs: f(x + t u) and f(x - t u), (B, m), the good ones, and u (B, m, d)."""

    plus: Array
    minus: Array
    ok: Array | None
    u: Array


def rank_pairs(chunks: list[Pairs], xp: Any) -> Iterator[tuple[Array, Array, Pairs]]:
    """Yield for each chunk the difference and the sum (B, m) of each pair's ranks, among the values of all chunks.

    The sums are not of centered ranks but of whole numbers, so that equal sums are equal to the last bit.
    """
    values = xp.concat([side for pairs in chunks for side in (pairs.plus, pairs.minus)], axis=1)
    ok = None
    if any(pairs.ok is not None for pairs in chunks):
        known = [xp.ones_like(pairs.plus) if pairs.ok is None else pairs.ok for pairs in chunks]
        ok = xp.concat([mask for mask in known for _ in range(2)], axis=1)
    balance, others = _balance(Answer(values, ok), xp)
    ranks, at = zero_bad(balance / (2 * others), ok), 0
    for pairs in chunks:
        plus, minus = slice(at, at := at + pairs.u.shape[1]), slice(at, at := at + pairs.u.shape[1])
        yield ranks[:, plus] - ranks[:, minus], zero_bad(balance[:, plus] + balance[:, minus], pairs.ok), pairs
