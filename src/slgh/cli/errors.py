"""Exit codes, and the exceptions that end a command with one line on standard error."""

from __future__ import annotations

import sys
from typing import NoReturn

from slgh.engine.termination import Status

EXIT_CODES = {
    0: "the planned end: iterations completed, or target reached",
    1: "your function failed, a file cannot be written, or slgh has a defect",
    2: "bad input",
    3: "cut short by --max-evals, --max-queries or --max-seconds",
    4: "gave up: values were not finite",
    130: "interrupted by Ctrl-C",
    141: "nobody reads the output any more, as after | head",
}

INTERRUPTED = 130


class Refused(Exception):
    """Bad input: one line on standard error, with the remedy, and exit code 2."""


class Unwritten(Exception):
    """A file could not be written after all, on a full disk, say: one line on standard error, and exit code 1."""


class UserCodeFailed(Exception):
    """An exception in the user's own code, in one line. Its cause is the exception itself."""


def fail(message: str) -> NoReturn:
    """End the command: one line on standard error, exit code 2."""
    raise Refused(message)


def exit_code(status: Status) -> int:
    """Return the exit code for the end of a run."""
    if status.success:
        return 0
    return {Status.NONFINITE: 4, Status.INTERRUPTED: INTERRUPTED}.get(status, 3)


def printable(text: str) -> str:
    """Escape what could move the cursor, change colors or reorder text on a terminal. Line breaks stay.

    >>> printable("x\\x1b[2J")
    'x\\\\x1b[2J'
    """
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def complain(text: str) -> None:
    """Print a line on standard error."""
    print(f"slgh: {printable(text)}", file=sys.stderr)


def shorten(text: str, most: int) -> str:
    """Return the beginning of a long text.

    >>> shorten("x + y + z", 8)
    'x + y...'
    """
    return text if len(text) <= most else f"{text[: most - 3]}..."
