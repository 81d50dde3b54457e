"""The command `minimize`."""

from __future__ import annotations

import dataclasses
import secrets
from typing import Any

from slgh.cli.drawing import draw
from slgh.cli.errors import exit_code
from slgh.cli.options import MinimizeOptions
from slgh.cli.output import (
    IMAGE_SUFFIXES,
    MAX_DRAWING_SECONDS,
    PAGE_SUFFIX,
    Output,
    console,
    read_run_output,
    show,
    show_note,
    write_json,
)
from slgh.cli.problem import read_problem
from slgh.cli.report import as_dict, how_to_resume, notes, repeat, summary
from slgh.cli.run import FinishedRun, RunSpec, choose_history, limits_of, read_params, run
from slgh.cli.run_folder import KeptRun, read_folder, run_in_folder
from slgh.cli.workers import SERVED, open_named


def minimize(options: MinimizeOptions) -> int:
    """Minimize the problem, and print, write and draw the result."""
    with open_named(options.workers) as workers:
        return 0 if workers is SERVED else _minimize(options, workers)


def _minimize(options: MinimizeOptions, workers: Any) -> int:
    """Minimize the problem with these workers."""
    output = read_run_output(options, (*IMAGE_SUFFIXES, PAGE_SUFFIX))
    params = read_params(options)
    kept = read_folder(options)
    for remark in () if kept is None else kept.renamed:
        show_note(remark, output)
    with output.reserved():
        problem = read_problem(options)
    limits = limits_of(options, params, problem.d)
    spec = RunSpec(
        options=_with_seed(options, kept),
        params=params,
        problem=problem,
        workers=workers,
        history=choose_history(problem.d, limits, path=output.plot is not None) if kept is None else kept.history,
    )
    with output.reserved():
        if options.run is None:
            finished = run(spec, progress=output.shows_progress)
        else:
            finished = run_in_folder(spec, kept, progress=output.shows_progress)
    if kept is not None and kept.finished and output.prints:
        console.print("This run was already complete. Its result:", style="dim")
    return report(finished, output)


def _with_seed(options: MinimizeOptions, kept: KeptRun | None) -> MinimizeOptions:
    """Return the options with a seed: the given one, that of the stored run, or a new one."""
    if options.seed is not None:
        return options
    return dataclasses.replace(options, seed=secrets.randbits(32) if kept is None else kept.seed)


def report(finished: FinishedRun, output: Output) -> int:
    """Print, write and draw the result. Return the exit code."""
    result = finished.result
    if output.prints_line:
        print(repr(float(result.fun)), *map(repr, result.x.tolist()))
    elif output.prints:
        for label, text in summary(finished):
            show(label, text)
        for text in notes(finished):
            show("note", text, style="dim")
        show("again", repeat(finished), unbroken=True)
    write_json(output.json, as_dict(finished, history=output.history))
    if output.plot is not None:
        drawn = output.draw(lambda file: draw(finished, file, summary(finished), MAX_DRAWING_SECONDS))
        if output.prints:
            show("drawn", drawn, unbroken=True)
    if hint := how_to_resume(finished):
        show_note(hint, output)
    return exit_code(result.status)
