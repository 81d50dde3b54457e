"""The paper's figures on a test function: surfaces, curves over the iterations, paths over contours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slgh.paper.experiment import Drawing
from slgh.paper.experiments.paper_table import RowOutcome
from slgh.plotting.explorer import Box, Function, blur
from slgh.plotting.figures import RunCurves, contours, draw_runs, grid, typeset
from slgh.plotting.path import Path
from slgh.plotting.style import WIDTH, looks, new_figure, style
from slgh.problems import Problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A function of two variables to draw, and its title."""

    title: str
    fun: Function


def smoothed(problem: Problem, t: float) -> Function:
    """F(., t) on a grid (ny, nx, 2): the closed form if there is one, otherwise f blurred."""
    if (F := problem.smooth) is not None:
        return lambda x: F.value(x, np.full(x.shape[:-1], t))
    return lambda x: blur(problem.fun, (x[0, :, 0], x[:, 0, 1]), np.array([t]))[0]


def draw_surfaces(number: int, name: str, problem: Problem, box: Box, t: float, **options: Any) -> Drawing:
    """Figure of f and its smoothed form as surfaces."""
    panels = (Panel(title="f(x, y)", fun=problem.fun), Panel(title=f"F(x, y, t = {t:g})", fun=smoothed(problem, t)))
    return Drawing(
        name=f"figure_{number:02}_{problem.name}_surfaces",
        caption=f"Figure {number}: {name} and its Gaussian smoothing with t = {t:g}.",
        draw=partial(surfaces, panels, box, **options),
    )


def draw_curves(number: int, name: str, problem: Problem, outcomes: Sequence[RowOutcome], *, log: bool) -> Drawing:
    """Figure of f and t over the iterations, for all methods."""
    seeds = len(outcomes[0].fun)
    over = "" if seeds == 1 else f" Lines: medians over {seeds} seeds; bands: the central 95 % of them."
    return Drawing(
        name=f"figure_{number:02}_{problem.name}_curves",
        caption=f"Figure {number}: function value and smoothing radius over the iterations on {name}.{over}",
        draw=lambda: curves([o.runs(problem) for o in outcomes], log=log),
    )


@style()
def surfaces(
    panels: Sequence[Panel], box: Box, *, height: float = 2.9, view: tuple[float, float] = (30, -60), points: int = 120
) -> Figure:
    """Draw functions of two variables as surfaces, side by side."""
    from matplotlib.colors import PowerNorm
    from matplotlib.ticker import MaxNLocator

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
            norm=PowerNorm(0.4, z.min(), z.max()),  # gives the valleys, where it matters, different colors too
            rcount=points,
            ccount=points,
            antialiased=False,
            rasterized=True,  # tens of thousands of facets make a slow and large vector file
        )
        ax.view_init(*view)
        ax.set(xlabel="x", ylabel="y", title=panel.title)
        ax.set_box_aspect(None, zoom=0.95)
        for axis in (ax.xaxis, ax.yaxis, ax.zaxis):
            axis.set_major_locator(MaxNLocator(4))
    return figure


@style()
def curves(runs: Sequence[RunCurves], *, log: bool, height: float = 2.6) -> Figure:
    """Draw f(x_k) on the left and t_k on the right over k; see `draw_runs`."""
    figure = new_figure(height)
    left, right = figure.subplots(1, 2)
    draw_runs(left, right, runs)
    left.set_yscale("log" if log else "linear")
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=min(len(runs), 5), frameon=False)
    return figure


@style()
def trajectories(
    panels: Sequence[Panel],
    box: Box,
    paths: Sequence[Path],
    *,
    minimizers: NDArray[Any] | None = None,
    height: float = 3.6,
) -> Figure:
    """Draw paths over the contours of functions of two variables, with rings at starts and dots at ends."""
    figure = new_figure(height, WIDTH if len(panels) > 1 else 0.66 * WIDTH)
    for ax, panel in zip(np.ravel(figure.subplots(1, len(panels), sharey=True)), panels, strict=True):
        contours(ax, panel.fun, box)
        for path, (color, dash) in zip(paths, looks([path.label for path in paths]), strict=True):
            ax.plot(*path.x.T[:2], color=color, linestyle=dash, label=typeset(path.label))
            ax.plot(*path.x[0, :2], "o", color=color, markerfacecolor="white", markersize=5)
            ax.plot(*path.x[-1, :2], "o", color=color, markersize=5)
        if minimizers is not None:
            ax.plot(*minimizers.T[:2], "*", color="black", markersize=9, linestyle="none", label="global minimum")
        ax.set(xlabel="x", title=panel.title, xlim=box[0], ylim=box[1])
    first = figure.axes[0]
    first.set_ylabel("y")
    figure.legend(*first.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    return figure
