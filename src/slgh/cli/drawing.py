"""The path of a run, drawn into a file."""

from __future__ import annotations

import dataclasses
import pathlib
import time
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slgh.cli.common import fail, shorten
from slgh.cli.job import Outcome
from slgh.cli.start import read_bounds
from slgh.cli.user_code import UserCodeFailed
from slgh.engine.bounds import read_bounds as read_box
from slgh.files import atomic_write
from slgh.oracles import Antithetic
from slgh.plotting.figures import at_each_point
from slgh.plotting.page import REPLAYED
from slgh.plotting.path import Path, path_of
from slgh.plotting.style import as_bytes
from slgh.plotting.table import Table

SUFFIXES = (".png", ".svg", ".pdf", ".html")

LONGEST = 90
"""A title has at most so many characters."""


def needs(*modules: str) -> None:
    """Refuse to draw where a library is missing."""
    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        fail(f'--plot needs {" and ".join(missing)}: pip install "slgh[plot]".')


class TooSlow(Exception):
    """The user's function has taken longer than a picture is worth."""


class Patient:
    """A function of points (..., d) within the bounds of the run, with only so many seconds for all its calls."""

    def __init__(self, outcome: Outcome, seconds: float) -> None:
        objective = outcome.objective
        self.fun, self.vectorized, self.left = objective.values, objective.vectorized, seconds
        bounds = read_bounds(outcome.job.source.bounds, objective.x0, objective.variables)
        self.box = read_box(bounds, objective.d, objective.x0.dtype)

    def __call__(self, x: NDArray[Any]) -> Any:
        inside = x if self.box is None else self.box.inside(x, np)
        return (self._timed if self.vectorized else at_each_point(self._timed))(inside)

    def _timed(self, x: NDArray[Any]) -> Any:
        if self.left <= 0:
            raise TooSlow
        begun = time.monotonic()
        value = self.fun(x)  # type: ignore[misc]
        self.left -= time.monotonic() - begun
        return value


def draw(outcome: Outcome, file: pathlib.Path, rows: list[tuple[str, str]], patience: float) -> str:
    """Draw the path, and say so.

    `rows` are what a page says of the run beside the picture; `patience` is how many seconds the function may take.
    """
    if not outcome.result.nit:
        raise Undrawn("there were no iterations")
    fun, remark = None, ""
    if outcome.objective.d <= 2:
        fun, remark = function_of(outcome, patience)
        if "x" not in outcome.result.history:
            remark = " (without the path, which was not recorded)"
    try:
        try:
            _write(outcome, file, fun, rows)
        except (UserCodeFailed, TooSlow) as error:
            _write(outcome, file, None, rows)
            why = str(error) or f"it would take more than {patience:g} s"
            remark = f" (without the function: {why})"
    except Exception as error:
        raise Undrawn(" ".join(str(error).split())) from error
    return f"{file}{remark}"


class Undrawn(Exception):
    """There is no picture; which is no reason to lose the result."""


def function_of(outcome: Outcome, patience: float) -> tuple[Any, str]:
    """What the picture shows the path on, a closed form or a function of points (..., d); or None, and why."""
    objective = outcome.objective
    if objective.closed is not None:
        return objective.closed, ""
    if objective.terms is not None:
        return None, " (without the function, which is stochastic)"
    return Patient(outcome, patience), ""


def title_of(outcome: Outcome) -> str:
    """The function and the method."""
    return f"{shorten(outcome.objective.title, LONGEST)}: {outcome.result.method.name}"


def _write(outcome: Outcome, file: pathlib.Path, fun: Any, rows: list[tuple[str, str]]) -> None:
    with np.errstate(all="ignore"):
        if file.suffix.lower() == ".html":
            _write_page(outcome, file, fun, rows)
        else:
            with atomic_write(file) as stream:
                stream.write(as_bytes(_figure(outcome, fun), file.suffix[1:].lower()))


def _figure(outcome: Outcome, fun: Any) -> Any:
    import matplotlib

    matplotlib.use("agg")  # files alone: no window is opened, and no display is needed
    import matplotlib.pyplot as plt

    from slgh.plotting.plots import plot

    figure = plot(outcome.result, fun, vectorized=True, title=title_of(outcome).replace("$", r"\$"))
    if fun is not None and "x" in outcome.result.history:
        _name_axes(figure.axes[0], outcome.objective.variables)
    plt.close(figure)
    return figure


def _name_axes(ax: Any, variables: tuple[str, ...]) -> None:
    """Write the formula's variables, of which there are one or two, at the axes of the path."""
    for write, name in zip((ax.set_xlabel, ax.set_ylabel), variables, strict=False):
        write(name)


def _write_page(outcome: Outcome, file: pathlib.Path, fun: Any, rows: list[tuple[str, str]]) -> None:
    from slgh.plotting.page import Picture, write_run_page

    picture = Picture(caption="f and t over the iterations.", image=as_bytes(_figure(outcome, fun), "svg"))
    shown = fun is not None and "x" in outcome.result.history
    paths = [_path(outcome, fun)] if shown else []
    write_run_page(
        file,
        fun,
        paths,
        title=title_of(outcome),
        tables=[Table(title="The run", headings=("", ""), rows=tuple(rows))],
        pictures=[picture],
    )


def _path(outcome: Outcome, fun: Any) -> Path:
    """The way of the run, with f(x) where the run did not ask for it."""
    path = path_of(outcome.result, outcome.result.method.name).thin(REPLAYED)
    if not isinstance(outcome.result.method.oracle, Antithetic):
        return path
    values = fun.value(path.x, np.zeros(len(path.x))) if hasattr(fun, "value") else fun(path.x)
    return dataclasses.replace(path, fun=np.asarray(values))
