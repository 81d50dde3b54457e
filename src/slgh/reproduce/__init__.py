"""The paper's experiments, one file each, beside its printed figures."""

from slgh.reproduce import ackley, complexity, error_tolerance, himmelblau, hole, rosenbrock
from slgh.reproduce.experiment import Experiment
from slgh.reproduce.study import Study

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT for module in (rosenbrock, himmelblau, ackley, hole)
}
STUDIES: dict[str, Study] = {module.STUDY.name: module.STUDY for module in (complexity, error_tolerance)}
