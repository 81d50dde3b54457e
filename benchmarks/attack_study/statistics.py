"""Medians of distortions, and paired comparisons of two attacks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attack_study.records import Row

RESAMPLES = 10_000


class Ratio(NamedTuple):
    """The median ratio of two distortions, its 95 % interval, and the number of images."""

    median: float
    low: float
    high: float
    images: int

    def __str__(self) -> str:
        if not self.images:
            return "-"
        return f"{_number(self.median)} ({_number(self.low)} to {_number(self.high)})"


def distortions(row: Row, ids: list[int]) -> NDArray[np.float64]:
    """Return the distortions of these images. A failure counts as infinite."""
    return np.array([np.inf if row[i]["distortion"] is None else row[i]["distortion"] for i in ids])


def paired_ratio(row: Row, peer: Row) -> Ratio:
    """Return the median over images of the ratio of distortions row / peer, with a bootstrap interval over images.

    Images that both attacks fail to fool, or that both distort by nothing, are left out. If only one attack fails, the
    ratio is infinite or 0, which a median can take.
    """
    ids = sorted(row.keys() & peer.keys())
    a, b = distortions(row, ids), distortions(peer, ids)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(a) - np.log(b)
    logs = logs[~np.isnan(logs)]
    if not logs.size:
        return Ratio(np.nan, np.nan, np.nan, 0)
    picks = np.random.default_rng(0).integers(logs.size, size=(RESAMPLES, logs.size))
    low, high = np.quantile(_median(logs[picks]), [0.025, 0.975], method="nearest")
    median = _median(logs[None])[0]
    return Ratio(*(float(np.exp(value)) for value in (median, low, high)), int(logs.size))


def _median(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the medians of rows (m, n) that may hold infinite numbers: halfway between -inf and inf lies 0."""
    ordered, n = np.sort(logs, axis=1), logs.shape[1]
    with np.errstate(invalid="ignore"):
        middle = (ordered[:, (n - 1) // 2] + ordered[:, n // 2]) / 2
    return np.where(np.isnan(middle), 0.0, middle)


def _number(value: float) -> str:
    return "inf" if np.isinf(value) else f"{value:.2g}"
