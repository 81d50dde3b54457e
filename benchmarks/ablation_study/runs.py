"""Runs what has no record yet, in processes, and keeps what it shows."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from coco import progress
from coco_study import records
from coco_study.jobs import Job, longest_first, run_jobs


def missing(jobs: Sequence[Job], folder: Path) -> list[Job]:
    """Those that have no record."""
    shown = records.shown(records.read(folder))
    return [job for job in jobs if (job.method.name, job.method.digest, job.place, job.budgets[-1]) not in shown]


def run_missing(jobs: Sequence[Job], folder: Path, *, workers: int, until: float) -> bool:
    """Run them until a time of the clock `time.monotonic`, and say how far it came; whether all are there."""
    records.mend(folder)
    left = longest_first(missing(jobs, folder))
    done = failed = 0
    with progress(len(left)) as tell:
        for job, future in run_jobs(left, workers=workers, seconds=until - time.monotonic()):
            done += 1
            if (error := future.exception()) is None:
                records.append(folder, future.result())
            else:
                failed += 1
                print(f"{job.method.name} on {job.place}: {type(error).__name__}: {error}", file=sys.stderr)
            tell(job.method.name)
    print(f"{len(jobs) - len(left)} runs were there, {done - failed} done, {failed} failed, {len(left) - done} left.")
    return done == len(left) and not failed
