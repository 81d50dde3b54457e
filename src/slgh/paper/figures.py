"""The kinds of figures that the paper has of a test function: surfaces, curves, paths over contours."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from slgh.paper.experiment import Drawing
from slgh.paper.table import Outcome
from slgh.plotting.explorer import Box, blur
from slgh.plotting.figures import Function, Panel, curves, surfaces
from slgh.problems import Problem


def smoothed(problem: Problem, t: float) -> Function:
    """F(., t) on a grid (ny, nx, 2): exactly where there is a closed form, else by blurring f."""
    if (F := problem.smooth) is not None:
        return lambda x: F.value(x, np.full(x.shape[:-1], t))
    return lambda x: blur(problem.fun, (x[0, :, 0], x[:, 0, 1]), np.array([t]))[0]


def draw_surfaces(number: int, name: str, problem: Problem, box: Box, t: float, **options: Any) -> Drawing:
    """f and its smoothed form as surfaces."""
    panels = (Panel(title="f(x, y)", fun=problem.fun), Panel(title=f"F(x, y, t = {t:g})", fun=smoothed(problem, t)))
    return Drawing(
        name=f"figure_{number:02}_{problem.name}_surfaces",
        caption=f"Figure {number}: {name} and its Gaussian smoothing with t = {t:g}.",
        draw=partial(surfaces, panels, box, **options),
    )


def draw_curves(number: int, name: str, problem: Problem, outcomes: Sequence[Outcome], *, log: bool) -> Drawing:
    """f and t against the iterations, of all methods."""
    seeds = len(outcomes[0].fun)
    over = "" if seeds == 1 else f" Lines: medians over {seeds} seeds; bands: the central 95 % of them."
    return Drawing(
        name=f"figure_{number:02}_{problem.name}_curves",
        caption=f"Figure {number}: function value and smoothing radius over the iterations on {name}.{over}",
        draw=lambda: curves([o.runs(problem) for o in outcomes], log=log),
    )
