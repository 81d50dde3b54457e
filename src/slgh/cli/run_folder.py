"""The folder of --run: run.json holds the options of the run, a checkpoint its state.

Repeating the command resumes the run. The folder is not trusted: it is compared with the command, but no code or file
that it names is imported, opened or written to. Only the seed, f(x0) and the kind of history are taken from it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shlex
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, NoReturn, get_args, get_origin

from slgh.cli.declaration import STORED, Declaration, Role, declared
from slgh.cli.errors import fail, shorten
from slgh.cli.options import MinimizeOptions
from slgh.cli.report import as_dict, at_start
from slgh.cli.run import ALL_ITERATES, THINNED, FinishedRun, RunSpec, run
from slgh.engine.checkpoint import Checkpoint, OtherRun
from slgh.engine.termination import Status
from slgh.files import to_json, write_text
from slgh.parameters import History

FORMAT = 2
RUN, CHECKPOINT, RESULT = "run.json", "checkpoint.npz", "result.json"

MAX_BYTES = 8 * 2**20
"""Maximum size of run.json. It holds a command line, which Linux limits to 2 MiB by default."""

LARGEST_INTEGER = int(sys.float_info.max)
"""Largest integer that can be compared with limits, which are floats."""

KEPT_OPTIONS = {name: each for name, each in declared(MinimizeOptions).items() if each.role in STORED}

FIELDS: dict[str, Any] = {
    "format": int,
    "command": str,
    "options": dict[str, Any],
    "history": int | str,
    "ended": str | None,
    "fun_x0": float | None,
}
"""Fields of run.json and their types."""

FINAL = (Status.TARGET, Status.NONFINITE, Status.CONVERGED)
"""Ends of a run that larger limits do not change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRun:
    """The stored run, as far as the command needs it."""

    seed: int
    history: History
    ended: Status
    fun_x0: float | None
    changed: tuple[str, ...]
    """Options of the limits that the command changes."""
    renamed: tuple[str, ...]
    """Notes on code that the command names differently."""

    @property
    def finished(self) -> bool:
        """True if the run was complete, and the command does not extend it."""
        return not self.changed and (self.ended.success or self.ended in FINAL)


def read_folder(options: MinimizeOptions) -> KeptRun | None:
    """Return the run stored in the folder of --run, or None. Refuse a run with other options."""
    folder = options.run
    if folder is None or not folder.is_dir():
        return None
    _refuse_links(folder)
    file = folder / RUN
    if not file.is_file():
        if (folder / CHECKPOINT).exists():
            fail(f"--run: {folder} holds a checkpoint, but {file} is missing. Choose another folder.")
        return None
    content = _read(file)
    return _compare(folder, content, options)


def _refuse_links(folder: Path) -> None:
    """Refuse a folder in which a file that slgh writes, or its temporary copy, is a symbolic link."""
    try:
        with os.scandir(folder) as entries:
            links = [e.path for e in entries if e.is_symlink() and any(n in e.name for n in (RUN, CHECKPOINT, RESULT))]
    except OSError as error:
        fail(f"--run: {folder} cannot be read: {error.strerror}.")
    if links:
        fail(f"{links[0]} must not be a symbolic link: slgh writes only in the folder. Replace the link by the file.")


def _read(file: Path) -> dict[str, Any]:
    """Read run.json, and check the types of all fields."""
    try:
        with open(file, "rb") as stream:
            text = stream.read(MAX_BYTES + 1)
        if len(text) > MAX_BYTES:
            fail(f"{file} must have at most {MAX_BYTES} bytes. It is damaged, or not a run of slgh.")
        found = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        fail(f"{file} cannot be read ({shorten(str(error), 200)}). It is damaged, or not a run of slgh.")
    if not isinstance(found, dict) or not isinstance(found.get("command"), str):
        fail(f"{file} was not written by slgh. It is damaged, or not a run.")
    if found["command"] != "minimize":
        fail(f"{file} belongs to slgh {shorten(found['command'], 80)}. Choose another folder.")
    if found.get("format") != FORMAT:
        fail(f"{file} has format {shorten(repr(found.get('format')), 80)} instead of {FORMAT}. Choose another folder.")
    _check_types(file, found, FIELDS)
    missing = {"options", "history"} - found.keys() or KEPT_OPTIONS.keys() - found["options"].keys()
    if missing:
        fail(f"{file} is incomplete. It is damaged, or from another version of slgh.")
    _check_types(file, found["options"], {name: each.kind for name, each in KEPT_OPTIONS.items()})
    if type(found["options"]["seed"]) is not int:
        _refuse_value(file, "seed", found["options"]["seed"], "of type int")
    if found["history"] not in (ALL_ITERATES, THINNED):
        _refuse_value(file, "history", found["history"], f"{ALL_ITERATES!r} or {THINNED!r}")
    if found.get("ended") not in (None, *Status.__members__):
        _refuse_value(file, "ended", found["ended"], "a status")
    return found


def _check_types(file: Path, entries: Mapping[str, Any], types: Mapping[str, Any]) -> None:
    for name, value in entries.items():
        if name not in types:
            fail(f"{file} has an unknown field {shorten(name, 80)!r}. It is damaged, or from another version of slgh.")
        if not _fits(value, types[name]):
            shown = types[name].__name__ if types[name] in (int, float, str, bool) else str(types[name])
            _refuse_value(file, name, value, f"of type {shown}")


def _fits(value: Any, kind: Any) -> bool:
    """Return True if a value read from JSON has this type.

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


def _refuse_value(file: Path, name: str, value: Any, rule: str) -> NoReturn:
    # Python refuses to print an integer with more than 4,300 digits.
    huge = isinstance(value, int) and abs(value) > LARGEST_INTEGER
    shown = "an integer above 1e308" if huge else shorten(repr(value), 80)
    fail(f"{file}: {name} must be {rule}, got {shown}. It is damaged, or from another version of slgh.")


def _compare(folder: Path, content: dict[str, Any], options: MinimizeOptions) -> KeptRun:
    """Return the stored run, and refuse one with other options."""
    changed, renamed = [], []
    for name, each in KEPT_OPTIONS.items():
        kept, given = content["options"][name], getattr(options, name)
        kept = tuple(kept) if isinstance(kept, list) else kept
        if kept == given or (name == "seed" and given is None):
            continue
        if each.role is Role.LIMIT:
            changed.append(each.flag)
        elif each.role is Role.CODE and kept is not None and given is not None:
            renamed.append(f"this run was started with {_shown(each, kept)} and continues with {_shown(each, given)}.")
        else:
            made = f"without {each.flag}" if kept == each.default else f"with {_shown(each, kept)}"
            has = f"no {each.flag}" if given == each.default else _shown(each, given)
            remedy = "Repeat the first command, or choose another folder."
            fail(f"--run: the run in {folder} was started {made}, but this command has {has}. {remedy}")
    ended = Status.__members__.get(str(content.get("ended")), Status.RUNNING)
    if changed and ended in FINAL:
        fail(f"The run in {folder} cannot continue ({ended.message.rstrip('.').lower()}). Start a new run from its x.")
    return KeptRun(
        seed=content["options"]["seed"],
        history=content["history"],
        ended=ended,
        fun_x0=content.get("fun_x0"),
        changed=tuple(changed),
        renamed=tuple(renamed),
    )


def _shown(each: Declaration, value: Any) -> str:
    words = each.words(value)
    return shorten(shlex.join([each.flag, *words] if each.positional else words), 200)


def run_in_folder(spec: RunSpec, kept: KeptRun | None, *, progress: bool) -> FinishedRun:
    """Start a run in the folder of --run, or resume the stored one. The result is stored too."""
    folder = spec.options.run
    assert folder is not None
    if kept is None:
        return _start(folder, spec, progress=progress)
    try:
        return _resume(folder, spec, kept, progress=progress)
    except OtherRun:
        if not kept.changed:
            raise
        fail(
            f"{' and '.join(kept.changed)} cannot change, since {spec.options.method} plans by the first limits. Start "
            "another run for other limits."
        )


def _start(folder: Path, spec: RunSpec, *, progress: bool) -> FinishedRun:
    """Store the options, and run. A run that is refused leaves no files."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder, spec)
    except OSError as error:
        why = "it is a file. Name a folder" if folder.is_file() else error.strerror
        fail(f"--run: {folder} cannot be written: {why}.")
    try:
        return _resume(folder, spec, None, progress=progress)
    except BaseException:
        if not (folder / CHECKPOINT).exists():
            with contextlib.suppress(OSError):
                (folder / RUN).unlink()
                folder.rmdir()
        raise


def _resume(folder: Path, spec: RunSpec, kept: KeptRun | None, *, progress: bool) -> FinishedRun:
    checkpoint = Checkpoint(path=folder / CHECKPOINT, every_seconds=spec.options.save_every)
    finished = run(spec, progress=progress, checkpoint=checkpoint)
    if kept is not None:
        finished = dataclasses.replace(finished, resumed=True, earlier_start=kept.fun_x0)
    try:
        write_text(folder / RESULT, to_json(as_dict(finished, history=False)))
        _write(folder, spec, ended=finished.result.status.name, fun_x0=at_start(finished))
    except OSError as error:
        warnings.warn(f"{folder} can no longer be written ({error}).", RuntimeWarning, stacklevel=2)
    return finished


def _write(folder: Path, spec: RunSpec, **known: Any) -> None:
    """Replace run.json. `known` holds the final status `ended` and f(x0) as `fun_x0`, after the run."""
    options = {name: getattr(spec.options, name) for name in KEPT_OPTIONS}
    content = {"format": FORMAT, "command": "minimize", "options": options, "history": spec.history, **known}
    write_text(folder / RUN, json.dumps(content, indent=1) + "\n")
