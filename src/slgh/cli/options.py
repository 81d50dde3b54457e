"""Options that say what is minimised and from where, shared by `minimize` and `probe`."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core

from slgh.cli.common import complete_problems, fail

FUNCTION, METHOD, LIMITS, OUTPUT = "Function and start", "Method", "Limits", "Output"
"""The panels of the help."""


def read_count(text: str) -> int:
    """A whole number, also as 1e4.

    >>> read_count("1e4")
    10000
    """
    try:
        return int(text)
    except ValueError:
        number = float(text)
        if not number.is_integer():
            raise
        return int(number)


def count(option: str, metavar: str, about: str, panel: str | None = None) -> Any:
    """An option for how many there are of something."""
    return _read(option, read_count, "an integer", metavar=metavar, help=about, rich_help_panel=panel)


def number(option: str, metavar: str, about: str, panel: str | None = None) -> Any:
    """An option for a real number."""
    return _read(option, float, "a number", metavar=metavar, help=about, rich_help_panel=panel)


def _read(option: str, read: Callable[[str], float], kind: str, **shown: Any) -> Any:
    """An option that refuses in our words what is not of its kind."""

    def parse(text: str) -> float:
        try:
            return read(text)
        except ValueError:
            fail(f"{option} must be {kind}, got {text!r}.")

    return typer.Option(option, parser=parse, **shown)


Formula = Annotated[
    str | None,
    typer.Argument(
        metavar="FORMULA",
        help="A formula in Python's notation, such as 'x**4 - 3*x**2 + x' or 'sum(x\\[i]**2 for i in range(d))', "
        "read safely; or the name of a test problem (slgh problems).",
        autocompletion=complete_problems,
        show_default=False,
    ),
]
X0 = Annotated[
    str | None,
    typer.Option(
        "--x0",
        metavar="NUMBERS",
        help="The start, commas between: -3,2. With --d one number stands for all variables. A test problem has its "
        "own.",
        rich_help_panel=FUNCTION,
    ),
]
D = Annotated[int | None, count("--d", "N", "The number of variables.", FUNCTION)]
Fun = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Instead of a formula, a Python function of one point, an array (d,): module:function or "
        "file.py:function.",
        rich_help_panel=FUNCTION,
    ),
]
VectorizedFun = Annotated[
    bool,
    typer.Option(
        "--vectorized", help="The function maps points (n, d) to values (n,), all at once.", rich_help_panel=FUNCTION
    ),
]
BoundsText = Annotated[
    str | None,
    typer.Option(
        "--bounds",
        metavar="LOW:HIGH",
        help="Bounds of all variables, -5:5, or of each, commas between: -5:5,0:. Points outside are mirrored in.",
        rich_help_panel=FUNCTION,
    ),
]
Seed = Annotated[
    int | None,
    _read(
        "--seed",
        int,
        "an integer",
        metavar="N",
        help="The seed of all randomness; without one it is drawn, and told.",
    ),
]

PlotFile = Annotated[
    Path | None,
    typer.Option(
        "--plot",
        metavar="FILE",
        help="Draw the path: .png, .svg, .pdf, or .html for a page to explore. By default slgh-path.png.",
        show_default=False,
        rich_help_panel=OUTPUT,
    ),
]
NoPlot = Annotated[
    bool, typer.Option("--no-plot", help="Draw nothing, as --quiet and --json - do.", rich_help_panel=OUTPUT)
]
WithHistory = Annotated[
    bool, typer.Option("--history", help="Write the iterations to the JSON file too.", rich_help_panel=OUTPUT)
]

TYPED = "slgh.typed"
"""Where a context keeps the arguments as they were typed."""


class Command(typer.core.TyperCommand):
    """A command whose help shows no type beside a flag, which takes no value."""

    def get_params(self, ctx: Any) -> Any:
        """The parameters, --help among them."""
        return untyped_flags(super().get_params(ctx))


def untyped_flags(params: Any) -> Any:
    """The parameters, with nothing to be shown for the values of flags."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


class FormulaCommand(Command):
    """A command whose argument may begin with a minus sign, and whose start may be numbers with spaces between."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put formulas behind the options, where none of them is taken for one."""
        ctx.meta[TYPED] = list(args)
        options: list[Any] = [param for param in self.params if param.param_type_name == "option"]
        valued = {name for option in options if not option.is_flag for name in option.opts}
        return super().parse_args(ctx, sort_arguments(args, valued))


def sort_arguments(args: list[str], valued: set[str]) -> list[str]:
    """Options first, then formulas; `valued` are the options that a value follows.

    >>> sort_arguments(["-x**2", "--x0", "-3", "2", "--seed", "1"], {"--x0", "--seed"})
    ['--x0', '-3,2', '--seed', '1', '--', '-x**2']
    """
    if "--" in args:
        return args
    options: list[str] = []
    formulas: list[str] = []
    left = list(args)
    while left:
        word = left.pop(0)
        if word in valued and left:
            value = left.pop(0)
            while word == "--x0" and left and _is_number(left[0]):
                value += f",{left.pop(0)}"
            options += [word, value]
        elif re.match(r"-[^-]", word):
            formulas.append(word)
        else:
            options.append(word)
    return [*options, "--", *formulas] if formulas else options


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
