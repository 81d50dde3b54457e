"""What "auto" leaves open is chosen here: the number of samples and the first radius."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slgh.engine.box import Box
from slgh.method import Method


def choose_samples(method: Method, params: dict[str, Any], d: int, max_evals: int | None) -> Method:
    """Fill in the number of samples where the user left it to "auto".

    On a sphere the progress an evaluation is c^2 / M = 1 / (M + d): any M well below d is as good as one, and more
    samples average more ruggedness. M grows with log d, as the default population of CMA-ES does, and leaves at
    least ten iterations to a small budget.
    """
    oracle: Any = method.oracle
    if method.name != "auto" or "samples" in params or "oracle" in params:
        return method
    samples = 2 + int(1.5 * math.log(d))
    if max_evals is not None:
        samples = max(1, min(samples, max_evals // 20))
    return dataclasses.replace(method, oracle=dataclasses.replace(oracle, samples=samples))


def first_radius(x0: NDArray[Any], box: Box | None) -> NDArray[Any]:
    """The first t of each problem, (B,): a quarter of the box, or the start's own scale, at least 1.

    With bounds on all variables it is a quarter of their mean width; else the root mean square of x0, but not
    below 1.
    """
    if box is not None and np.isfinite(box.low).all() and np.isfinite(box.high).all():
        width = np.mean(box.high - box.low)
        if width > 0:
            return np.full(x0.shape[0], width / 4, x0.dtype)
    peak = np.maximum(np.max(np.abs(x0), axis=1), 1)
    scale = peak * np.sqrt(np.mean((x0 / peak[:, None]) ** 2, axis=1))
    return np.asarray(np.maximum(scale, 1), x0.dtype)
