"""Files that are whole or not there, and values as JSON knows them."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np


@contextmanager
def whole(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Write beside `path`, force it to the disk, then take its name: at no time is `path` a partial file."""
    path = Path(path)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Replace a file by this text."""
    with whole(path) as file:
        file.write(text.encode())


def to_json(found: Any) -> str:
    """JSON, in which numbers that are not finite are null, for want of another word.

    >>> print(to_json({"x": np.array([1.0, np.nan]), "n": np.int64(3)}).replace("\\n", ""))
    { "x": [  1.0,  null ], "n": 3}
    """
    return json.dumps(_plain(found), indent=1, allow_nan=False) + "\n"


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
