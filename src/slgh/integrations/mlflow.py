"""Log a run to MLflow."""

from __future__ import annotations

from slgh.checks import MissingLibraryError
from slgh.integrations.metrics import MetricsCallback

try:
    import mlflow
except ImportError as missing:
    raise MissingLibraryError('`slgh.integrations.mlflow` needs MLflow: pip install "slgh[mlflow]".') from missing


class MLflowCallback(MetricsCallback):
    """Callback that logs the metrics of a run to the active run of MLflow.

    If no run is active, MLflow starts one. To name and end the run yourself, use `mlflow.start_run()`.

    Parameters
    ----------
    every
        Log every `every`-th iteration, 10 by default, since each call writes a file or contacts a server.
    """

    def __init__(self, *, every: int = 10) -> None:
        super().__init__(every=every)

    def log(self, metrics: dict[str, float], step: int) -> None:
        """Log the metrics of iteration `step`."""
        mlflow.log_metrics(metrics, step=step)
