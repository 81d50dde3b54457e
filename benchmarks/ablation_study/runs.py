"""Run every job without a record in worker processes, and store the records."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from coco_study import records
from coco_study.jobs import Job, longest_first
from coco_study.running import run_and_keep


def missing(jobs: Sequence[Job], folder: Path) -> list[Job]:
    """Return the jobs without a record."""
    shown = records.recorded_budgets(records.read(folder))
    return [job for job in jobs if (job.method.name, job.method.digest, job.place, job.budgets[-1]) not in shown]


def run_missing(jobs: Sequence[Job], folder: Path, *, workers: int, until: float) -> bool:
    """Run jobs until a time of `time.monotonic`, and print a summary. Return True if all have a record."""
    records.drop_incomplete_lines(folder)
    left = longest_first(missing(jobs, folder))
    seconds = until - time.monotonic()
    run_and_keep(left, folder, workers=workers, seconds=seconds, already_recorded=len(jobs) - len(left))
    return not missing(jobs, folder)
