"""Figures of a homotopy: surfaces, curves over the iterations, paths over contours."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from slgh.plotting.explorer import Box
from slgh.plotting.path import Path
from slgh.plotting.style import COLORS, DASHES, WIDTH, new_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Function: TypeAlias = Callable[[NDArray[Any]], Any]
"""Maps points (..., d) to values (...)."""

BAND = (0.025, 0.975)
"""The quantiles between which runs with other seeds are drawn."""


def at_each_point(fun: Callable[[NDArray[Any]], Any]) -> Function:
    """A function of one point (d,), called for all of (..., d) one by one."""
    return lambda x: np.apply_along_axis(lambda point: float(np.squeeze(fun(point))), -1, x)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunCurves:
    """f and t over the iterations of a method: (k,), and (k, S) for S seeds."""

    label: str
    iteration: NDArray[Any]
    fun: NDArray[Any]
    t: NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A function of two variables to be drawn, and what to write above it."""

    title: str
    fun: Function


def grid(box: Box, points: int) -> list[NDArray[Any]]:
    """The coordinates of a grid over a box of two variables, as from `numpy.meshgrid`."""
    return list(np.meshgrid(*(np.linspace(low, high, points) for low, high in box)))


def surfaces(
    panels: Sequence[Panel], box: Box, *, height: float = 2.9, view: tuple[float, float] = (30, -60), points: int = 120
) -> Figure:
    """Functions of two variables as surfaces, side by side."""
    with style():
        from matplotlib.colors import PowerNorm

        figure = new_figure(height)
        x, y = grid(box, points)
        for i, panel in enumerate(panels, 1):
            ax: Any = figure.add_subplot(1, len(panels), i, projection="3d")
            z = np.asarray(panel.fun(np.stack([x, y], axis=-1)))
            ax.plot_surface(
                x,
                y,
                z,
                cmap="viridis",
                norm=PowerNorm(0.4, z.min(), z.max()),  # so that the valleys, where it matters, have colors too
                rcount=points,
                ccount=points,
                antialiased=False,
                rasterized=True,  # tens of thousands of facets make a slow and large vector file
            )
            ax.view_init(*view)
            ax.set(xlabel="x", ylabel="y", title=panel.title)
            ax.set_box_aspect(None, zoom=0.95)
            for axis in (ax.xaxis, ax.yaxis, ax.zaxis):
                axis.set_major_locator(_locator())
    return figure


def _locator() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(4)


def curves(runs: Sequence[RunCurves], *, log: bool, height: float = 2.6) -> Figure:
    """f(x_k) on the left and t_k on the right against k; of several seeds the median, and a band between quantiles."""
    with style():
        figure = new_figure(height)
        left, right = figure.subplots(1, 2)
        draw_runs(left, right, runs)
        left.set_yscale("log" if log else "linear")
        handles, labels = left.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=min(len(runs), 5), frameon=False)
    return figure


def draw_runs(left: Axes, right: Axes, runs: Sequence[RunCurves]) -> None:
    """f on the left axes, t on the right ones."""
    for run, color, dash in zip(runs, COLORS, DASHES, strict=False):
        for ax, values in ((left, run.fun), (right, run.t)):
            low, middle, high = np.quantile(values, (BAND[0], 0.5, BAND[1]), axis=-1)
            ax.plot(run.iteration, middle, color=color, linestyle=dash, label=typeset(run.label))
            if values.shape[-1] > 1:
                ax.fill_between(run.iteration, low, high, color=color, alpha=0.15, linewidth=0)
    left.set(xlabel="iteration $k$", ylabel="$f(x_k)$")
    right.set(xlabel="iteration $k$", ylabel="$t_k$")


def trajectories(
    panels: Sequence[Panel],
    box: Box,
    paths: Sequence[Path],
    *,
    minimizers: NDArray[Any] | None = None,
    height: float = 3.6,
) -> Figure:
    """Paths over the contours of functions of two variables."""
    with style():
        figure = new_figure(height, WIDTH if len(panels) > 1 else 0.66 * WIDTH)
        for ax, panel in zip(np.ravel(figure.subplots(1, len(panels), sharey=True)), panels, strict=True):
            contours(ax, panel.fun, box)
            for path, color, dash in zip(paths, COLORS, DASHES, strict=False):
                _draw(ax, path, color, dash)
            if minimizers is not None:
                ax.plot(*minimizers.T[:2], "*", color="black", markersize=9, linestyle="none", label="global minimum")
            ax.set(xlabel="x", title=panel.title, xlim=box[0], ylim=box[1])
        first = figure.axes[0]
        first.set_ylabel("y")
        figure.legend(*first.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    return figure


def contours(ax: Axes, fun: Function, box: Box, *, points: int = 200, levels: int = 16) -> None:
    """Gray contours of a function of two variables, at quantiles of it, so that flat valleys show as steep walls do."""
    x, y = grid(box, points)
    with np.errstate(all="ignore"):
        z = np.asarray(fun(np.stack([x, y], axis=-1)), float)
    finite = z[np.isfinite(z)]
    if not finite.size or finite.min() == finite.max():
        return
    at = np.unique(np.quantile(finite, np.linspace(0, 1, levels + 2)[1:-1] ** 1.5))
    ax.contour(x, y, np.where(np.isfinite(z), z, np.nan), at, colors="0.72", linewidths=0.6)


def typeset(label: str) -> str:
    """The paper's names with their subscripts.

    >>> typeset("ZOSLGH_r 0.999")
    'ZOSLGH$_r$ 0.999'
    """
    return re.sub(r"SLGH_([rd])", r"SLGH$_\1$", label)


def _draw(ax: Axes, path: Path, color: str, dash: Any) -> None:
    """A path in the plane, with a ring at its start and a dot at its end."""
    ax.plot(*path.x.T[:2], color=color, linestyle=dash, label=typeset(path.label))
    ax.plot(*path.x[0, :2], "o", color=color, markerfacecolor="white", markersize=5)
    ax.plot(*path.x[-1, :2], "o", color=color, markersize=5)
