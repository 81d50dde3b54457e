"""Parts that the commands share: running jobs with a progress bar, storing their records, and reporting errors."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from coco_study import records
from coco_study.jobs import Job, run_jobs


def run_and_keep(
    left: Sequence[Job],
    folder: Path,
    is_new: Callable[[Job], bool] = lambda job: True,
    *,
    workers: int,
    seconds: float | None,
    already_recorded: int,
) -> bool:
    """Run jobs, store the records of the new ones, and print a summary. Return True if none failed.

    A method whose library is not installed is not tried again. `already_recorded` is a number of jobs, for the summary.
    """
    done = failed = 0
    uninstalled: set[str] = set()
    begun: Iterable[Job] = (job for job in left if job.method.name not in uninstalled)
    with progress(len(left)) as tell:
        for job, future in run_jobs(begun, workers=workers, seconds=seconds):
            if (error := future.exception()) is not None:
                failed += 1
                print(f"{job.method.name} on {job.place}: {type(error).__name__}: {error}", file=sys.stderr)
                if isinstance(error, ImportError):
                    uninstalled.add(job.method.name)
            elif is_new(job):
                records.append(folder, future.result())
            done += 1
            tell(job.method.name)
    print(f"{already_recorded} runs already recorded, {done - failed} done, {failed} failed, {len(left) - done} left.")
    return not failed


def run_command_line(parser: argparse.ArgumentParser, words: Sequence[str] | None) -> int:
    """Run the command of the command line. Errors of the user are printed in one line."""
    args = parser.parse_args(words)
    try:
        return int(args.action(args))
    except (ValueError, ImportError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Stopped. Finished runs are kept.", file=sys.stderr)
        return 130


def progress(total: int) -> Any:
    """Return a progress display: a bar if rich is installed, otherwise printed lines."""
    try:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn
    except ImportError:
        return nullcontext(printed_progress(total))
    return RichProgress(
        Progress(
            "{task.description}", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), "left", TimeRemainingColumn()
        ),
        total,
    )


class RichProgress:
    """A progress bar of rich. It shows the method of the last run."""

    def __init__(self, bar: Any, total: int) -> None:
        self.bar, self.task = bar, bar.add_task("runs", total=total)

    def __enter__(self) -> Callable[[str], None]:
        self.bar.start()
        return self.tell

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def tell(self, name: str) -> None:
        """Advance by one run."""
        self.bar.update(self.task, advance=1, description=f"runs ({name})")


def printed_progress(total: int) -> Callable[[str], None]:
    """Return a function that prints the number of finished runs, at most twice a minute."""
    done, last = 0, time.monotonic()

    def tell(name: str) -> None:
        nonlocal done, last
        done += 1
        if time.monotonic() - last > 30 or done == total:
            last = time.monotonic()
            print(f"{done} of {total} runs, last {name}", flush=True)

    return tell
