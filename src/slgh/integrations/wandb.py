"""Log a run to Weights & Biases."""

from __future__ import annotations

from typing import Any

from slgh.checks import MissingLibraryError
from slgh.integrations.metrics import MetricsCallback

try:
    import wandb  # noqa: F401
except ImportError as missing:
    raise MissingLibraryError(
        '`slgh.integrations.wandb` needs Weights & Biases: pip install "slgh[wandb]".'
    ) from missing


class WandbCallback(MetricsCallback):
    """Callback that logs the metrics of a run to a run of Weights & Biases.

    Parameters
    ----------
    run
        Run that `wandb.init(...)` returned.
    every
        Log each `every`-th iteration, 1 by default.
    """

    def __init__(self, run: Any, *, every: int = 1) -> None:
        super().__init__(every=every)
        self.run = run

    def log(self, metrics: dict[str, float], step: int) -> None:
        """Log the metrics of iteration `step`."""
        self.run.log(metrics, step=step)
