"""Options that several commands share, and how their numbers are read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from slgh.cli.common import complete_problems, fail

FUNCTION, METHOD, LIMITS, OUTPUT = "Function and start", "Method", "Limits", "Output"
ATTACKED = "Images and model"
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
Samples = Annotated[int | None, count("--samples", "M", "Random directions an iteration.", METHOD)]
Floor = Annotated[float | None, number("--floor", "T", "The least smoothing radius.", METHOD)]
MaxIter = Annotated[int | None, count("--max-iter", "N", "At most so many iterations.", LIMITS)]
MaxSeconds = Annotated[float | None, number("--max-seconds", "SECONDS", "At most so many seconds.", LIMITS)]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Any other hyperparameter, or a part to swap: --set update=adam. May be repeated.",
        rich_help_panel=METHOD,
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

DataName = Annotated[
    str | None,
    typer.Option(
        "--data",
        metavar="NAME",
        help="mnist or cifar10: a hundred test images of each come with the package, and a network.",
        autocompletion=lambda: ["mnist", "cifar10"],
        rich_help_panel=ATTACKED,
    ),
]
DataFolder = Annotated[
    Path | None,
    typer.Option(
        "--folder",
        metavar="FOLDER",
        help="Where the official files of the whole set lie.",
        rich_help_panel=ATTACKED,
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
ImagesFile = Annotated[
    Path | None,
    typer.Option(
        "--plot",
        metavar="FILE",
        help="Draw the images: .png, .svg or .pdf. By default slgh-attack.png, or in the folder of --out.",
        show_default=False,
        rich_help_panel=OUTPUT,
    ),
]
WithHistory = Annotated[
    bool, typer.Option("--history", help="Write the iterations to the JSON file too.", rich_help_panel=OUTPUT)
]
