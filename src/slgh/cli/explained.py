"""One method explained: its parts, with the equations and fields that their docstrings tell."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Mapping
from typing import Any

from slgh.cli.common import console
from slgh.cli.errors import in_options
from slgh.cli.output import show
from slgh.method import METHODS, SLOTS

LABEL = 14
"""The width of the column of names."""

FIELDS = {
    "samples": "M, the random directions (or draws of xi) an iteration.",
    "xi": 'For a stochastic f. "pairs": each pair has its own xi; "shared": one xi an iteration.',
    "period": "Every so many iterations the snapshot is renewed.",
    "terms": "N, the number of terms, from --terms.",
    "t1": "The first smoothing radius.",
    "gamma": "The ratio by which t falls.",
    "eta": "The step size of t.",
    "eps0": "A change of at most this counts as none.",
    "n0": "So many of these make t fall.",
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
"""What fields are that a docstring does not list, because its equation or its text has them."""


def required(name: str) -> list[str]:
    """The parameters of a method that have no default."""
    recipe = METHODS[name]
    fields = (f for part in parts_of(name).values() for f in dataclasses.fields(part))
    return [f.name for f in fields if f.default is dataclasses.MISSING and f.name not in recipe.defaults]


def parts_of(name: str) -> dict[str, Any]:
    """The classes of a method's parts, by slot."""
    return {slot: SLOTS[slot][getattr(METHODS[name], slot)] for slot in SLOTS}


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
            told = about.fields.get(field.name) or FIELDS[field.name]
            show(f"  {field.name}", f"{default_of(field, recipe.defaults)}{told}", width=LABEL)
    needed = "".join(f" {in_options(f'{n}=...')}" for n in required(name))
    console.print()
    show("run", f"slgh minimize FORMULA --x0 NUMBERS --method {name}{needed}", whole=True, width=LABEL)


def default_of(field: Any, defaults: Mapping[str, Any]) -> str:
    """What a field is if it is not given; nothing where the run chooses it."""
    value = defaults.get(field.name, field.default)
    if value is dataclasses.MISSING:
        return "(needed) "
    return "" if value is None else f"({value!r}) "


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """A part's docstring taken apart."""

    summary: str
    equation: list[str]
    text: list[str]
    """The paragraphs after the equation."""
    fields: dict[str, str]


def read_docstring(part: Any) -> About:
    """The first line, the equation, the text and the fields of a part's docstring."""
    body, *sections = re.split(r"\n\n(\w+)\n-+\n", inspect.getdoc(part) or "")
    paragraphs = [plain(p) for p in body.split("\n\n")]
    listed = dict(zip(sections[::2], sections[1::2], strict=True)).get("Parameters", "")
    found = re.findall(r"^(\w+)\n((?: +.+\n?)+)", listed, re.MULTILINE)
    equation = next(p for p in paragraphs if p.startswith(".. math::"))
    return About(
        summary=paragraphs[0],
        equation=[line.strip() for line in equation.removeprefix(".. math::").splitlines() if line.strip()],
        text=[" ".join(p.split()) for p in paragraphs[1:] if p != equation],
        fields={name: " ".join(plain(text).split()) for name, text in found},
    )


def plain(text: str) -> str:
    """Text without the marks of reStructuredText.

    >>> plain(":math:`\\\\beta` is `step`.")
    '\\\\beta is step.'
    """
    return re.sub(r"(?::\w+:)?`([^`]*)`", r"\1", text)
