r"""What "auto" chooses for images: one homotopy, or with many queries a narrow one and then a wide one.

A narrow one finds a less distorted image, or none: x hardly leaves the original. A wide one finds an image for every
original, but leaves in it some of the way that x has come. So the narrow one goes first, with two thirds of the
queries, and the wide one takes the images that it did not fool.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from slgh import checks
from slgh.attack.loss import INSIDE
from slgh.backends import backend_of
from slgh.oracles.estimators import zeroth_order_cosine
from slgh.protocols import Array

LEAST_RADIUS, SAMPLES = 0.1, 10
"""The least first t, and the pairs of samples."""

FALL = 6e-6
"""How far the t of a wide homotopy falls: to the least that float32, or float64, can tell differences at."""

FINEST, BRIEF = 1 / 200, 1 / 125
"""A narrow one ends at a t that changes a gray pixel by less than one of 256 levels, and its t is e times less than the
first after so much of its iterations."""

WIDE = 3
"""The wide one of two has one part in so many of the queries."""

OF_HOMOTOPY = frozenset({"oracle", "schedule", "update", "values", "t1", "t_end", "fall", "shape", "alpha"})
"""Parameters that describe a homotopy: who sets one gets that one alone."""


class Reach(NamedTuple):
    """The first t of a homotopy, and its `alpha`."""

    t1: float
    alpha: float


class Pass(NamedTuple):
    """A homotopy: its parameters and its limits."""

    params: dict[str, Any]
    max_evals: int | None
    max_iter: int | None


def radius(a: Array) -> tuple[float, float]:
    r"""The first t for images a (B, d) in [-0.5, 0.5]: for few queries, and for many.

    x has to be as large as :math:`|\tanh^{-1}(2a)|` to move a pixel through half of its range. Few queries take 0.4
    times the median of it: about 3 for black and white, 0.2 for photographs. Many take 0.8 times its root mean square,
    where the nearly white and black pixels of photographs count too. At least 0.1, for images that are nearly gray.
    """
    if not a.shape[0]:
        return LEAST_RADIUS, LEAST_RADIUS
    far = np.abs(np.arctanh(backend_of(a).host(a) * (2 * INSIDE))).astype(float)
    near, wide = 0.4 * float(np.median(far)), 0.8 * float(np.sqrt(np.mean(far**2)))
    return max(LEAST_RADIUS, near), max(LEAST_RADIUS, near, wide)


def step(iterations: int, samples: int, d: int) -> float:
    r"""The `alpha` with which x gets as far as it can.

    That is the number of iterations, T, times the cosine c between estimate and gradient, so that steps of
    :math:`\alpha = \sqrt{27 / (T c)}` reach what can be reached: 1 for 10,000 queries about a photograph of CIFAR-10,
    and never more than 4.
    """
    return min(math.sqrt(27 / (max(1, iterations) * zeroth_order_cosine(samples, d))), 4.0)


def reach(a: Array, iterations: int, samples: int) -> Reach:
    """What one homotopy begins with for images a (B, d), given its iterations.

    Where less than `step` would do, t is larger and alpha smaller instead, as far as there is time: a wide look finds a
    way to every image, and short steps a little distorted one. Going the same way in shorter steps takes half as much
    again.
    """
    near, wide = radius(a)
    alpha = step(iterations, samples, a.shape[1])
    ample = min(max(0.0, 1 / alpha - 1), 1.0)
    t1 = near ** (1 - ample) * wide**ample
    return Reach(t1, alpha * near / t1 * (1 + ample / 2))


def narrow(a: Array, iterations: int, samples: int) -> dict[str, Any]:
    """The parameters of a narrow homotopy for images a (B, d).

    Its t falls at once, so that x is soon near a first way to another class, and most of the iterations shorten that.
    It goes by ranks, which a pair that happens to lie across the border of a class does not outweigh.
    """
    t1 = math.sqrt(math.prod(radius(a)))
    shape = math.log(math.log(t1 / FINEST)) / -math.log(BRIEF)
    alpha = step(iterations, samples, a.shape[1])
    return {"t1": t1, "t_end": FINEST, "shape": shape, "alpha": alpha, "values": "ranks", "oracle": "antithetic"}


def usual(a: Array, max_evals: int | None, max_iter: int | None, params: dict[str, Any]) -> dict[str, Any]:
    """The parameters of one homotopy for images a (B, d), where they are not given."""
    samples = checks.plain(params.get("samples", SAMPLES))
    chosen: dict[str, Any] = {"samples": samples, "oracle": "antithetic"}
    if "schedule" not in params:
        chosen |= {"shape": 1.0, "fall": FALL}
    if not _counts(samples):
        return chosen | {"t1": radius(a)[0]} | params
    begin = reach(a, _iterations(max_evals, max_iter, samples), samples)
    return chosen | {"t1": begin.t1} | ({} if "update" in params else {"alpha": begin.alpha}) | params


def plan(
    a: Array, max_evals: int | None, max_iter: int | None, params: dict[str, Any], *, minimizes: bool
) -> list[Pass]:
    """The homotopies for images a (B, d), each for those that the one before has not fooled.

    There are two where a third of the iterations suffices for steps of alpha <= 1, unless the first success is all that
    is wanted (`minimizes` is False) or a parameter of the homotopy is given. The wide one is as wide as one that has
    all of the queries, and goes as far in a third of its steps.
    """
    one = Pass(usual(a, max_evals, max_iter, params), max_evals, max_iter)
    samples = checks.plain(params.get("samples", SAMPLES))
    if not minimizes or OF_HOMOTOPY & params.keys() or not _counts(samples):
        return [one]
    iterations = _iterations(max_evals, max_iter, samples)
    if step(iterations // WIDE, samples, a.shape[1]) > 1:
        return [one]
    (evals, more_evals), (iters, more_iters) = _shares(max_evals), _shares(max_iter)
    first = narrow(a, iterations - iterations // WIDE, samples) | {"samples": samples} | params
    second = one.params | {"alpha": WIDE * one.params["alpha"]}
    return [Pass(first, evals, iters), Pass(second, more_evals, more_iters)]


def _counts(samples: Any) -> bool:
    """Whether `samples` is a number of pairs; what is not, `minimize` will refuse."""
    return isinstance(samples, int) and samples >= 1


def _iterations(max_evals: int | None, max_iter: int | None, samples: int) -> int:
    """How many iterations the limits, one of which is given, allow."""
    return min(n for n in (max_iter, max_evals and max_evals // (2 * samples + 1)) if n is not None)


def _shares(limit: int | None) -> tuple[int, int] | tuple[None, None]:
    """Of the narrow homotopy, and of the wide one."""
    return (None, None) if limit is None else (limit - limit // WIDE, limit // WIDE)
