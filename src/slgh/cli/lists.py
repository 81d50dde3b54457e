"""The commands `methods` and `problems`. The docstrings of its parts explain a method."""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from rich import box
from rich.table import Table

from slgh import checks
from slgh.cli.errors import fail
from slgh.cli.options import CommonOptions, MethodsOptions
from slgh.cli.output import console, read_output, show, write_json
from slgh.cli.parameters import PAPER_PROBLEMS, parts_of
from slgh.cli.unicode_math import to_unicode
from slgh.cli.wording import as_option, as_options
from slgh.method import METHODS
from slgh.problems import PROBLEMS, Problem

EXAMPLE, METHOD = "rosenbrock", "slgh_r"
"""Problem and method of the example below the list of problems."""

LABEL = 14
"""Width of the column of names."""


def methods(options: MethodsOptions) -> None:
    """List the methods, or explain one."""
    name = options.name
    if name is not None and name not in METHODS:
        fail(f"There is no method {name!r}. Choose from {', '.join(METHODS)}.{checks.did_you_mean(name, METHODS)}")
    found = {
        n: {"oracle": r.oracle, "schedule": r.schedule, "update": r.update, "needs": required(n), "about": r.about}
        for n, r in METHODS.items()
        if name in (None, n)
    }
    _list(options, found, _print_methods if name is None else partial(print_method, name))


def _list(options: CommonOptions, found: Mapping[str, Any], print_all: Callable[[], None]) -> None:
    """Print a list, or only its names with --quiet, and write it to the JSON file."""
    output = read_output(options)
    if output.prints_line:
        print("\n".join(found))
    elif output.prints:
        print_all()
    write_json(output.json, found)


def _print_methods() -> None:
    for name, recipe in METHODS.items():
        show(name, recipe.about, width=LABEL)
    console.print("\nslgh methods NAME explains a method: its parts, equations and parameters.", style="dim")


def problems(options: CommonOptions) -> None:
    """List the test problems."""
    known = {name: make() for name, make in PROBLEMS.items()}
    found = {
        name: {
            "d": problem.d,
            "any_d": _any_number(name),
            "x0": problem.x0,
            "minimum": problem.minimum,
            "minimizers": problem.minimizers,
            "closed_form": problem.smooth is not None,
            "gradient": problem.grad is not None,
            "parameters": dict(problem.parameters),
            "of_the_paper": name in PAPER_PROBLEMS,
        }
        for name, problem in known.items()
    }
    _list(options, found, partial(_print_problems, known))


def _print_problems(known: dict[str, Problem]) -> None:
    table = Table(title="Test problems", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("problem", "variables", "start", "minimum", "closed form"):
        table.add_column(heading, no_wrap=True)
    for name, problem in known.items():
        table.add_row(
            name,
            f"{problem.d} or --d N" if _any_number(name) else str(problem.d),
            _point(problem.x0),
            _minimum(problem),
            "no" if problem.smooth is None else "yes",
        )
    console.print(table)
    console.print("Usual parameters, which --method auto does not need:\n", style="dim")
    for name, problem in known.items():
        show(name, as_options(problem.parameters), unbroken=True, width=LABEL)
    paper = ", ".join(PAPER_PROBLEMS)
    console.print(f"\n{paper}: as in the paper's experiments (slgh reproduce). Examples:\n", style="dim")
    for options in (f" --method {METHOD} {as_options(known[EXAMPLE].parameters)}", ""):
        console.print(f"slgh minimize {EXAMPLE}{options}", markup=False, soft_wrap=True)


def _minimum(problem: Problem) -> str:
    """Return the minimum, and where f attains it."""
    value = f"{problem.minimum:.6g}"
    if not len(problem.minimizers):
        return f"{value}, not attained"
    more = f" and {len(problem.minimizers) - 1} more" if len(problem.minimizers) > 1 else ""
    return f"{value} at {_point(problem.minimizers[0])}{more}"


def _any_number(name: str) -> bool:
    """Return True if the problem can have any number of variables."""
    return "d" in inspect.signature(PROBLEMS[name]).parameters


def _point(x: Any) -> str:
    return f"({', '.join(f'{round(v, 6) + 0.0:.4g}' for v in x.tolist())})"


def required(name: str) -> list[str]:
    """Return the parameters of a method that have no default."""
    recipe = METHODS[name]
    fields = (f for part in parts_of(name).values() for f in dataclasses.fields(part))
    return [f.name for f in fields if f.default is dataclasses.MISSING and f.name not in recipe.defaults]


def print_method(name: str) -> None:
    """Print the description of a method, its parts, and the command that runs it."""
    recipe = METHODS[name]
    show(name, f"{recipe.about}.", width=LABEL)
    for slot, part in parts_of(name).items():
        about = read_docstring(part)
        console.print()
        show(slot, f"{part.name}: {about.summary}", width=LABEL)
        console.print()
        for line in about.equations:
            folded = textwrap.fill(line, console.width, initial_indent=" " * 4, subsequent_indent=" " * 8)
            console.print(folded, markup=False, soft_wrap=True)
        console.print()
        for paragraph in about.text:
            show("", paragraph, width=LABEL)
        for field in dataclasses.fields(part):
            text = f"{default_of(field, recipe.defaults)}{about.fields[field.name]}"
            show(f"  {field.name}", text, width=LABEL)
    needed = "".join(f" {as_option(f'{n}=...')}" for n in required(name))
    console.print()
    show("run", f"slgh minimize FORMULA --x0 NUMBERS --method {name}{needed}", unbroken=True, width=LABEL)


def default_of(field: Any, defaults: Mapping[str, Any]) -> str:
    """Return the default of a field in parentheses, or nothing if the run chooses it."""
    value = defaults.get(field.name, field.default)
    if value is dataclasses.MISSING:
        return "(required) "
    return "" if value is None else f"({value!r}) "


@dataclass(frozen=True, slots=True, kw_only=True)
class PartDescription:
    """Content of a part's docstring."""

    summary: str
    equations: list[str]
    """Equations in Unicode, one per line."""
    text: list[str]
    """Paragraphs after the equations."""
    fields: dict[str, str]


def read_docstring(part: Any) -> PartDescription:
    """Return the first line, the equations, the text and the fields of a part's docstring."""
    body, *sections = re.split(r"\n\n(\w+)\n-+\n", inspect.getdoc(part) or "")
    paragraphs = body.split("\n\n")
    listed = dict(zip(sections[::2], sections[1::2], strict=True)).get("Parameters", "")
    entries = re.findall(r"^(\w+(?:, \w+)*)(?: ?:.*)?\n((?: +.+\n?|\n(?= ))+)", listed, re.MULTILINE)
    equation = next(p for p in paragraphs if p.startswith(".. math::"))
    return PartDescription(
        summary=plain(paragraphs[0]),
        equations=to_unicode(equation.removeprefix(".. math::").strip()).splitlines(),
        text=[plain(p) for p in paragraphs[1:] if p != equation],
        fields={name: plain(text) for names, text in entries for name in names.split(", ")},
    )


def plain(text: str) -> str:
    """Return text in one line, without the marks of reStructuredText and with formulas in Unicode.

    >>> plain(":math:`\\\\beta` is `step`.")
    'β is step.'
    """
    text = re.sub(r":math:`([^`]*)`", lambda match: to_unicode(match[1]), text)
    return " ".join(re.sub(r"(?::\w+:)?`([^`]*)`", r"\1", text).split())
