"""The paper's experiments, one file each, beside its printed figures."""

from slgh.reproduce import ackley, himmelblau, hole, rosenbrock
from slgh.reproduce.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT for module in (rosenbrock, himmelblau, ackley, hole)
}
