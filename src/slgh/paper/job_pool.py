"""Run the jobs of experiments, one after another or several at a time."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Protocol

from slgh.paper.experiment import Experiment, Job, Record, Tick
from slgh.paper.store import Store


class Watcher(Protocol):
    """Progress display of a run."""

    def begin(self, label: str) -> None: ...
    def tick(self, share: float) -> None: ...
    def end(self) -> None: ...
    def warn(self, text: str) -> None: ...


def run_jobs(
    experiments: Sequence[Experiment], store: Store, watcher: Watcher, *, workers: int
) -> Generator[tuple[Experiment, list[Record]]]:
    """Yield each experiment with the records of its jobs, as soon as all are there. Stored ones are not run again."""
    with worker_processes(workers) as pool:

        def start(experiment: Experiment, i: int, job: Job) -> Callable[[], tuple[Record, str]]:
            """Return a function that waits for the job, or runs it: see `run_job`."""
            record = job.kept() or store.get(experiment.name, job.label)
            if record is not None:
                return lambda: (record, "")
            if workers > 1:
                return pool.submit(run_job, experiment, i, store, ignore_progress).result
            return partial(run_job, experiment, i, store, watcher.tick)

        started = [[(job, start(e, i, job)) for i, job in enumerate(e.jobs())] for e in experiments]
        for experiment, jobs in zip(experiments, started, strict=True):
            records = []
            for job, finish in jobs:
                watcher.begin(f"{experiment.name}: {job.label}")
                record, warning = finish()
                if warning:
                    watcher.warn(warning)
                records.append(record)
                watcher.end()
            yield experiment, records


def run_job(experiment: Experiment, i: int, store: Store, tick: Tick) -> tuple[Record, str]:
    """Run a job and store its record. Return the record, and a warning if it could not be stored."""
    job = experiment.jobs()[i]  # jobs cannot be pickled, experiments can
    record = job.run(tick)
    try:
        store.put(experiment.name, job.label, record)
    except OSError as error:
        return record, f"{job.label} is not kept for another run: {error}."
    return record, ""


@contextmanager
def worker_processes(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Provide a pool of processes, which are terminated at once if the run ends early."""
    pool = ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=signal.signal,  # Ctrl-C is left to the parent
        initargs=(signal.SIGINT, signal.SIG_IGN),
    )
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in multiprocessing.active_children():
            child.terminate()
        raise
    pool.shutdown(cancel_futures=True)


def ignore_progress(share: float) -> None:
    """Progress callback of jobs in other processes, whose progress is not shown."""
