"""Evaluation in parallel: a number of processes, a map-like callable, or an executor."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_all_start_methods, get_context, parent_process
from multiprocessing.connection import wait
from typing import Any

from slgh import checks
from slgh.engine.interrupts import deferred_interrupts

Call = Callable[[tuple[Any, ...]], Any]
Mapper = Callable[[Call, Sequence[tuple[Any, ...]]], Generator[tuple[int, Any], None, None]]
"""Calls a function for each item, and yields (index of the item, value) in any order."""

POLL_SECONDS = 1.0
"""Seconds between two checks of a worker process that its parent is alive."""

_call: Call
"""In a worker process: its function."""


def _start_worker(call: Call) -> None:
    """Start a worker process: keep the function, leave Ctrl-C to the parent, and do not outlive it."""
    global _call
    _call = call
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_exit_with_parent, args=(os.getppid(),), name="slgh parent watch", daemon=True).start()


def _exit_with_parent(parent_id: int) -> None:
    """Wait for the parent process to die, then end this one at once.

    The sentinel alone is not enough. A forked sibling holds the other end of its pipe, so it may fire late.
    """
    parent = parent_process()
    while os.getppid() == parent_id:
        if parent is not None and wait([parent.sentinel], timeout=POLL_SECONDS):
            break
    os._exit(1)


def _run_chunk(items: Sequence[tuple[Any, ...]]) -> list[Any]:
    """In a worker process: evaluate some of the points."""
    return [_call(item) for item in items]


def is_parallel(workers: Any) -> bool:
    """Return False if `workers` is None or 1, which is a plain loop in this process."""
    return checks.plain(workers) not in (None, 1)


@contextmanager
def open_workers(workers: Any, calls: list[Call], *, fork: bool) -> Iterator[list[Mapper]]:
    """Yield a Mapper for each call.

    Parameters
    ----------
    workers
        Number of processes (-1: all cores), a callable like `map`, or an object with a `map` method: an executor of
        concurrent.futures, Dask or MPI, or a multiprocessing pool.
    calls
        The functions to call. A process gets its function once, not with every point.
    fork
        True if processes may be forks.
    """
    workers = checks.plain(workers)
    if isinstance(workers, int):
        if workers != -1:
            checks.count("workers", workers)
        processes = os.cpu_count() or 1 if workers == -1 else workers
        pools = [_Pool(processes, call, fork=fork) for call in calls]
        try:
            yield [pool.map for pool in pools]
        finally:
            if any(pool.killed for pool in pools):
                for pool in pools:  # forked workers of one pool hold the pipes of the others open
                    pool.kill()
            for pool in pools:
                pool.close()
    elif hasattr(workers, "map"):  # not a protocol: its isinstance would refuse proxies
        yield [_checked(workers.map)] * len(calls)
    elif callable(workers):
        yield [_checked(workers)] * len(calls)
    else:
        raise checks.ArgumentTypeError(
            f"`workers` must be an integer, a callable like map, or an executor with a map method; got {workers!r}."
        )


def _checked(mapping: Callable[..., Any]) -> Mapper:
    """Return a Mapper that calls the user's `mapping`, a callable like `map`, and checks its values."""

    def mapper(call: Call, items: Sequence[tuple[Any, ...]]) -> Generator[tuple[int, Any], None, None]:
        values = mapping(call, items)
        if isinstance(values, Mapping | Set | str | bytes) or not isinstance(values, Iterable):
            raise checks.ArgumentTypeError(
                "`workers` must return the values in the order of the points, as `map` does; "
                f"got {checks.show(values)}."
            )
        count = 0
        for value in values:
            if count < len(items):
                yield count, value
            count += 1
            if count > len(items):
                break
        if count != len(items):
            got = f"more than {len(items)}" if count > len(items) else str(count)
            raise checks.ArgumentValueError(
                f"`workers` must return one value per point (expected {len(items)}); got {got}."
            )

    return mapper


class _Pool:
    """Worker processes for one function. They are killed if an evaluation fails or Ctrl-C is pressed."""

    def __init__(self, processes: int, call: Call, *, fork: bool) -> None:
        try:
            pickle.dumps(call)
        except Exception as error:
            raise checks.ArgumentTypeError(
                f"`fun` must be picklable to run in {processes} processes ({error}). Define it at the top level of a "
                "module, or pass `workers` an executor of threads."
            ) from None
        context = None if fork or "forkserver" not in get_all_start_methods() else get_context("forkserver")
        self.processes = processes
        self.killed = False
        self.executor = ProcessPoolExecutor(processes, mp_context=context, initializer=_start_worker, initargs=(call,))

    def map(self, call: Call, items: Sequence[tuple[Any, ...]]) -> Generator[tuple[int, Any], None, None]:
        """Evaluate the items in chunks, and yield the values of each chunk as soon as all earlier chunks are done."""
        size = max(1, len(items) // (4 * self.processes))
        starts = range(0, len(items), size)
        futures: list[Future[list[Any]]] = []
        try:
            # Otherwise Ctrl-C could be lost in a fork hook, or kill a worker that does not yet ignore it.
            with deferred_interrupts():
                futures += [self.executor.submit(_run_chunk, items[start : start + size]) for start in starts]
            for start, future in zip(starts, futures, strict=True):
                yield from enumerate(future.result(), start)
        except BrokenProcessPool as error:
            error.add_note(
                "slgh: a worker process died. Where workers are started afresh, as for PyTorch and JAX arrays, a "
                'script must guard what it runs with `if __name__ == "__main__":`.'
            )
            raise
        except Exception:
            # One evaluation failed: yield the values that the others have found by now.
            for start, future in zip(starts, futures, strict=False):
                if future.done() and not future.cancelled() and future.exception() is None:
                    yield from enumerate(future.result(), start)
            raise
        finally:
            if not all(future.done() for future in futures):
                self.kill()

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
