"""Destinations of results: the terminal, a JSON file, a picture, a folder."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console

from slgh.cli.errors import Unwritten, complain, fail, printable
from slgh.cli.options import AttackOptions, CommonOptions, MinimizeOptions
from slgh.files import to_json, write_text

console = Console(highlight=False)

STDOUT = Path("-")
"""The name of standard output in --json."""

IMAGE_SUFFIXES = (".png", ".svg", ".pdf")
PAGE_SUFFIX = ".html"

LABEL = 10
"""Width of the column of labels."""

PATIENCE = 3.0
"""Seconds that the user's function may take for a picture that was not asked for."""

PATIENCE_IF_ASKED = 30.0
"""Seconds that the user's function may take for a picture that was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Destinations of the results of a command."""

    json: Path | None
    quiet: bool
    plot: Path | None = None
    """The picture's file, or None for none."""
    asked: bool = False
    """True if the picture was asked for, and is not the default one."""
    out: Path | None = None
    history: bool = False

    @property
    def prints(self) -> bool:
        """True if standard output is for a reader, and not left to JSON or to the one line of --quiet."""
        return not (self.quiet or self.json == STDOUT)

    @property
    def prints_line(self) -> bool:
        """True if standard output is for the one line of --quiet."""
        return self.quiet and self.json != STDOUT

    @property
    def patience(self) -> float:
        """Seconds that the user's function may take for a picture."""
        return PATIENCE_IF_ASKED if self.asked else PATIENCE

    @property
    def shows_progress(self) -> bool:
        """True if there is someone to look at a bar."""
        return not self.quiet and sys.stderr.isatty()

    def reserved(self) -> AbstractContextManager[object]:
        """Keep what the user's code prints away from the figures that a program reads."""
        return nullcontext() if self.prints else redirect_stdout(sys.stderr)

    def draw(self, write: Callable[[Path], str]) -> str:
        """Return what `write` has drawn into the picture's file, or why there is no picture.

        A picture that was not asked for may fail: that is no reason to lose the result.
        """
        assert self.plot is not None
        try:
            with self.reserved():
                return write(self.plot)
        except Exception as error:
            why = " ".join(str(error).split()).rstrip(".")
            if self.asked:
                raise Unwritten(f"--plot: {self.plot} was not drawn: {why}.") from error
            return f"nothing: {why}."


def read_output(options: CommonOptions) -> Output:
    """Check that the JSON file can be written, before the work and not after it."""
    refuse_unwritable(options.json)
    return Output(json=options.json, quiet=options.quiet)


def read_picture(
    options: MinimizeOptions | AttackOptions, default: Path, suffixes: Sequence[str], out: Path | None = None
) -> Output:
    """Check where things go before the run, and choose the default picture."""
    refuse_unwritable(options.json)
    if options.history and options.json is None and out is None:
        more = " or --out FOLDER" if isinstance(options, AttackOptions) else ""
        fail(f"--history goes with --json FILE{more}, which it is written to.")
    plot = options.plot
    if plot is not None and options.no_plot:
        fail("Pass one of --plot and --no-plot.")
    refuse_undrawable(plot, suffixes)
    unasked = out is not None or not (options.quiet or options.json == STDOUT)
    if plot is None and unasked and not options.no_plot and find_spec("matplotlib") is not None:
        plot = default
    asked = options.plot is not None
    return Output(json=options.json, quiet=options.quiet, plot=plot, asked=asked, out=out, history=options.history)


def refuse_undrawable(plot: Path | None, suffixes: Sequence[str] = IMAGE_SUFFIXES) -> None:
    """Refuse a picture of an unknown kind, in a folder that is not there, or without the libraries that draw."""
    if plot is None:
        return
    suffix = plot.suffix.lower()
    if suffix not in suffixes:
        fail(f"--plot must end in {', '.join(suffixes[:-1])} or {suffixes[-1]}, got {str(plot)!r}.")
    refuse_unwritable(plot, "--plot")
    needed = ("matplotlib", *(("jinja2", "plotly") if suffix == PAGE_SUFFIX else ()))
    if missing := [name for name in needed if find_spec(name) is None]:
        fail(f'--plot needs {" and ".join(missing)}: pip install "slgh[plot]".')


def refuse_unwritable(file: Path | None, option: str = "--json") -> None:
    """Refuse a file that cannot be written, before the work and not after it."""
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


@contextmanager
def writing(option: str, place: Path) -> Iterator[None]:
    """Say in one line that a file or a folder could not be written after all."""
    try:
        yield
    except OSError as error:
        raise Unwritten(f"{option}: {place} cannot be written: {error.strerror}.") from error


def write_json(file: Path | None, found: Any) -> None:
    """Write the results of a command for programs."""
    if file == STDOUT:
        sys.stdout.write(to_json(found))
    elif file is not None:
        with writing("--json", file):
            write_text(file, to_json(found))


def show(label: str, text: str, *, unbroken: bool = False, style: str | None = None, width: int = LABEL) -> None:
    """Print a labeled text. Unbroken ones keep their lines, so that they can be copied."""
    if not unbroken:
        text = textwrap.fill(text, max(console.width - width - 1, 30), break_on_hyphens=False)
    first, *others = printable(text).split("\n")
    console.print(f"{label:<{width}}", style=style or "bold", end="", soft_wrap=True)
    for line in (first, *(" " * width + line for line in others)):
        console.print(line, style=style, markup=False, soft_wrap=True)


def show_note(text: str, output: Output) -> None:
    """Print a line on standard error, unless --quiet is given."""
    if not output.quiet:
        complain(text)
