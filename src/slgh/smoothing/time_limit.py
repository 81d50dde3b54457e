"""CPU time limit for symbolic algebra: the loops of this package check the clock.

No signals or threads are used, so it works in any thread and with any event loop. One call of SymPy is not interrupted:
the error comes at the next check. The clock is the CPU time of the thread, which is largely unaffected by other load on
the machine.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from slgh.smoothing.errors import FormulaTooLarge


class Clock:
    """Seconds for the algebra of one formula, shared by all its steps."""

    def __init__(self, seconds: float) -> None:
        self.seconds = self.left = seconds
        self.end = 0.0
        """CPU time at which the limit is reached. Valid only while the clock runs."""


_running: ContextVar[Clock | None] = ContextVar("running", default=None)


REMEDY = (
    "Multiply fewer factors, write sums and products over an index, as in prod(exp(-x[i]**2) for i in range(d)) (in a "
    "function, add symbols with sympy.Add(*terms)), or minimize the function itself with a zeroth-order method."
)


@contextmanager
def run_clock(clock: Clock | None) -> Iterator[None]:
    """Let the clock run: `check_time` raises when its seconds are spent. None for no limit.

    A formula nested too deep for Python is refused in the same way.
    """
    if clock is not None and _running.get() is clock:
        yield
        return
    start = time.thread_time()
    if clock is not None:
        clock.end = start + clock.left
    token = _running.set(clock)
    try:
        yield
    except RecursionError:
        raise FormulaTooLarge(f"`formula` is too large to smooth: it nests too deep. {REMEDY}") from None
    finally:
        _running.reset(token)
        if clock is not None:
            clock.left -= time.thread_time() - start


def running_clock() -> Clock | None:
    """Return the active clock, so that deferred work can be charged to it."""
    return _running.get()


def check_time(ahead: float = 0.0) -> None:
    """Raise FormulaTooLarge if the active clock has less than `ahead` seconds left.

    `ahead` estimates the duration of the next SymPy call, which cannot be interrupted.
    """
    clock = _running.get()
    if clock is not None and time.thread_time() + ahead > clock.end:
        raise FormulaTooLarge(
            f"`formula` is too large to smooth: the algebra takes more than {clock.seconds:g} seconds. {REMEDY}"
        )
