"""Minimum of a quadratic model that is fitted to many noisy values around a point.

With noise of size nu everywhere, n values at distance r determine a gradient up to nu / (r sqrt(n)). So a fit to wide
samples finds the minimum of a nearly quadratic f much more exactly than steps between a few samples near it, in which
noise hides the slope.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slgh.auto.evaluation import Floats

FULL_MAX_VARIABLES = 40
"""Maximum number of variables for a model with all second derivatives. Beyond, the time of a fit would be noticed."""

VALUES_PER_COEFFICIENT = 1.5
"""Minimum number of values per coefficient of a model."""

MAX_NUMBERS = 4_000_000
"""Maximum number of array elements of a fit: values times coefficients. A fit then takes at most a few seconds."""

HUBER = 1.5
"""Residuals beyond this many robust standard deviations count less: the usual choice for Huber's estimator, which is
nearly as good as least squares if the noise is normal."""

REWEIGHTINGS = 4
"""Least-squares fits with weights that follow from the residuals."""


class Samples(NamedTuple):
    """Number of values of a fit, and whether it has all second derivatives or only those of single variables."""

    n: int
    full: bool


def choose_samples(d: int, budget: int) -> Samples | None:
    """Return the samples that the budget allows, None if it is too small for a fit."""
    for full, coefficients in ((True, (d + 1) * (d + 2) // 2), (False, 2 * d + 1)):
        if (d <= FULL_MAX_VARIABLES or not full) and budget >= VALUES_PER_COEFFICIENT * coefficients:
            return Samples(min(budget, MAX_NUMBERS // coefficients), full)
    return None


def fit_quadratic(z: Floats, values: Floats, *, full: bool) -> Floats:
    """Return the minimum of a quadratic model of values (n,) at points z (n, d), within the ball of radius sqrt(d).

    It is not finite if too few values are.
    """
    usable = np.isfinite(values)
    if usable.any():
        with np.errstate(all="ignore"):
            values = values - np.median(values[usable])
            values = values / (np.median(np.abs(values[usable])) or 1.0)  # so that the units of f do not matter
    usable &= np.isfinite(values)  # a huge value may have overflowed
    z, values = z[usable], values[usable]
    n, d = z.shape
    i, j = np.triu_indices(d) if full else (np.arange(d), np.arange(d))
    columns = np.column_stack([np.ones(n), z, z[:, i] * z[:, j]])
    if n < columns.shape[1]:
        return np.full(d, np.nan)
    weights = np.ones(n)
    for _ in range(REWEIGHTINGS):
        weighted = columns.T * weights
        try:  # normal equations, since the columns of normal samples are nearly orthogonal
            coefficients = np.linalg.solve(weighted @ columns, weighted @ values)
        except np.linalg.LinAlgError:  # variables that bounds keep from moving
            return np.full(d, np.nan)
        residuals = np.abs(values - columns @ coefficients)
        weights = 1 / np.maximum(1, residuals / max(HUBER * 1.4826 * float(np.median(residuals)), 1e-300))
    if not np.isfinite(coefficients).all():
        return np.full(d, np.nan)
    hessian = np.zeros((d, d))
    hessian[i, j] = coefficients[d + 1 :]
    return _minimum(np.asarray(coefficients[1 : d + 1], float), hessian + hessian.T)


def _minimum(gradient: Floats, hessian: Floats) -> Floats:
    """Return the minimum of the quadratic within the ball of radius sqrt(d)."""
    radius = np.sqrt(gradient.size)
    curvatures, basis = np.linalg.eigh(hessian)
    slopes = basis.T @ gradient
    least = max(0.0, -float(curvatures[0]))

    def step(shift: float) -> Floats:
        return -slopes / (curvatures + shift)

    low = least + 1e-12 * max(float(np.max(np.abs(curvatures))), 1e-300)
    if np.linalg.norm(step(low)) > radius:
        high = least + float(np.linalg.norm(slopes)) / radius  # there the step is at most the radius
        for _ in range(100):
            middle = np.sqrt(low * high)
            low, high = (middle, high) if np.linalg.norm(step(middle)) > radius else (low, middle)
        low = high
    return np.asarray(basis @ step(low))
