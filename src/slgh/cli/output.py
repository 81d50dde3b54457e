"""Output of results: the terminal, a JSON file, a picture, a folder."""

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

from slgh.cli.errors import Unwritten, fail, print_message, printable
from slgh.cli.options import AttackOptions, CommonOptions, MinimizeOptions, PlotOptions
from slgh.files import to_json, write_text

console = Console(highlight=False)

STDOUT = Path("-")
"""Name of standard output in --json."""

IMAGE_SUFFIXES = (".png", ".svg", ".pdf")
PAGE_SUFFIX = ".html"

LABEL = 10
"""Width of the column of labels."""

MAX_DRAWING_SECONDS = 30.0
"""Time limit for evaluations of the user's function that are only needed for a picture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Files that a command writes, and what it prints."""

    json: Path | None
    quiet: bool
    plot: Path | None = None
    """File of the picture. None: nothing is drawn."""
    requested: bool = False
    """True for a picture of --plot, False for one of --out."""
    out: Path | None = None
    history: bool = False

    @property
    def prints(self) -> bool:
        """True if standard output is for a reader, and not for JSON or for the line of --quiet."""
        return not (self.quiet or self.json == STDOUT)

    @property
    def prints_line(self) -> bool:
        """True if standard output is for the line of --quiet."""
        return self.quiet and self.json != STDOUT

    @property
    def shows_progress(self) -> bool:
        """True if a progress bar is shown."""
        return not self.quiet and sys.stderr.isatty()

    def reserved(self) -> AbstractContextManager[object]:
        """Redirect what the user's code prints to standard error if a program reads standard output."""
        return nullcontext() if self.prints else redirect_stdout(sys.stderr)

    def draw(self, write: Callable[[Path], str]) -> str:
        """Draw the picture by calling `write`, and return its description, or the reason why there is none.

        Only a picture of --plot that cannot be drawn is an error.
        """
        assert self.plot is not None
        try:
            with self.reserved():
                return write(self.plot)
        except Exception as error:
            why = " ".join(str(error).split()).rstrip(".")
            if self.requested:
                raise Unwritten(f"--plot: {self.plot} was not drawn: {why}.") from error
            return f"nothing: {why}."


def read_output(options: CommonOptions) -> Output:
    """Check that the JSON file can be written. This happens before the work, and not after it."""
    refuse_unwritable(options.json)
    return Output(json=options.json, quiet=options.quiet)


def read_run_output(
    options: MinimizeOptions | AttackOptions, suffixes: Sequence[str], out: Path | None = None, picture: str = ""
) -> Output:
    """Check all files before the run. Without --plot, the picture is the file `picture` in the folder `out`, if any."""
    refuse_unwritable(options.json)
    if options.history and options.json is None and out is None:
        more = " or --out FOLDER" if isinstance(options, AttackOptions) else ""
        fail(f"--history needs a file to write to. Pass --json FILE{more}.")
    plot = read_plot(options, suffixes)
    requested = plot is not None
    if plot is None and out is not None and find_spec("matplotlib") is not None:
        plot = out / picture
    return Output(
        json=options.json, quiet=options.quiet, plot=plot, requested=requested, out=out, history=options.history
    )


def read_plot(options: PlotOptions, suffixes: Sequence[str] = IMAGE_SUFFIXES) -> Path | None:
    """Return the file of --plot. Refuse one that exists or cannot be written, or if a library is missing."""
    plot = options.plot
    if plot is None:
        return None
    suffix = plot.suffix.lower()
    if suffix not in suffixes:
        fail(f"--plot must end in {', '.join(suffixes[:-1])} or {suffixes[-1]}, got {str(plot)!r}.")
    refuse_unwritable(plot, "--plot")
    needed = ("matplotlib", *(("jinja2", "plotly") if suffix == PAGE_SUFFIX else ()))
    if missing := [name for name in needed if find_spec(name) is None]:
        fail(f'--plot needs {" and ".join(missing)}. Install: pip install "slgh[plot]".')
    if plot.exists() and not options.overwrite:
        fail(f"--plot: {plot} exists. Pass --overwrite to replace it, or choose another file.")
    return plot


def refuse_unwritable(file: Path | None, option: str = "--json") -> None:
    """Refuse a file that cannot be written, before the work and not after it."""
    if file is None or file == STDOUT:
        return
    if file.is_dir():
        why = "it is a folder"
    elif not file.parent.is_dir():
        why = f"{file.parent} is not a folder"
    elif not os.access(file if file.exists() else file.parent, os.W_OK):
        why = "it is write-protected"
    else:
        return
    fail(f"{option}: {file} cannot be written: {why}.")


def make_out_folder(folder: Path) -> None:
    """Create the folder of --out."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fail(f"--out: {folder} cannot be created: {error.strerror}.")
    if not os.access(folder, os.W_OK):
        fail(f"--out: {folder} is write-protected.")


@contextmanager
def writing(option: str, place: Path) -> Iterator[None]:
    """Turn an OSError into an error about this option and file or folder."""
    try:
        yield
    except OSError as error:
        raise Unwritten(f"{option}: {place} cannot be written: {error.strerror}.") from error


def write_json(file: Path | None, found: Any) -> None:
    """Write the results of a command as JSON."""
    if file == STDOUT:
        sys.stdout.write(to_json(found))
    elif file is not None:
        with writing("--json", file):
            write_text(file, to_json(found))


def show(label: str, text: str, *, unbroken: bool = False, style: str | None = None, width: int = LABEL) -> None:
    """Print a labeled text. Unbroken text is not wrapped, so that it can be copied."""
    if not unbroken:
        text = textwrap.fill(text, max(console.width - width - 1, 30), break_on_hyphens=False)
    first, *others = printable(text).split("\n")
    console.print(f"{label:<{width}}", style=style or "bold", end="", soft_wrap=True)
    for line in (first, *(" " * width + line for line in others)):
        console.print(line, style=style, markup=False, soft_wrap=True)


def show_note(text: str, output: Output) -> None:
    """Print a note on standard error, unless --quiet is given."""
    if not output.quiet:
        print_message("note", text)
