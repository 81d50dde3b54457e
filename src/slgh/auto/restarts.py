"""Restarts of "auto" for large budgets: several kinds of restarts compete for the evaluations that are left.

Two of the kinds are those of BIPOP-CMA-ES (Hansen, *Benchmarking a BI-population CMA-ES on the BBOB-2009 function
testbed*, GECCO 2009): ever more samples from t1, which see the global structure, and few samples from random radii,
which find narrow basins. The next restart is of the kind with the fewest evaluations per credit, counting those that it
is expected to take. Credit grows when a kind finds a lower point, and falls when it does not. So what makes progress
gets more, and what does not costs a bounded share.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

import numpy as np

from slgh.auto.covariance import default_samples, learning_cost
from slgh.auto.evaluation import MAX_REQUEST_NUMBERS

T = TypeVar("T")

MAX_CREDIT = 4.0
"""Maximum share of a kind, relative to one that has found nothing."""

CREDIT_GROWTH, CREDIT_DECAY = 2.0, 0.7
"""Factors of the credit of a kind that has found a lower point, or has not."""

TRUSTED_CREDIT = 4.0
"""First credit of local searches if f looked smooth and the first one has converged."""

EXPECTED_ITERATIONS = 100
"""Iterations that the first covariance homotopy of a kind is expected to take."""

EXPECTED_GRADIENTS = 20
"""Gradients that the first local search is expected to take."""

MIN_ITERATIONS = 40
"""A homotopy gets at most as many samples as leave it this many iterations."""

FEW_VARIABLES = 3
"""In more variables, the restarts of the kind GROWING begin with twice the default number of samples, as in BIPOP.
In 20 variables, the default number fails on sharp ridges."""

MAX_DOUBLINGS = 40
"""Maximum number of times that the samples double."""

SMALLEST_RADIUS = 1e-2
"""Smallest first t of SMALL and NEAR, in units of t1."""


class Kind(IntEnum):
    """Kind of a restart."""

    GROWING = 0
    """A covariance homotopy from a random point and t1. Each has twice the samples of the one before."""
    SMALL = 1
    """A covariance homotopy from a random point, a random smaller t, and few samples."""
    NEAR = 2
    """A covariance homotopy from the best point and a random smaller t."""
    HOMOTOPY = 3
    """A homotopy with a diagonal metric from the best point, followed by a local search if it has found a lower one."""
    LOCAL_SEARCH = 4
    """A local search from a random point. In few variables, every second one starts near the best point."""


@dataclass(frozen=True)
class Race:
    """Evaluations spent on each kind of restart, their credits, and what the next restart of each may take."""

    spent: tuple[float, ...]
    credit: tuple[float, ...]
    expected: tuple[float, ...]
    count: tuple[int, ...]

    def next(self, left: int) -> Kind:
        """Return the next kind. It must be expected to end within the evaluations that are left, if one is."""
        least = min(self.expected)
        return min(
            (kind for kind in Kind if self.expected[kind] <= max(left, least)),
            key=lambda kind: (self.spent[kind] + self.expected[kind]) / self.credit[kind],
        )

    def after(self, kind: Kind, evals: int, *, improved: bool) -> Race:
        """Return the state after a restart that took `evals` evaluations. It `improved` if it found a lower point."""
        # One that takes no evaluations counts as well, since the others must have their turn.
        evals = max(evals, 1)
        credit = self.credit[kind] * (CREDIT_GROWTH if improved else CREDIT_DECAY)
        return Race(
            _set(self.spent, kind, self.spent[kind] + evals),
            _set(self.credit, kind, min(MAX_CREDIT, max(1 / MAX_CREDIT, credit))),
            _set(self.expected, kind, evals * (2.0 if kind is Kind.GROWING else 1.0)),
            _set(self.count, kind, self.count[kind] + 1),
        )


def begin(d: int, *, trusted: bool, kinds: Collection[Kind] = tuple(Kind)) -> Race:
    """Return the state before the first restart. Local searches have credit if they are `trusted`.

    Restarts are of these `kinds`. The others are never expected to end.
    """
    run = float(EXPECTED_ITERATIONS * default_samples(d))
    expected = dict.fromkeys(Kind, run) | {
        Kind.GROWING: run * 2 ** _first_doublings(d),
        Kind.HOMOTOPY: float(learning_cost(d)),
        Kind.LOCAL_SEARCH: EXPECTED_GRADIENTS * (d + 1.0),
    }
    credit = {Kind.LOCAL_SEARCH: TRUSTED_CREDIT} if trusted else {}
    return Race(
        spent=(0.0,) * len(Kind),
        credit=tuple(credit.get(kind, 1.0) for kind in Kind),
        expected=tuple(expected[kind] if kind in kinds else math.inf for kind in Kind),
        count=(0,) * len(Kind),
    )


def _set(numbers: tuple[T, ...], at: int, number: T) -> tuple[T, ...]:
    """Return the numbers with one replaced."""
    return (*numbers[:at], number, *numbers[at + 1 :])


def _first_doublings(d: int) -> int:
    """Return how many times the samples of the first restart of the kind GROWING have doubled."""
    return int(d > FEW_VARIABLES)


def choose_samples(kind: Kind, d: int, growths: int, left: int, rng: np.random.Generator) -> int:
    """Return the number of samples per iteration, if `growths` restarts of the kind GROWING have begun."""
    least = default_samples(d)
    largest = max(least, min(left // MIN_ITERATIONS, MAX_REQUEST_NUMBERS // d))
    grown = least << min(growths + _first_doublings(d), MAX_DOUBLINGS)
    if kind is Kind.GROWING:
        return min(grown, largest)
    # As in BIPOP, between the default number and half of the last large one, and mostly few.
    return min(int(least * max(1.0, grown / least / 2) ** (rng.random() ** 2)), largest)


def choose_radius(kind: Kind, rng: np.random.Generator) -> float:
    """Return the first t in units of t1."""
    return 1.0 if kind is Kind.GROWING else float(SMALLEST_RADIUS ** rng.random())
