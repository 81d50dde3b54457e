"""Where the outcome of a run goes: the terminal, a JSON file, a picture."""

from __future__ import annotations

import shlex
import sys
import textwrap
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from slgh.cli.common import STDOUT, Unwritten, console, fail, printable, refuse_unwritable, write_json
from slgh.cli.drawing import SUFFIXES, Undrawn, draw, needs
from slgh.cli.job import Outcome
from slgh.cli.outcome import as_dict, exit_code, notes, repeat, summary
from slgh.result import Status

DEFAULT_PICTURE = Path("slgh-path.png")

LABEL = 10
"""The width of the column of labels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Where the outcome goes."""

    json: Path | None = None
    history: bool = False
    plot: Path | None = None
    quiet: bool = False

    @property
    def silent(self) -> bool:
        """Whether standard output is left to JSON."""
        return self.json == STDOUT

    @property
    def patience(self) -> float:
        """How many seconds the user's function may take for a picture: fewer for one that was not asked for."""
        return 3.0 if self.plot == DEFAULT_PICTURE else 30.0

    def reserved(self) -> AbstractContextManager[object]:
        """Around the user's code: what it prints must not come between the figures that a program reads."""
        return redirect_stdout(sys.stderr) if self.silent or self.quiet else nullcontext()

    @property
    def shows_progress(self) -> bool:
        """Whether there is someone to look at a bar."""
        return not self.quiet and sys.stderr.isatty()


def read_output(json: Path | None, history: bool, plot: Path | None, no_plot: bool, quiet: bool) -> Output:
    """Check where things go before the run, and choose the default picture."""
    refuse_unwritable(json)
    if history and json is None:
        fail("--history goes with --json FILE, which it is written to.")
    if plot is not None:
        if no_plot:
            fail("Pass one of --plot and --no-plot.")
        if plot.suffix.lower() not in SUFFIXES:
            fail(f"--plot must end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}, got {str(plot)!r}.")
        refuse_unwritable(plot, "--plot")
        needs("matplotlib", *(("jinja2", "plotly") if plot.suffix.lower() == ".html" else ()))
    elif not (no_plot or quiet or json == STDOUT) and find_spec("matplotlib") is not None:
        plot = DEFAULT_PICTURE
    return Output(json=json, history=history, plot=plot, quiet=quiet)


def tell(outcome: Outcome, output: Output, *, run: Path | None = None) -> int:
    """Print, write and draw the outcome; returns the exit code."""
    result = outcome.result
    if output.quiet:
        if not output.silent:
            print(repr(float(result.fun)), *map(repr, result.x.tolist()))
    elif not output.silent:
        for label, text in summary(outcome):
            show(label, text)
        for text in notes(outcome):
            show("note", text, style="dim")
        show("again", repeat(outcome), whole=True)
    write_json(output.json, as_dict(outcome, history=output.history))
    if output.plot is not None:
        try:
            with output.reserved():
                drawn = draw(outcome, output.plot, summary(outcome), output.patience)
        except Undrawn as error:
            drawn = f"nothing: {error}"
            if output.plot != DEFAULT_PICTURE:
                raise Unwritten(f"--plot: {output.plot} was not drawn: {error}.") from error
        if not (output.quiet or output.silent):
            show("drawn", drawn, whole=True)
    hint = go_on(outcome, run)
    if hint and not output.quiet:
        print(f"slgh: {printable(hint)}", file=sys.stderr)
    return exit_code(result.status)


def show(label: str, text: str, *, whole: bool = False, style: str | None = None, width: int = LABEL) -> None:
    """One line of the block, or several; `whole` ones are not broken, so that they can be copied."""
    if not whole:
        text = textwrap.fill(text, max(console.width - width - 1, 30), break_on_hyphens=False)
    first, *others = printable(text).split("\n")
    console.print(f"{label:<{width}}", style=style or "bold", end="", soft_wrap=True)
    for line in (first, *(" " * width + line for line in others)):
        console.print(line, style=style, markup=False, soft_wrap=True)


def go_on(outcome: Outcome, run: Path | None) -> str:
    """How a run that did not come to its end can go on."""
    status = outcome.result.status
    if status == Status.INTERRUPTED:
        if run is None:
            return "interrupted. With --run FOLDER, slgh resume FOLDER could go on from here."
        return f"interrupted. It goes on with: {_resume(outcome, run)}"
    if run is not None and status in (Status.MAX_EVALS, Status.MAX_SECONDS):
        option = "--max-evals" if status == Status.MAX_EVALS else "--max-seconds"
        return f"cut short. It goes on with: {_resume(outcome, run)} {option} MORE"
    return ""


def _resume(outcome: Outcome, run: Path) -> str:
    """Return the command that resumes a run. Python code is named again: resume imports none that a folder names."""
    source = outcome.job.source
    code = {"--fun": source.fun, "--grad": source.grad}
    named = [word for option, name in code.items() if name is not None for word in (option, name)]
    return shlex.join(["slgh", "resume", str(run), *named])
