r"""Gaussian-process regression: a model of f, with its uncertainty, from few values in mixed variables.

The covariance of f at two points is Matérn's of order 5/2 [1]_ in a weighted distance r,

.. math:: k(r) = s^2 (1 + \sqrt 5 r + 5 r^2 / 3) e^{-\sqrt 5 r}, \qquad r^2 = \sum_j \delta_j^2 / \ell_j^2,

where the difference delta of two categories is 0 or 1. The lengths l and the relative noise are those of the largest
posterior density. The mean and the scale s are the most likely ones given these.

.. [1] C. E. Rasmussen and C. K. I. Williams, "Gaussian Processes for Machine Learning", 2006.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slgh.auto.evaluation import Floats

LENGTH_MEDIAN = 0.5
"""Median of the prior of the lengths: half the range of a variable."""

LENGTH_DEVIATION = 1.0
"""Standard deviation of the prior of the logarithm of a length."""

NOISE_MEDIAN = 1e-4
"""Median of the prior of the relative variance of the noise. f has no noise, but small steps that look like it."""

NOISE_DEVIATION = 2.0
"""Standard deviation of the prior of its logarithm."""

LENGTH_LIMITS = (math.log(0.02), math.log(20.0))
"""Limits of the logarithm of a length."""

NOISE_LIMITS = (math.log(1e-7), math.log(0.5))
"""Limits of the logarithm of the noise. Below, the covariance matrix may be singular."""

MAX_FIT_ITERATIONS = 12
"""Iterations per fit. Each fit continues from the last one."""


class Model(NamedTuple):
    """A fitted process."""

    coordinates: Floats
    """(n, q)."""
    scales: Floats
    """Inverse lengths (q,)."""
    coded: NDArray[np.bool_]
    """True for the coordinates that are codes of categories, (q,)."""
    inverse: Floats
    """Inverse of the relative covariance matrix of the values, (n, n)."""
    weights: Floats
    """Product of `inverse` and the residuals, (n,)."""
    mean: float
    variance: float

    def predict(self, points: Floats) -> tuple[Floats, Floats]:
        """Return the mean and the standard deviation (m,) of f at points (m, q)."""
        ordered = ~self.coded
        a, b = points[:, ordered] * self.scales[ordered], self.coordinates[:, ordered] * self.scales[ordered]
        r2 = np.sum(a**2, axis=1)[:, None] + np.sum(b**2, axis=1) - 2 * a @ b.T
        for j in np.flatnonzero(self.coded):
            r2 += self.scales[j] ** 2 * (points[:, j, None] != self.coordinates[:, j])
        k = _matern(np.maximum(r2, 0.0))[0]
        reduction = np.sum((k @ self.inverse) * k, axis=1)
        return self.mean + k @ self.weights, np.sqrt(self.variance * np.maximum(1.0 - reduction, 1e-12))


def _matern(r2: Floats) -> tuple[Floats, Floats]:
    """Return the correlation at squared distances, and its derivative by them."""
    root = np.sqrt(5.0 * r2)
    decay = np.exp(-root)
    return (1.0 + root + root**2 / 3.0) * decay, -5.0 / 6.0 * (1.0 + root) * decay


def squared_differences(coordinates: Floats, coded: NDArray[np.bool_]) -> Floats:
    """Return the squared differences (q, n, n) of coordinates (n, q)."""
    columns = coordinates.T
    differences = columns[:, :, None] - columns[:, None, :]
    return np.where(coded[:, None, None], differences != 0, differences**2)


def first_parameters(q: int) -> Floats:
    """Return the logarithms of the lengths and of the noise from which the first fit begins, (q + 1,)."""
    return np.append(np.full(q, math.log(LENGTH_MEDIAN)), math.log(NOISE_MEDIAN))


def fit_parameters(squared: Floats, values: Floats, parameters: Floats) -> Floats:
    """Return the parameters (q + 1,) of the largest posterior density, by L-BFGS-B from the given ones."""
    from scipy.optimize import minimize  # here, since `import slgh` must stay light

    n, q = len(values), len(squared)
    medians = first_parameters(q)
    deviations = np.append(np.full(q, LENGTH_DEVIATION), NOISE_DEVIATION)
    flat = squared.reshape(q, -1)

    def loss(theta: Floats) -> tuple[float, Floats]:
        weights = np.exp(-2 * theta[:q])
        k, slope = _matern((weights @ flat).reshape(n, n))
        inverse, log_determinant = _inverse(k, math.exp(theta[q]))
        _, residuals, variance = _mean_and_variance(inverse, values)
        solved = inverse @ residuals
        off = (theta - medians) / deviations
        density = 0.5 * n * math.log(variance) + 0.5 * log_determinant + 0.5 * float(off @ off)
        sensitivity = 0.5 * (inverse - np.outer(solved, solved) / variance)
        by_length = -2 * weights * (flat @ (sensitivity * slope).ravel())
        by_noise = math.exp(theta[q]) * float(np.trace(sensitivity))
        return density, np.append(by_length, by_noise) + off / deviations

    bounds = [LENGTH_LIMITS] * q + [NOISE_LIMITS]
    found = minimize(
        loss, parameters, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": MAX_FIT_ITERATIONS}
    )
    return np.asarray(found.x) if np.isfinite(found.fun) else parameters


def condition(
    coordinates: Floats, coded: NDArray[np.bool_], squared: Floats, values: Floats, parameters: Floats
) -> Model:
    """Return the process with these parameters, given values (n,) at coordinates (n, q)."""
    n, q = coordinates.shape
    k = _matern((np.exp(-2 * parameters[:q]) @ squared.reshape(q, -1)).reshape(n, n))[0]
    inverse, _ = _inverse(k, math.exp(parameters[q]))
    mean, residuals, variance = _mean_and_variance(inverse, values)
    return Model(coordinates, np.exp(-parameters[:q]), coded, inverse, inverse @ residuals, mean, variance)


def _inverse(k: Floats, noise: float) -> tuple[Floats, float]:
    """Return the inverse of k + noise I, and the logarithm of its determinant."""
    from scipy.linalg.lapack import dpotrf, dpotri

    factor, failed = dpotrf(k + noise * np.eye(len(k)), lower=1)
    if failed:  # rounding errors
        factor, _ = dpotrf(k + (noise + 1e-6) * np.eye(len(k)), lower=1)
    upper = dpotri(factor, lower=1)[0]
    inverse = np.tril(upper) + np.tril(upper, -1).T
    return inverse, 2 * float(np.sum(np.log(np.diag(factor))))


def _mean_and_variance(inverse: Floats, values: Floats) -> tuple[float, Floats, float]:
    """Return the most likely mean, the residuals (n,) and the most likely variance."""
    row = inverse.sum(axis=0)
    mean = float(row @ values) / float(row.sum())
    residuals = values - mean
    return mean, residuals, max(float(residuals @ inverse @ residuals) / len(values), 1e-12)
