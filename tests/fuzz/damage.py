"""Ways to damage a checkpoint: as bytes, as a zip archive, as arrays, as a header, and as a path."""

from __future__ import annotations

import io
import json
import os
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Members = dict[str, bytes]
"""Files in the archive, by name."""

BOMB = 700
"""MB that a zip bomb inflates to."""


def flip(data: bytearray, rng: random.Random) -> bytes:
    """Flip some bits."""
    for _ in range(rng.choice([1, 1, 2, 8])):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def overwrite(data: bytearray, rng: random.Random) -> bytes:
    """Overwrite a block with zeros or noise."""
    at, size = rng.randrange(len(data)), rng.choice([1, 4, 64, 512, 4096])
    block = bytes(size) if rng.random() < 0.5 else rng.randbytes(size)
    data[at : at + size] = block[: len(data) - at]
    return bytes(data)


def truncate(data: bytearray, rng: random.Random) -> bytes:
    """Cut off the end."""
    return bytes(data[: rng.randrange(len(data))])


def append(data: bytearray, rng: random.Random) -> bytes:
    """Add bytes at the start, at the end or in the middle."""
    extra = rng.randbytes(rng.choice([1, 22, 1000]))
    at = rng.choice([0, len(data), rng.randrange(len(data))])
    return bytes(data[:at]) + extra + bytes(data[at:])


def swap(data: bytearray, rng: random.Random) -> bytes:
    """Swap two blocks."""
    size = rng.choice([1, 16, 256])
    a, b = sorted(rng.randrange(max(1, len(data) - size)) for _ in range(2))
    if b - a < size:
        return bytes(data[a:])
    data[a : a + size], data[b : b + size] = data[b : b + size], data[a : a + size]
    return bytes(data)


def foreign(data: bytearray, rng: random.Random) -> bytes:
    """Replace the file by something else."""
    array = io.BytesIO()
    np.save(array, np.arange(3.0))
    return rng.choice([b"", b"hello", b"PK\x05\x06" + bytes(18), bytes(100), b"{}", array.getvalue(), bytes(data) * 2])


def drop(members: Members, rng: random.Random) -> None:
    """Remove a member."""
    members.pop(rng.choice(list(members)))


def rename(members: Members, rng: random.Random) -> None:
    """Rename a member, or give it the name of another."""
    old = rng.choice(list(members))
    new = rng.choice([old + "x", "a.new.npy", old.upper(), "../" + old, rng.choice(list(members)), old[:-4]])
    members[new] = members.pop(old)


def exchange(members: Members, rng: random.Random) -> None:
    """Swap the contents of two members."""
    a, b = rng.choice(list(members)), rng.choice(list(members))
    members[a], members[b] = members[b], members[a]


def add(members: Members, rng: random.Random) -> None:
    """Add a member."""
    members[rng.choice(["a.more.npy", "note.txt", "a.state.more.npy", "a.history.more.npy"])] = rng.choice(
        [b"", b"text", next(iter(members.values()))]
    )


def edit(members: Members, rng: random.Random) -> None:
    """Change the values of an array, its shape or its dtype."""
    name = rng.choice([name for name in members if name != "header.npy"])
    array = np.load(io.BytesIO(members[name]), allow_pickle=False)
    members[name] = _npy(rng.choice(EDITS)(array, rng))


def _npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def _value(array: Any, rng: random.Random) -> Any:
    """Change one value."""
    if not array.size:
        return np.zeros((1, *array.shape[1:]), array.dtype)
    changed = array.copy()
    if array.dtype == bool:
        changed.flat[rng.randrange(array.size)] ^= True
    elif array.dtype.kind in "iu":
        changed.flat[rng.randrange(array.size)] = rng.choice([0, 1, 5, 100, np.iinfo(array.dtype).max])
    else:
        changed.flat[rng.randrange(array.size)] = rng.choice([0.0, 0.123, 1e30, float("nan"), float("inf"), -1.0])
    return changed


def _dtype(array: Any, rng: random.Random) -> Any:
    """Change the dtype; or only the order of bytes or axes, which changes no value."""
    kind = rng.choice(["f4", "f2", ">f8", "i8", "u1", "?", "c16", "U8", "M8[s]", "F"])
    with np.errstate(all="ignore"):
        return np.asfortranarray(array) if kind == "F" else array.astype(kind)


def _shape(array: Any, rng: random.Random) -> Any:
    """Change the shape."""
    if not array.ndim:
        return array[None]
    return rng.choice([array[None], array.ravel(), array.T, array[:0], array[:-1], np.concatenate([array, array])])


def _object(array: Any, rng: random.Random) -> Any:
    """Convert to an array of objects, which only pickle can read."""
    return np.array([print, {"a": 1}], dtype=object)


def _fields(array: Any, rng: random.Random) -> Any:
    """Convert to an array of records."""
    return np.zeros(array.shape, [("a", "f8"), ("b", "i4")])


EDITS = (_value, _value, _value, _dtype, _shape, _object, _fields)


def header(members: Members, rng: random.Random) -> None:
    """Edit the JSON header."""
    if "header.npy" not in members:
        edit(members, rng)
        return
    text = bytes(np.load(io.BytesIO(members["header.npy"])))
    members["header.npy"] = _npy(np.frombuffer(_edited(text, rng), np.uint8))


def _edited(text: bytes, rng: random.Random) -> bytes:
    whole = [b"", b"[]", b"null", b"{", b"[" * 100_000, b"\xff" + text, b'{"slgh": 2}', text + b"}", b"9" * 5000]
    if rng.random() < 0.25:
        return rng.choice(whole)
    found = json.loads(text)
    holder = found["identity"] if "identity" in found and rng.random() < 0.3 else found
    key = rng.choice(list(holder))
    if rng.random() < 0.2:
        del holder[key]
        return json.dumps(found).encode()
    values: list[Any] = [None, "", "x", -1, 0, 1, 3, 10**30, 1.5, float("nan"), [], [1, 2], [-1, -1], {}, True]
    if isinstance(holder[key], int) and rng.random() < 0.5:
        values = [holder[key] + 1, holder[key] - 1, -holder[key], holder[key] + 1000]
    holder[key] = rng.choice(values)
    return json.dumps(found).encode()


def nothing(members: Members, rng: random.Random) -> None:
    """Change only how the archive is packed."""


BYTES: dict[str, Callable[[bytearray, random.Random], bytes]] = {
    f.__name__: f for f in (flip, overwrite, truncate, append, swap, foreign)
}
ARCHIVE: dict[str, Callable[[Members, random.Random], None]] = {
    f.__name__: f for f in (drop, rename, exchange, add, edit, header, nothing)
}
PATHS = ("directory", "fifo", "symlink", "dangling", "loop", "unreadable", "nul", "below a file", "relative")
KINDS = (*BYTES, *ARCHIVE, "edit", "edit", "edit", "header", "header", "duplicate", "compressed", "bomb", *PATHS)


def inflict(kind: str, seed: int, path: Path, intact: bytes) -> str:
    """Put a damaged copy of an intact checkpoint at `path`, and return the path to pass to slgh."""
    rng = random.Random(seed)
    if kind in BYTES:
        path.write_bytes(BYTES[kind](bytearray(intact), rng))
    elif kind in ARCHIVE or kind in ("duplicate", "compressed", "bomb"):
        _repack(kind, rng, path, intact)
    elif kind == "directory":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind in ("symlink", "dangling"):
        elsewhere = path.with_name("elsewhere.npz")
        if kind == "symlink":
            elsewhere.write_bytes(intact)
        path.symlink_to(elsewhere)
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "unreadable":
        path.write_bytes(intact)
        path.chmod(0)
    elif kind == "nul":
        return f"{path}\0"
    elif kind == "below a file":
        path.write_bytes(intact)
        return str(path / "run.npz")
    else:
        path.write_bytes(intact)
    return str(path)


def _repack(kind: str, rng: random.Random, path: Path, intact: bytes) -> None:
    with zipfile.ZipFile(io.BytesIO(intact)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    if kind in ARCHIVE:
        ARCHIVE[kind](members, rng)
    method = zipfile.ZIP_DEFLATED if kind == "compressed" else zipfile.ZIP_STORED
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        if kind == "duplicate":
            name = rng.choice(list(members))
            archive.writestr(zipfile.ZipInfo(name), rng.choice([members[name], rng.choice(list(members.values()))]))
        if kind == "bomb":
            _bomb(archive, rng.choice(["a.state.x.npy", "header.npy", "a.more.npy", "more"]))


def _bomb(archive: zipfile.ZipFile, name: str) -> None:
    """Add a member of many zeros, which take hardly any space."""
    start = io.BytesIO()
    np.lib.format.write_array_header_1_0(start, {"descr": "|u1", "fortran_order": False, "shape": (BOMB << 20,)})
    info = zipfile.ZipInfo(name)
    info.compress_type, info._compresslevel = zipfile.ZIP_DEFLATED, 1  # type: ignore[attr-defined]
    with archive.open(info, "w", force_zip64=True) as file:
        file.write(start.getvalue())
        for _ in range(BOMB):
            file.write(bytes(1 << 20))
