"""Ctrl-C, held back until the state of the run is consistent, or until worker processes have started."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, ClassVar


class Interrupts:
    """Context manager for Ctrl-C.

    In the user's code, SIGINT raises KeyboardInterrupt immediately. In the library's code it only sets `pending`.
    Nothing is changed outside the main thread, or if another SIGINT handler is installed. A run inside the user's
    function of another run leaves the signal to the outer one.
    """

    _open: ClassVar[Interrupts | None] = None
    """Instance that currently handles SIGINT."""

    def __init__(self, stop: threading.Event | None = None) -> None:
        self.pending = False
        """True if Ctrl-C was pressed in the library's code."""
        self._stop = stop
        """Set by another thread, which has received the Ctrl-C."""
        self._in_user_code = False
        self._before: Any = None

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is not threading.main_thread():
            return self
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._before = signal.signal(signal.SIGINT, self._handle)
            Interrupts._open = self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            Interrupts._open = None
            signal.signal(signal.SIGINT, self._before)

    @property
    def nested(self) -> bool:
        """True if this run was started inside the user's function of another run, which must be interrupted too."""
        outer = Interrupts._open
        return outer not in (None, self) and threading.current_thread() is threading.main_thread()

    def enter_user_code(self) -> None:
        """Let Ctrl-C raise KeyboardInterrupt from now on. Raise it now if Ctrl-C is pending."""
        self._in_user_code = True
        if self.pending or (self._stop is not None and self._stop.is_set()):  # pressed before the line above
            raise KeyboardInterrupt

    def leave_user_code(self) -> None:
        """Hold Ctrl-C back from now on."""
        self._in_user_code = False

    def clear(self) -> None:
        """Forget a Ctrl-C that the run has reacted to."""
        self._in_user_code = self.pending = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._in_user_code:
            self._in_user_code = False  # a second Ctrl-C must not interrupt the handling of the first
            raise KeyboardInterrupt
        self.pending = True


@contextmanager
def deferred_interrupts() -> Iterator[None]:
    """Hold Ctrl-C back in this block, whatever its handler, and raise it afterwards."""
    # None: the handler was installed outside Python, and could not be restored.
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is None:
        yield
        return
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if pressed:
            signal.raise_signal(signal.SIGINT)
