"""Runs what has no record yet, in processes, and keeps what it shows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from coco_study import records
from coco_study.jobs import Job, longest_first
from coco_study.running import run_and_keep


def missing(jobs: Sequence[Job], folder: Path) -> list[Job]:
    """Those that have no record."""
    shown = records.shown(records.read(folder))
    return [job for job in jobs if (job.method.name, job.method.digest, job.place, job.budgets[-1]) not in shown]


def run_missing(jobs: Sequence[Job], folder: Path, *, workers: int, until: float) -> bool:
    """Run them until a time of the clock `time.monotonic`, and say how far it came; whether all are there."""
    records.mend(folder)
    left = longest_first(missing(jobs, folder))
    seconds = until - time.monotonic()
    run_and_keep(left, folder, workers=workers, seconds=seconds, there=len(jobs) - len(left))
    return not missing(jobs, folder)
