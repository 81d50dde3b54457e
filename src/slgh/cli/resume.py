"""The command `resume`."""

from __future__ import annotations

import dataclasses
import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from slgh.cli import folder, run_file
from slgh.cli.common import Debug, JsonFile, Quiet, console, fail, printable, shorten
from slgh.cli.errors import OPTIONS
from slgh.cli.job import Job
from slgh.cli.objective import read_objective
from slgh.cli.options import FUNCTION, LIMITS, NoPlot, PlotFile, WithHistory, count, number
from slgh.cli.outcome import with_options, with_values, without
from slgh.cli.output import Output, read_output, tell
from slgh.engine.checkpoint import OtherRun
from slgh.result import Status

FOR_GOOD = (Status.TARGET, Status.NONFINITE)
"""How a run ends so that no larger limit makes it go on."""


def resume(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder that --run kept the run in.")],
    max_evals: Annotated[
        int | None, count("--max-evals", "N", "Another limit, earlier sittings included.", LIMITS)
    ] = None,
    max_iter: Annotated[int | None, count("--max-iter", "N", "Likewise.", LIMITS)] = None,
    max_seconds: Annotated[float | None, number("--max-seconds", "SECONDS", "Likewise.", LIMITS)] = None,
    target: Annotated[float | None, number("--target", "F", "Another target.", LIMITS)] = None,
    fun: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The Python function, for a run made with --fun.", rich_help_panel=FUNCTION),
    ] = None,
    grad: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Its gradient, for a run made with --grad.", rich_help_panel=FUNCTION),
    ] = None,
    workers: Annotated[
        int | None,
        count("--workers", "N", "Another number of processes; by default as before, at most one per core.", FUNCTION),
    ] = None,
    plot: PlotFile = None,
    no_plot: NoPlot = False,
    json_file: JsonFile = None,
    history: WithHistory = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Go on with a run that was killed, interrupted or cut short, to the same result bit for bit.

    Limits may be changed where the method does not plan by them: auto and scale_free spend exactly their evaluations,
    so that only --max-seconds and --target can be changed. A run that began with --no-plot draws nothing now either,
    unless --plot is given. xhat, which is drawn from the iterations first planned, stays drawn from those.

    A run made with --fun, and --grad, is resumed with these options again: slgh imports no code that a folder names.
    """
    found = run_file.read(run)
    no_plot = no_plot or (plot is None and _began_without_plot(found))
    output = read_output(json_file, history, plot, no_plot, quiet)
    limits = {"max_evals": max_evals, "max_iter": max_iter, "max_seconds": max_seconds, "target": target}
    changes = {name: value for name, value in limits.items() if value is not None}
    if found["command"] not in RESUMED:
        fail(f"{run} holds a run of slgh {shorten(found['command'], 80)}, which cannot be resumed.")
    code = Code(fun=fun, grad=grad, workers=workers)
    raise typer.Exit(RESUMED[found["command"]](run, found, code, changes, output))


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """The Python code of a run, as the user names it now. The folder is not trusted to name it."""

    fun: str | None
    grad: str | None
    workers: int | None


def resume_minimize(place: Path, found: dict[str, Any], code: Code, changes: dict[str, Any], output: Output) -> int:
    """Go on with a run of `slgh minimize`; returns the exit code."""
    before = run_file.read_job(place, found)
    job = dataclasses.replace(before, **changes, typed=_retyped(before, changes))
    job = _with_code(job, code, place, output)
    ended = Status.__members__.get(str(found.get("ended")), Status.RUNNING)
    if changes and ended in FOR_GOOD:
        fail(f"The run in {place} has ended for good ({ended.message.rstrip('.').lower()}): start another from its x.")
    try:
        with output.reserved():
            objective = read_objective(job.source)
            outcome = folder.keep(place, job, objective, progress=output.shows_progress, before=found)
    except OtherRun:
        if changes:
            named = " and ".join(OPTIONS[name] for name in changes)
            fail(
                f"{named}: this run of {before.method} plans by the limits that it began with; start another run for "
                "other ones."
            )
        raise
    if not changes and (ended.success or ended in FOR_GOOD) and not (output.quiet or output.silent):
        console.print("This run had finished. Its result again:", style="dim")
    return tell(outcome, output, run=place)


def _began_without_plot(found: dict[str, Any]) -> bool:
    job = found.get("job")
    return isinstance(job, dict) and job.get("no_plot") is True


def _with_code(job: Job, code: Code, place: Path, output: Output) -> Job:
    """Return the job with the code that the user names, which is looked for from the current folder."""
    recorded = {"--fun": job.source.fun, "--grad": job.source.grad}
    given = {"--fun": code.fun, "--grad": code.grad}
    if any(name is not None and given[option] is None for option, name in recorded.items()):
        options = shlex.join(word for option, name in recorded.items() if name is not None for word in (option, name))
        fail(
            f"This run was made with {options}. Pass {options} to resume it: slgh does not import code that a folder "
            "names."
        )
    for option, name in given.items():
        if name is not None and recorded[option] is None:
            fail(f"{option}: the run in {place} was made without {option}. Leave it out.")
        if name != recorded[option]:
            _note(f"this run was made with {option} {recorded[option]} and goes on with {option} {name}.", output)
    source = dataclasses.replace(job.source, fun=code.fun, grad=code.grad, folder=os.getcwd())
    typed = with_values(job.typed, given)
    workers = job.workers
    if code.workers is not None:
        workers = code.workers
        typed = with_options(without(typed, {"--workers": True}), ["--workers", str(workers)])
    elif code.fun is not None and workers is not None and workers > (cores := os.cpu_count() or 1):
        # A folder must not start any number of processes. How many there are does not change the result.
        _note(f"{workers} workers were asked for; {cores} are started, one per core. Pass --workers for more.", output)
        workers = cores
    return dataclasses.replace(job, source=source, workers=workers, typed=tuple(typed))


def _note(text: str, output: Output) -> None:
    if not output.quiet:
        print(f"slgh: {printable(text)}", file=sys.stderr)


def _retyped(job: Job, changes: dict[str, Any]) -> tuple[str, ...]:
    """The command line with the changed limits."""
    options = {OPTIONS[name]: str(value) for name, value in changes.items()}
    kept = without(job.typed, dict.fromkeys(options, True))
    return tuple(with_options(kept, [word for option in options.items() for word in option]))


RESUMED = {"minimize": resume_minimize}
"""Functions that resume a run, by the command that wrote it:
(folder, run.json, code, changed limits, output) -> exit code."""
