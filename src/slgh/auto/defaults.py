"""What "auto" leaves open is chosen here: samples, the first radius, how far t falls, and how long the steps are.

The analysis behind it is that of a sphere in d variables, at the distance r from its center. M pairs give an estimate
whose cosine with the gradient is c on average, c^2 = M / (M + d); the best step is c r long and leaves the distance
r sqrt(1 - c^2). So in T iterations t may fall by the factor exp(-T c^2 / 2) at most, if x is to follow, whatever the
function's scale. The share of that speed which is used, q, is what the rest depends on.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slgh.engine.bounds import Box
from slgh.method import SCALE_FREE, Method
from slgh.oracles.estimators import zeroth_order_cosine
from slgh.protocols import Oracle
from slgh.schedules import Budget

# The numbers below hold for all dimensions and budgets. They come from trials on the training functions of
# benchmarks/coco.py, most of them from a random search over 294 settings in 20, 40 and 160 variables.

DEEP = 1e4 * 2.5
"""t falls by this factor where the budget is ample: below, a local solver is the better tool."""

UNHURRIED = 0.3
"""The share q of the fastest fall of t that is used where the budget is not ample."""

HURRIED, NEEDED = 0.8, 4.0
"""A small budget is used up to this share of the fastest, until t falls by exp(-4) at least."""

LENGTHEN, SHORTEST, LONGEST = 2.0, 0.2, 1.0
"""alpha is 2 q, within these bounds."""

ITERATIONS, EVERY = 100, 3.0
"""An ample budget has 2 + 3 log d pairs an iteration, a small one as many as leave it 100 iterations."""

LESSONS, QUICKEST = 30.0, 0.03
"""The rate at which widths are learned is 0.03, and in runs of more than 1,000 iterations 30 / T: their random walk,
which grows as the rate times the root of T, then does not add up. (That part is reasoned, not tried.)"""


class Pace(NamedTuple):
    """How far t falls, t_end / t1, and how long the steps are."""

    fall: float
    alpha: float


def choose_pace(oracle: Oracle, d: int, T: int, fall: float | None = None) -> Pace:
    """For T iterations; `fall` where it is given."""
    c = zeroth_order_cosine(oracle.samples, d) if oracle.asks == "values" else 1.0
    fastest = max(1, T) * c * c / 2
    depth = min(math.log(DEEP), max(UNHURRIED * fastest, min(NEEDED, HURRIED * fastest)))
    if fall is not None:
        depth = -math.log(fall)
    return Pace(math.exp(-depth), min(max(SHORTEST, LENGTHEN * depth / fastest), LONGEST))


def choose_samples(method: Method, params: dict[str, Any], d: int, max_evals: int | None) -> Method:
    """Fill in the number of samples where the user left it open.

    On a sphere the progress an evaluation is c^2 / M = 1 / (M + d): any M well below d is as good as one, and more
    samples average more ruggedness. M grows with log d, as the default population of CMA-ES does.
    """
    oracle: Any = method.oracle
    if method.name not in SCALE_FREE or "samples" in params or "oracle" in params:
        return method
    samples = 2 + int(EVERY * math.log(d))
    if max_evals is not None:
        samples = max(1, min(samples, max_evals // (2 * ITERATIONS)))
    return dataclasses.replace(method, oracle=dataclasses.replace(oracle, samples=samples))


@np.errstate(all="ignore")
def choose_rest(method: Method, params: dict[str, Any], t: NDArray[Any], d: int, T: int) -> Method:
    """Fill in how far t (B,) falls, how long the steps are and how fast widths are learned, where it was left open."""
    if method.name not in SCALE_FREE or not isinstance(method.schedule, Budget):
        return method
    given = {name for name in ("oracle", "schedule", "update") if name in params}
    schedule, update, oracle = method.schedule, method.update, method.oracle
    fall = schedule.fall
    if schedule.t_end is not None:
        fall = min(1.0, schedule.t_end / float(np.exp(np.mean(np.log(t)))))
    pace = choose_pace(oracle, d, T, fall)
    if schedule.t_end is None and fall is None and "schedule" not in given:
        schedule = dataclasses.replace(schedule, fall=pace.fall)
    chosen: dict[str, Any] = {"schedule": schedule}
    if update.name == "scale_free" and not {"alpha", "update"} & (given | set(params)):
        chosen["update"] = dataclasses.replace(update, alpha=pace.alpha)  # type: ignore[type-var]
    if oracle.name == "diagonal_scaling" and not {"rate", "oracle"} & (given | set(params)):
        chosen["oracle"] = dataclasses.replace(oracle, rate=min(QUICKEST, LESSONS / max(1, T)))  # type: ignore[type-var]
    return dataclasses.replace(method, **chosen)


@np.errstate(all="ignore")
def first_radius(x0: NDArray[Any], box: Box | None) -> NDArray[Any]:
    """The first t of each problem, (B,): a quarter of the box, or the start's own scale, at least 1.

    With bounds on all variables it is a quarter of the geometric mean of their widths; else the root mean square of
    x0, but not below 1.
    """
    if (shape := _shape(box)) is not None:
        least = np.finfo(x0.dtype).tiny  # t must stay above 0, however narrow the box
        return np.maximum(np.full(x0.shape[0], shape.mean / 4, x0.dtype), least)
    peak = np.maximum(np.max(np.abs(x0), axis=1), 1)
    scale = peak * np.sqrt(np.mean((x0 / peak[:, None]) ** 2, axis=1))
    return np.asarray(np.maximum(scale, 1), x0.dtype)


@np.errstate(all="ignore")
def first_widths(box: Box | None, d: int) -> NDArray[np.float64]:
    """How wide the box is in each variable, (d,), in units of the geometric mean; 1 unless all are bounded."""
    shape = _shape(box)
    return np.ones(d) if shape is None else shape.widths


class Shape(NamedTuple):
    """The geometric mean of a box's widths, and the widths (d,) in units of it, 1 for variables that are fixed."""

    mean: float
    widths: NDArray[np.float64]


def _shape(box: Box | None) -> Shape | None:
    """That of a box whose variables are all bounded, and not all fixed; from ratios, which are the same in any unit."""
    if box is None:
        return None
    width = box.high.astype(float) - box.low.astype(float)
    peak = float(np.max(width))
    if not 0 < peak < np.inf or np.isnan(width).any():
        return None
    ratio = width / peak
    moving = ratio > 0
    mean = float(np.exp(np.mean(np.log(ratio[moving]))))
    return Shape(peak * mean, np.where(moving, ratio, mean) / mean)
