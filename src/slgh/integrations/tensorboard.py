"""Log a run to TensorBoard. PyTorch and TensorFlow are not needed."""

from __future__ import annotations

import os
from typing import Any

from slgh.checks import MissingLibraryError
from slgh.integrations.metrics import MetricsCallback

try:
    from tensorboard.summary import Writer
except ImportError as missing:
    raise MissingLibraryError(
        '`slgh.integrations.tensorboard` needs TensorBoard: pip install "slgh[tensorboard]".'
    ) from missing


class TensorBoardCallback(MetricsCallback):
    """Callback that writes the metrics of a run to a folder that TensorBoard shows.

    Parameters
    ----------
    folder
        Folder of the run.
    every
        Log each `every`-th iteration, 1 by default.

    Notes
    -----
    Use it as a context manager, or call `close` after the run, to write the last rows.
    """

    def __init__(self, folder: str | os.PathLike[str], *, every: int = 1) -> None:
        super().__init__(every=every)
        self.writer = Writer(os.fspath(folder))

    def log(self, metrics: dict[str, float], step: int) -> None:
        """Write the metrics of iteration `step`."""
        for name, value in metrics.items():
            self.writer.add_scalar(f"slgh/{name}", value, step)

    def close(self) -> None:
        """Write what is buffered, and close the file."""
        self.writer.close()

    def __enter__(self) -> TensorBoardCallback:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()
