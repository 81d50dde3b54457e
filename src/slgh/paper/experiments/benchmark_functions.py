"""Tables 3 to 6 of the paper, and Figures 3 to 12: Ackley, Rosenbrock, Himmelblau, and the function with a hole."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from slgh.paper.data_files import read_toml
from slgh.paper.experiment import Drawing
from slgh.paper.experiments.figures import Panel, draw_curves, draw_surfaces, smoothed, trajectories
from slgh.paper.experiments.paper_table import PaperTable, RowOutcome, TableRow
from slgh.plotting.path import Path
from slgh.problems import PROBLEMS, Problem


def draw_rosenbrock(problem: Problem, outcomes: Sequence[RowOutcome]) -> tuple[Drawing, ...]:
    """Figures 5 to 7."""
    paths = [o.path(problem) for o in outcomes if o.row.label in ("GD", "SLGH_r 0.999")]
    contours, box = [Panel(title="contours of f", fun=problem.fun)], ((-3.2, 2), (-1, 5))
    return (
        draw_surfaces(5, "Rosenbrock's function", problem, ((-2, 2), (-1, 3)), 1.5, view=(30, -120)),
        draw_curves(6, "Rosenbrock's function", problem, outcomes, log=True),
        Drawing(
            name="figure_07_rosenbrock_paths",
            caption="Figure 7: the iterates of GD and of SLGH_r with gamma = 0.999 over the contours of Rosenbrock's "
            "function. Rings are starts, dots are ends.",
            draw=partial(trajectories, contours, box, paths, minimizers=problem.minimizers),
        ),
    )


def draw_himmelblau(problem: Problem, outcomes: Sequence[RowOutcome]) -> tuple[Drawing, ...]:
    """Figures 8 to 10."""
    path = {o.row.label: o.path(problem) for o in outcomes}
    double = path["GradOpt 0.8"]
    paths = [at_radius(double, 2.0), at_radius(double, 1.6), path["SLGH_r 0.999"]]
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
            draw=partial(trajectories, panels, ((-1, 5.2), (-1.5, 5.2)), paths, minimizers=problem.minimizers[:1]),
        ),
    )


def at_radius(path: Path, t: float) -> Path:
    """Return the part of a path with radius t."""
    return path.take(np.isclose(path.t, t), f"{path.label}, t = {t:g}")


def draw_ackley(problem: Problem, outcomes: Sequence[RowOutcome]) -> tuple[Drawing, ...]:
    """Figures 3 and 4."""
    return (
        draw_surfaces(3, "Ackley's function", problem, ((-6, 6), (-6, 6)), 1.0),
        draw_curves(4, "Ackley's function", problem, outcomes, log=True),
    )


def draw_hole(problem: Problem, outcomes: Sequence[RowOutcome]) -> tuple[Drawing, ...]:
    """Figures 11 and 12."""
    return (
        draw_curves(11, "the function with a hole", problem, outcomes, log=False),
        draw_surfaces(12, "the function with a hole", problem, ((-10, 20), (-10, 10)), 5.0, view=(25, -70)),
    )


DRAWINGS = {
    "rosenbrock": draw_rosenbrock,
    "himmelblau": draw_himmelblau,
    "ackley": draw_ackley,
    "hole": draw_hole,
}

BENCHMARK_TABLES = tuple(
    PaperTable(
        name=name,
        problem=PROBLEMS[name],
        drawings=DRAWINGS[name],
        **table | {"rows": tuple(TableRow(**row) for row in table["rows"])},
    )
    for name, table in read_toml("slgh.paper.experiments", "benchmark_functions.toml").items()
)
ROSENBROCK, HIMMELBLAU, ACKLEY, HOLE = BENCHMARK_TABLES
