"""What the commands share: the console, their options, files, and how they refuse."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from slgh.files import to_json, write_text
from slgh.method import METHODS
from slgh.problems import PROBLEMS

console = Console(highlight=False)

STDOUT = Path("-")
"""The name that stands for standard output in --json."""


class Refused(Exception):
    """Bad input: one line on standard error, with the remedy, and exit code 2."""


class Unwritten(Exception):
    """A file could not be written after all, on a full disk, say: one line on standard error, and exit code 1."""


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
    """Write what a command found."""
    if file == STDOUT:
        sys.stdout.write(to_json(found))
    elif file is not None:
        try:
            write_text(file, to_json(found))
        except OSError as error:
            raise Unwritten(f"--json: {file} cannot be written: {error.strerror}.") from error


def printable(text: str) -> str:
    """Escape what could move the cursor, change colors or reorder text on a terminal; line breaks stay.

    >>> printable("x\\x1b[2J")
    'x\\\\x1b[2J'
    """
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


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


def make_out_folder(folder: Path) -> None:
    """Make the folder of --out, or refuse."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fail(f"--out: {folder} cannot be made: {error.strerror}.")
    if not os.access(folder, os.W_OK):
        fail(f"--out: {folder} is write-protected.")
