"""Count evaluations and rounds of W evaluations, and keep the lowest value."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from coco_study.suites import PRECISION
from coco_study.watched import Array, Spent

from parallel_study.problems import evaluations_allowed, rounds_allowed

CURVE = tuple(step * 10**power for power in range(5) for step in (1, 2, 3, 5, 7))
"""Rounds at which a record keeps the lowest value."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """A lower f - fopt, and the evaluation and the round that found it."""

    evaluations: int
    rounds: int
    gap: float


class Rounds:
    """Function of many points for `workers` workers: a call with m points takes ceil(m / workers) rounds.

    Parameters
    ----------
    budgets
        Budgets in evaluations. A run ends when the largest of them is used in both comparisons, by evaluations and by
        rounds, or when the optimum is found. If None, it never ends, because the method limits itself.
    """

    def __init__(
        self, fun: Callable[[Array], float], *, fopt: float, workers: int, budgets: Sequence[int] | None = None
    ) -> None:
        self.fun, self.fopt, self.workers, self.budgets = fun, fopt, workers, budgets
        self.evaluations = self.rounds = 0
        self.steps = [Step(evaluations=0, rounds=0, gap=math.inf)]

    def __call__(self, points: Array) -> Array:
        """Evaluate points, one per row."""
        if self.spent:
            raise Spent
        values = []
        for start in range(0, len(points), self.workers):
            self.rounds += 1
            values += [self._value(point) for point in points[start : start + self.workers]]
        return np.array(values)

    def _value(self, point: Array) -> float:
        self.evaluations += 1
        value = float(self.fun(point))
        if (gap := value - self.fopt) < self.steps[-1].gap:
            self.steps.append(Step(evaluations=self.evaluations, rounds=self.rounds, gap=gap))
        return value

    @property
    def spent(self) -> bool:
        """True if a run has used its budget or found the optimum."""
        if self.budgets is None:
            return False
        n = max(self.budgets)
        rounds, evaluations = rounds_allowed(n, self.workers), evaluations_allowed(n, self.workers)
        by_evaluations = self.evaluations >= n
        by_rounds = self.rounds >= rounds or self.evaluations >= evaluations
        return self.steps[-1].gap <= PRECISION or (by_evaluations and by_rounds)

    def after(self, evaluations: float, rounds: float = math.inf) -> float:
        """Return the lowest f - fopt after these numbers of evaluations and rounds, whichever comes first."""
        return next(s.gap for s in reversed(self.steps) if s.evaluations <= evaluations and s.rounds <= rounds)

    def by_evaluations(self, n: int) -> float:
        """Return the lowest f - fopt after n evaluations."""
        return self.after(n)

    def by_rounds(self, n: int) -> float:
        """Return the lowest f - fopt after the rounds that n evaluations take with the target speed-up."""
        return self.after(evaluations_allowed(n, self.workers), rounds_allowed(n, self.workers))

    def curve(self) -> list[float]:
        """Return the lowest f - fopt after 1, 2, 3, 5, 7, 10, ... rounds."""
        return [self.after(math.inf, rounds) for rounds in CURVE if rounds <= self.rounds]
