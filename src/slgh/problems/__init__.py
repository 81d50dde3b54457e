"""Test functions with their optimum, start, the paper's parameters, and their smoothed form."""

from __future__ import annotations

from collections.abc import Callable

from slgh.problems.ackley import ackley
from slgh.problems.chain import chain
from slgh.problems.himmelblau import himmelblau
from slgh.problems.hole import hole
from slgh.problems.problem import Problem
from slgh.problems.rosenbrock import rosenbrock
from slgh.problems.slide import slide
from slgh.problems.wells import wells

PROBLEMS: dict[str, Callable[..., Problem]] = {
    "ackley": ackley,
    "chain": chain,
    "himmelblau": himmelblau,
    "hole": hole,
    "rosenbrock": rosenbrock,
    "slide": slide,
    "wells": wells,
}

__all__ = ["PROBLEMS", "Problem", "ackley", "chain", "himmelblau", "hole", "rosenbrock", "slide", "wells"]
