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
        self.bar.start()

    def show(self, k: int, f_best: Any, t: Any, running: int) -> None:
        """Draw the state after k iterations, if the last drawing is old enough."""
        if time.monotonic() - self.last < EVERY:
            return
        self.last = time.monotonic()
        state = f"best {float(f_best.min()):.6g}  t {float(t.max()):.3g}"
        self.bar.update(self.task, completed=k, state=state if running == 1 else f"{state}  {running} running")

    def close(self, k: int) -> None:
        """Draw the last state and leave the bar on the screen."""
        self.bar.update(self.task, completed=k)
        self.bar.stop()
