"""The paper's experiments, one file each, beside its printed figures."""

from slgh.paper import errata
from slgh.paper.attack import REDUCED, AttackTable
from slgh.paper.experiment import Experiment
from slgh.paper.experiments import ackley, complexity, error_tolerance, himmelblau, hole, rosenbrock
from slgh.paper.table import PaperTable

PAPER_TABLES: dict[str, PaperTable] = {
    module.EXPERIMENT.name: module.EXPERIMENT for module in (rosenbrock, himmelblau, ackley, hole)
}
"""The tables of the test functions."""

ATTACK_TABLES: dict[str, AttackTable] = REDUCED
"""The attacks, as a CPU can run them; a GPU, or rows that were run on one, make them the paper's."""

EXPERIMENTS: dict[str, Experiment] = {
    **PAPER_TABLES,
    **ATTACK_TABLES,
    **{module.EXPERIMENT.name: module.EXPERIMENT for module in (error_tolerance, errata, complexity)},
}
"""All of them, by name."""

DEFAULT = (*PAPER_TABLES, "error_tolerance")
"""What runs where nothing is named: the test functions and Appendix C, with Figures 2 to 12 of the paper."""
