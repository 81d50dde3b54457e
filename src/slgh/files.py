"""Atomic file writes, and values in the form of JSON."""

from __future__ import annotations

import json
import math
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Replace a file atomically: write a temporary file beside `path`, sync it to disk, rename it.

    A symbolic link is kept, and the file it points to is replaced.
    """
    path = Path(os.path.realpath(path))
    # A unique name keeps two writers of one file, in one process or in several, from sharing a temporary file.
    temporary = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    file = open(temporary, "x+b")  # noqa: SIM115 - a file that was not created here must not be deleted below
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def remove_stale(path: Path) -> None:
    """Delete temporary files of `path` left behind by killed processes.

    Files of running processes are kept, including this one, where another thread may be writing.
    """
    pattern = re.compile(re.escape(path.name) + r"\.(\d{1,9})(\.[0-9a-f]{8})?\.tmp")
    with suppress(OSError):
        for entry in list(path.parent.iterdir()):
            if (match := pattern.fullmatch(entry.name)) and not _is_alive(int(match[1])):
                with suppress(OSError):
                    entry.unlink()


def _is_alive(pid: int) -> bool:
    if pid == os.getpid():
        return True
    if os.name == "nt":
        # os.kill would end the process there, and Windows refuses to delete a file that is open anyway.
        return False
    try:
        os.kill(pid, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)
    return True


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Replace the content of a file atomically."""
    with atomic_write(path) as file:
        file.write(text.encode())


def to_json(found: Any) -> str:
    """Return readable JSON: lists of numbers on one line, NaN and infinity as null.

    >>> print(to_json({"x": np.array([1.0, np.nan]), "n": np.int64(3)}), end="")
    {
     "x": [1.0, null],
     "n": 3
    }
    """
    return _lines(_plain(found), "\n") + "\n"


def _lines(value: Any, new_line: str) -> str:
    deeper = new_line + " "
    if isinstance(value, dict) and value:
        parts = [f"{json.dumps(name)}: {_lines(each, deeper)}" for name, each in value.items()]
        return f"{{{deeper}{f',{deeper}'.join(parts)}{new_line}}}"
    if isinstance(value, list) and any(isinstance(each, list | dict) for each in value):
        return f"[{deeper}{f',{deeper}'.join(_lines(each, deeper) for each in value)}{new_line}]"
    return json.dumps(value, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
