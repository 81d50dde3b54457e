"""Reading run.json of a run's folder, which is not trusted: it may come from anyone.

Nothing that the file names is imported, opened or written to. Each field must have the type that `Job` and `Source`
declare; the values are then checked where the same options of `slgh minimize` are.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from pathlib import Path
from types import UnionType
from typing import Any, NoReturn, TypeVar, get_args, get_origin, get_type_hints

from slgh import checks
from slgh.cli.common import fail, shorten
from slgh.cli.job import HISTORIES, Job, refuse_argument
from slgh.cli.objective import Source
from slgh.method import METHODS
from slgh.result import Status

FORMAT = 1
RUN, CHECKPOINT, RESULT = "run.json", "checkpoint.npz", "result.json"

MAX_BYTES = 8 * 2**20
"""Maximum size of run.json. It holds a command line twice, and Linux limits that to 2 MiB by default."""

LARGEST_INTEGER = int(sys.float_info.max)
"""Larger integers cannot be compared with limits, which are floats."""

FIELDS: dict[str, Any] = {
    "format": int,
    "command": str,
    "job": dict[str, Any],
    "ended": str | None,
    "fun_x0": float | None,
}
"""The fields of run.json and their types."""

PARAMETER = bool | int | float | str
"""Hyperparameters, as `--set` reads them."""

Fields = TypeVar("Fields", Job, Source)


def read(folder: Path) -> dict[str, Any]:
    """Return the content of run.json, an object with a "command", which is the command that wrote it."""
    file = folder / RUN
    if not file.is_file():
        fail(f"There is no run in {folder}: {file} is missing. Runs with --run FOLDER can be resumed.")
    try:
        _refuse_links(folder)
        with open(file, "rb") as stream:
            content = stream.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            fail(f"{file} must have at most {MAX_BYTES} bytes: it is damaged, or no run of slgh.")
        found = json.loads(content)
    except (OSError, ValueError, RecursionError) as error:
        fail(f"{file} cannot be read ({shorten(str(error), 200)}): it is damaged, or no run of slgh.")
    if not isinstance(found, dict) or not isinstance(found.get("command"), str):
        fail(f"{file} was not written by slgh: it is damaged, or no run.")
    return found


def _refuse_links(folder: Path) -> None:
    """Refuse a folder in which a file that slgh writes, or its temporary neighbor, is a link to somewhere else."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_symlink() and any(name in entry.name for name in (RUN, CHECKPOINT, RESULT)):
                fail(
                    f"{entry.path} must not be a symbolic link: slgh writes within the folder alone. Put the file "
                    "itself there."
                )


def read_job(folder: Path, found: dict[str, Any]) -> Job:
    """Return the job of a run of `slgh minimize`, with every field checked."""
    file = folder / RUN
    if found.get("format") != FORMAT:
        fail(f"{file} has format {shorten(repr(found.get('format')), 80)}, this version of slgh reads {FORMAT}.")
    entries = found.get("job")
    if not isinstance(entries, dict) or not isinstance(entries.get("source"), dict):
        _refuse_incomplete(file)
    _check_types(file, found, FIELDS)
    source = _fill(file, Source, entries["source"])
    job = _fill(file, Job, {**entries, "source": source})
    checks.choice("method", job.method, list(METHODS))
    checks.at_least("save_every", job.save_every, 0)
    if job.history not in HISTORIES:
        _refuse_value(file, "history", job.history, " or ".join(map(repr, HISTORIES)))
    if found.get("ended") not in (None, *Status.__members__):
        _refuse_value(file, "ended", found["ended"], "a status")
    for name, value in job.params.items():
        refuse_argument(name)
        if not _fits(value, PARAMETER):
            _refuse_value(file, name, value, "a number, a text or a flag")
    return job


def _fill(file: Path, record: type[Fields], entries: dict[str, Any]) -> Fields:
    """Return a Job or a Source made of these entries; fields that have a default may be missing."""
    required = {field.name for field in dataclasses.fields(record) if field.default is dataclasses.MISSING}
    if required - entries.keys():
        _refuse_incomplete(file)
    types = get_type_hints(record)
    _check_types(file, entries, types)
    values: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in entries.items()}
    return record(**values)


def _check_types(file: Path, entries: dict[str, Any], types: dict[str, Any]) -> None:
    for name, value in entries.items():
        if name not in types:
            fail(f"{file} has an unknown field {shorten(name, 80)!r}: it is damaged, or of another version of slgh.")
        if not _fits(value, types[name]):
            _refuse_value(file, name, value, f"of type {_name(types[name])}")


def _fits(value: Any, kind: Any) -> bool:
    """Return True if a value that JSON gave has this type.

    >>> _fits(3, float | None), _fits(True, int), _fits(10**400, int), _fits(["x"], tuple[str, ...])
    (True, False, False, True)
    """
    origin = get_origin(kind)
    if origin is UnionType:
        return any(_fits(value, each) for each in get_args(kind))
    if origin is tuple:
        return isinstance(value, list) and all(isinstance(each, get_args(kind)[0]) for each in value)
    if isinstance(value, int) and abs(value) > LARGEST_INTEGER:
        return False
    if kind is float:
        return type(value) in (int, float)
    return type(value) is (origin or kind)  # a bool is an int for isinstance


def _name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) and get_origin(kind) is None else str(kind)


def _refuse_value(file: Path, name: str, value: Any, rule: str) -> NoReturn:
    # The text of an integer with more than 4,300 digits is an error of Python's.
    huge = isinstance(value, int) and abs(value) > LARGEST_INTEGER
    shown = "an integer above 1e308" if huge else shorten(repr(value), 80)
    fail(f"{file}: {name} must be {rule}, got {shown}: it is damaged, or of another version of slgh.")


def _refuse_incomplete(file: Path) -> NoReturn:
    fail(f"{file} lacks what a run needs: it is damaged, or of another version of slgh.")
