"""Draw a run in a notebook while it runs."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import numpy as np

import slgh
from slgh.checks import MissingLibraryError, at_least
from slgh.integrations.metrics import metrics_of

try:
    from IPython.display import display
except ImportError as missing:
    raise MissingLibraryError('`slgh.integrations.notebook` needs IPython: pip install "slgh[notebook]".') from missing

MAX_ROWS = 1000
"""Maximum number of iterations drawn. More of them look the same and take longer to draw."""


class LivePlot:
    """Callback that draws f, the best value and t in the output of a notebook cell, and updates the plot in place.

    Parameters
    ----------
    every_seconds
        Minimum time between two updates, 1 second by default. Drawing takes about a fifth of a second.
    title
        Title of the plot.

    Notes
    -----
    Call `update` after the run to draw its last iterations.
    """

    def __init__(self, *, every_seconds: float = 1.0, title: str | None = None) -> None:
        at_least("every_seconds", every_seconds, 0)
        self.every_seconds, self.title = every_seconds, title
        self._rows: list[dict[str, float]] = []
        self._stride = 1
        self._calls = 0
        self._last = time.monotonic()
        self._handle: Any = None

    def __call__(self, result: slgh.Result) -> None:
        """Keep the metrics of an iteration, and draw if the last picture is old enough."""
        if self._calls % self._stride == 0:
            self._rows.append({"iteration": result.nit - 1, "fun_best": np.nan, "fun": np.nan} | metrics_of(result))
            if len(self._rows) >= MAX_ROWS:  # as in the history: drop every other row
                self._rows, self._stride = self._rows[::2], 2 * self._stride
        self._calls += 1
        if time.monotonic() - self._last >= self.every_seconds:
            self.update()

    def update(self) -> None:
        """Draw the iterations so far."""
        if len(self._rows) < 2:  # no line to draw
            return
        names = ("iteration", "nfev", "fun", "t", "fun_best")
        history = {name: np.array([row[name] for row in self._rows]) for name in names}
        drawn = slgh.Result(history=history, phases=(), njev=0, method=SimpleNamespace(name="run", reports="best"))
        figure = slgh.plot(drawn, title=self.title)
        if self._handle is None:
            self._handle = display(figure, display_id=True)
        else:
            self._handle.update(figure)
        self._last = time.monotonic()
