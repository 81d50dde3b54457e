r"""Guesses of L0 and L1, where they are not known."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slgh import checks

BLOCK, SCALES = 25, 5
"""Pairs in a block, the best of which climbs, and how many distances they have."""

REACHES = np.geomspace(0.5, 0.005, 30)
"""The length of each step of a climb, as a share of the radius."""

SURE = 0.95
"""The confidence of the limits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    r"""What was found of a Lipschitz constant, from the two largest of its maxima over blocks, y1 >= y2.

    Attributes
    ----------
    seen
        y1, a lower bound. Nothing more is certain.
    estimate
        2 y1 - y2.
    limit
        y1 + 19 (y1 - y2): an upper bound with 95 % confidence, if the maxima over blocks lie as densely just below the
        constant as elsewhere (Robson and Whitlock 1964). Climbing helps that; many variables do not: of quadratics in
        5, 10 and 20 variables it covered the constant in 97, 88 and 68 % of 60 seeds.
    """

    seen: float
    estimate: float
    limit: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Smoothness:
    """L0 and L1 as `estimate_smoothness` guesses them; `print` it for how sure that is.

    Attributes
    ----------
    slope, curvature
        What was found of L0 and of L1.
    rough
        Whether the curvature grows as points come closer, so that there is no L1.
    missed
        With 95 % confidence, at most this share of random near pairs in the ball has a larger quotient.
    radius, evaluations
        Where it was looked, and how many values (or gradients) that took.
    """

    slope: Constant
    curvature: Constant
    rough: bool
    missed: float
    radius: float
    evaluations: int

    @property
    def L0(self) -> float:
        """The estimate of f's Lipschitz constant."""
        return self.slope.estimate

    @property
    def L1(self) -> float:
        """The estimate of the Lipschitz constant of f's gradient."""
        return self.curvature.estimate

    def __str__(self) -> str:
        found = "; ".join(
            f"{name} is at least {c.seen:.3g}, about {c.estimate:.3g}, perhaps up to {c.limit:.3g}"
            for name, c in (("L0", self.slope), ("L1", self.curvature))
        )
        rough = " The curvature grows as points come closer: f seems not to be smooth, and L1 to be infinite."
        return (
            f"{found}; within {self.radius:g} of x0, from {self.evaluations} evaluations. A maximum over samples is a "
            f"lower bound: at most {100 * self.missed:.2g} % of random pairs exceed it, which may be those that matter."
            + (rough if self.rough else "")
        )


def estimate_smoothness(
    fun: Callable[[Any], Any],
    x0: Any,
    *,
    radius: float = 1.0,
    samples: int = 1000,
    grad: Callable[[Any], Any] | None = None,
    vectorized: bool = False,
    seed: int | None = None,
) -> Smoothness:
    r"""Probe how steep and how curved f is around x0.

    .. math::
        L_0 \ge \frac{|f(x) - f(y)|}{|x - y|}, \qquad
        L_1 \ge \frac{|f(x + h) - 2 f(x) + f(x - h)|}{|h|^2} \quad\text{or}\quad
        \frac{|\nabla f(x + h) - \nabla f(x)|}{|h|}

    over pairs at many distances in the ball of `radius` around x0. The best pair of each block of 25 then climbs to
    larger quotients by random steps, and comes closer where that makes them larger. The maxima are lower bounds; how
    close the largest two of the blocks are tells how far the constant may lie above them. Where the largest curvature
    still grows as its pair comes closer, f has a kink or a jump there: `rough`.

    Parameters
    ----------
    fun, grad
        Functions of one point (d,), or with `vectorized` of points (n, d). With `grad`, L0 is the largest gradient.
    x0
        The center, (d,): where a run starts. `radius` should hold all of it, and t1 sqrt(d) around.
    samples
        How many pairs are drawn. It takes some 11 evaluations for each.
    seed
        Of the sampling.

    Notes
    -----
    Wood and Zhang (1996) fit a distribution with an upper end to maxima over blocks. Its three parameters need more
    maxima than there usually are; the end from the two largest needs none, and has a confidence limit. The least
    distance is where rounding and curvature balance: the fourth root of (rounding of f) / (spread of f), times the
    radius. An error of f beyond rounding looks like roughness.

    References
    ----------
    G. R. Wood, B. P. Zhang, Estimation of the Lipschitz constant of a function, J. Global Optimization 8, 1996.
    D. S. Robson, J. H. Whitlock, Estimation of a truncation point, Biometrika 51, 1964.

    Examples
    --------
    >>> found = estimate_smoothness(lambda x: np.sin(3 * x[0]) + x[1], [0.0, 0.0], radius=2.0, samples=200, seed=0)
    >>> bool(3.1 < found.L0 < 3.2), bool(8.9 < found.L1 < 9.1)
    (True, True)
    """
    checks.real("radius", radius, above=0)
    checks.count("samples", samples, 2 * BLOCK)
    probe = Probe(fun, grad, x0, radius, np.random.default_rng(seed), vectorized=vectorized)
    n = samples - samples % BLOCK
    x, e = probe.points(n), probe.directions(n)
    values = probe.call(fun, x, "fun")
    probe.measure(values)
    h = probe.distances(n)
    near = probe.quotients(x, e, h)
    far = np.abs(np.diff(values)) / np.linalg.norm(np.diff(x, axis=0), axis=1)
    slopes, curvatures = (probe.climb(x, e, h, near, which) for which in (0, 1))
    slope = constant(slopes.top)
    if far.max() > slope.seen:
        slope = constant(far)
    return Smoothness(
        slope=slope,
        curvature=constant(curvatures.top),
        rough=probe.grows(curvatures),
        missed=float(1 - (1 - SURE) ** (1 / n)),
        radius=radius,
        evaluations=probe.count,
    )


def constant(maxima: NDArray[Any]) -> Constant:
    """What two or more independent maxima tell of their upper end."""
    second, first = (float(y) for y in np.sort(maxima)[-2:])
    return Constant(seen=first, estimate=2 * first - second, limit=first + SURE / (1 - SURE) * (first - second))


class Climbed(NamedTuple):
    """Where the pairs of the blocks have come to: center (b, d), direction (b, d), distance (b,), quotient (b,)."""

    at: NDArray[Any]
    along: NDArray[Any]
    h: NDArray[Any]
    top: NDArray[Any]


class Probe:
    """A function around a point, and how often it has been asked."""

    def __init__(
        self, fun: Any, grad: Any, x0: Any, radius: float, rng: np.random.Generator, *, vectorized: bool
    ) -> None:
        self.fun, self.grad, self.vectorized = fun, grad, vectorized
        self.center, self.radius, self.rng = np.asarray(x0, float), radius, rng
        if self.center.ndim != 1 or not self.center.size:
            raise ValueError(f"`x0` must be one point, of shape (d,); got shape {self.center.shape}.")
        self.d = self.center.size
        self.h = 0.1 * radius
        self.count = 0

    def directions(self, n: int) -> NDArray[Any]:
        """Random unit vectors, (n, d)."""
        return unit(self.rng.standard_normal((n, self.d)))

    def points(self, n: int) -> NDArray[Any]:
        """Points spread evenly over the ball, (n, d)."""
        away = self.rng.random((n, 1)) ** (1 / self.d)
        return np.asarray(self.center + self.radius * away * self.directions(n))

    def call(self, function: Any, points: NDArray[Any], name: str) -> NDArray[Any]:
        """Values (n,) of fun or (n, d) of grad."""
        self.count += len(points)
        found = np.asarray(function(points) if self.vectorized else [function(point) for point in points], float)
        shape = (len(points),) if name == "fun" else points.shape
        if found.size != math.prod(shape) or not np.isfinite(found).all():
            raise ValueError(f"`{name}` must return finite numbers, shape {shape}; got {checks.show(found)}.")
        return found.reshape(shape)

    def measure(self, values: NDArray[Any]) -> None:
        """Choose the near distance h by how f's rounding compares with its spread."""
        spread, size = float(np.ptp(values)), float(np.abs(values).max())
        share = np.finfo(float).eps * size / spread if spread else 1.0
        self.h = self.radius * min(0.1, share**0.25)

    def distances(self, n: int) -> NDArray[Any]:
        """Distances of pairs, (n,): each block has all of them, from the least to a tenth of the radius."""
        return np.resize(np.geomspace(self.h, 0.1 * self.radius, SCALES), n)

    def quotients(self, x: NDArray[Any], e: NDArray[Any], h: NDArray[Any]) -> NDArray[Any]:
        """Slope and curvature at x (n, d) along the unit vectors e (n, d) over the distances h (n,): (2, n)."""
        step = h[:, None] * e
        if self.grad is not None:
            g, moved = self.call(self.grad, x, "grad"), self.call(self.grad, x + step, "grad")
            return np.stack([np.linalg.norm(g, axis=1), np.linalg.norm(moved - g, axis=1) / h])
        low, middle, high = (self.call(self.fun, x + s * step, "fun") for s in (-1, 0, 1))
        return np.stack([np.abs(high - low) / (2 * h), np.abs(high - 2 * middle + low) / h**2])

    def climb(self, x: NDArray[Any], e: NDArray[Any], h: NDArray[Any], found: NDArray[Any], which: int) -> Climbed:
        """The largest slopes (0) or curvatures (1) to which the best pair of each block climbs, one a block."""
        blocks = found[which].reshape(-1, BLOCK)
        best = np.argmax(blocks, axis=1) + BLOCK * np.arange(len(blocks))
        at, along, h, top = x[best], e[best], h[best], found[which, best]
        for reach in REACHES:
            moved = self.inside(at + self.radius * reach * self.rng.standard_normal(at.shape) / math.sqrt(self.d))
            turned = unit(along + reach * self.rng.standard_normal(at.shape))
            nearer = np.maximum(self.h, np.where(self.rng.random(len(h)) < 0.5, h / 2, h))
            new = self.quotients(moved, turned, nearer)[which]
            better = new > top
            at, along = (np.where(better[:, None], a, b) for a, b in ((moved, at), (turned, along)))
            h, top = np.where(better, nearer, h), np.maximum(top, new)
        return Climbed(at, along, h, top)

    def grows(self, climbed: Climbed) -> bool:
        """Whether the largest curvature is a third, or less, over ten times the distance: a kink or a jump."""
        k = int(np.argmax(climbed.top))
        wider = np.minimum(10 * climbed.h[k : k + 1], 0.5 * self.radius)
        wide = self.quotients(climbed.at[k : k + 1], climbed.along[k : k + 1], wider)[1, 0]
        return bool(climbed.h[k] < 0.02 * self.radius and wide < climbed.top[k] / 3)

    def inside(self, points: NDArray[Any]) -> NDArray[Any]:
        """Points drawn back into the ball."""
        offset = points - self.center
        return np.asarray(
            self.center + offset / np.maximum(1, np.linalg.norm(offset, axis=1, keepdims=True) / self.radius)
        )


def unit(vectors: NDArray[Any]) -> NDArray[Any]:
    """Vectors of length 1."""
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
