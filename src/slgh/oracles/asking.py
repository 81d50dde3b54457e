"""What the oracles share: how points are laid out in a query, and sums over the samples that were good."""

from __future__ import annotations

from typing import Any

from slgh.parts import Answer, Array, Query


def around(
    x: Array, t: Array, directions: list[Array], *, centres: int, xi: Array | None, xp: Any, what: str = "fun"
) -> Query:
    """Ask at `centres` copies of x, then at x + t*u for each u of each array (B, m, d) in `directions`.

    `xi` (B, m, ...) is repeated for each group of m points, and (B, 1, ...) for every point.
    """
    B, d = x.shape
    origin = x[:, None, :]
    groups = [t[:, None, None] * u + origin for u in directions]
    if centres == 1:
        groups.insert(0, origin)
    elif centres:
        groups.insert(0, xp.broadcast_to(origin, (B, centres, d)))
    points = groups[0] if len(groups) == 1 else xp.concat(groups, axis=1)
    if xi is not None:
        n, m = points.shape[1], xi.shape[1]
        xi = xp.broadcast_to(xi, (B, n, *xi.shape[2:])) if m == 1 else xp.concat([xi] * (n // m), axis=1)
    return Query(what, points, xi=xi)


def cut(answer: Answer, start: int, stop: int) -> Answer:
    """The answers to points start..stop-1."""
    return Answer(answer.values[:, start:stop], answer.ok[:, start:stop])


def rise(moved: Answer, centre: Answer, xp: Any) -> tuple[Array, Array]:
    """Differences f(moved) - f(centre), zero where either is bad, and which are good: two arrays (B, m)."""
    ok = moved.ok & centre.ok
    return xp.where(ok, moved.values - centre.values, 0.0), ok


def weigh(weights: Array, u: Array, xp: Any) -> Array:
    """Sum over the samples of weight times direction: (B, m) and (B, m, d) give (B, d)."""
    return xp.matmul(weights[:, None, :], u)[:, 0, :]


def number(ok: Array, dtype: Any, xp: Any) -> Array:
    """How many samples are good, (B, m) to (B,), as floating point."""
    return xp.sum(xp.astype(ok, dtype), axis=1)


def add(total: Array | None, term: Array) -> Array:
    """Accumulate over chunks."""
    return term if total is None else total + term


def mean(total: Array, good: Array, xp: Any) -> Array:
    """A sum over samples, (B,) or (B, d), divided by the number of good ones; 0 where there is none."""
    n = xp.maximum(good, xp.ones_like(good))
    return total / (n if total.ndim == 1 else n[:, None])


def zeroth_order_cosine(samples: int, d: int) -> float:
    r"""Expected cosine between the estimate and the gradient, sqrt(M / (M + d)), for a nearly linear f."""
    return float((samples / (samples + d)) ** 0.5)
