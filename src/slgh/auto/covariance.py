"""Homotopy with a full metric: F(x, t) = E f(x + t A u), where A and t are learned from the ranks of the samples.

This is covariance matrix adaptation (CMA-ES) as Hansen derives it in *The CMA evolution strategy: a tutorial* (arXiv
1604.00772), which the numbers of equations below refer to. It is a natural gradient descent on F. The smoothing radius
t has no schedule: it grows while the steps of x point the same way, and shrinks when they cancel out. The metric
C = A A^T approaches the inverse Hessian, up to a factor, so that ill-conditioned and coupled variables are resolved.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from enum import IntEnum
from itertools import islice
from typing import NamedTuple, Protocol

import numpy as np

from slgh.auto.evaluation import Evaluating, Evaluation, Floats
from slgh.engine.bounds import Box

FULL_METRIC_MAX_VARIABLES = 200
"""Maximum number of variables for a full metric. Beyond, it is diagonal: d^2 numbers are too many to learn."""

LEARNING_COST_BASE, LEARNING_COST_PER_VARIABLE = 200, 20
"""Evaluations per variable until a condition number of 1e6 has been learned: 200 + 20 d."""

SMALLEST_T = 1e-13
"""The homotopy has converged when the widest axis, in units of the first t of the whole run, is this short."""

LARGEST_T = 1e4
"""Maximum t unless all variables are bounded, in units of the first t of the whole run. A function without a minimum
would increase it forever."""

LARGEST_CONDITION = 1e14
"""Maximum condition number of the metric. Beyond, rounding makes its eigenvalues meaningless."""

ROUNDING_ULPS = 16
"""Values that differ by at most this many ulps count as equal. Sums of many terms have such errors."""

BEHIND = 1e-5
"""A run is behind the incumbent for good if the best values of its window differ by less than this share of the
distance to the incumbent's value. On a sharp ridge in 20 variables, 1e-3 ends 5 of 8 runs too early, 1e-5 ends 2. On
Rastrigin's function, 1e-5 takes 12 % more evaluations."""

SAME_MINIMUM_T = 1e-3
"""If the widest axis, in units of the first t of the whole run, is this short around a settled incumbent, the homotopy
is about to find the same minimum again."""

SAME_MINIMUM_RADIUS = 3.0
"""Maximum distance to the incumbent, in units of the root mean square radius of the samples."""

SMALLEST_CELL_SHARE = 0.35
"""Minimum standard deviation of a discrete variable, as a share of its cell. From the middle of a cell, 15 % of the
samples are then in another one. Otherwise all of them would soon have the same value, which teaches nothing."""

MAX_BAD_POPULATIONS = 10
"""The homotopy ends after this many populations in a row without a finite value. Each one halves t."""


class CovarianceEnd(IntEnum):
    """Reason why the homotopy ended. A checkpoint holds these numbers."""

    NONFINITE = -1
    """No usable values."""
    BUDGET = 0
    """The budget is spent."""
    CONVERGED = 1
    """t has become too small to change x."""
    FLAT = 2
    """The values differ by no more than rounding."""
    CONDITION = 3
    """The condition number of the metric is too large."""
    STAGNATION = 4
    """The best and the median values no longer fall."""
    BEHIND = 5
    """The values settle well above the incumbent."""
    SAME_MINIMUM = 6
    """It is about to find the incumbent again."""
    DIVERGED = 7
    """t has grown without limit."""

    @property
    def settled(self) -> bool:
        """True if another such homotopy from there would not lower f."""
        return self in (CovarianceEnd.CONVERGED, CovarianceEnd.FLAT)


class Incumbent(NamedTuple):
    """Lowest point of earlier phases."""

    x: Floats
    fun: float
    settled: bool
    """True if a phase has converged there."""


class CovarianceOutcome(NamedTuple):
    """Lowest point found, f there, why the homotopy ended, and the last iterate, inside the bounds."""

    x: Floats
    fun: float
    end: CovarianceEnd
    center: Floats


@dataclass(frozen=True, kw_only=True)
class SampleSpace:
    """Where f is evaluated: x and t at the start, the widths (d,) of the variables in units of t, and the bounds."""

    x: Floats
    t: float
    widths: Floats
    box: Box | None
    dtype: np.dtype[np.float64] | np.dtype[np.float32]
    """dtype of the points that f sees."""
    cells: Floats | None = None
    """Widths (d,) of the cells on which f is constant, 0 where it is not. None: nowhere."""

    def inside(self, x: Floats) -> Floats:
        """Return the points of the box that are mirror images of x (n, d), rounded as f sees them."""
        if self.dtype == np.float32:
            x = x.astype(np.float32).astype(float)
        if self.box is None:
            largest = float(np.finfo(self.dtype).max)
            return np.asarray(np.clip(x, -largest, largest))
        low, high = np.asarray(self.box.low, float), np.asarray(self.box.high, float)
        if (x >= low).all() and (x <= high).all():
            return x
        reflected = np.asarray(self.box.inside(x, np), float)
        return np.asarray(np.clip(reflected.astype(self.dtype).astype(float), low, high))

    @property
    def bounded(self) -> bool:
        """True if all variables have finite bounds."""
        return self.box is not None and bool(np.isfinite(self.box.low).all() and np.isfinite(self.box.high).all())

    def largest_t(self, t1: float) -> float:
        """Return the maximum t. Beyond the width of the box, reflected samples are uniform whatever t is."""
        if self.box is None or not self.bounded:
            return LARGEST_T * t1
        width = np.asarray(self.box.high - self.box.low, float) / self.widths
        return max(self.t, min(LARGEST_T * t1, float(np.max(width))))


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Weights of the ranks (samples,), and learning rates. See Table 1 of the tutorial."""

    weights: Floats
    """Weights w, best sample first. The positive ones sum to 1, the negative ones are those of active adaptation."""
    effective: float
    """Variance effective number of samples, mu_eff."""
    path_t: float
    """Learning rate c_sigma of the path for t."""
    damping: float
    """Damping d_sigma of t."""
    path_metric: float
    """Learning rate c_c of the path for the metric."""
    rank_one: float
    """Learning rate c_1 of the path's share in the metric."""
    rank_many: float
    """Learning rate c_mu of the samples' share in the metric."""


def choose_rates(d: int, samples: int, *, diagonal: bool) -> Rates:
    """Return the defaults for d variables: equations 49 to 58.

    A diagonal metric has d numbers instead of d (d + 1) / 2, so it learns (d + 1.5) / 3 times faster (Ros and Hansen,
    *A simple modification in CMA-ES achieving linear time and space complexity*, PPSN 2008).
    """
    raw = math.log((samples + 1) / 2) - np.log(np.arange(1, samples + 1))
    positive, negative = np.maximum(raw, 0), np.minimum(raw, 0)
    effective = float(positive.sum() ** 2 / (positive @ positive))
    faster = (d + 1.5) / 3 if diagonal else 1.0
    one = min(0.5, faster * 2 / ((d + 1.3) ** 2 + effective))
    many = min(1 - one, faster * 2 * (effective + 1 / effective - 1.75) / ((d + 2) ** 2 + effective))
    # The sum of the negative weights must not make the metric indefinite (equations 50 to 52).
    effective_negative = float(negative.sum() ** 2 / max(float(negative @ negative), 1e-300))
    limit = min(1 + one / many, 1 + 2 * effective_negative / (effective + 2), (1 - one - many) / (d * many))
    weights = positive / positive.sum() - limit * negative / min(negative.sum(), -1e-300)
    path_t = (effective + 2) / (d + effective + 5)
    return Rates(
        weights=weights,
        effective=effective,
        path_t=path_t,
        damping=1 + 2 * max(0.0, math.sqrt((effective - 1) / (d + 1)) - 1) + path_t,
        path_metric=(4 + effective / d) / (d + 4 + 2 * effective / d),
        rank_one=one,
        rank_many=many,
    )


class Metric(Protocol):
    """The metric C = A A^T."""

    def shape(self, z: Floats) -> Floats:
        """Return A z for normal samples z (n, d)."""

    def whiten(self, z: Floats) -> Floats:
        """Return C^(-1/2) A z for one z (d,)."""

    @property
    def deviations(self) -> Floats:
        """Standard deviations (d,) of A z."""

    def distance(self, y: Floats) -> float:
        """Return |C^(-1/2) y| for one y (d,)."""

    def update(self, keep: float, path: Floats, y: Floats, weights: Floats) -> None:
        """Replace C by keep C + path path^T + sum of weights[i] y[i] y[i]^T."""

    @property
    def widest(self) -> float:
        """Root of the largest eigenvalue of C."""

    @property
    def condition(self) -> float:
        """Condition number of C, infinite if C is not positive definite."""


class FullMetric:
    """All d (d + 1) / 2 numbers of C, with an eigendecomposition C = B D^2 B^T that is renewed when it is due.

    Parameters
    ----------
    interval
        Number of updates between two decompositions.
    """

    def __init__(self, widths: Floats, interval: float) -> None:
        self.C = np.diag(widths**2)
        self.B, self.D = np.eye(widths.size), widths.copy()
        self.interval, self.age = interval, 0

    def shape(self, z: Floats) -> Floats:
        return (z * self.D) @ self.B.T

    def whiten(self, z: Floats) -> Floats:
        return self.B @ z

    def distance(self, y: Floats) -> float:
        return float(np.linalg.norm((y @ self.B) / self.D))

    def update(self, keep: float, path: Floats, y: Floats, weights: Floats) -> None:
        self.C *= keep
        self.C += np.outer(path, path)
        self.C += (y.T * weights) @ y
        self.age += 1
        if self.age >= self.interval:
            self._decompose()

    @property
    def deviations(self) -> Floats:
        return np.sqrt(np.maximum(np.diag(self.C), 0))

    def _decompose(self) -> None:
        self.age = 0
        try:
            squares, B = np.linalg.eigh(self.C)
        except np.linalg.LinAlgError:  # C is not finite
            squares, B = np.array([-1.0]), self.B
        if squares[0] > 0:
            self.D, self.B = np.sqrt(squares), B
        else:
            self.D = np.append(0.0, self.D[1:])  # the condition number is infinite

    @property
    def widest(self) -> float:
        return float(self.D.max())

    @property
    def condition(self) -> float:
        least = float(self.D.min())
        return (float(self.D.max()) / least) ** 2 if least > 0 else math.inf


class DiagonalMetric:
    """The diagonal of C."""

    def __init__(self, widths: Floats) -> None:
        self.D = widths.copy()

    def shape(self, z: Floats) -> Floats:
        return z * self.D

    def whiten(self, z: Floats) -> Floats:
        return z

    def distance(self, y: Floats) -> float:
        return float(np.linalg.norm(y / self.D))

    def update(self, keep: float, path: Floats, y: Floats, weights: Floats) -> None:
        squares = keep * self.D**2 + path**2 + weights @ y**2
        self.D = np.sqrt(np.maximum(squares, 0))

    @property
    def deviations(self) -> Floats:
        return self.D

    @property
    def widest(self) -> float:
        return float(self.D.max())

    @property
    def condition(self) -> float:
        least = float(self.D.min())
        return (float(self.D.max()) / least) ** 2 if least > 0 else math.inf


class _Progress:
    """Best and median values of the last populations, and what follows from them."""

    def __init__(self, d: int, samples: int) -> None:
        self.window = 10 + math.ceil(30 * d / samples)
        self.best: deque[float] = deque(maxlen=self.window)
        self.patience = int(100 + 100 * d**1.5 / samples)
        self.long_best: deque[float] = deque(maxlen=self.patience)
        self.long_median: deque[float] = deque(maxlen=self.patience)

    def add(self, best: float, median: float) -> None:
        """Add the values of a population."""
        self.best.append(best)
        self.long_best.append(best)
        self.long_median.append(median)

    @property
    def range(self) -> float:
        """Range of the best values of the window, infinite if it is not full."""
        return max(self.best) - min(self.best) if len(self.best) == self.window else math.inf

    @property
    def stagnates(self) -> bool:
        """True if the last values are no lower than those a long time ago, both the best and the median ones."""
        n = self.patience
        if len(self.long_best) < n:
            return False
        part = max(1, n // 5)
        return all(
            np.median(list(islice(values, n - part, n))) >= np.median(list(islice(values, 0, part)))
            for values in (self.long_best, self.long_median)
        )


def learning_cost(d: int) -> int:
    """Return the evaluations after which a metric has been learned, as measured on ellipsoids in 2 to 20 variables."""
    return d * (LEARNING_COST_BASE + LEARNING_COST_PER_VARIABLE * min(d, FULL_METRIC_MAX_VARIABLES))


def default_samples(d: int) -> int:
    """Return the default number of samples per iteration, equation 48."""
    return 4 + int(3 * math.log(d))


def covariance_homotopy(
    space: SampleSpace, budget: int, incumbent: Incumbent, *, samples: int, t1: float, rng: np.random.Generator
) -> Evaluating[CovarianceOutcome]:
    """Shrink t while descending in x, and learn the metric, with at most `budget` evaluations.

    Parameters
    ----------
    incumbent
        Lowest point of earlier phases. A homotopy that will not get below it ends early.
    samples
        Number of samples per iteration.
    t1
        First t of the whole run, the unit of small t.
    """
    d = space.x.size
    diagonal = d > FULL_METRIC_MAX_VARIABLES
    rates = choose_rates(d, samples, diagonal=diagonal)
    learned = (rates.rank_one + rates.rank_many) * d
    metric: Metric = DiagonalMetric(space.widths) if diagonal else FullMetric(space.widths, 0.2 / learned)
    progress = _Progress(d, samples)
    m, t = space.x.copy(), space.t
    path_t, path_metric = np.zeros(d), np.zeros(d)
    lowest, lowest_x = math.inf, space.x
    mean_norm = math.sqrt(d) * (1 - 1 / (4 * d) + 1 / (21 * d * d))  # E|u| for u ~ N(0, I)
    keep_t, keep_metric = 1 - rates.path_t, 1 - rates.path_metric
    gain_t = math.sqrt(rates.path_t * (2 - rates.path_t) * rates.effective)
    gain_metric = math.sqrt(rates.path_metric * (2 - rates.path_metric) * rates.effective)
    sum_weights, positive = float(rates.weights.sum()), np.maximum(rates.weights, 0)
    equal_at = int(0.1 + samples / 4)
    largest_t, eps = space.largest_t(t1), float(np.finfo(space.dtype).eps)
    bad = 0

    def outcome(end: CovarianceEnd) -> CovarianceOutcome:
        return CovarianceOutcome(lowest_x, lowest, end, space.inside(m))

    for iteration in range(1, budget // samples + 1):
        z = rng.standard_normal((samples, d))
        y = metric.shape(z)
        if space.cells is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                y = y * np.fmax(1.0, SMALLEST_CELL_SHARE * space.cells / (t * metric.deviations))
        points = space.inside(m + t * y)
        values = yield Evaluation(points, is_step=True, t=t, center=space.inside(m))
        finite = np.isfinite(values)
        usable = bool(finite.all())
        if not usable:
            if not finite.any():
                bad, t = bad + 1, t / 2
                if bad == MAX_BAD_POPULATIONS:
                    return outcome(CovarianceEnd.NONFINITE)
                continue
            values = np.where(finite, values, np.inf)
        bad = 0
        order = np.argsort(values, kind="stable")
        best, median = float(values[order[0]]), float(values[order[samples // 2]])
        if best < lowest:
            lowest, lowest_x = best, points[order[0]]
        # Equations 41 to 47. A bad value has no share in the mean, but its negative weight counts.
        z, y, weights, shares = z[order], y[order], rates.weights, positive
        if not usable:
            shares = np.where(finite[order], positive, 0.0)
            weights = np.where(finite[order] | (weights < 0), weights, 0.0)
        move = shares @ y
        m = m + t * move
        path_t = keep_t * path_t + gain_t * metric.whiten(shares @ z)
        norm = math.sqrt(float(path_t @ path_t))
        expected = math.sqrt(1 - keep_t ** (2 * iteration)) * mean_norm
        straight = norm < (1.4 + 2 / (d + 1)) * expected  # False right after t was much too small
        path_metric = keep_metric * path_metric
        if straight:
            path_metric += gain_metric * move
        lengths = np.einsum("ij,ij->i", z, z)
        scaled = rates.rank_many * np.where(weights < 0, weights * (d / lengths), weights)
        lost = 0.0 if straight else rates.rank_one * rates.path_metric * (2 - rates.path_metric)
        keep = 1 + lost - rates.rank_one - rates.rank_many * sum_weights
        metric.update(keep, math.sqrt(rates.rank_one) * path_metric, y, scaled)
        t *= math.exp(min(1.0, rates.path_t / rates.damping * (norm / mean_norm - 1)))
        if values[order[equal_at]] == best:  # a plateau, of which larger t may see the edge
            t *= math.exp(0.2 + rates.path_t / rates.damping)
        t = min(t, largest_t)
        # Ends.
        progress.add(best, median)
        rounding = ROUNDING_ULPS * eps * abs(best)
        spread = progress.range
        worst = float(values[order[-1]])
        if spread <= rounding and worst - best <= rounding:
            return outcome(CovarianceEnd.FLAT)
        if iteration % 5 == 0:
            axis = t * metric.widest
            if axis < SMALLEST_T * t1 or bool((axis < eps * np.abs(m)).all()):
                return outcome(CovarianceEnd.CONVERGED)
            if not metric.condition < LARGEST_CONDITION:
                return outcome(CovarianceEnd.CONDITION)
            if not space.bounded and t >= largest_t:
                return outcome(CovarianceEnd.DIVERGED)
            if spread < BEHIND * (min(progress.best) - incumbent.fun):
                return outcome(CovarianceEnd.BEHIND)
            if incumbent.settled and axis < SAME_MINIMUM_T * t1 and lowest >= incumbent.fun:
                radius = SAME_MINIMUM_RADIUS * math.sqrt(d)
                if metric.distance((incumbent.x - m) / t) < radius:
                    return outcome(CovarianceEnd.SAME_MINIMUM)
            if iteration % 50 == 0 and progress.stagnates:
                return outcome(CovarianceEnd.STAGNATION)
    return outcome(CovarianceEnd.BUDGET)
