"""Runs the jobs of experiments, one after another or several at a time."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Generator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from typing import NamedTuple, Protocol

from slgh.paper.experiment import Experiment, Record, Tick
from slgh.paper.store import Store


class Watcher(Protocol):
    """Whoever shows how far a run is."""

    def begin(self, label: str) -> None: ...
    def tick(self, share: float) -> None: ...
    def end(self) -> None: ...
    def warn(self, text: str) -> None: ...


class Done(NamedTuple):
    """What a job found, and why that could not be kept."""

    record: Record
    warning: str = ""


def run_jobs(
    experiments: Sequence[Experiment], store: Store, watcher: Watcher, *, workers: int
) -> Generator[tuple[Experiment, list[Record]]]:
    """Each experiment with the records of its jobs, as soon as all of them are there; kept ones are not run again."""
    kept = {
        (e.name, i): Done(record)
        for e in experiments
        for i, job in enumerate(e.jobs())
        if (record := job.kept() or store.get(e.name, job.label)) is not None
    }
    with Crew(workers) as crew:
        left = [(e, i) for e in experiments for i in range(len(e.jobs())) if (e.name, i) not in kept]
        sent = {(e.name, i): crew.send(e, i, store) for e, i in left} if workers > 1 else {}
        for experiment in experiments:
            records = []
            for i, job in enumerate(experiment.jobs()):
                key = experiment.name, i
                watcher.begin(f"{experiment.name}: {job.label}")
                if key in kept:
                    done = kept[key]
                else:
                    done = sent[key].result() if sent else carry_out(experiment, i, store, watcher.tick)
                if done.warning:
                    watcher.warn(done.warning)
                records.append(done.record)
                watcher.end()
            yield experiment, records


def carry_out(experiment: Experiment, i: int, store: Store, tick: Tick) -> Done:
    """Run a job, and keep what it found."""
    job = experiment.jobs()[i]
    record = job.run(tick)
    try:
        store.put(experiment.name, job.label, record)
    except OSError as error:
        return Done(record, f"{job.label} is not kept for another run: {error}.")
    return Done(record)


class Crew:
    """Processes that carry out jobs, ended at once when the run ends before them."""

    def __init__(self, workers: int) -> None:
        self.pool = ProcessPoolExecutor(
            workers,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=signal.signal,  # Ctrl-C is left to the parent
            initargs=(signal.SIGINT, signal.SIG_IGN),
        )

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.pool.shutdown(wait=kind is None, cancel_futures=True)
        if kind is not None:
            for child in multiprocessing.active_children():
                child.terminate()

    def send(self, experiment: Experiment, i: int, store: Store) -> Future[Done]:
        """Have a job carried out, in its turn."""
        return self.pool.submit(carry_out, experiment, i, store, unwatched)


def unwatched(share: float) -> None:
    """Another process's progress is not followed."""
