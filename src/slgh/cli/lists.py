"""The commands that list what there is: `methods` and `problems`. A method is explained by its parts' docstrings."""

from __future__ import annotations

import dataclasses
import inspect
import re
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
from slgh.cli.wording import as_option, as_options
from slgh.method import METHODS
from slgh.problems import PROBLEMS, Problem

EXAMPLE, METHOD = "rosenbrock", "slgh_r"
"""A problem and a method that show how to pass parameters."""

LABEL = 14
"""The width of the column of names."""

FIELDS = {
    "samples": "M, the random directions (or draws of xi) per iteration.",
    "xi": 'For a stochastic f. "pairs": each pair has its own xi; "shared": one xi per iteration.',
    "period": "Iterations between two snapshots.",
    "terms": "N, the number of terms, from --terms.",
    "t1": "The first smoothing radius.",
    "gamma": "The ratio by which t falls.",
    "eta": "The step size of t.",
    "eps0": "A change of at most this counts as none.",
    "n0": "This many of these make t fall.",
    "step": "beta, the step size of x.",
    "L1": "How smooth f is.",
    "nu": "The error of f's values.",
    "cap": "The largest step.",
    "momentum": "mu, the share of the velocity that is kept.",
    "beta1": "The share of the first moment that is kept.",
    "beta2": "The share of the second moment that is kept.",
    "delta": "Keeps the divisor above 0.",
    "v0": "The second moment to begin with.",
    "alpha": "The step as a share of the shell's radius.",
}
"""Descriptions of fields that a docstring does not list, because its equation or its text has them."""


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
    """Print a list, or with --quiet the names in it, and write it to the JSON file."""
    output = read_output(options)
    if output.prints_line:
        print("\n".join(found))
    elif output.prints:
        print_all()
    write_json(output.json, found)


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
        f"The parameters of {', '.join(PAPER_PROBLEMS)} are those of the paper's experiments (slgh reproduce). They "
        "are passed as options, or left out with --method auto:",
        style="dim",
    )
    for options in (f" --method {METHOD} {as_options(known[EXAMPLE].parameters)}", ""):
        console.print(f"slgh minimize {EXAMPLE}{options}", markup=False, soft_wrap=True)


def _minimum(problem: Problem) -> str:
    """Return the value, and where it is attained."""
    value = f"{problem.minimum:.6g}"
    if not len(problem.minimizers):
        return f"{value}, nowhere attained"
    more = f" and {len(problem.minimizers) - 1} more" if len(problem.minimizers) > 1 else ""
    return f"{value} at {_point(problem.minimizers[0])}{more}"


def _any_number(name: str) -> bool:
    """Return True if the problem exists in any number of variables."""
    return "d" in inspect.signature(PROBLEMS[name]).parameters


def _point(x: Any) -> str:
    return f"({', '.join(f'{round(v, 6) + 0.0:.4g}' for v in x.tolist())})"


def required(name: str) -> list[str]:
    """Return the parameters of a method that have no default."""
    recipe = METHODS[name]
    fields = (f for part in parts_of(name).values() for f in dataclasses.fields(part))
    return [f.name for f in fields if f.default is dataclasses.MISSING and f.name not in recipe.defaults]


def print_method(name: str) -> None:
    """Print what a method is, its parts one after the other, and how to run it."""
    recipe = METHODS[name]
    show(name, f"{recipe.about}.", width=LABEL)
    for slot, part in parts_of(name).items():
        about = read_docstring(part)
        console.print()
        show(slot, f"{part.name}: {about.summary}", width=LABEL)
        for line in ("", *(f"    {line}" for line in about.equation), ""):
            console.print(line, markup=False, soft_wrap=True)
        for paragraph in about.text:
            show("", paragraph, width=LABEL)
        for field in dataclasses.fields(part):
            text = about.fields.get(field.name) or FIELDS[field.name]
            show(f"  {field.name}", f"{default_of(field, recipe.defaults)}{text}", width=LABEL)
    needed = "".join(f" {as_option(f'{n}=...')}" for n in required(name))
    console.print()
    show("run", f"slgh minimize FORMULA --x0 NUMBERS --method {name}{needed}", unbroken=True, width=LABEL)


def default_of(field: Any, defaults: Mapping[str, Any]) -> str:
    """Return the default of a field in parentheses; nothing where the run chooses it."""
    value = defaults.get(field.name, field.default)
    if value is dataclasses.MISSING:
        return "(needed) "
    return "" if value is None else f"({value!r}) "


@dataclass(frozen=True, slots=True, kw_only=True)
class PartDescription:
    """A part's docstring taken apart."""

    summary: str
    equation: list[str]
    text: list[str]
    """The paragraphs after the equation."""
    fields: dict[str, str]


def read_docstring(part: Any) -> PartDescription:
    """Return the first line, the equation, the text and the fields of a part's docstring."""
    body, *sections = re.split(r"\n\n(\w+)\n-+\n", inspect.getdoc(part) or "")
    paragraphs = [plain(p) for p in body.split("\n\n")]
    listed = dict(zip(sections[::2], sections[1::2], strict=True)).get("Parameters", "")
    found = re.findall(r"^(\w+)\n((?: +.+\n?)+)", listed, re.MULTILINE)
    equation = next(p for p in paragraphs if p.startswith(".. math::"))
    return PartDescription(
        summary=paragraphs[0],
        equation=[line.strip() for line in equation.removeprefix(".. math::").splitlines() if line.strip()],
        text=[" ".join(p.split()) for p in paragraphs[1:] if p != equation],
        fields={name: " ".join(plain(text).split()) for name, text in found},
    )


def plain(text: str) -> str:
    """Return text without the marks of reStructuredText.

    >>> plain(":math:`\\\\beta` is `step`.")
    '\\\\beta is step.'
    """
    return re.sub(r"(?::\w+:)?`([^`]*)`", r"\1", text)
