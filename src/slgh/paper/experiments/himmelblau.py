"""Table 5 of the paper: Himmelblau's function with first-order methods."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from slgh.paper.experiment import Drawing
from slgh.paper.figures import draw_curves, draw_surfaces, smoothed
from slgh.paper.table import Outcome, PaperTable, Row
from slgh.plotting.figures import Panel, trajectories
from slgh.plotting.path import Path
from slgh.problems import Problem, himmelblau

GRADOPT = {"t1": 2.0, "rule": "F", "eps0": 1e-3, "n0": 50}


def drawings(problem: Problem, outcomes: Sequence[Outcome]) -> tuple[Drawing, ...]:
    """Figures 8 to 10."""
    way = {o.row.label: o.path(problem) for o in outcomes}
    followed = [
        at_radius(way["GradOpt 0.8"], 2.0),
        at_radius(way["GradOpt 0.8"], 1.6),
        way["SLGH_r 0.999"],
    ]
    panels = [
        Panel(title="contours of F(., t = 2)", fun=smoothed(problem, 2.0)),
        Panel(title="contours of f", fun=problem.fun),
    ]
    return (
        draw_surfaces(8, "Himmelblau's function", problem, ((-5, 5), (-5, 5)), 2.0),
        draw_curves(9, "Himmelblau's function", problem, outcomes, log=True),
        Drawing(
            name="figure_10_himmelblau_paths",
            caption="Figure 10: the iterates of GradOpt with factor 0.8 while t is 2.0 and while it is 1.6, and those "
            "of SLGH_r with gamma = 0.999, over the contours of the smoothed function and of the function itself.",
            draw=partial(trajectories, panels, ((-1, 5.2), (-1.5, 5.2)), followed, minimizers=problem.minimizers[:1]),
        ),
    )


def at_radius(path: Path, t: float) -> Path:
    """The part of a path on which the radius is t."""
    here = np.isclose(path.t, t)
    return Path(
        label=f"{path.label}, t = {t:g}",
        iteration=path.iteration[here],
        x=path.x[here],
        t=path.t[here],
        fun=path.fun[here],
    )


EXPERIMENT = PaperTable(
    name="himmelblau",
    title="Himmelblau, f(3, 2) = 0",
    problem=himmelblau,
    closed_form=True,
    box=((-6, 6), (-6, 6)),
    drawings=drawings,
    rows=(
        Row(label="GD", method="gd", x=("2.998", "2.003"), fun="1.6e-4"),
        Row(
            label="GradOpt 0.5",
            method="gradopt",
            params=GRADOPT | {"gamma": 0.5},
            x=("2.575", "1.437"),
            fun="14.14",
        ),
        Row(
            label="GradOpt 0.8",
            method="gradopt",
            params=GRADOPT | {"gamma": 0.8},
            x=("1.573", "0.868"),
            fun="80.51",
        ),
        Row(
            label="SLGH_r 0.995",
            method="slgh_r",
            params={"t1": 2.0, "gamma": 0.995},
            x=("2.999", "2.002"),
            fun="6.9e-5",
        ),
        Row(
            label="SLGH_r 0.999",
            method="slgh_r",
            params={"t1": 2.0, "gamma": 0.999},
            x=("2.983", "1.897"),
            fun="0.21",
        ),
    ),
)
