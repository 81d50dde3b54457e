"""Table 6 of the paper: the function with a hole, with zeroth-order methods.

The paper prints no minibatch size; 10 is that of its other experiments. Its printed y are not 0, so that the methods
were the zeroth-order ones. It prints no floor of t either: 0.02 leaves a y as large as the printed 8.33e-3.
"""

from __future__ import annotations

from collections.abc import Sequence

from slgh.paper.experiment import Drawing
from slgh.paper.figures import draw_curves, draw_surfaces
from slgh.paper.table import Outcome, PaperTable, Row
from slgh.problems import Problem, hole


def drawings(problem: Problem, outcomes: Sequence[Outcome]) -> tuple[Drawing, ...]:
    """Figures 11 and 12."""
    return (
        draw_curves(11, "the function with a hole", problem, outcomes, log=False),
        draw_surfaces(12, "the function with a hole", problem, ((-10, 20), (-10, 10)), 5.0, view=(25, -70)),
    )


EXPERIMENT = PaperTable(
    name="hole",
    title="The function with a hole, f(9.319, 0) = -56.670",
    problem=hole,
    closed_form=False,
    seeds=200,
    box=((-8, 18), (-8, 8)),
    drawings=drawings,
    rows=(
        Row(
            label="ZOSLGH_r 0.995",
            method="zoslgh_r",
            params={"t1": 5.0, "gamma": 0.995, "floor": 0.0},
            x=("-0.248", "2.38e-2"),
            fun="-5.52e-3",
        ),
        Row(
            label="ZOSLGH_r 0.999",
            method="zoslgh_r",
            params={"t1": 5.0, "gamma": 0.999, "floor": 0.0},
            x=("-2.959", "-2.18e-3"),
            fun="0.175",
        ),
        Row(
            label="ZOSLGH_d 0.999",
            method="zoslgh_d",
            params={"t1": 5.0, "gamma": 0.999, "eta": 0.01, "floor": 0.02},
            x=("9.319", "8.33e-3"),
            fun="-56.670",
        ),
    ),
)
