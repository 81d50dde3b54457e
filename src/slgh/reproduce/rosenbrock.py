"""Table 4 of the paper: Rosenbrock's function with first-order methods."""

from slgh.problems import rosenbrock
from slgh.reproduce.experiment import Experiment, Row

GRADOPT = {"t1": 1.5, "rule": "F", "eps0": 1e-3, "n0": 50}

EXPERIMENT = Experiment(
    name="rosenbrock",
    title="Rosenbrock, f(1, 1) = 0",
    problem=rosenbrock,
    closed_form=True,
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
