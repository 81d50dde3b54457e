"""Evaluation in parallel: worker processes of this run, or the workers that the user passes."""

from __future__ import annotations

import contextlib
import logging
import os
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, NamedTuple

from slgh import checks
from slgh.engine.clusters import Call, Mapper, Pool, as_engine
from slgh.engine.interrupts import deferred_interrupts
from slgh.engine.timed_workers import TimedPool
from slgh.engine.worker_process import join_parent, process_context, refuse_unpicklable

logger = logging.getLogger(__name__)


class Unit(NamedTuple):
    """Work that a worker gets at a time, for messages."""

    plural: str
    name: Callable[[tuple[Any, ...]], str]
    """Returns the name of an item."""
    advice: str
    """Advice for an item that kills its worker."""
    again: str = "evaluated again"
    chunked: bool = True
    """True if a task may have several items."""


POINTS = Unit(
    plural="points",
    name=lambda item: f"evaluated the point {checks.show(item[0])}",
    advice="Make `fun` survive this point, or return NaN there.",
)

_call: Call
"""In a worker process: its function."""


def _start_worker(call: Call) -> None:
    """Start a worker process: keep the function, leave Ctrl-C to the parent, and do not outlive it."""
    global _call
    _call = call
    join_parent()


def _run_chunk(items: Sequence[tuple[Any, ...]]) -> list[Any]:
    """In a worker process: evaluate some of the points."""
    return [_call(item) for item in items]


def is_parallel(workers: Any) -> bool:
    """Return False if `workers` is None or 1, which is a plain loop in this process."""
    return checks.plain(workers) not in (None, 1)


def check_time_limit(seconds: Any, workers: Any, *, pointwise: bool) -> None:
    """Raise unless each evaluation runs in a process that can be killed after `seconds`."""
    checks.real("max_seconds_per_eval", seconds, above=0)
    if not isinstance(checks.plain(workers), int):
        raise checks.ArgumentValueError(
            "`max_seconds_per_eval` needs processes that slgh can kill. Pass `workers` their number, such as 1."
        )
    if not pointwise:
        raise checks.ArgumentValueError(
            "`max_seconds_per_eval` needs a fun of one point, since a call with many has no time per evaluation. Leave "
            "out `vectorized`."
        )


class Workers:
    """The workers of a run: a Mapper for each function, their number, and what happened to them.

    Parameters
    ----------
    size
        Number of evaluations that can run at the same time, None if it is unknown.
    """

    def __init__(
        self, mappers: Sequence[Mapper], size: int | None, pools: Sequence[Pool] = (), unit: Unit = POINTS
    ) -> None:
        self.mappers, self.size, self._pools, self._unit = mappers, size, pools, unit

    @property
    def remark(self) -> str:
        """Sentences for the message, empty if no worker process died or was killed."""
        deaths = sum(pool.deaths for pool in self._pools)
        late = sum(pool.timeouts for pool in self._pools)
        times = f"{deaths} times" if deaths > 1 else "once"
        died = f"A worker died {times}, and its {self._unit.plural} were {self._unit.again}." if deaths else ""
        evaluations = f"{late} evaluations" if late > 1 else "1 evaluation"
        killed = f"{evaluations} took longer than max_seconds_per_eval, with NaN as the value." if late else ""
        return " ".join(filter(None, (died, killed)))


def read_workers(workers: Any) -> Any:
    """Return `workers` as a number of processes, at least 1, or the user's object."""
    workers = checks.plain(workers)
    if workers == -1 and isinstance(workers, int):
        return os.cpu_count() or 1
    if isinstance(workers, int):
        checks.count("workers", workers)
    return workers


def size_of(workers: Any) -> int | None:
    """Return how many evaluations can run at the same time, None if it is unknown."""
    workers = read_workers(workers)
    if workers is None or isinstance(workers, int):
        return workers or 1
    return as_engine(workers, retries=0).size


@contextmanager
def open_workers(
    workers: Any,
    calls: list[Call],
    *,
    fork: bool,
    retries: int,
    seconds: float | None = None,
    unit: Unit = POINTS,
) -> Iterator[Workers]:
    """Open the workers for these functions.

    Parameters
    ----------
    workers
        Number of processes (-1: all cores), or an object of the user: see `as_engine`.
    calls
        The functions to call. A process gets its function once, not with every point.
    fork
        True if processes may be forks.
    retries
        Maximum number of times that a point is evaluated again because a worker died.
    seconds
        Time limit of an evaluation in a process. None: there is none.
    unit
        Name of the items, points by default.
    """
    workers = read_workers(workers)
    if not isinstance(workers, int):
        engine = as_engine(workers, retries)
        yield Workers([engine.mapper] * len(calls), engine.size, [engine.pool] if engine.pool else [], unit)
        return
    if seconds is not None:
        with contextlib.ExitStack() as stack:
            timed = [TimedPool(workers, call, fork=fork, retries=retries, seconds=seconds) for call in calls]
            for each in timed:
                stack.callback(each.close)
            yield Workers([pool.map for pool in timed], workers, timed)
        return
    pools = [_Pool(workers, call, fork=fork, retries=retries, unit=unit) for call in calls]
    try:
        yield Workers([pool.map for pool in pools], workers, pools, unit)
    finally:
        if any(pool.killed for pool in pools):
            for pool in pools:  # forked workers of one pool hold the pipes of the others open
                pool.kill()
        for pool in pools:
            pool.close()


class _Pool:
    """Worker processes for one function. They are killed if an evaluation fails or Ctrl-C is pressed.

    When a worker dies, new ones are started. The points without a value are evaluated again, one per task. A point that
    was unfinished at `retries` deaths is then evaluated alone, which tells whether it kills its worker.
    """

    def __init__(self, processes: int, call: Call, *, fork: bool, retries: int, unit: Unit) -> None:
        refuse_unpicklable(call, processes)
        self._call, self._fork, self._unit = call, fork, unit
        self.processes, self.retries = processes, retries
        self.killed = False
        self.deaths = 0
        """Number of times that a worker process has died."""
        self.timeouts = 0
        self._works = False
        """True if there has been a value."""
        self.executor = self._start()

    def _start(self) -> ProcessPoolExecutor:
        """Start worker processes."""
        return ProcessPoolExecutor(
            self.processes,
            mp_context=process_context(fork=self._fork),
            initializer=_start_worker,
            initargs=(self._call,),
        )

    def map(self, call: Call, items: Sequence[tuple[Any, ...]]) -> Generator[tuple[int, Any], None, None]:
        """Evaluate the items in chunks, and yield the values of each chunk as soon as all earlier chunks are done."""
        left = dict(enumerate(items))
        size = max(1, len(items) // (4 * self.processes)) if self._unit.chunked else 1
        deaths: Counter[int] = Counter()
        while left:
            try:
                with contextlib.closing(self._evaluate(left, size)) as values:
                    for index, value in values:
                        del left[index]
                        self._works = True
                        yield index, value
            except BrokenProcessPool as error:
                self._restart(error)
                size = 1
                # N processes hold N tasks, and the pool's queue holds at most N + 1 more.
                deaths.update(list(left)[: 2 * self.processes + 1])
                suspects = [index for index in left if deaths[index] >= self.retries]
                for index in suspects:
                    yield index, self._evaluate_alone(left.pop(index))

    def _evaluate(self, left: dict[int, tuple[Any, ...]], size: int) -> Generator[tuple[int, Any], None, None]:
        """Evaluate what is left in chunks of this size."""
        indices = list(left)
        chunks = [indices[start : start + size] for start in range(0, len(indices), size)]
        futures: list[Future[list[Any]]] = []
        try:
            # Otherwise Ctrl-C could be lost in a fork hook, or kill a worker that does not yet ignore it.
            with deferred_interrupts():
                futures += [self.executor.submit(_run_chunk, [left[i] for i in chunk]) for chunk in chunks]
            for chunk, future in zip(chunks, futures, strict=True):
                yield from zip(chunk, future.result(), strict=True)
        except Exception:
            # One evaluation failed: yield the values that the others have found by now.
            for chunk, future in zip(chunks, futures, strict=False):
                found = future.done() and not future.cancelled() and future.exception() is None
                if found and chunk[0] in left:
                    yield from zip(chunk, future.result(), strict=True)
            raise
        finally:
            if not all(future.done() for future in futures):
                self.kill()

    def _evaluate_alone(self, item: tuple[Any, ...]) -> Any:
        """Evaluate one item while the pool has nothing else to do."""
        try:
            ((_, value),) = self._evaluate({0: item}, 1)
        except BrokenProcessPool as error:
            raise BrokenProcessPool(
                f"A worker process died each time that it {self._unit.name(item)}. {self._unit.advice}"
            ) from error
        return value

    def _restart(self, error: BrokenProcessPool) -> None:
        """Replace the pool after a worker has died."""
        self.deaths += 1
        # Processes that are no forks and die before the first value mostly fail to import the script.
        cannot_start = not self._works and not self._fork
        if self.retries == 0 or self.killed or cannot_start:
            error.add_note(
                "slgh: a worker process died. Where workers are started afresh, as for PyTorch and JAX arrays, a "
                'script must guard what it runs with `if __name__ == "__main__":`.'
            )
            raise error
        self.kill()
        self.close()
        self.executor, self.killed = self._start(), False
        logger.info("Replaced %d worker processes, one of which died", self.processes)

    def kill(self) -> None:
        """Kill all worker processes, even in the middle of an evaluation."""
        self.killed = True
        # ProcessPoolExecutor.kill_workers exists from Python 3.14 on.
        for process in list((self.executor._processes or {}).values()):
            process.kill()
        # A worker that was killed while it sent a value leaves half a message. The executor waits for the rest of it as
        # long as any process, this one included, could still write.
        executor: Any = self.executor
        with contextlib.suppress(AttributeError, OSError):
            executor._result_queue._writer.close()

    def close(self) -> None:
        """End the worker processes, which are idle or have been killed."""
        self.executor.shutdown(cancel_futures=True)
