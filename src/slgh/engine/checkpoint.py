"""Checkpoints: one file without pickle, replaced atomically, so that there is always a whole one."""

from __future__ import annotations

import json
import os
import stat
import sys
import time
import warnings
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slgh import checks
from slgh.files import remove_stale, whole

VERSION = 2

KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
"""What a path may lead to besides a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Where and how often to save the run.

    Parameters
    ----------
    path
        The file. If it holds a run of the same problem (x0, data, bounds, seed, method), that run is continued; a run
        of another one is an error. The function itself cannot be compared.
    every_seconds
        Save when so many seconds have passed since the last time. The run is saved at its end in any case, and when
        it is interrupted or fun raises.
    every_iterations
        Save after so many iterations as well.
    """

    path: str | os.PathLike[str]
    every_seconds: float = 30.0
    every_iterations: int | None = None

    def __post_init__(self) -> None:
        checks.at_least("every_seconds", self.every_seconds, 0)
        if self.every_iterations is not None:
            checks.count("every_iterations", self.every_iterations)


class Saver:
    """Writes a run's checkpoints, and holds the one that was found at the beginning."""

    def __init__(self, settings: Checkpoint) -> None:
        self.settings = settings
        self.name = os.fsdecode(settings.path)
        """The path as the user wrote it, for messages."""
        self.path = resolve(settings.path)
        self.found = read(settings.path)
        self.last_time = time.monotonic()
        self.last_k = 0
        self.warned = False
        self.failure = ""
        """Why the last attempt to save failed, if it did."""
        remove_stale(self.path)

    def due(self, k: int) -> bool:
        """Whether it is time to save after iteration k."""
        every = self.settings.every_iterations
        return (every is not None and k - self.last_k >= every) or (
            time.monotonic() - self.last_time >= self.settings.every_seconds
        )

    def save(self, k: int, meta: dict[str, Any], arrays: dict[str, NDArray[Any]], *, first: bool = False) -> bool:
        """Write a checkpoint; return True if that succeeded.

        The first one must succeed. A later failure warns once, and the run goes on.
        """
        self.failure = ""
        try:
            write(self.path, meta, arrays)
        except OSError as error:
            if first:
                raise OSError(
                    f"`checkpoint` must be a file that can be written, got {self.name!r}: {error}."
                ) from error
            self.failure = str(error)
            if not self.warned:
                self.warned = True
                _warn(
                    f"The checkpoint {self.name!r} could not be written ({error}); the run goes on and the last whole "
                    "checkpoint stays."
                )
        self.last_time, self.last_k = time.monotonic(), k
        return not self.failure


def _warn(message: str) -> None:
    """Warn, but never raise: a checkpoint that cannot be written must cost neither the result nor fun's exception."""
    try:
        warnings.warn(message, RuntimeWarning, stacklevel=3)
    except RuntimeWarning:  # the user has turned warnings into errors
        print(f"RuntimeWarning: {message}", file=sys.stderr)


def resolve(path: str | os.PathLike[str]) -> Path:
    """Return the absolute path, with links followed, or raise ValueError unless a file is there or can be.

    To be called once, when a run begins: the user's code may change the working directory later.
    """
    name = os.fsdecode(path)
    real = Path(name)
    try:
        real = Path(os.path.realpath(name))
        mode = real.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return real
    except (OSError, ValueError) as error:  # ValueError: the path contains a NUL
        raise ValueError(
            f"`checkpoint` must be the path of a file, got {name!r}: {error}. Pass another path."
        ) from error
    if not stat.S_ISREG(mode):
        kind = KINDS.get(stat.S_IFMT(mode), "something else")
        raise ValueError(f"`checkpoint` must be the path of a file, got {name!r}, which is {kind}. Pass another path.")
    return real


def write(path: Path, meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Replace the checkpoint, as a whole."""
    header = np.frombuffer(json.dumps({"slgh": VERSION, **meta}).encode(), np.uint8)
    with whole(path) as file:
        np.savez(file, allow_pickle=False, header=header, **{f"a.{n}": a for n, a in arrays.items()})


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]] | None:
    """What `write` wrote, or None where there is no file. A damaged or foreign file is a ValueError."""
    real, name = resolve(path), os.fsdecode(path)
    if not real.exists():
        return None
    advice = "Move it away to start anew."
    try:
        with open(real, "rb") as handle, np.load(handle, allow_pickle=False) as file:
            meta = json.loads(bytes(file["header"]))
            arrays = {name[2:]: file[name] for name in file.files if name.startswith("a.")}
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError, OSError, AttributeError) as error:
        raise ValueError(f"`checkpoint` {name!r} is not a whole checkpoint ({error}). {advice}") from error
    if meta.get("slgh") != VERSION:
        raise ValueError(f"`checkpoint` {name!r} has format {meta.get('slgh')}, this version reads {VERSION}. {advice}")
    return meta, arrays


class OtherRun(ValueError):
    """A checkpoint is of another problem or method."""


def refuse_other_run(path: str | os.PathLike[str], saved: dict[str, Any], current: dict[str, Any]) -> None:
    """Raise unless the saved run is of the same problem and method."""
    for name, value in current.items():
        if saved.get(name) != value:
            raise OtherRun(
                f"`checkpoint` {os.fsdecode(path)!r} belongs to another run: its {name} is {saved.get(name)!r}, here "
                f"it is {value!r}. Pass another file, or move it away to start anew."
            )
