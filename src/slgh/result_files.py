"""Files of results: an .npz archive without pickle, in the format of the checkpoints.

The header describes the entries of the Result in JSON, and refers to the arrays by number. Values that JSON does not
have are dictionaries with one key, a tag. A file is not trusted: only numbers, text, arrays and the parts of slgh's own
methods are created from it.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from slgh import checks
from slgh.engine.checkpoint import Arrays, read_archive, refuse_damaged, resolve, write_archive
from slgh.engine.search_space import POINTS
from slgh.engine.termination import Status
from slgh.method import SLOTS, Method
from slgh.result import Minima, Phase

VERSION = 1
"""Version of the file format."""

ADVICE = "Pass a file that Result.save has written."

REQUIRED = ("x", "fun", "status", "success", "nit", "nfev")
"""Entries that every Result has, also that of a run that has not ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedMethod:
    """Description of a method with parts of the user's own, which a file cannot restore.

    Parameters
    ----------
    name, reports, floor
        As in `slgh.Method`.
    oracle, schedule, update
        Parts of slgh as they were, and those of the user as text.
    """

    name: str
    reports: str
    floor: float | None
    oracle: Any
    schedule: Any
    update: Any


def save_entries(path: str | os.PathLike[str], entries: dict[str, Any]) -> None:
    """Write the entries of a Result to a file, which is replaced atomically."""
    real, arrays = resolve(path, "path"), dict[str, Any]()
    header = {"slgh_result": VERSION, "entries": _encode_entries(entries, arrays)}
    try:
        write_archive(real, header, arrays)
    except OSError as error:
        # The file in the error is a temporary one, which means nothing to the user.
        why = f"{real.parent} is not a folder" if not real.parent.is_dir() else error.strerror or error
        raise checks.ArgumentFileError(
            f"`path` must be a file that can be written, got {os.fsdecode(path)!r}: {why}. Pass another path."
        ) from error


def load_entries(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the entries of a Result that `save_entries` has written.

    Raises
    ------
    ValueError
        If the file is damaged, or not a Result of this version.
    """
    real = resolve(path, "path")
    if not real.exists():
        raise checks.MissingFileError(f"`path` {os.fsdecode(path)!r} does not exist. {ADVICE}")
    with refuse_damaged(path, "path", "Result", ADVICE):
        header, arrays = read_archive(real)
        if "slgh_result" not in header:
            raise ValueError("it is a checkpoint" if "slgh" in header else "it holds something else")
        if header["slgh_result"] != VERSION:
            raise ValueError(f"it has format {header['slgh_result']}, this version reads {VERSION}")
        entries = {str(name): _decode(value, arrays) for name, value in header["entries"].items()}
        _check(entries)
    return entries


def _check(entries: dict[str, Any]) -> None:
    """Raise ValueError unless the entries are those of a Result."""
    if missing := [name for name in REQUIRED if name not in entries]:
        raise ValueError(f"it lacks {', '.join(missing)}")
    status = entries["status"]
    valid = {
        "status": isinstance(status, Status)
        or (isinstance(status, np.ndarray) and bool(np.isin(status, list(Status)).all())),
        "history": isinstance(entries.get("history", {}), dict),
        "phases": isinstance(entries.get("phases", ()), tuple),
    }
    if wrong := [name for name, fits in valid.items() if not fits]:
        raise ValueError(f"its {wrong[0]} is invalid")


class _Unsaveable(Exception):
    """Raised for a value that no file can hold."""

    def __init__(self, value: Any, path: str) -> None:
        self.value = value
        self.path = path
        """Place of the value in its entry, in the form of the names of a search space: "net.act", "layers[0]"."""


def _encode_entries(entries: dict[str, Any], arrays: Arrays) -> dict[str, Any]:
    """Return the entries in the form of JSON. Raise if one of them has a value that no file can hold."""
    encoded = {}
    for name, value in entries.items():
        try:
            encoded[name] = _encode(value, arrays)
        except _Unsaveable as found:
            shown = checks.show(found.value)
            if "z" in entries and name in (*POINTS, "minima"):
                raise checks.ArgumentTypeError(
                    f"The Result cannot be saved: `{found.path or 'x'}` of its search space must be a number, text, "
                    f"None or an array of numbers, got {shown}. Use names as choices, such as "
                    'Categorical(["relu", "tanh"]), and let fun look the objects up. Or save `result.z`, and '
                    "restore x with Space(tree).decode(z)."
                ) from None
            raise checks.ArgumentTypeError(
                f"The Result cannot be saved: its entry `{name}` must be numbers, text or arrays of numbers, got "
                f"{shown}. Remove the entry, or convert it."
            ) from None
    return encoded


def _encode(value: Any, arrays: Arrays, path: str = "") -> Any:
    """Return a value in the form of JSON, and add its arrays to `arrays`. `path` is its place in its entry."""
    if isinstance(value, Status):
        return {"status": value.value}
    if isinstance(value, np.generic):
        return {"scalar": _add(np.asarray(value), arrays)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Method | SavedMethod):
        parts = {slot: _encode_part(slot, getattr(value, slot)) for slot in SLOTS}
        return {"method": {"name": value.name, "reports": value.reports, "floor": value.floor, **parts}}
    if isinstance(value, Phase):
        return {"phase": list(value)}
    if isinstance(value, Minima):
        points = value.points  # trees of a search space, or an array
        trees = [_encode(each, arrays) for each in points] if isinstance(points, list) else _encode(points, arrays)
        return {"minima": [trees, _encode(value.values, arrays)]}
    if isinstance(value, list | tuple):
        items = [_encode(each, arrays, f"{path}[{i}]") for i, each in enumerate(value)]
        return items if isinstance(value, list) else {"tuple": items}
    if isinstance(value, dict):
        prefix = f"{path}." if path else ""
        return {"dict": {str(name): _encode(each, arrays, f"{prefix}{name}") for name, each in value.items()}}
    return {"array": _add(_host(value, path), arrays)}


def _host(value: Any, path: str) -> Any:
    """Return an array of any library as one of NumPy."""
    detached = value.detach().cpu() if hasattr(value, "detach") else value
    array = np.asarray(detached)
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise _Unsaveable(value, path)
    return array


def _add(array: Any, arrays: Arrays) -> str:
    """Add an array, and return its name."""
    arrays[str(len(arrays))] = array
    return str(len(arrays) - 1)


def _encode_part(slot: str, part: Any) -> Any:
    """Return the name and fields of one of slgh's parts, or the text of another one."""
    if isinstance(part, str):
        return part
    if SLOTS[slot].get(getattr(part, "name", "")) is type(part):
        fields = {f.name: getattr(part, f.name) for f in dataclasses.fields(part) if f.init}
        if all(_is_plain(value) for value in fields.values()):
            plain = {n: list(v) if isinstance(v, tuple) else checks.plain(v) for n, v in fields.items()}
            return {"name": part.name, "fields": plain}
    return repr(part)


def _is_plain(value: Any) -> bool:
    """Return True for what JSON can hold as a field of a part: a number, text, None, or a tuple of integers."""
    if isinstance(value, tuple):
        return all(isinstance(each, int) for each in value)
    return value is None or isinstance(checks.plain(value), bool | int | float | str)


def _decode(value: Any, arrays: Arrays) -> Any:
    """Return the value that `_encode` was given."""
    if isinstance(value, list):
        return [_decode(each, arrays) for each in value]
    if not isinstance(value, dict):
        return value
    ((tag, content),) = value.items()
    return DECODERS[tag](content, arrays)


def _decode_phase(content: Any, arrays: Arrays) -> Any:
    name, start, stop = content
    if not (isinstance(name, str) and type(start) is int and type(stop) is int):
        raise ValueError("its phases are invalid")
    return Phase(name, start, stop)


def _decode_method(content: Any, arrays: Arrays) -> Any:
    parts = {slot: _decode_part(slot, content[slot]) for slot in SLOTS}
    known = {"name": str(content["name"]), "reports": content["reports"], "floor": content["floor"]}
    complete = not any(isinstance(part, str) for part in parts.values())
    return Method(**known, **parts) if complete else SavedMethod(**known, **parts)


def _decode_part(slot: str, content: Any) -> Any:
    if isinstance(content, str):
        return content
    fields = {name: tuple(value) if isinstance(value, list) else value for name, value in content["fields"].items()}
    return SLOTS[slot][content["name"]](**fields)


DECODERS: dict[str, Callable[[Any, Arrays], Any]] = {
    "status": lambda content, arrays: Status(content),
    "scalar": lambda content, arrays: arrays[content][()],
    "array": lambda content, arrays: arrays[content],
    "tuple": lambda content, arrays: tuple(_decode(each, arrays) for each in content),
    "dict": lambda content, arrays: {str(name): _decode(each, arrays) for name, each in content.items()},
    "minima": lambda content, arrays: Minima(*(_decode(each, arrays) for each in content)),
    "phase": _decode_phase,
    "method": _decode_method,
}
"""Functions that restore the values with a tag."""
