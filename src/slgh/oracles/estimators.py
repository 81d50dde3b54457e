"""Common parts of the oracles: their defaults, queries around x, and sums over the good samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from slgh import checks
from slgh.protocols import Answer, Array, Context, Leaves, Query


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingOracle:
    """Defaults of an oracle: it needs values of f at M = `samples` points, and remembers nothing."""

    asks: ClassVar[str] = "values"
    exact: ClassVar[bool] = False
    provides: ClassVar[frozenset[str]] = frozenset({"f", "F"})
    rounding: ClassVar[float | None] = 1 / 2

    samples: int = 1

    def __post_init__(self) -> None:
        checks.count("samples", self.samples)

    @property
    def period(self) -> int:
        return 1

    def init(self, x: Array, ctx: Context) -> Leaves:
        return ()


class SampleSums:
    """Sums over the samples of one iteration, by name, and the number of good samples.

    Samples come in chunks. A total is updated in place, so the first term must not be an array of somebody else.
    """

    __slots__ = "good", "samples", "totals", "xp"

    def __init__(self, samples: int, xp: Any) -> None:
        self.samples, self.xp = samples, xp
        self.good: Any = None
        self.totals: dict[str, Array] = {}

    def count(self, ok: Array | None, m: int) -> None:
        """Count the good ones among m further samples. `ok` is (B, m), or (B, 1) for all at once; None: all good."""
        good = m if ok is None else self.xp.sum(ok, axis=1) * (m // ok.shape[1])
        self.good = good if self.good is None else self.good + good

    def add(self, name: str, term: Array) -> None:
        """Add to a total a sum over further samples, (B,) or (B, d)."""
        if name in self.totals:
            self.totals[name] += term
        else:
            self.totals[name] = term

    def add_values(self, name: str, values: Array, ok: Array | None) -> None:
        """Add to a total the sum of the good values, (B, m)."""
        self.add(name, self.xp.sum(zero_bad(values, ok), axis=1))

    def mean(self, name: str) -> Array | None:
        """Return a total (B,) or (B, d) divided by the number of good samples; None if nothing was added to it."""
        if name not in self.totals:
            return None
        total, n = self.totals[name], self._divisor()
        return total / (n if isinstance(n, int) or total.ndim == 1 else n[:, None])

    def slope(self, name: str, t: Array) -> Array:
        """Return a total (B, d) of differences divided by t and by the number of good samples."""
        return self.totals[name] / (self._divisor() * t)[:, None]

    def _divisor(self) -> Any:
        """Return the number of good samples, an integer or (B,), at least 1: without any, the total is 0."""
        return self.good if isinstance(self.good, int) else self.xp.maximum(self.good, 1.0)

    def ok_and_rejected(self, value: Answer | None = None) -> tuple[Array | None, Array | None]:
        """Return `ok` and `rejected` of an Estimate. `value` is the answer at x, if that must be finite too."""
        at_x = None if value is None or value.ok is None else value.ok[:, 0]
        good = self.good
        if isinstance(good, int):
            if at_x is None:
                return None, None
            good = self.xp.full_like(at_x, float(good))
        lost = self.samples - good
        return zero_bad(good, at_x) > 0, lost if at_x is None else lost + (1.0 - at_x)


def query_around(
    x: Array,
    t: Array,
    directions: list[Array],
    *,
    centers: int,
    xi: Array | None,
    ctx: Context,
    what: str = "fun",
    samples: int = 0,
) -> Query:
    """Query at `centers` copies of x, then at x + t*u for each u of each array (B, m, d) in `directions`.

    `samples` is that of the Query.
    """
    points = ctx.sample_points(x, t, directions, centers)
    return Query(what, points, xi=repeat_xi(xi, points, ctx.xp), centers=centers, samples=samples)


def query_value(x: Array, xi: Array | None) -> Query:
    """Query f at x itself, with the first xi."""
    return Query("fun", x[:, None, :], xi=None if xi is None else xi[:, :1], centers=1)


def repeat_xi(xi: Array | None, points: Array, xp: Any) -> Array | None:
    """Repeat xi (B, m, ...) for each group of m points, or (B, 1, ...) for every point, of points (B, n, d)."""
    if xi is None:
        return None
    (B, n, _), m = points.shape, xi.shape[1]
    return xp.broadcast_to(xi, (B, n, *xi.shape[2:])) if m == 1 else xp.concat([xi] * (n // m), axis=1)


def repeat(x: Array, n: int, xp: Any) -> Array:
    """Return n copies of x (B, d), as (B, n, d)."""
    return x[:, None, :] if n == 1 else xp.broadcast_to(x[:, None, :], (x.shape[0], n, x.shape[1]))


def select(answer: Answer, start: int, stop: int) -> Answer:
    """Return the answers at the points start..stop-1."""
    ok, more = answer.ok, answer.more
    return Answer(
        answer.values[:, start:stop],
        None if ok is None else ok[:, start:stop],
        None if more is None else more[:, start:stop],
    )


def both_good(a: Array | None, b: Array | None) -> Array | None:
    """Combine two masks of good samples; None: all are good."""
    return a if b is None else b if a is None else a * b


def zero_bad(values: Array, ok: Array | None) -> Array:
    """Replace bad values by 0."""
    return values if ok is None else values * ok


def differences(moved: Answer, center: Answer) -> tuple[Array, Array | None]:
    """Return f(moved) - f(center), 0 if either is bad, and the mask of the good ones, (B, m) each."""
    ok = both_good(moved.ok, center.ok)
    return zero_bad(moved.values - center.values, ok), ok


def zeroth_order_cosine(samples: float, d: int) -> float:
    """Return the expected cosine between the estimate and the gradient, sqrt(M / (M + d)), for a nearly linear f."""
    return float((samples / (samples + d)) ** 0.5)
