"""Checkpoint files: without pickle, and replaced atomically, so that there is always a complete one.

The file is an .npz: a zip archive of uncompressed .npy files. The archive's comment is the SHA-256 digest of all bytes
before it, which detects any damage. Anybody can compute a digest, so a file with the right one is still not trusted.
Sizes are checked before anything is read, and the arrays must fit the run.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from slgh import checks
from slgh.files import atomic_write

Arrays: TypeAlias = dict[str, NDArray[Any]]
"""Arrays by name, as a checkpoint holds them."""

VERSION = 4
"""Version of the file format."""

ADVICE = "Move it away to start anew."
"""End of the errors on a checkpoint that cannot be continued."""

DIGEST_SIZE = hashlib.sha256().digest_size

NPY_HEADER_SIZE = 1000
"""Maximum length of an array's header. Those of slgh have about 120 characters. Python's parser fails on long ones."""

CHUNK = 1 << 20
"""Bytes read at a time to compute the digest."""

ENCRYPTED = 1
"""Flag of an encrypted member of a zip archive."""

KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
"""Kinds of paths that are not files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """File in which to save a run, and how often to save it.

    Parameters
    ----------
    path
        The file. If it holds a run with the same x0, data, bounds, seed and method, that run is continued. If it holds
        another run, a ValueError is raised. The function itself cannot be compared.
    every_seconds
        Time between two saves, 30 seconds by default. The run is also saved at its end, if it is interrupted, and if
        fun raises an exception.
    every_iterations
        Save after this many iterations as well. None, the default: only by time.
    """

    path: str | os.PathLike[str]
    every_seconds: float = 30.0
    every_iterations: int | None = None

    def __post_init__(self) -> None:
        checks.at_least("every_seconds", self.every_seconds, 0)
        if self.every_iterations is not None:
            checks.count("every_iterations", self.every_iterations)


def resolve(path: str | os.PathLike[str], argument: str = "checkpoint") -> Path:
    """Return the absolute path, with links followed. Raise ValueError if something else than a file is there.

    Call it once, when a run begins: the user's code may change the working directory later. `argument` is the name of
    the user's argument, for errors.
    """
    name = os.fsdecode(path)
    real = Path(name)
    try:
        real = Path(os.path.realpath(name))
        mode = real.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return real
    except (OSError, ValueError) as error:  # ValueError: the path contains a NUL
        raise checks.ArgumentValueError(
            f"`{argument}` must be the path of a file, got {name!r}: {error}. Pass another path."
        ) from error
    if not stat.S_ISREG(mode):
        kind = KINDS.get(stat.S_IFMT(mode), "something else")
        raise checks.ArgumentValueError(
            f"`{argument}` must be the path of a file, got {name!r}, which is {kind}. Pass another path."
        )
    return real


def write(path: Path, meta: dict[str, Any], arrays: Arrays) -> None:
    """Replace the checkpoint atomically."""
    write_archive(path, {"slgh": VERSION, **meta}, arrays)


def write_archive(path: Path, header: dict[str, Any], arrays: Arrays) -> None:
    """Replace an archive of a header and arrays atomically."""
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    with atomic_write(path) as file:
        np.savez(file, allow_pickle=False, header=text, **{f"a.{n}": a for n, a in arrays.items()})
        # The last two bytes of a zip archive without a comment are the comment's length.
        file.seek(-2, os.SEEK_END)
        file.write(DIGEST_SIZE.to_bytes(2, "little"))
        digest = _digest(file, file.tell())
        file.seek(0, os.SEEK_END)
        file.write(digest)


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Arrays] | None:
    """Return the header and arrays that `write` was given, or None if there is no file.

    Raises
    ------
    ValueError
        If the file is damaged, or not a checkpoint of this version.
    """
    real, name = resolve(path), os.fsdecode(path)
    if not real.exists():
        return None
    with refuse_damaged(name):
        meta, arrays = read_archive(real)
    if meta.get("slgh") != VERSION:
        raise checks.ArgumentValueError(
            f"`checkpoint` {name!r} has format {meta.get('slgh')}, this version reads {VERSION}. {ADVICE}"
        )
    return meta, arrays


def read_archive(path: Path) -> tuple[dict[str, Any], Arrays]:
    """Return the header and arrays that `write_archive` was given. Raise any exception if the file is damaged."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        digest = _digest(file, size - DIGEST_SIZE)
        if size < DIGEST_SIZE or file.read() != digest:
            raise ValueError("its digest is wrong or missing: it is damaged, or of an older version")
        arrays = _read_arrays(file, size)
    header = json.loads(arrays.pop("header").tobytes())
    if not isinstance(header, dict) or not all(each.startswith("a.") for each in arrays):
        raise ValueError("its header or the names of its arrays are not those of slgh")
    return header, {each.removeprefix("a."): array for each, array in arrays.items()}


def _digest(file: IO[bytes], size: int) -> bytes:
    """Return the digest of the first `size` bytes. The file's position is then after them."""
    file.seek(0)
    digest = hashlib.sha256()
    while size > 0 and (chunk := file.read(min(size, CHUNK))):
        digest.update(chunk)
        size -= len(chunk)
    return digest.digest()


def _read_arrays(file: IO[bytes], size: int) -> Arrays:
    """Read the arrays of an .npz file of this size, in no more memory than the file has bytes."""
    arrays: Arrays = {}
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        if sum(member.file_size for member in members) > size:
            raise ValueError("its arrays are larger than the file")
        for member in members:
            name = member.filename.removesuffix(".npy")
            if name in arrays:
                raise ValueError(f"it holds {name!r} twice")
            stored = member.compress_type == zipfile.ZIP_STORED and member.file_size == member.compress_size
            if not stored or member.flag_bits & ENCRYPTED:
                raise ValueError(f"its array {name!r} is compressed or encrypted")
            with archive.open(member) as data:
                arrays[name] = _read_array(data, member.file_size, name)
    return arrays


def _read_array(data: IO[bytes], size: int, name: str) -> NDArray[Any]:
    """Read an .npy file of this size, after a check of its header."""
    try:
        version = np.lib.format.read_magic(data)
        shape, _, dtype = np.lib.format.read_array_header_1_0(data, max_header_size=NPY_HEADER_SIZE)
    except Exception as error:  # NumPy has Python parse the header, which fails in many ways
        raise ValueError(f"the header of its array {name!r} cannot be read") from error
    if version != (1, 0):
        raise ValueError(f"its array {name!r} has another format")
    if dtype.kind not in "biuf" or not dtype.isnative or dtype.itemsize > 8:
        raise ValueError(f"its array {name!r} has dtype {dtype}")
    if any(n < 0 for n in shape) or math.prod(shape) * dtype.itemsize != size - data.tell():
        raise ValueError(f"its array {name!r} does not have the size that its shape {shape} says")
    data.seek(0)
    array: NDArray[Any] = np.lib.format.read_array(data, allow_pickle=False)
    return array


@contextmanager
def refuse_damaged(
    path: str | os.PathLike[str], argument: str = "checkpoint", content: str = "checkpoint", advice: str = ADVICE
) -> Iterator[None]:
    """Turn any exception while a file is read or loaded into a ValueError, except OtherRun and MemoryError.

    The error names the user's `argument`, and says that the file is no complete `content`.
    """
    try:
        yield
    except (OtherRun, MemoryError):
        raise
    except Exception as error:
        reason = str(error) if isinstance(error, ValueError | OSError) else f"{type(error).__name__}: {error}"
        raise checks.ArgumentValueError(
            f"`{argument}` {os.fsdecode(path)!r} is not a complete {content} ({reason}). {advice}"
        ) from error


def expect(arrays: Arrays, name: str, shape: tuple[int | None, ...], kinds: str = "biuf") -> NDArray[Any]:
    """Return an array of a checkpoint. Raise ValueError if its shape (None: any length) or kind of dtype is wrong."""
    array = arrays[name]
    fits = array.ndim == len(shape) and all(n in (None, m) for n, m in zip(shape, array.shape, strict=True))
    if not fits or array.dtype.kind not in kinds:
        raise ValueError(
            f"its array {name!r} has shape {array.shape} and dtype {array.dtype}, which do not fit the run"
        )
    return array


class OtherRun(checks.ArgumentValueError):
    """The checkpoint belongs to a run of another problem or method."""


def refuse_other_run(path: str | os.PathLike[str], saved: dict[str, Any], current: dict[str, Any]) -> None:
    """Raise OtherRun if the identity of the saved run differs from the current one."""
    for name, value in current.items():
        if saved.get(name) != value:
            raise OtherRun(
                f"`checkpoint` {os.fsdecode(path)!r} belongs to another run: its {name} is {saved.get(name)!r}, here "
                f"it is {value!r}. Pass another file, or move it away to start anew."
            )
