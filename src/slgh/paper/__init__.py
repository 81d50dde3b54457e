"""Reproduce the paper: its experiments, its errata, and the networks that it attacks."""

from slgh.paper import errata
from slgh.paper.attack import ATTACK_TABLES
from slgh.paper.experiment import Experiment
from slgh.paper.experiments import complexity, error_tolerance
from slgh.paper.experiments.benchmark_functions import BENCHMARK_TABLES
from slgh.paper.experiments.paper_table import PaperTable

PAPER_TABLES: dict[str, PaperTable] = {table.name: table for table in BENCHMARK_TABLES}
"""Tables 3 to 6, on test functions."""

EXPERIMENTS: dict[str, Experiment] = {
    **PAPER_TABLES,
    **ATTACK_TABLES,
    **{module.EXPERIMENT.name: module.EXPERIMENT for module in (error_tolerance, errata, complexity)},
}
"""All experiments by name."""

DEFAULT = (*PAPER_TABLES, "error_tolerance")
"""Experiments run by default: the test functions and Appendix C, with Figures 2 to 12 of the paper."""
