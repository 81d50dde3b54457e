"""The commands that list what there is: `methods` and `problems`."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table

from slgh import checks
from slgh.cli.common import (
    STDOUT,
    Debug,
    JsonFile,
    Quiet,
    complete_methods,
    console,
    fail,
    refuse_unwritable,
    write_json,
)
from slgh.cli.errors import as_options
from slgh.cli.explained import print_method, required
from slgh.cli.objective import OF_THE_PAPER
from slgh.method import METHODS
from slgh.problems import PROBLEMS, Problem

EXAMPLE, METHOD = "rosenbrock", "slgh_r"
"""A problem and a method that show how to pass parameters."""


def methods(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="A method to explain.", autocompletion=complete_methods, show_default=False
        ),
    ] = None,
    json_file: JsonFile = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """List the methods; or explain one: its parts, their equations and fields.

    With --quiet the names alone.
    """
    if name is not None and name not in METHODS:
        fail(f"There is no method {name!r}; choose from {', '.join(METHODS)}.{checks.did_you_mean(name, METHODS)}")
    refuse_unwritable(json_file)
    chosen = METHODS if name is None else {name: METHODS[name]}
    if quiet and json_file != STDOUT:
        print("\n".join(chosen))
    elif json_file != STDOUT:
        _print_methods() if name is None else print_method(name)
    write_json(
        json_file,
        {
            n: {"oracle": r.oracle, "schedule": r.schedule, "update": r.update, "needs": required(n), "about": r.about}
            for n, r in chosen.items()
        },
    )


def _print_methods() -> None:
    table = Table(title="Methods: oracle x schedule x update", box=box.SIMPLE_HEAD)
    for heading in ("method", "composition", "needs", "what it is"):
        table.add_column(heading, no_wrap=heading in ("method", "needs"))
    for name, recipe in METHODS.items():
        composition = f"{recipe.oracle} x {recipe.schedule} x {recipe.update}"
        table.add_row(name, composition, ", ".join(required(name)) or "-", recipe.about)
    console.print(table)
    console.print("What a method needs has no default, because the right value depends on the function.", style="dim")
    console.print("slgh methods NAME explains one: its parts, their equations and fields.", style="dim")


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
        f"The parameters of {', '.join(OF_THE_PAPER)} are those of the paper's experiments (slgh reproduce). They "
        "are passed as options, or left out with --method auto:",
        style="dim",
    )
    for options in (f" --method {METHOD} {as_options(known[EXAMPLE].parameters)}", ""):
        console.print(f"slgh minimize {EXAMPLE}{options}", markup=False, soft_wrap=True)


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
