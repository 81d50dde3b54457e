"""Evaluation in parallel: a number of processes, a map-like callable, or an executor."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_all_start_methods, get_context
from typing import Any

from slgh import checks

Call = Callable[[tuple[Any, ...]], Any]
Mapper = Callable[[Call, list[tuple[Any, ...]]], Iterable[Any]]

_call: Call


def _remember(call: Call) -> None:
    """Begin a worker process: keep the function, and leave Ctrl-C to the parent."""
    global _call
    _call = call
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _run(item: tuple[Any, ...]) -> Any:
    return _call(item)


@contextmanager
def open_workers(workers: Any, calls: list[Call], *, fork: bool) -> Iterator[list[Mapper | None]]:
    """Yield for each call how to map it over items, in order; None is a plain loop in this process.

    Parameters
    ----------
    workers
        None or 1 for no parallelism, an int (-1: all cores) for that many processes, a callable as `map`, or an
        object with a `map` method: an executor of concurrent.futures, Dask or MPI, or a multiprocessing pool.
    fork
        Whether processes may be forks.
    calls
        The functions to call. A process pool gets each function once, not with every point.
    """
    workers = checks.plain(workers)
    if workers is None or (isinstance(workers, int) and workers == 1):
        yield [None] * len(calls)
    elif isinstance(workers, int):
        if workers != -1:
            checks.count("workers", workers)
        processes = os.cpu_count() or 1 if workers == -1 else workers
        pools = [_pool(processes, call, fork=fork) for call in calls]
        try:
            yield [_mapper_of(pool, processes) for pool in pools]
        finally:
            for pool in pools:
                pool.shutdown(cancel_futures=True)
    elif hasattr(workers, "map"):
        yield [workers.map] * len(calls)
    elif callable(workers):
        yield [workers] * len(calls)
    else:
        raise TypeError(
            f"`workers` must be an integer, a callable like map, or an executor with a map method; got {workers!r}."
        )


def _pool(processes: int, call: Call, *, fork: bool) -> ProcessPoolExecutor:
    """A pool that knows `call`."""
    try:
        pickle.dumps(call)
    except Exception as error:
        raise TypeError(
            f"`fun` must be picklable to run in {processes} processes ({error}). Define it at the top level of a "
            "module, or pass `workers` an executor of threads."
        ) from None
    context = None if fork or "forkserver" not in get_all_start_methods() else get_context("forkserver")
    return ProcessPoolExecutor(processes, mp_context=context, initializer=_remember, initargs=(call,))


def _mapper_of(pool: ProcessPoolExecutor, processes: int) -> Mapper:
    def mapper(call: Call, items: list[tuple[Any, ...]]) -> Iterable[Any]:
        try:
            return list(pool.map(_run, items, chunksize=max(1, len(items) // (4 * processes))))
        except BrokenProcessPool as error:
            error.add_note(
                "slgh: a worker process died. Where workers are started afresh, as for PyTorch and JAX arrays, a "
                'script must guard what it runs with `if __name__ == "__main__":`.'
            )
            raise

    return mapper
