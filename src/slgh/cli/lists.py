"""The commands that list what there is: `methods` and `problems`."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

from rich import box
from rich.table import Table

from slgh.cli.common import STDOUT, Debug, JsonFile, Quiet, console, refuse_unwritable, write_json
from slgh.method import METHODS, SLOTS
from slgh.problems import PROBLEMS, Problem

OF_THE_PAPER = ("ackley", "himmelblau", "hole", "rosenbrock")
"""Problems of the paper's experiments; their parameters are what it ran."""


def methods(json_file: JsonFile = None, quiet: Quiet = False, debug: Debug = False) -> None:
    """List the methods as compositions of parts, and the parts with their equations.

    With --quiet the names alone.
    """
    refuse_unwritable(json_file)
    if quiet and json_file != STDOUT:
        print("\n".join(METHODS))
    elif json_file != STDOUT:
        _print_methods()
    write_json(
        json_file,
        {
            n: {"oracle": r.oracle, "schedule": r.schedule, "update": r.update, "needs": _required(n), "about": r.about}
            for n, r in METHODS.items()
        },
    )


def _print_methods() -> None:
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
            console.print(f"  [cyan]{name}[/cyan]({_signature(part)}): {summary}", soft_wrap=True)
            for line in equation:
                console.print(f"      {line}", markup=False, soft_wrap=True)
    console.print("\nhelp(slgh.oracles.Forward) and its like explain the fields.", style="dim")


def problems(json_file: JsonFile = None, quiet: Quiet = False, debug: Debug = False) -> None:
    """List the test problems: their variables, start, minimum, closed form and parameters.

    With --quiet the names alone.
    """
    refuse_unwritable(json_file)
    known = {name: make() for name, make in PROBLEMS.items()}
    if quiet and json_file != STDOUT:
        print("\n".join(known))
    elif json_file != STDOUT:
        _print_problems(known)
    write_json(
        json_file,
        {
            name: {
                "d": problem.d,
                "any_d": _any_number(name),
                "x0": problem.x0,
                "minimum": problem.minimum,
                "minimizers": problem.minimizers,
                "closed_form": problem.smooth is not None,
                "gradient": problem.grad is not None,
                "parameters": dict(problem.parameters),
                "of_the_paper": name in OF_THE_PAPER,
            }
            for name, problem in known.items()
        },
    )


def _print_problems(known: dict[str, Problem]) -> None:
    table = Table(title="Test problems", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("problem", "variables", "start", "minimum", "closed form", "parameters"):
        table.add_column(heading, no_wrap=heading in ("problem", "variables", "start"), overflow="fold")
    for name, problem in known.items():
        table.add_row(
            name,
            f"{problem.d} or --d N" if _any_number(name) else str(problem.d),
            _point(problem.x0),
            _minimum(problem),
            "no" if problem.smooth is None else "yes",
            ", ".join(f"{n} {v:.3g}" if isinstance(v, float) else f"{n} {v}" for n, v in problem.parameters.items()),
        )
    console.print(table)
    console.print(
        f"Run one with slgh minimize NAME. The parameters of {', '.join(OF_THE_PAPER)} are those of the paper's "
        "experiments: slgh reproduce.",
        style="dim",
    )


def _minimum(problem: Problem) -> str:
    """The value, and where it is attained."""
    value = f"{problem.minimum:.6g}"
    if not len(problem.minimizers):
        return f"{value}, nowhere attained"
    more = f" and {len(problem.minimizers) - 1} more" if len(problem.minimizers) > 1 else ""
    return f"{value} at {_point(problem.minimizers[0])}{more}"


def _any_number(name: str) -> bool:
    """Whether the problem is there in any number of variables."""
    return "d" in inspect.signature(PROBLEMS[name]).parameters


def _point(x: Any) -> str:
    return f"({', '.join(f'{round(v, 6) + 0.0:.4g}' for v in x.tolist())})"


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
