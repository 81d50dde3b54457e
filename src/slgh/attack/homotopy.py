"""The homotopy of an attack: its first t and its steps, from the images and the number of queries.

It is used if a parameter of the homotopy is given to "auto". Otherwise "auto" walks along the boundary: see `boundary`.
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
"""Last t of a homotopy relative to its first: about where differences of values become rounding."""

HOMOTOPY_PARAMETERS = frozenset({"oracle", "schedule", "update", "values", "t1", "t_end", "fall", "shape", "alpha"})
"""Parameters that describe a homotopy. If the user sets one, "auto" runs that homotopy."""


class HomotopyStart(NamedTuple):
    """The first t and the step scale of a homotopy."""

    t1: float
    alpha: float


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


def default_parameters(a: Array, max_evals: int | None, max_iter: int | None, params: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of a single homotopy for images a (B, d): `params`, completed by defaults."""
    samples = _samples(params)
    start = homotopy_start(a, _iterations(max_evals, max_iter, samples), samples)
    chosen = {"samples": samples, "oracle": "antithetic", "t1": start.t1}
    if "schedule" not in params:
        chosen |= {"shape": 1.0, "fall": WIDE_FALL}
    if "update" not in params:
        chosen["alpha"] = start.alpha
    return chosen | params


def _samples(params: dict[str, Any]) -> int:
    samples: int = checks.plain(params.get("samples", SAMPLES))
    checks.count("samples", samples)
    return samples


def _iterations(max_evals: int | None, max_iter: int | None, samples: int) -> int:
    """Return the number of iterations that the limits allow. At least one of them is given."""
    return min(n for n in (max_iter, max_evals and max_evals // (2 * samples + 1)) if n is not None)
