"""Table 3 of the paper: Ackley's function with zeroth-order methods.

The paper prints the step size 0.1, with which descent on the ripple is unstable, and no minibatch size. Its figures
come out with 0.01 and 1000. ZOGradOpt's printed stopping rule does not fire, so that t stays 1.
"""

from __future__ import annotations

from collections.abc import Sequence

from slgh.paper.experiment import Drawing
from slgh.paper.figures import draw_curves, draw_surfaces
from slgh.paper.table import Outcome, PaperTable, Row
from slgh.problems import Problem, ackley

GRADOPT = {"t1": 1.0, "rule": "minibatch", "eps0": 1e-3, "n0": 50}


def drawings(problem: Problem, outcomes: Sequence[Outcome]) -> tuple[Drawing, ...]:
    """Figures 3 and 4."""
    return (
        draw_surfaces(3, "Ackley's function", problem, ((-6, 6), (-6, 6)), 1.0),
        draw_curves(4, "Ackley's function", problem, outcomes, log=True),
    )


EXPERIMENT = PaperTable(
    name="ackley",
    title="Ackley, f(0, 0) = 0",
    problem=ackley,
    closed_form=False,
    seeds=50,
    box=((-6, 6), (-6, 6)),
    drawings=drawings,
    rows=(
        Row(label="ZOSGD", method="zosgd", params={"t1": 0.005}, x=("4.99", "4.99"), fun="12.63"),
        Row(
            label="ZOGradOpt 0.5",
            method="zogradopt",
            params=GRADOPT | {"gamma": 0.5},
            x=("4.2e-3", "1.9e-3"),
            fun="1.4e-2",
        ),
        Row(
            label="ZOGradOpt 0.8",
            method="zogradopt",
            params=GRADOPT | {"gamma": 0.8},
            x=("-2.2e-3", "6.7e-3"),
            fun="8.1e-2",
            remark="f at the printed point is 2.1e-2, not 8.1e-2",
        ),
        Row(
            label="ZOSLGH_r 0.995",
            method="zoslgh_r",
            params={"t1": 1.0, "gamma": 0.995, "floor": 0.0},
            x=("1.97", "1.97"),
            fun="6.56",
        ),
        Row(
            label="ZOSLGH_r 0.999",
            method="zoslgh_r",
            params={"t1": 1.0, "gamma": 0.999, "floor": 0.0},
            x=("-3.6e-3", "-4.6e-3"),
            fun="1.7e-2",
        ),
    ),
)
