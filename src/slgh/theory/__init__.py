"""The theorems of the paper: step sizes, burn-in, tuned gamma, and explicit bounds."""

from slgh.theory.bound import largest_nu
from slgh.theory.plan import Plan, plan
from slgh.theory.smoothness import Smoothness, estimate_smoothness
from slgh.theory.theorems import THEOREMS, Constants, Theorem

__all__ = [
    "THEOREMS",
    "Constants",
    "Plan",
    "Smoothness",
    "Theorem",
    "estimate_smoothness",
    "largest_nu",
    "plan",
]
