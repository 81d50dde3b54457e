"""A progress bar for long runs."""

from __future__ import annotations

import time
from typing import Any

EVERY = 0.1
"""Seconds between two drawings of the bar."""


class Progress:
    """A bar on standard error with iterations, the best value and t; drawn ten times a second at most."""

    def __init__(self, total: int | None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        self.bar = Bar(
            TextColumn("slgh"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[state]}"),
            console=Console(stderr=True),
        )
        self.task = self.bar.add_task("", total=total, state="")
        self.last = -1.0

    def open(self) -> None:
        """Put the bar on the screen."""
        self.bar.start()

    def show(self, k: int, f_best: Any, t: Any, running: int) -> None:
        """Draw the state after k iterations, if the last drawing is old enough."""
        if time.monotonic() - self.last >= EVERY:
            self.last = time.monotonic()
            self._draw(k, f_best, t, f"  {running} running" if running > 1 else "")

    def close(self, k: int, f_best: Any, t: Any) -> None:
        """Draw the last state and leave the bar on the screen."""
        self._draw(k, f_best, t, "")
        self.bar.stop()

    def _draw(self, k: int, f_best: Any, t: Any, more: str) -> None:
        best = f"best {float(f_best.min()):.6g}  " if float(f_best.min()) < float("inf") else ""
        self.bar.update(self.task, completed=k, state=f"{best}t {float(t.max()):.3g}{more}")
