"""What the commands share: the console, their options, files, and how they refuse."""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import numpy as np
import typer
from rich.console import Console

from slgh.method import METHODS
from slgh.problems import PROBLEMS

console = Console(highlight=False)

STDOUT = Path("-")
"""The name that stands for standard output in --json."""


class Refused(Exception):
    """Bad input: one line on standard error, with the remedy, and exit code 2."""


def fail(message: str) -> NoReturn:
    """End the command: one line on standard error, exit code 2."""
    raise Refused(message)


def complete_methods(incomplete: str) -> list[tuple[str, str]]:
    """Names of methods for the shell."""
    return [(name, recipe.about) for name, recipe in METHODS.items() if name.startswith(incomplete)]


def complete_problems(incomplete: str) -> list[str]:
    """Names of test problems for the shell."""
    return [name for name in PROBLEMS if name.startswith(incomplete)]


JsonFile = Annotated[
    Path | None,
    typer.Option(
        "--json", metavar="FILE", help="Write what was printed to this file, for programs; - is standard output."
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print only the essentials, for scripts.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
"""Declared by every command, and read by `slgh.cli.errors`."""


def write_json(file: Path | None, found: Any) -> None:
    """Write what a command found; numbers that are not finite are null, which JSON has no other word for."""
    if file is None:
        return
    text = as_json(found)
    if file == STDOUT:
        sys.stdout.write(text)
        return
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        fail(f"--json: {file} cannot be written: {error.strerror}.")


def as_json(value: Any) -> str:
    """A file for programs that people can read too: lists of numbers stand in one line."""
    return _lines(plain(value), "\n") + "\n"


def _lines(value: Any, new_line: str) -> str:
    deeper = new_line + " "
    if isinstance(value, dict) and value:
        parts = [f"{json.dumps(name)}: {_lines(each, deeper)}" for name, each in value.items()]
        return f"{{{deeper}{f',{deeper}'.join(parts)}{new_line}}}"
    if isinstance(value, list) and any(isinstance(each, list | dict) for each in value):
        return f"[{deeper}{f',{deeper}'.join(_lines(each, deeper) for each in value)}{new_line}]"
    return json.dumps(value, allow_nan=False)


def plain(value: Any) -> Any:
    """A value as JSON knows it.

    >>> plain({"x": np.array([1.0, np.nan]), "n": np.int64(3)})
    {'x': [1.0, None], 'n': 3}
    """
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def shorten(text: str, most: int) -> str:
    """The beginning of a long text.

    >>> shorten("x + y + z", 8)
    'x + y...'
    """
    return text if len(text) <= most else f"{text[: most - 3]}..."


def refuse_unwritable(file: Path | None, option: str = "--json") -> None:
    """Fail before the work and not after it."""
    if file is None or file == STDOUT:
        return
    if file.is_dir():
        why = "it is a folder"
    elif not file.parent.is_dir():
        why = f"{file.parent} is no folder"
    elif not os.access(file if file.exists() else file.parent, os.W_OK):
        why = "it is write-protected"
    else:
        return
    fail(f"{option}: {file} cannot be written: {why}.")
