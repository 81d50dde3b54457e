"""The kinds of figures that the paper has of a test function: surfaces, curves, paths over contours."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slgh.problems import Problem
from slgh.report.figures import Box, Function, Panel, curves, surfaces
from slgh.reproduce.experiment import Drawing
from slgh.reproduce.table import Outcome
from slgh.smoothing import Quadrature


def smoothed(problem: Problem, t: float) -> Function:
    """F(., t): exactly where there is a closed form, else by quadrature."""
    F = problem.smooth if problem.smooth is not None else Quadrature(problem.fun)

    def at(x: NDArray[Any]) -> NDArray[Any]:
        # Row by row: quadrature holds all nodes around all points at once.
        return np.asarray([F.value(row, np.full(row.shape[:-1], t)) for row in x])

    return at


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
    over = "" if seeds == 1 else f" Lines: medians over {seeds} seeds; bands: their 5 to 95 %."
    return Drawing(
        name=f"figure_{number:02}_{problem.name}_curves",
        caption=f"Figure {number}: function value and smoothing radius over the iterations on {name}.{over}",
        draw=lambda: curves([o.runs(problem) for o in outcomes], log=log),
    )
