"""Table 4 of the paper: Rosenbrock's function with first-order methods."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from slgh.paper.experiment import Drawing
from slgh.paper.figures import draw_curves, draw_surfaces
from slgh.paper.table import Outcome, PaperTable, Row
from slgh.plotting.figures import Panel, trajectories
from slgh.problems import Problem, rosenbrock

GRADOPT = {"t1": 1.5, "rule": "F", "eps0": 1e-3, "n0": 50}


def drawings(problem: Problem, outcomes: Sequence[Outcome]) -> tuple[Drawing, ...]:
    """Figures 5 to 7."""
    followed = [o.path(problem) for o in outcomes if o.row.label in ("GD", "SLGH_r 0.999")]
    return (
        draw_surfaces(5, "Rosenbrock's function", problem, ((-2, 2), (-1, 3)), 1.5, view=(30, -120)),
        draw_curves(6, "Rosenbrock's function", problem, outcomes, log=True),
        Drawing(
            name="figure_07_rosenbrock_paths",
            caption="Figure 7: the iterates of GD and of SLGH_r with gamma = 0.999 over the contours of Rosenbrock's "
            "function. Rings are starts, dots are ends.",
            draw=partial(
                trajectories,
                [Panel(title="contours of f", fun=problem.fun)],
                ((-3.2, 2), (-1, 5)),
                followed,
                minimizers=problem.minimizers,
            ),
        ),
    )


EXPERIMENT = PaperTable(
    name="rosenbrock",
    title="Rosenbrock, f(1, 1) = 0",
    problem=rosenbrock,
    closed_form=True,
    box=((-3.2, 2), (-1, 5)),
    drawings=drawings,
    rows=(
        Row(label="GD", method="gd", x=("0.468", "0.216"), fun="0.284"),
        Row(
            label="GradOpt 0.5",
            method="gradopt",
            params=GRADOPT | {"gamma": 0.5},
            x=("0.817", "0.667"),
            fun="3.36e-2",
        ),
        Row(
            label="GradOpt 0.8",
            method="gradopt",
            params=GRADOPT | {"gamma": 0.8},
            x=("0.808", "0.652"),
            fun="3.70e-2",
        ),
        Row(
            label="SLGH_r 0.995",
            method="slgh_r",
            params={"t1": 1.5, "gamma": 0.995},
            x=("0.819", "0.670"),
            fun="3.27e-2",
        ),
        Row(
            label="SLGH_r 0.999",
            method="slgh_r",
            params={"t1": 1.5, "gamma": 0.999},
            x=("0.795", "0.631"),
            fun="4.19e-2",
        ),
    ),
)
