"""What the oracles share: how points are laid out in a query, and sums over the samples that were good."""

from __future__ import annotations

from typing import Any

from slgh.protocols import Answer, Array, Context, Query


def around(
    x: Array,
    t: Array,
    directions: list[Array],
    *,
    centers: int,
    xi: Array | None,
    ctx: Context,
    what: str = "fun",
) -> Query:
    """Ask at `centers` copies of x, then at x + t*u for each u of each array (B, m, d) in `directions`.

    `xi` (B, m, ...) is repeated for each group of m points, and (B, 1, ...) for every point.
    """
    points = ctx.sample_points(x, t, directions, centers)
    return Query(what, points, xi=_spread(xi, points, ctx.xp), centers=centers)


def both_ways(
    x: Array, t: Array, u: Array, *, widths: Array | None, centers: int, xi: Array | None, ctx: Context
) -> Query:
    """Ask at `centers` copies of x, then at x + t*w*u for each u (B, m, d), then at x - t*w*u; `xi` as in `around`."""
    points = ctx.antithetic_points(x, t, u, widths, centers)
    return Query("fun", points, xi=_spread(xi, points, ctx.xp), centers=centers)


def _spread(xi: Array | None, points: Array, xp: Any) -> Array | None:
    """xi for each of the points (B, n, d)."""
    if xi is None:
        return None
    (B, n, _), m = points.shape, xi.shape[1]
    return xp.broadcast_to(xi, (B, n, *xi.shape[2:])) if m == 1 else xp.concat([xi] * (n // m), axis=1)


def repeat(x: Array, n: int, xp: Any) -> Array:
    """n copies of x (B, d), as (B, n, d)."""
    return x[:, None, :] if n == 1 else xp.broadcast_to(x[:, None, :], (x.shape[0], n, x.shape[1]))


def cut(answer: Answer, start: int, stop: int) -> Answer:
    """The answers to points start..stop-1."""
    ok = answer.ok
    return Answer(answer.values[:, start:stop], None if ok is None else ok[:, start:stop])


def both(a: Array | None, b: Array | None) -> Array | None:
    """Where a and b are good; None is everywhere."""
    return a if b is None else b if a is None else a * b


def kept(values: Array, ok: Array | None) -> Array:
    """The values, 0 where they are bad."""
    return values if ok is None else values * ok


def rise(moved: Answer, center: Answer) -> tuple[Array, Array | None]:
    """Differences f(moved) - f(center), 0 where either is bad, and which are good: (B, m) each."""
    ok = both(moved.ok, center.ok)
    return kept(moved.values - center.values, ok), ok


def count(ok: Array | None, m: int, xp: Any) -> Any:
    """Return the number of good samples among m: m itself, or (B,). `ok` is (B, m), or (B, 1) for all at once."""
    return m if ok is None else xp.sum(ok, axis=1) * (m // ok.shape[1])


def add(total: Any, term: Any) -> Any:
    """Accumulate over chunks, in place where arrays can be: `total` must be a result of ours."""
    if total is None:
        return term
    total += term
    return total


def mean(total: Array, good: Any, xp: Any) -> Array:
    """A sum over samples, (B,) or (B, d), divided by the number of good ones; 0 where there is none."""
    if isinstance(good, int):
        return total / good
    n = xp.maximum(good, 1.0)
    return total / (n if total.ndim == 1 else n[:, None])


def slope_mean(total: Array, good: Any, t: Array, xp: Any) -> Array:
    """A sum over samples (B, d) of differences, divided by t and by the number of good ones."""
    n = good if isinstance(good, int) else xp.maximum(good, 1.0)
    return total / (n * t)[:, None]


def verdict(good: Any, samples: int, xp: Any, value: Answer | None = None) -> tuple[Array | None, Array | None]:
    """`ok` and `rejected` of Estimate: `good` of the samples were, and the `value` at x was or was not finite."""
    at_x = None if value is None or value.ok is None else value.ok[:, 0]
    if at_x is None and isinstance(good, int):
        return None, None
    number = xp.full_like(at_x, float(good)) if isinstance(good, int) else good
    lost = samples - number
    return kept(number, at_x) > 0, lost if at_x is None else lost + (1.0 - at_x)


def zeroth_order_cosine(samples: float, d: int) -> float:
    r"""Expected cosine between the estimate and the gradient, sqrt(M / (M + d)), for a nearly linear f."""
    return float((samples / (samples + d)) ** 0.5)
