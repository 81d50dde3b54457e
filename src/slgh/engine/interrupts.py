"""Ctrl-C, held back until the state of the run is consistent."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, ClassVar


class Interrupts:
    """While open, SIGINT raises KeyboardInterrupt at once in the user's code, and is held `pending` in the library's.

    Outside the main thread, or where someone else handles SIGINT, nothing is changed. A run within the user's function
    of another run leaves the signal to the outer one.
    """

    _open: ClassVar[Interrupts | None] = None
    """The one that handles SIGINT at present."""

    def __init__(self) -> None:
        self.pending = False
        self.in_user_code = False
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
        """True within the user's function of another run, which has to be interrupted too."""
        outer = Interrupts._open
        return outer not in (None, self) and threading.current_thread() is threading.main_thread()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.in_user_code:
            self.in_user_code = False  # a second Ctrl-C must not interrupt how the first one is handled
            raise KeyboardInterrupt
        self.pending = True
