r"""Ranks instead of values: what is left of f where only its order is meaningful."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from slgh.oracles.estimators import kept
from slgh.protocols import Answer, Array


def centered_ranks(answer: Answer, xp: Any) -> Array:
    r"""The ranks of the n values of each problem, from -1/2 for the least to 1/2 for the greatest.

    .. math:: r_i = \frac{\#\{j : f_j < f_i\} - \#\{j : f_j > f_i\}}{2 (n - 1)}

    Equal values share the mean of their ranks. Bad ones are left out of n and have the rank 0; so has a value without
    any other. (B, n) gives (B, n).

    Examples
    --------
    >>> import numpy as np
    >>> centered_ranks(Answer(np.array([[3.0, 1.0, 9.0, 3.0, 0.0]]), np.array([[1.0, 1.0, 1.0, 1.0, 0.0]])), np)
    array([[ 0. , -0.5,  0.5,  0. ,  0. ]])
    """
    places, others = _places(answer, xp)
    return kept(places / (2 * others), answer.ok)


def _places(answer: Answer, xp: Any) -> tuple[Array, Any]:
    """For each value how many are below it less how many are above, (B, n), and how many good ones are not itself."""
    values, ok = answer
    B, n = values.shape
    both_ways = xp.concat([values, -values], axis=0)
    others: Any = max(n - 1, 1)
    if ok is not None:  # bad ones stand last both ways, so that they are before none
        both_ways = xp.where(xp.concat([ok, ok], axis=0) > 0, both_ways, xp.inf)
        others = xp.maximum(xp.sum(ok, axis=1, keepdims=True) - 1.0, 1.0)
    # Equal values come in the same order both ways, which their difference takes out.
    places = xp.argsort(xp.argsort(both_ways, axis=1, stable=True), axis=1)
    return xp.astype(places[:B, :] - places[B:, :], values.dtype), others


class Pairs(NamedTuple):
    """A chunk of m antithetic pairs: f(x + t u) and f(x - t u), (B, m), which are good, and u (B, m, d)."""

    plus: Array
    minus: Array
    ok: Array | None
    u: Array


def by_ranks(chunks: list[Pairs], xp: Any) -> Iterator[tuple[Array, Array, Pairs]]:
    """For each chunk the difference and the sum (B, m) of each pair's ranks, which are among the values of all chunks.

    The sums are not centered ranks but whole numbers, so that those that are equal are so to the last bit.
    """
    values = xp.concat([side for pairs in chunks for side in (pairs.plus, pairs.minus)], axis=1)
    ok = None
    if any(pairs.ok is not None for pairs in chunks):
        known = [xp.ones_like(pairs.plus) if pairs.ok is None else pairs.ok for pairs in chunks]
        ok = xp.concat([mask for mask in known for _ in range(2)], axis=1)
    places, others = _places(Answer(values, ok), xp)
    ranks, at = kept(places / (2 * others), ok), 0
    for pairs in chunks:
        plus, minus = slice(at, at := at + pairs.u.shape[1]), slice(at, at := at + pairs.u.shape[1])
        yield ranks[:, plus] - ranks[:, minus], kept(places[:, plus] + places[:, minus], pairs.ok), pairs
