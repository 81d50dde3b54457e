"""List the runs, and run them in worker processes."""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from coco_study.records import Record, record_of
from coco_study.settings import Cell, Method
from coco_study.suites import Place, functions
from coco_study.watched import watch

ONE_THREAD = {
    **{f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "VECLIB_MAXIMUM")},
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
}
"""Environment of the processes: one core each."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """Run of a method on a problem with the largest of its budgets. The record covers the smaller ones too."""

    method: Method
    place: Place
    budgets: tuple[int, ...]
    keep: Path | None = None

    def __call__(self) -> Record:
        """Run the job in this process."""
        begin = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            name = self.method.name
            outcome = watch(self.method.bound(), self.place, self.budgets, name=name, keep=self.keep)
        return record_of(self.method, self.place, self.budgets, outcome, time.process_time() - begin)


def jobs_of(cells: Iterable[Cell], methods: Iterable[Method], instances: Sequence[int]) -> Iterator[Job]:
    """Yield all runs of some cells: one for all budgets, or one per budget if the method plans by its budget."""
    methods = list(methods)
    for cell in cells:
        for method in (method for method in methods if method.runs_in(cell)):
            largest = math.inf if method.max_evals is None else method.max_evals
            evaluations = tuple(budget * cell.d for budget in cell.budgets if budget * cell.d <= largest)
            groups = [(budget,) for budget in evaluations] if method.planned else [evaluations] if evaluations else []
            for f in functions(cell.suite):
                for i in cell.among(instances):
                    place = Place(suite=cell.suite, d=cell.d, f=f, i=i)
                    yield from (Job(method=method, place=place, budgets=budgets) for budgets in groups)


def longest_first(jobs: Iterable[Job]) -> list[Job]:
    """Sort jobs by cost, the longest first: long jobs at the end would leave cores idle."""
    return sorted(jobs, key=lambda job: job.budgets[-1] * job.place.d * job.method.weight, reverse=True)


def processes(workers: int) -> ProcessPoolExecutor:
    """Return a pool of new processes, with one thread each."""
    os.environ.update(ONE_THREAD)  # libraries read it when they are loaded: too late for this process
    return ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=signal.signal,  # the parent handles Ctrl-C
        initargs=(signal.SIGINT, signal.SIG_IGN),
    )


def run_jobs(
    jobs: Iterable[Job], *, workers: int, seconds: float = float("inf")
) -> Iterator[tuple[Job, Future[Record]]]:
    """Yield each job when it ends. After `seconds`, start no more jobs, and wait for those that run.

    Closing this generator, as Ctrl-C in the caller does, terminates the processes at once.
    """
    until, left = time.monotonic() + seconds, iter(jobs)
    pool = processes(workers)
    running: dict[Future[Record], Job] = {}
    try:
        while True:
            while len(running) < workers and time.monotonic() < until and (job := next(left, None)) is not None:
                running[pool.submit(job)] = job
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(future), future
    except BaseException:
        children = multiprocessing.active_children()
        pool.shutdown(wait=False, cancel_futures=True)
        for child in children:
            child.terminate()
        raise
    pool.shutdown()
