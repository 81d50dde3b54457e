"""Table 5 of the paper: Himmelblau's function with first-order methods."""

from slgh.problems import himmelblau
from slgh.reproduce.experiment import Experiment, Row

GRADOPT = {"t1": 2.0, "rule": "F", "eps0": 1e-3, "n0": 50}

EXPERIMENT = Experiment(
    name="himmelblau",
    title="Himmelblau, f(3, 2) = 0",
    problem=himmelblau,
    closed_form=True,
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
