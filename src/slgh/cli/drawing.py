"""The path of a run, drawn into a file."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from slgh.cli.common import fail, shorten
from slgh.cli.job import Outcome
from slgh.cli.user_code import UserCodeFailed
from slgh.report.path import path_of
from slgh.report.style import as_bytes
from slgh.report.table import Table

SUFFIXES = (".png", ".svg", ".pdf", ".html")

POINTS, POINTS_OF_A_PAGE = 7_000, 230_000
"""About how many values a picture asks for, and a page that shows a function of two variables for every t."""

LONGEST = 90
"""A title has at most so many characters."""


def needs(*modules: str) -> None:
    """Refuse to draw where a library is missing."""
    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        fail(f'--plot needs {" and ".join(missing)}: pip install "slgh[plot]".')


def draw(outcome: Outcome, file: Path, rows: list[tuple[str, str]], patience: float) -> str:
    """Draw the path, and say so. A picture that fails is no reason to lose the result.

    `rows` are what a page says of the run beside the picture; `patience` is how many seconds the user's function may
    take for it.
    """
    if not outcome.result.nit:
        return "nothing: there were no iterations."
    fun, remark = None, ""
    if outcome.objective.d <= 2:
        page = file.suffix.lower() == ".html" and outcome.objective.d == 2
        fun, remark = function_of(outcome, POINTS_OF_A_PAGE if page else POINTS, patience)
    try:
        try:
            _write(outcome, file, fun, rows)
        except UserCodeFailed as error:
            _write(outcome, file, None, rows)
            remark = f" (without the function: {error})"
    except Exception as error:
        return f"nothing: {' '.join(str(error).split())}"
    return f"{file}{remark}"


def function_of(outcome: Outcome, points: int, patience: float) -> tuple[Any, str]:
    """What the picture shows the path on, a closed form or a function of points (..., d); or None, and why."""
    objective = outcome.objective
    if objective.closed is not None:
        return objective.closed, ""
    fun = objective.values
    assert fun is not None
    if objective.terms is not None:
        return None, " (without the function, which is stochastic)"
    if not objective.ours and outcome.seconds / max(outcome.result.nfev, 1) * points > patience:
        return None, f" (without the function: {points:,} more evaluations would take too long)"
    if objective.vectorized:
        return fun, ""
    return lambda x: np.apply_along_axis(lambda point: float(np.squeeze(fun(point))), -1, x), ""


def title_of(outcome: Outcome) -> str:
    """The function and the method."""
    return f"{shorten(outcome.objective.title, LONGEST)}: {outcome.result.method.name}"


def _write(outcome: Outcome, file: Path, fun: Any, rows: list[tuple[str, str]]) -> None:
    with np.errstate(all="ignore"):
        if file.suffix.lower() == ".html":
            _write_page(outcome, file, fun, rows)
        else:
            file.write_bytes(as_bytes(_figure(outcome, fun), file.suffix[1:].lower()))


def _figure(outcome: Outcome, fun: Any) -> Any:
    import matplotlib

    matplotlib.use("agg")  # files alone: no window is opened, and no display is needed
    import matplotlib.pyplot as plt

    from slgh.report.plots import plot

    figure = plot(outcome.result, fun, vectorized=True, title=title_of(outcome).replace("$", r"\$"))
    if fun is not None and "x" in outcome.result.history:
        _name_axes(figure.axes[0], outcome.objective.variables)
    plt.close(figure)
    return figure


def _name_axes(ax: Any, variables: tuple[str, ...]) -> None:
    """Write the formula's variables, of which there are one or two, at the axes of the path."""
    for write, name in zip((ax.set_xlabel, ax.set_ylabel), variables, strict=False):
        write(name)


def _write_page(outcome: Outcome, file: Path, fun: Any, rows: list[tuple[str, str]]) -> None:
    from slgh.report.page import Picture, write_run_page

    picture = Picture(caption="f and t over the iterations.", image=as_bytes(_figure(outcome, fun), "svg"))
    shown = fun is not None and "x" in outcome.result.history
    paths = [path_of(outcome.result, outcome.result.method.name)] if shown else []
    write_run_page(
        file,
        fun,
        paths,
        title=title_of(outcome),
        tables=[Table(title="The run", headings=("", ""), rows=tuple(rows))],
        pictures=[picture],
    )
