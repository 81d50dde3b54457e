"""Compute ranks, their critical difference, and the area under the ECDF of targets."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata, studentized_range

from coco_study.records import Record
from coco_study.suites import PRECISION, TARGETS, Place

Runs = Mapping[tuple[str, Place], Record]
"""Record of each method on each problem of a cell, at the cell's budget."""


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """Mean ranks of methods over functions (1 is best), and the difference that is significant."""

    ranks: dict[str, float]
    functions: int
    problems: int

    @property
    def critical_difference(self) -> float:
        """Critical difference with functions as samples, since instances of one function are not independent.

        Averages over instances vary less than single ranks, so this value is conservative.
        """
        return critical_difference(len(self.ranks), self.functions)

    @property
    def if_independent(self) -> float:
        """Critical difference if instances were independent samples."""
        return critical_difference(len(self.ranks), self.problems)

    @property
    def best(self) -> float:
        """Lowest mean rank."""
        return min(self.ranks.values())

    def ties(self, name: str) -> bool:
        """Return True if a method is within the critical difference of the best."""
        return self.ranks[name] - self.best <= self.critical_difference


def value(record: Record, budget: int) -> float:
    """Return f - fopt at a budget. Values below the last target are equal."""
    return max(record.at[record.budgets.index(budget)], PRECISION)


def rank(runs: Runs, methods: Sequence[str], places: Iterable[Place], budget: int) -> Ranking:
    """Rank the methods on each problem, and average over the instances of a function, then over functions."""
    by_function: dict[int, list[NDArray[np.float64]]] = {}
    for place in places:
        values = [value(runs[name, place], budget) for name in methods]
        by_function.setdefault(place.f, []).append(rankdata(values))
    means = np.mean([np.mean(ranks, axis=0) for ranks in by_function.values()], axis=0)
    return Ranking(
        ranks=dict(zip(methods, map(float, means), strict=True)),
        functions=len(by_function),
        problems=sum(map(len, by_function.values())),
    )


def critical_difference(methods: int, samples: int) -> float:
    """Return Nemenyi's critical difference at 5 %: q_0.05(k, infinity) / sqrt(2) * sqrt(k (k + 1) / (6 N))."""
    if methods < 2:
        return 0.0
    q = float(studentized_range.ppf(0.95, methods, np.inf))
    return q / math.sqrt(2) * math.sqrt(methods * (methods + 1) / (6 * samples))


def median(runs: Runs, name: str, places: Iterable[Place], budget: int) -> float:
    """Return the median f - fopt over instances."""
    return float(np.median([value(runs[name, place], budget) for place in places]))


def area(record: Record, budget: int) -> float:
    """Return the area under a run's ECDF of targets: the mean over COCO's 51 targets of 1 - log(n) / log(budget).

    n is the evaluation that reached the target. A target that is not reached within the budget counts as 0.
    """
    reached = (1 - math.log(n) / math.log(budget) for n in record.hits if n <= budget)
    return sum(reached) / len(TARGETS)


def ecdf(runs: Runs, name: str, places: Sequence[Place], evaluations: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share of (problem, target) pairs reached within these numbers of evaluations."""
    hits = np.sort([n for place in places for n in runs[name, place].hits])
    return np.searchsorted(hits, evaluations, side="right") / (len(places) * len(TARGETS))
