"""Exit codes, the exceptions that end a command, and messages on standard error."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from slgh.engine.termination import Status

EXIT_CODES = {
    0: "planned end: iterations completed, target reached, or converged",
    1: "your function failed, a file cannot be written, or slgh has a bug",
    2: "bad input",
    3: "cut short by --max-evals, --max-queries or --max-seconds",
    4: "gave up: values were not finite",
    130: "interrupted by Ctrl-C",
    141: "the reader of the output has closed the pipe, as | head does",
}

INTERRUPTED = 130

COLORS = {"error": "1;31", "tip": "1;32", "warning": "1;33", "note": "1"}
"""Codes of bold red, green, yellow and plain text, by kind of message."""

SENTENCE_END = re.compile(r"(?<=[.?!]) (?=[A-Z`-])")
"""The space between two sentences. A sentence may begin with an option."""


class Refused(Exception):
    """Bad input, with exit code 2. The first sentence says what is wrong, the others what to do."""


class Unwritten(Exception):
    """A file that could not be written after the work, for example on a full disk. The exit code is 1."""


class UserCodeFailed(Exception):
    """An exception in the user's code, described in one line. Its cause is the original exception."""


def fail(message: str) -> NoReturn:
    """End the command with an error message and exit code 2."""
    raise Refused(message)


def exit_code(status: Status) -> int:
    """Return the exit code for the end of a run."""
    from slgh.engine.termination import Status

    if status.success:
        return 0
    return {Status.NONFINITE: 4, Status.INTERRUPTED: INTERRUPTED}.get(status, 3)


def printable(text: str) -> str:
    """Escape what could move the cursor, change colors or reorder text on a terminal. Line breaks stay.

    >>> printable("x\\x1b[2J")
    'x\\\\x1b[2J'
    """
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def print_message(kind: str, text: str) -> None:
    """Print a line on standard error that begins with its kind, in color on a terminal unless NO_COLOR is set."""
    label = f"{kind}:"
    if sys.stderr.isatty() and not os.environ.get("NO_COLOR"):
        label = f"\x1b[{COLORS[kind]}m{label}\x1b[0m"
    print(label, printable(text), file=sys.stderr)


def print_error(wrong: str, tip: str) -> None:
    """Print an error: a line that says what is wrong, and one that says what to do."""
    print_message("error", wrong)
    if tip:
        print_message("tip", tip)


def split_tip(text: str) -> tuple[str, str]:
    """Split an error message: the first sentence says what is wrong, the others what to do.

    >>> split_tip("--plot: a.png exists. Pass --overwrite to replace it.")
    ('--plot: a.png exists.', 'Pass --overwrite to replace it.')
    """
    wrong, *tip = SENTENCE_END.split(" ".join(text.split()), maxsplit=1)
    return wrong, " ".join(tip)


def shorten(text: str, most: int) -> str:
    """Return the beginning of a long text.

    >>> shorten("x + y + z", 8)
    'x + y...'
    """
    return text if len(text) <= most else f"{text[: most - 3]}..."
