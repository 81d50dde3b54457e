"""The side of a worker process: it leaves Ctrl-C to its parent, and does not outlive it."""

from __future__ import annotations

import os
import pickle
import signal
import threading
from multiprocessing import get_all_start_methods, get_context, parent_process
from multiprocessing.connection import wait
from multiprocessing.context import BaseContext

from slgh import checks
from slgh.engine.clusters import Call

POLL_SECONDS = 1.0
"""Seconds between two checks of a worker process that its parent is alive."""


def join_parent() -> None:
    """In a worker process: leave Ctrl-C to the parent, and end when it dies."""
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


def process_context(*, fork: bool) -> BaseContext | None:
    """Return how to start processes, None for Python's default. `fork`: they may be forks."""
    return get_context("forkserver") if not fork and "forkserver" in get_all_start_methods() else None


def refuse_unpicklable(call: Call, processes: int) -> None:
    """Raise if a function cannot be sent to processes."""
    try:
        pickle.dumps(call)
    except Exception as error:
        raise checks.ArgumentTypeError(
            f"`fun` must be picklable to run in {processes} processes ({error}). Define it at the top level of a "
            "module, or pass `workers` an executor of threads."
        ) from None
