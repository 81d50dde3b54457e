"""Messages of the command line on standard error."""

from __future__ import annotations


def error_message(stderr: str) -> str:
    """Return an error and its tip, each of which must be one line, joined by a space."""
    wrong, *tips = stderr.removesuffix("\n").split("\n")
    assert wrong.startswith("error: "), stderr
    assert len(tips) <= 1, stderr
    assert all(tip.startswith("tip: ") for tip in tips), stderr
    return " ".join([wrong.removeprefix("error: "), *(tip.removeprefix("tip: ") for tip in tips)])
