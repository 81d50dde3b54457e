"""Ctrl-C, held back until the state of the run is consistent."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class Interrupts:
    """While open, SIGINT raises KeyboardInterrupt at once in the user's code, and is held `pending` in ours.

    Outside the main thread, or where someone else handles SIGINT, nothing is changed.
    """

    def __init__(self) -> None:
        self.pending = False
        self.in_user_code = False
        self._before: Any = None

    def __enter__(self) -> Interrupts:
        ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if ours and threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.in_user_code:
            raise KeyboardInterrupt
        self.pending = True
