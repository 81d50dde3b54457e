"""The command `resume`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

from slgh.cli import folder
from slgh.cli.common import Debug, JsonFile, Quiet, console, fail
from slgh.cli.errors import OPTIONS
from slgh.cli.job import Job
from slgh.cli.objective import read_objective
from slgh.cli.options import LIMITS, NoPlot, PlotFile, WithHistory, count, number
from slgh.cli.outcome import with_options, without
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
    """
    found = folder.read(run)
    no_plot = no_plot or (plot is None and _began_without_plot(found))
    output = read_output(json_file, history, plot, no_plot, quiet)
    limits = {"max_evals": max_evals, "max_iter": max_iter, "max_seconds": max_seconds, "target": target}
    changes = {name: value for name, value in limits.items() if value is not None}
    if str(found["command"]) not in RESUMED:
        fail(f"{run} holds a run of slgh {found['command']}, which cannot be resumed.")
    raise typer.Exit(RESUMED[found["command"]](run, found, changes, output))


def resume_minimize(place: Path, found: dict[str, Any], changes: dict[str, Any], output: Output) -> int:
    """Go on with a run of `slgh minimize`; returns the exit code."""
    before = folder.read_job(place, found)
    job = dataclasses.replace(before, **changes, typed=_retyped(before, changes))
    ended = Status.__members__.get(str(found.get("ended")), Status.RUNNING)
    if changes and ended in FOR_GOOD:
        fail(f"The run in {place} has ended for good ({ended.message.rstrip('.').lower()}): start another from its x.")
    if not changes and (ended.success or ended in FOR_GOOD) and not (output.quiet or output.silent):
        console.print("This run had finished. Its result again:", style="dim")
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
    return tell(outcome, output, run=place)


def _began_without_plot(found: dict[str, Any]) -> bool:
    job = found.get("job")
    return isinstance(job, dict) and job.get("no_plot") is True


def _retyped(job: Job, changes: dict[str, Any]) -> tuple[str, ...]:
    """The command line with the changed limits."""
    options = {OPTIONS[name]: str(value) for name, value in changes.items()}
    kept = without(job.typed, dict.fromkeys(options, True))
    return tuple(with_options(kept, [word for option in options.items() for word in option]))


RESUMED = {"minimize": resume_minimize}
"""What goes on with a run, by the command that wrote it: (folder, run.json, changed limits, output) -> exit code."""
