"""What is to be run, and running it in processes."""

from __future__ import annotations

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
"""The environment of the processes: one core each."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """A run of a method on a problem, for the last of the budgets that it shows."""

    method: Method
    place: Place
    budgets: tuple[int, ...]
    keep: Path | None = None

    def __call__(self) -> Record:
        """Run it, in this process."""
        begin = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            name = self.method.name
            outcome = watch(self.method.bound(), self.place, self.budgets, name=name, keep=self.keep)
        return record_of(self.method, self.place, self.budgets, outcome, time.process_time() - begin)


def jobs_of(cells: Iterable[Cell], methods: Iterable[Method], instances: Sequence[int]) -> Iterator[Job]:
    """All runs of some cells: one for all budgets, or one for each where the method plans by the budget."""
    methods = list(methods)
    for cell in cells:
        evaluations = tuple(budget * cell.d for budget in cell.budgets)
        for method in methods:
            if cell.linear and not method.linear:
                continue
            groups = [(budget,) for budget in evaluations] if method.planned else [evaluations]
            for f in functions(cell.suite):
                for i in instances:
                    place = Place(suite=cell.suite, d=cell.d, f=f, i=i)
                    yield from (Job(method=method, place=place, budgets=budgets) for budgets in groups)


def longest_first(jobs: Iterable[Job]) -> list[Job]:
    """Long jobs at the end would leave cores idle."""
    return sorted(jobs, key=lambda job: job.budgets[-1] * job.place.d * job.method.weight, reverse=True)


def processes(workers: int) -> ProcessPoolExecutor:
    """Processes started afresh, one thread each."""
    os.environ.update(ONE_THREAD)  # read when their libraries are loaded: too late for this process
    return ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=signal.signal,  # Ctrl-C is left to the parent
        initargs=(signal.SIGINT, signal.SIG_IGN),
    )


def run_jobs(
    jobs: Iterable[Job], *, workers: int, seconds: float = float("inf")
) -> Iterator[tuple[Job, Future[Record]]]:
    """Each job when it has ended. After `seconds` no more are begun; what runs then is waited for.

    Closing this generator, as Ctrl-C in the caller does, ends the processes at once.
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
