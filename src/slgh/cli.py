"""The command line."""

from __future__ import annotations

import dataclasses
import inspect
import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from slgh import __version__
from slgh.method import METHODS, SLOTS
from slgh.result import Status

app = typer.Typer(
    help="Non-convex optimisation by single loop Gaussian homotopy.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
console = Console()

JsonFile = Annotated[Path | None, typer.Option("--json", help="Write what was printed to this file, for programs.")]


@app.callback(invoke_without_command=True)
def main(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    """Non-convex optimisation by single loop Gaussian homotopy."""
    if version:
        console.print(__version__)
        raise typer.Exit


@app.command()
def methods(json_file: JsonFile = None) -> None:
    """List the methods as compositions of parts, and the parts with their equations."""
    table = Table(title="Methods: oracle x schedule x update", box=box.SIMPLE_HEAD)
    for heading in ("method", "composition", "needs", "what it is"):
        table.add_column(heading, no_wrap=heading in ("method", "needs"))
    for name, recipe in METHODS.items():
        composition = f"{recipe.oracle} x {recipe.schedule} x {recipe.update}"
        table.add_row(name, composition, ", ".join(_required(name)) or "-", recipe.about)
    console.print(table)
    console.print("What a method needs has no default, because the right value depends on the function.", style="dim")
    for slot, parts in SLOTS.items():
        console.print(f"\n[bold]{slot}[/bold]")
        for name, part in parts.items():
            summary, equation = _summary(part)
            console.print(f"  [cyan]{name}[/cyan]({_signature(part)}): {summary}", highlight=False, soft_wrap=True)
            for line in equation:
                console.print(f"      {line}", highlight=False, markup=False, soft_wrap=True)
    console.print("\nhelp(slgh.oracles.Forward) and its like explain the fields.", style="dim")
    _write(
        json_file,
        {
            n: {"oracle": r.oracle, "schedule": r.schedule, "update": r.update, "needs": _required(n), "about": r.about}
            for n, r in METHODS.items()
        },
    )


@app.command()
def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="rosenbrock, himmelblau, ackley, hole (the default), complexity, error_tolerance; or all of them: all."
        ),
    ] = None,
    json_file: JsonFile = None,
    figures: Annotated[Path | None, typer.Option(help="Draw the studies into this folder.")] = None,
) -> None:
    """Run the paper's experiments and print our figures beside the printed ones."""
    from slgh.reproduce import EXPERIMENTS, STUDIES

    known = [*EXPERIMENTS, *STUDIES]
    chosen = names or list(EXPERIMENTS)
    chosen = known if "all" in chosen else chosen
    unknown = [n for n in chosen if n not in known]
    if unknown:
        _fail(f"There is no experiment {unknown[0]!r}; choose from {', '.join(known)}, all.")
    _refuse_unwritable(json_file)
    if figures is not None:
        _make_folder(figures)
        if find_spec("matplotlib") is None:
            _fail('--figures needs matplotlib: pip install "slgh[plot]".')
    found: dict[str, Any] = {}
    try:
        with Progress(console=console, transient=True) as progress:
            task = progress.add_task("", total=len(chosen))
            for name in chosen:
                progress.update(task, description=name)
                if name in EXPERIMENTS:
                    found[name] = _run_experiment(EXPERIMENTS[name], progress)
                else:
                    found[name] = _run_study(STUDIES[name], progress, figures)
                progress.advance(task)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    _write(json_file, found)


def _run_experiment(experiment: Any, progress: Progress) -> list[dict[str, Any]]:
    """The rows of one table of the paper, printed, and for a program."""
    from slgh.reproduce.experiment import run_row

    outcomes = []
    for row in progress.track(experiment.rows, description=experiment.name):
        outcome = run_row(experiment, row)
        if (outcome.result.status == Status.INTERRUPTED).any():
            raise KeyboardInterrupt
        outcomes.append(outcome)
    progress.console.print(_table(experiment, outcomes))
    return [
        {"row": o.row.label, "paper": [*o.row.x, o.row.fun], "x": o.x.tolist(), "fun": o.fun, "verdict": o.verdict}
        for o in outcomes
    ]


def _run_study(study: Any, progress: Progress, figures: Path | None) -> Any:
    """The parts of a study, what they tell, printed, drawn, and for a program."""
    jobs, measured = study.jobs(), []
    task = progress.add_task(study.name, total=len(jobs))
    for label, job in jobs:
        progress.update(task, description=label)
        measured += job()
        progress.advance(task)
    found = study.conclude(measured)
    table = Table(title=study.title, box=box.SIMPLE_HEAD)
    for heading in study.headings:
        table.add_column(heading, overflow="fold")
    for row in found.rows():
        table.add_row(*row)
    progress.console.print(table)
    progress.console.print(found.note, style="dim", highlight=False)
    if figures is not None:
        file = figures / f"{study.name}.png"
        try:
            study.plot(found, file)
        except OSError as error:  # no reason to lose what was measured
            progress.console.print(f"Not drawn: {error}")
        else:
            progress.console.print(f"Drawn: {file}")
    return found.as_dict()


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _fail(f"--figures: {folder} cannot be made: {error.strerror}.")


def _table(experiment: Any, outcomes: list[Any]) -> Table:
    """The paper's table with ours beside it."""
    over = "" if experiment.closed_form else f"; ours: median and 95 % interval over {experiment.seeds} seeds"
    table = Table(title=experiment.title + over)
    for heading in ("method", "paper (x, y)", "paper f", "ours (x, y)", "ours f", "verdict"):
        table.add_column(heading, overflow="fold")
    for o in outcomes:
        middle, low, high = o.fun
        value = f"{middle:.4g}" if experiment.closed_form else f"{middle:.4g}  [{low:.3g}, {high:.3g}]"
        verdict = o.verdict if not o.row.remark else f"{o.verdict}: {o.row.remark}"
        point = ", ".join(f"{v:.4g}" for v in o.x)
        table.add_row(o.row.label, ", ".join(o.row.x), o.row.fun, point, value.replace("[", r"\["), verdict)
    return table


def _required(name: str) -> list[str]:
    """The parameters without a default."""
    recipe = METHODS[name]
    parts = (SLOTS[slot][getattr(recipe, slot)] for slot in SLOTS)
    fields = (f for part in parts for f in dataclasses.fields(part))
    return [f.name for f in fields if f.default is dataclasses.MISSING and f.name not in recipe.defaults]


def _signature(part: Any) -> str:
    """The fields of a part with their defaults."""
    return ", ".join(
        f.name if f.default is dataclasses.MISSING else f"{f.name}={f.default!r}" for f in dataclasses.fields(part)
    )


def _summary(part: Any) -> tuple[str, list[str]]:
    """The first line of a part's docstring, and its equation."""
    lines = inspect.getdoc(part).splitlines()  # type: ignore[union-attr]
    start = next(i for i, line in enumerate(lines) if line.startswith(".. math::"))
    equation = [lines[start].removeprefix(".. math::").strip()]
    for line in lines[start + 1 :]:
        if line and not line.startswith(" "):
            break
        equation.append(line.strip())
    return lines[0], [line for line in equation if line]


def _write(file: Path | None, found: Any) -> None:
    if file is not None:
        try:
            file.write_text(json.dumps(found, indent=1) + "\n")
        except OSError as error:
            _fail(f"--json: {file} cannot be written: {error.strerror}.")


def _refuse_unwritable(file: Path | None) -> None:
    """Fail before the work and not after it."""
    if file is not None and (file.is_dir() or not file.parent.is_dir()):
        why = "it is a folder" if file.is_dir() else f"{file.parent} is no folder"
        _fail(f"--json: {file} cannot be written: {why}.")


def _fail(message: str) -> None:
    """One line on standard error, exit code 2."""
    print(f"slgh: {message}", file=sys.stderr)
    raise typer.Exit(2)
