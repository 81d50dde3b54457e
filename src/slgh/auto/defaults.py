"""Defaults of "auto" and "scale_free": samples, first radius, fall of t, and length of the steps.

They follow from the analysis of a sphere in d variables, at distance r from its center. M pairs give an estimate whose
expected cosine with the gradient is c, c^2 = M / (M + d). The best step has length c r and leaves the distance
r sqrt(1 - c^2). So in T iterations t can fall by a factor of at most exp(-T c^2 / 2) if x is to follow, for any
scale of the function. Everything else depends on q, the share of that speed that is used.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slgh.engine.bounds import Box
from slgh.method import SCALE_FREE, Composition
from slgh.oracles import Directional
from slgh.oracles.estimators import zeroth_order_cosine
from slgh.protocols import Oracle, Schedule
from slgh.schedules import Budget

# The numbers below hold for all dimensions and budgets. They come from trials on the training functions of
# benchmarks/coco.py, most of them from a random search over 294 settings in 20, 40 and 160 variables.

LARGEST_FALL = 2.5e4
"""t falls by this factor if the budget is ample. Below that, a local search is the better tool."""

AMPLE_SHARE = 0.3
"""Share q of the fastest possible fall of t that is used if the budget is ample."""

TIGHT_SHARE = 0.8
"""Share q of the fastest possible fall of t that a small budget may use, until t falls by exp(-LEAST_DEPTH)."""

LEAST_DEPTH = 4.0
"""Logarithm of the fall of t that a small budget aims for."""

ALPHA_PER_SHARE = 2.0
"""alpha is this times q, between MIN_ALPHA and MAX_ALPHA."""

MIN_ALPHA = 0.2

MAX_ALPHA = 1.0

SAMPLES_PER_LOG_D = 3.0
"""An ample budget has 2 + 3 log d pairs per iteration."""

MIN_ITERATIONS = 100
"""A small budget has as many pairs per iteration as leave it this many iterations."""

MIN_ROUNDS = 20
"""Minimum number of rounds of parallel evaluations. With fewer, a search cannot learn from its values: a small budget
then has fewer points per round than there are workers."""

MAX_LEARNING_RATE = 0.03
"""Learning rate of the widths in runs of up to 1,000 iterations."""

LEARNING_RATE_TIMES_T = 30.0
"""In longer runs the rate is 30 / T. The random walk of the widths grows as the rate times the root of T, so this keeps
it small. (This part is reasoned, not measured.)"""


LOCAL_SEARCH_MIN_GRADIENTS = 10
"""Minimum budget for a local search, in gradient evaluations. With less there is the homotopy alone."""

BATCH_LOCAL_SHARE = 0.2
"""Share of the budget kept for the local search of each problem in a batch. On the training functions with 1,000 d
evaluations in 5 variables, 0.2 was best among 0.12, 0.2, 0.3, 0.5 and 0.7."""

BATCH_LOCAL_MIN_GRADIENTS = 80
"""Minimum budget for that local search, in gradient evaluations, up to BATCH_LOCAL_MAX_SHARE. With 200 d evaluations in
5, 10 and 20 variables, 80 was better than 30 and 60."""

BATCH_LOCAL_MAX_SHARE = 0.5
"""Maximum share of the budget that BATCH_LOCAL_MIN_GRADIENTS may keep."""


class Pace(NamedTuple):
    """Fall of t, t_end / t1, and length of the steps."""

    fall: float
    alpha: float

    @property
    def depth(self) -> float:
        """Logarithm of the fall."""
        return -math.log(self.fall)


def fastest_fall(oracle: Oracle, d: int, T: int) -> float:
    """Return the logarithm of the fastest possible fall of t in T iterations."""
    c = zeroth_order_cosine(oracle.samples, d) if oracle.asks == "values" else 1.0
    return max(1, T) * c * c / 2


def choose_pace(oracle: Oracle, d: int, T: int, fall: float | None = None, share: float | None = None) -> Pace:
    """Choose the pace of T iterations. `fall` is kept if given. `share` is the share of the fastest possible fall."""
    fastest = fastest_fall(oracle, d, T)
    if share is None:
        wanted = max(AMPLE_SHARE * fastest, min(LEAST_DEPTH, TIGHT_SHARE * fastest))
    else:
        wanted = share * fastest
    depth = min(math.log(LARGEST_FALL), wanted)
    if fall is not None:
        depth = -math.log(fall)
    return Pace(math.exp(-depth), min(max(MIN_ALPHA, ALPHA_PER_SHARE * depth / fastest), MAX_ALPHA))


def round_width(parallel: int, max_evals: int | None) -> int:
    """Return the number of points per round if `parallel` evaluations can run at the same time."""
    return parallel if max_evals is None else min(parallel, max(1, math.ceil(max_evals / MIN_ROUNDS)))


def fill_samples(composition: Composition, d: int, max_evals: int | None, width: int = 1) -> Composition:
    """Fill in the number of samples if the user left it open. Their pairs fill rounds of `width` points.

    On a sphere the progress per evaluation is c^2 / M = 1 / (M + d). So any M well below d is as good as 1, and more
    samples average more ruggedness. M grows with log d, as the default population of CMA-ES does.
    """
    oracle = composition.parts["oracle"]
    if isinstance(oracle, type) and issubclass(oracle, Directional) and "samples" not in composition.given:
        return composition.fill("oracle", samples=d)  # a basis
    if composition.name not in SCALE_FREE or {"samples", "oracle"} & composition.given:
        return composition
    samples = 2 + int(SAMPLES_PER_LOG_D * math.log(d))
    if max_evals is not None:
        samples = max(1, min(samples, max_evals // (2 * MIN_ITERATIONS)))
    pairs = max(1, width // 2)
    return composition.fill("oracle", samples=math.ceil(samples / pairs) * pairs)


@np.errstate(all="ignore")
def fill_pace(
    composition: Composition, oracle: Oracle, schedule: Schedule, mean_t1: float, d: int, T: int
) -> Composition:
    """Fill in how far t falls, the length of the steps and the learning rate of the widths, if left open.

    `mean_t1` is the geometric mean of the first radii of all problems.
    """
    if composition.name not in SCALE_FREE or not isinstance(schedule, Budget):
        return composition
    given, fall = composition.given, schedule.fall
    if schedule.t_end is not None:
        fall = min(1.0, schedule.t_end / mean_t1)
    pace = choose_pace(oracle, d, T, fall)
    if schedule.t_end is None and fall is None and "schedule" not in given:
        composition = composition.fill("schedule", fall=pace.fall)
    if composition.parts["update"].name == "scale_free" and not {"alpha", "update"} & given:
        composition = composition.fill("update", alpha=pace.alpha)
    if oracle.name == "diagonal_scaling" and not {"rate", "oracle"} & given:
        composition = composition.fill("oracle", rate=min(MAX_LEARNING_RATE, LEARNING_RATE_TIMES_T / max(1, T)))
    return composition


def local_search_evals(budget: int, gradient_cost: int) -> int:
    """Return the evaluations kept for the local search of each problem in a batch, 0 if there is none."""
    if budget < LOCAL_SEARCH_MIN_GRADIENTS * gradient_cost:
        return 0
    least = min(BATCH_LOCAL_MIN_GRADIENTS * gradient_cost, BATCH_LOCAL_MAX_SHARE * budget)
    return int(max(BATCH_LOCAL_SHARE * budget, least))


@np.errstate(all="ignore")
def first_radius(x0: NDArray[Any], box: Box | None) -> NDArray[Any]:
    """Return the first t of each problem, (B,).

    With bounds on all variables it is a quarter of the geometric mean of their widths. Otherwise it is the root mean
    square of x0, at least 1.
    """
    if (shape := _shape(box)) is not None:
        least = np.finfo(x0.dtype).tiny  # t must stay above 0, however narrow the box
        return np.maximum(np.full(x0.shape[0], shape.mean / 4, x0.dtype), least)
    peak = np.maximum(np.max(np.abs(x0), axis=1), 1)  # the squares of x0 / peak do not overflow
    scale = peak * np.sqrt(np.mean((x0 / peak[:, None]) ** 2, axis=1))
    return np.asarray(np.maximum(scale, 1), x0.dtype)


@np.errstate(all="ignore")
def first_widths(box: Box | None, d: int) -> NDArray[np.float64]:
    """Return the widths of the box, (d,), in units of their geometric mean. They are 1 unless all are bounded."""
    shape = _shape(box)
    return np.ones(d) if shape is None else shape.widths


class BoxShape(NamedTuple):
    """Geometric mean of a box's widths, and the widths (d,) in units of it, 1 for fixed variables."""

    mean: float
    widths: NDArray[np.float64]


def _shape(box: Box | None) -> BoxShape | None:
    """Return the shape of a box if all variables are bounded and not all fixed. Ratios make it independent of units."""
    if box is None:
        return None
    width = box.high.astype(float) - box.low.astype(float)
    peak = float(np.max(width))
    if not 0 < peak < np.inf or np.isnan(width).any():
        return None
    ratio = width / peak
    moving = ratio > 0
    mean = float(np.exp(np.mean(np.log(ratio[moving]))))
    return BoxShape(peak * mean, np.where(moving, ratio, mean) / mean)
