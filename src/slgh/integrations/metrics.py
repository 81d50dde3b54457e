"""Base of the callbacks that send the metrics of a run to an experiment tracker."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

import slgh
from slgh import checks


class MetricsCallback(ABC):
    """Callback for `slgh.minimize` that logs the values `fun`, `fun_best`, `t` and `nfev` over the iterations.

    For a batch, it logs the lowest values and the largest t.

    Parameters
    ----------
    every
        Log each `every`-th iteration, 1 by default. Trackers on a server take milliseconds per call.
    """

    def __init__(self, *, every: int = 1) -> None:
        checks.count("every", every)
        self.every = every

    def __call__(self, result: slgh.Result) -> None:
        """Log the metrics of an iteration."""
        if result.nit % self.every == 0:
            self.log(metrics_of(result), int(result.nit))

    @abstractmethod
    def log(self, metrics: dict[str, float], step: int) -> None:
        """Send the metrics of iteration `step` to the tracker."""


def metrics_of(result: slgh.Result) -> dict[str, float]:
    """Return the metrics of a Result that was passed to a callback. Values that are not finite are omitted."""
    lowest = {name: float(np.min(_host(result[name]))) for name in ("fun", "fun_best")}
    metrics = lowest | {"t": float(np.max(_host(result.t))), "nfev": float(result.nfev)}
    return {name: value for name, value in metrics.items() if np.isfinite(value)}


def _host(value: Any) -> NDArray[Any]:
    """Return a number or array of any library as one of NumPy."""
    return np.asarray(value.cpu() if hasattr(value, "cpu") else value)
