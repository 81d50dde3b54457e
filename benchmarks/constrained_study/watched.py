"""Count evaluations of f and its constraints, stop at the budget, and record the best feasible value.

One evaluation is one point, whether f, the constraints or both are evaluated there. Another call at a point that was
evaluated before is free: SciPy's interface to COBYQA calls constraints about 20 times per point, which a cache avoids.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import NonlinearConstraint

from constrained_study.problems import Floats, Problem

FEASIBLE = 1e-6
"""Largest violation of a feasible point."""

GAP = 1e-6
"""Gaps f - minimum up to this, relative to max(1, |minimum|), are equal. A violation of 1e-6 changes f that much."""


class Spent(Exception):
    """The budget is spent, or the minimum is reached."""


class Stalled(Exception):
    """The method has made MAX_FREE_CALLS calls at points that it had evaluated before."""


MAX_FREE_CALLS = 20_000
"""COBYQA can iterate without end where it has been before. It makes about 20 such calls per iteration."""


@dataclass(kw_only=True)
class Watched:
    """A problem with at most `budgets[-1]` evaluations. With `stops`, a run ends at the minimum."""

    problem: Problem
    budgets: tuple[int, ...]
    stops: bool = True
    count: int = 0
    gap: float = math.inf
    """Lowest relative gap of a feasible point."""
    violation: float = math.inf
    """Lowest violation."""
    at: list[tuple[float, float]] = field(default_factory=list)
    """Lowest gap and violation at each budget that has passed."""
    free: int = 0
    """Calls at known points since the last new one."""
    _known: set[bytes] = field(default_factory=set)

    def _parts(self, x: Any) -> tuple[float, Floats]:
        x = np.array(x, float)
        f, g, h = self.problem.parts(x)
        if x.tobytes() not in self._known:
            self._count(x, f)
            self.free = 0
        elif self.free == MAX_FREE_CALLS:
            self.free = 0
            raise Stalled
        self.free += 1
        return f, np.concatenate([g, h])

    def _count(self, x: Floats, f: float) -> None:
        if self.count == self.budgets[-1] or (self.stops and self.gap <= GAP):
            raise Spent
        self._known.add(x.tobytes())
        self.count += 1
        problem = self.problem
        violation = problem.violation(x)
        self.violation = min(self.violation, violation)
        if violation <= FEASIBLE and math.isfinite(f):
            self.gap = min(self.gap, (f - problem.minimum) / max(1.0, abs(problem.minimum)))
        if self.count in self.budgets:
            self.at.append((self.gap, self.violation))

    def f(self, x: Any) -> float:
        return self._parts(x)[0]

    def g(self, x: Any) -> Floats:
        return self._parts(x)[1]

    @property
    def constraint(self) -> NonlinearConstraint:
        """The inequalities and equalities, as SciPy takes them."""
        inequalities, equalities = self.problem.sizes
        return NonlinearConstraint(self.g, np.array([-np.inf] * inequalities + [0.0] * equalities), 0.0)

    def outcome(self) -> list[tuple[float, float]]:
        """Return the lowest gap and violation at each budget. A run that ended before keeps its last ones."""
        return self.at + [(self.gap, self.violation)] * (len(self.budgets) - len(self.at))
