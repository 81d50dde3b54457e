r"""Ranks instead of values: what is left of f where only its order is meaningful."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from slgh.oracles.asking import kept
from slgh.parts import Answer, Array


def centred_ranks(answer: Answer, xp: Any) -> Array:
    r"""The ranks of the n values of each problem, from -1/2 for the least to 1/2 for the greatest.

    .. math:: r_i = \frac{\#\{j : f_j < f_i\} - \#\{j : f_j > f_i\}}{2 (n - 1)}

    Equal values share the mean of their ranks. Bad ones are left out of n and have the rank 0; so has a value without
    any other. (B, n) gives (B, n).

    Examples
    --------
    >>> import numpy as np
    >>> centred_ranks(Answer(np.array([[3.0, 1.0, 9.0, 3.0, 0.0]]), np.array([[1.0, 1.0, 1.0, 1.0, 0.0]])), np)
    array([[ 0. , -0.5,  0.5,  0. ,  0. ]])
    """
    values, ok = answer
    B, n = values.shape
    both_ways = xp.concat([values, -values], axis=0)
    others: Any = max(n - 1, 1)
    if ok is not None:  # bad ones stand last both ways, so that they are before none
        both_ways = xp.where(xp.concat([ok, ok], axis=0) > 0, both_ways, xp.inf)
        others = xp.maximum(xp.sum(ok, axis=1, keepdims=True) - 1.0, 1.0)
    # Equal values come in the same order both ways, which their difference takes out.
    places = xp.argsort(xp.argsort(both_ways, axis=1, stable=True), axis=1)
    return kept(xp.astype(places[:B, :] - places[B:, :], values.dtype) / (2 * others), ok)


class Pairs(NamedTuple):
    """A chunk of m antithetic pairs: f(x + t u) and f(x - t u), and the directions u (B, m, d)."""

    plus: Answer
    minus: Answer
    u: Array


def rank_differences(chunks: list[Pairs], xp: Any) -> Iterator[tuple[Array, Array]]:
    """For each chunk, the ranks of f(x + t u) less those of f(x - t u), (B, m), and u; ranks are among all chunks."""
    sides = [side for pairs in chunks for side in (pairs.plus, pairs.minus)]
    ok = None
    if any(side.ok is not None for side in sides):
        ok = xp.concat([xp.ones_like(side.values) if side.ok is None else side.ok for side in sides], axis=1)
    ranks = centred_ranks(Answer(xp.concat([side.values for side in sides], axis=1), ok), xp)
    at = 0
    for pairs in chunks:
        m = pairs.u.shape[1]
        yield ranks[:, at : at + m] - ranks[:, at + m : at + 2 * m], pairs.u
        at += 2 * m
