"""Worker processes with a time limit per evaluation. A process that takes longer is killed and replaced."""

from __future__ import annotations

import contextlib
import pickle
import time
import traceback
from collections import Counter, deque
from collections.abc import Generator, Sequence
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from typing import Any

from slgh import checks
from slgh.engine.clusters import Call
from slgh.engine.interrupts import deferred_interrupts
from slgh.engine.worker_process import join_parent, process_context, refuse_unpicklable

TIMED_OUT: Any = object()
"""Value of an evaluation that took too long."""

EXIT_SECONDS = 1.0
"""Time that an idle process has to end by itself, for the user's exit handlers."""

Item = tuple[Any, ...]


class RemoteTraceback(Exception):
    """Traceback in a worker process, the cause of an exception of the user's function."""


def _serve(call: Call, pipe: Connection) -> None:
    """In a worker process: say that it is ready, then evaluate points until None arrives."""
    join_parent()
    pipe.send_bytes(pickle.dumps(None))
    while (item := _next_item(pipe)) is not None:
        answer: tuple[Any, BaseException | None, str]
        try:
            answer = call(item), None, ""
        except BaseException as error:
            answer = None, error, traceback.format_exc()
        try:
            message = pickle.dumps(answer)
        except Exception as error:
            failure = TypeError(f"The value of fun, or its exception, cannot be sent from a worker: {error!r}.")
            message = pickle.dumps((None, failure, answer[2]))
        pipe.send_bytes(message)


def _next_item(pipe: Connection) -> Item | None:
    """In a worker process: wait for a point. Return None at the end."""
    try:
        item: Item | None = pipe.recv()
    except EOFError:
        return None
    return item


class _Worker:
    """One process, and what it does."""

    def __init__(self, context: BaseContext, call: Call) -> None:
        self.pipe, other = context.Pipe()
        # Otherwise Ctrl-C could be lost in a fork hook, or kill a worker that does not yet ignore it.
        with deferred_interrupts():
            self.process = context.Process(target=_serve, args=(call, other))  # type: ignore[attr-defined]
            self.process.start()
        other.close()
        self.ready = False
        """True once the process can evaluate. Its start does not count."""
        self.index: int | None = None
        """Index of the item that it evaluates."""
        self.deadline = 0.0

    def begin(self, index: int, item: Item, seconds: float) -> None:
        """Begin an evaluation."""
        self.index, self.deadline = index, time.monotonic() + seconds
        with contextlib.suppress(OSError):  # it has died, which `TimedPool.map` notices
            self.pipe.send(item)

    def receive(self) -> Any:
        """Return its message. Raise EOFError or OSError if it has died."""
        return self.pipe.recv()

    def kill(self) -> None:
        """Kill the process, even in the middle of an evaluation."""
        self.process.kill()
        self.process.join()
        self.pipe.close()

    def close(self) -> None:
        """End the process, which is idle."""
        with contextlib.suppress(OSError):
            self.pipe.send(None)
        self.process.join(EXIT_SECONDS)
        self.kill()


class TimedPool:
    """Worker processes for one function, each with one point at a time.

    An evaluation that takes longer than `seconds` is TIMED_OUT. A point whose worker died is evaluated again, at most
    `retries` times.
    """

    def __init__(self, processes: int, call: Call, *, fork: bool, retries: int, seconds: float) -> None:
        refuse_unpicklable(call, processes)
        self._call, self._context = call, process_context(fork=fork) or get_context()
        self.processes, self.retries, self.seconds = processes, retries, seconds
        self.deaths = 0
        self.timeouts = 0
        self._workers: list[_Worker] = []

    def map(self, call: Call, items: Sequence[Item]) -> Generator[tuple[int, Any], None, None]:
        """Evaluate the items, and yield the values as they arrive."""
        left, tries = deque(range(len(items))), Counter[int]()
        try:
            while left or any(worker.index is not None for worker in self._workers):
                while len(self._workers) < min(self.processes, len(items)):
                    self._workers.append(_Worker(self._context, self._call))
                for worker in self._workers:
                    if left and worker.ready and worker.index is None:
                        index = left.popleft()
                        worker.begin(index, items[index], self.seconds)
                self._wait()
                for worker in list(self._workers):
                    yield from self._attend(worker, items, left, tries)
        finally:
            for worker in [worker for worker in self._workers if worker.index is not None or not worker.ready]:
                self._remove(worker)

    def _wait(self) -> None:
        """Wait until a worker has sent something, has died, or has run out of time."""
        deadlines = [worker.deadline for worker in self._workers if worker.index is not None]
        timeout = max(0.0, min(deadlines) - time.monotonic()) if deadlines else None
        busy = [worker for worker in self._workers if worker.index is not None or not worker.ready]
        wait([each for worker in busy for each in (worker.pipe, worker.process.sentinel)], timeout)

    def _attend(
        self, worker: _Worker, items: Sequence[Item], left: deque[int], tries: Counter[int]
    ) -> Generator[tuple[int, Any], None, None]:
        """Yield the value of a worker, if it has one. Replace a worker that has died or takes too long."""
        index = worker.index
        if index is None and worker.ready:
            return
        overdue, dead = index is not None and time.monotonic() >= worker.deadline, not worker.process.is_alive()
        if worker.pipe.poll():  # asked for after the clock and the process: a value that is there counts
            try:
                message = worker.receive()
            except (EOFError, OSError):
                dead = True
            else:
                worker.ready, worker.index = True, None
                if index is not None:
                    yield from self._read(index, message)
                return
        if dead:
            self._remove(worker)
            self._note_death(index, items, tries)
            if index is not None:
                left.appendleft(index)
        elif overdue and index is not None:
            self._remove(worker)
            self.timeouts += 1
            yield index, TIMED_OUT

    def _read(
        self, index: int, message: tuple[Any, BaseException | None, str]
    ) -> Generator[tuple[int, Any], None, None]:
        """Yield a value. If there is an exception instead, yield the values that others have by now, and raise it."""
        value, error, trace = message
        if error is None:
            yield index, value
            return
        for worker in self._workers:
            if worker.index is not None and worker.pipe.poll():
                with contextlib.suppress(EOFError, OSError):
                    other, failure, _ = worker.receive()
                    at, worker.index = worker.index, None
                    if failure is None:
                        yield at, other
        raise error from RemoteTraceback(f'\n"""\n{trace}"""')

    def _note_death(self, index: int | None, items: Sequence[Item], tries: Counter[int]) -> None:
        """Count the death of a worker. Raise if it could not start, or if its point has been tried often enough."""
        if index is None:
            raise BrokenProcessPool(
                "A worker process could not start. A script must guard what it runs with "
                '`if __name__ == "__main__":`, and `fun` must be importable.'
            )
        self.deaths += 1
        tries[index] += 1
        if tries[index] > self.retries:
            raise BrokenProcessPool(
                f"A worker process died each time that it evaluated the point {checks.show(items[index][0])}. Make "
                "`fun` survive this point, or return NaN there."
            )

    def _remove(self, worker: _Worker) -> None:
        """Kill a worker. The next call of `map` starts another."""
        self._workers.remove(worker)
        worker.kill()

    def close(self) -> None:
        """End all processes."""
        for worker in self._workers:
            worker.close()
        self._workers = []
