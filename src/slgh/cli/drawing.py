"""Draw the path of a run into a file."""

from __future__ import annotations

import dataclasses
import pathlib
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slgh.cli.errors import UserCodeFailed, shorten
from slgh.cli.output import PAGE_SUFFIX
from slgh.cli.run import FinishedRun
from slgh.files import atomic_write
from slgh.oracles import Antithetic
from slgh.plotting.figures import at_each_point
from slgh.plotting.page import REPLAYED
from slgh.plotting.path import Path, path_of
from slgh.plotting.style import as_bytes
from slgh.plotting.table import Table

MAX_TITLE = 90
"""Maximum length of a title, in characters."""


class TooSlow(Exception):
    """The user's function has used up the time limit of a picture."""


class TimedFunction:
    """A function of points (..., d), reflected into the bounds, with a time limit for all calls together."""

    def __init__(self, run: FinishedRun, seconds: float) -> None:
        self.fun, self.vectorized, self.left = run.problem.values, run.problem.vectorized, seconds
        self.box = run.problem.box

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


def draw(run: FinishedRun, file: pathlib.Path, rows: list[tuple[str, str]], max_seconds: float) -> str:
    """Draw the path. Return the file, with a remark on what is missing.

    `rows` is the summary of the run for a page. `max_seconds` is the time limit for evaluations of the function.
    """
    if not run.result.nit:
        raise ValueError("there were no iterations")
    fun, remark = None, ""
    if run.problem.d <= 2:
        fun, remark = function_of(run, max_seconds)
        if "x" not in run.result.history:
            remark = " (without the path, which was not recorded)"
    try:
        _write(run, file, fun, rows)
    except (UserCodeFailed, TooSlow) as error:
        _write(run, file, None, rows)
        why = str(error) or f"it would take more than {max_seconds:g} s"
        remark = f" (without the function: {why})"
    return f"{file}{remark}"


def function_of(run: FinishedRun, max_seconds: float) -> tuple[Any, str]:
    """Return the function to draw, a closed form or a function of points (..., d), or None and the reason."""
    if run.problem.closed is not None:
        return run.problem.closed, ""
    if run.problem.terms is not None:
        return None, " (without the function, which is stochastic)"
    return TimedFunction(run, max_seconds), ""


def title_of(run: FinishedRun) -> str:
    """Return the title: function and method."""
    return f"{shorten(run.problem.title, MAX_TITLE)}: {run.result.method.name}"


def _write(run: FinishedRun, file: pathlib.Path, fun: Any, rows: list[tuple[str, str]]) -> None:
    with np.errstate(all="ignore"):
        if file.suffix.lower() == PAGE_SUFFIX:
            _write_page(run, file, fun, rows)
        else:
            write_figure(_figure(run, fun), file)


def write_figure(figure: Any, file: pathlib.Path) -> None:
    """Write a figure of matplotlib in the format of the file's suffix."""
    with atomic_write(file) as stream:
        stream.write(as_bytes(figure, file.suffix[1:].lower()))


def _figure(run: FinishedRun, fun: Any) -> Any:
    from slgh.plotting.plots import plot

    figure = plot(run.result, fun, vectorized=True, title=title_of(run).replace("$", r"\$"))
    if fun is not None and "x" in run.result.history:
        # The first axes show the path, of one or two variables.
        labels = zip(("xlabel", "ylabel"), run.problem.variables, strict=False)
        figure.axes[0].set(**dict(labels))
    return figure


def _write_page(run: FinishedRun, file: pathlib.Path, fun: Any, rows: list[tuple[str, str]]) -> None:
    from slgh.plotting.page import Picture, write_run_page

    picture = Picture(caption="f and t over the iterations.", image=as_bytes(_figure(run, fun), "svg"))
    shown = fun is not None and "x" in run.result.history
    paths = [_path(run, fun)] if shown else []
    write_run_page(
        file,
        fun,
        paths,
        title=title_of(run),
        tables=[Table(title="The run", headings=("", ""), rows=tuple(rows))],
        pictures=[picture],
    )


def _path(run: FinishedRun, fun: Any) -> Path:
    """Return the path of the run, with f(x) if the run has recorded means instead."""
    path = path_of(run.result, run.result.method.name).thin(REPLAYED)
    if not isinstance(run.result.method.oracle, Antithetic):
        return path
    values = fun.value(path.x, np.zeros(len(path.x))) if run.problem.closed is not None else fun(path.x)
    return dataclasses.replace(path, fun=np.asarray(values))
