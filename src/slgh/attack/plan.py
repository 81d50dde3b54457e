r"""The homotopies that "auto" chooses for images: one, or with many queries a narrow one and then a wide one.

A narrow homotopy (small t) finds an image with little distortion, or none: x hardly leaves the original. A wide one
(large t) finds an adversarial image for every original, but part of the distance that x has covered stays in it. So
the narrow one comes first, with two thirds of the queries, and the wide one gets the images that it did not fool.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from slgh import checks
from slgh.attack.loss import ATANH_SCALE
from slgh.backends import backend_of
from slgh.oracles.estimators import zeroth_order_cosine
from slgh.protocols import Array

MIN_RADIUS = 0.1
"""Lower bound of the first t, for images that are nearly gray."""

SAMPLES = 10
"""Default number of antithetic pairs per iteration."""

MAX_ALPHA = 4.0
"""Upper bound of the step scale."""

WIDE_FALL = 6e-6
"""Last t of a wide homotopy relative to its first: about where differences of values become rounding."""

NARROW_END = 1 / 200
"""Last t of a narrow homotopy: it changes a gray pixel by less than one of 256 levels."""

NARROW_DECAY = 1 / 125
"""Share of a narrow homotopy's iterations after which its t has fallen by a factor of e."""

WIDE_SHARE = 3
"""The wide homotopy of two gets one part in this many of the queries."""

HOMOTOPY_PARAMETERS = frozenset({"oracle", "schedule", "update", "values", "t1", "t_end", "fall", "shape", "alpha"})
"""Parameters that describe a homotopy. If the user sets one, there is only that homotopy."""


class HomotopyStart(NamedTuple):
    """The first t and the step scale of a homotopy."""

    t1: float
    alpha: float


class PlannedHomotopy(NamedTuple):
    """The parameters and limits of one homotopy."""

    params: dict[str, Any]
    max_evals: int | None
    max_iter: int | None


def first_radii(a: Array) -> tuple[float, float]:
    r"""Return the first t for images a (B, d) in [-0.5, 0.5]: for few queries, and for many.

    x has to be as large as :math:`|\tanh^{-1}(2a)|` to move a pixel through half of its range. Few queries: 0.4 times
    the median of that, which is about 3 for black and white and 0.2 for photographs. Many queries: 0.8 times its root
    mean square, in which the nearly white and black pixels of photographs count too.
    """
    if not a.shape[0]:
        return MIN_RADIUS, MIN_RADIUS
    distance = np.abs(np.arctanh(backend_of(a).host(a) * (2 * ATANH_SCALE))).astype(float)
    near, wide = 0.4 * float(np.median(distance)), 0.8 * float(np.sqrt(np.mean(distance**2)))
    return max(MIN_RADIUS, near), max(MIN_RADIUS, near, wide)


def step_scale(iterations: int, samples: int, d: int) -> float:
    r"""Return the `alpha` with which x can cover the distance that it has to.

    The distance covered is proportional to the number of iterations T times the cosine c between estimate and
    gradient, hence :math:`\alpha = \sqrt{27 / (T c)}`: 1 for 10,000 queries on a photograph of CIFAR-10.
    """
    return min(math.sqrt(27 / (max(1, iterations) * zeroth_order_cosine(samples, d))), MAX_ALPHA)


def homotopy_start(a: Array, iterations: int, samples: int) -> HomotopyStart:
    """Return the first t and alpha of a single homotopy for images a (B, d), given its number of iterations.

    If an alpha below 1 suffices, the spare iterations go into a larger t with a smaller alpha: a large t finds a way
    for every image, and short steps keep the distortion small. Covering the same distance in shorter steps takes half
    as many steps again.
    """
    near, wide = first_radii(a)
    alpha = step_scale(iterations, samples, a.shape[1])
    spare = min(max(0.0, 1 / alpha - 1), 1.0)
    t1 = near ** (1 - spare) * wide**spare
    return HomotopyStart(t1, alpha * near / t1 * (1 + spare / 2))


def narrow_parameters(a: Array, iterations: int, samples: int) -> dict[str, Any]:
    """Return the parameters of a narrow homotopy for images a (B, d).

    Its t falls quickly, so that x soon comes near a first way to another class, and most of the iterations shorten it.
    It uses ranks, so that a pair that happens to lie across the border of a class does not outweigh the others.
    """
    t1 = math.sqrt(math.prod(first_radii(a)))
    shape = math.log(math.log(t1 / NARROW_END)) / -math.log(NARROW_DECAY)
    alpha = step_scale(iterations, samples, a.shape[1])
    return {"t1": t1, "t_end": NARROW_END, "shape": shape, "alpha": alpha, "values": "ranks", "oracle": "antithetic"}


def default_parameters(a: Array, max_evals: int | None, max_iter: int | None, params: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of a single homotopy for images a (B, d): `params`, completed by defaults."""
    samples = checks.plain(params.get("samples", SAMPLES))
    chosen: dict[str, Any] = {"samples": samples, "oracle": "antithetic"}
    if "schedule" not in params:
        chosen |= {"shape": 1.0, "fall": WIDE_FALL}
    if not _is_count(samples):
        return chosen | {"t1": first_radii(a)[0]} | params
    start = homotopy_start(a, _iterations(max_evals, max_iter, samples), samples)
    return chosen | {"t1": start.t1} | ({} if "update" in params else {"alpha": start.alpha}) | params


def plan_homotopies(
    a: Array, max_evals: int | None, max_iter: int | None, params: dict[str, Any], *, reduce_distortion: bool
) -> list[PlannedHomotopy]:
    """Return the homotopies for images a (B, d), each for the images that the one before has not fooled.

    There are two if a third of the iterations suffices for steps of alpha <= 1, unless the attack ends at the first
    success (`reduce_distortion` is False) or `params` describe a homotopy. The wide one has the t of a homotopy with
    all of the queries, and covers the same distance in a third of the steps.
    """
    single = PlannedHomotopy(default_parameters(a, max_evals, max_iter, params), max_evals, max_iter)
    samples = checks.plain(params.get("samples", SAMPLES))
    if not reduce_distortion or HOMOTOPY_PARAMETERS & params.keys() or not _is_count(samples):
        return [single]
    iterations = _iterations(max_evals, max_iter, samples)
    if step_scale(iterations // WIDE_SHARE, samples, a.shape[1]) > 1:
        return [single]
    narrow = narrow_parameters(a, iterations - iterations // WIDE_SHARE, samples) | {"samples": samples} | params
    wide = single.params | {"alpha": WIDE_SHARE * single.params["alpha"]}
    (narrow_evals, wide_evals), (narrow_iter, wide_iter) = _shares(max_evals), _shares(max_iter)
    return [PlannedHomotopy(narrow, narrow_evals, narrow_iter), PlannedHomotopy(wide, wide_evals, wide_iter)]


def _is_count(samples: Any) -> bool:
    """Return True if `samples` is a positive integer. `minimize` refuses anything else."""
    return isinstance(samples, int) and samples >= 1


def _iterations(max_evals: int | None, max_iter: int | None, samples: int) -> int:
    """Return the number of iterations that the limits allow. At least one of them is given."""
    return min(n for n in (max_iter, max_evals and max_evals // (2 * samples + 1)) if n is not None)


def _shares(limit: int | None) -> tuple[int, int] | tuple[None, None]:
    """Split a limit between the narrow and the wide homotopy."""
    return (None, None) if limit is None else (limit - limit // WIDE_SHARE, limit // WIDE_SHARE)
