"""Several local searches side by side, so that their points fill the rounds of parallel evaluations.

A round is as many points as can be evaluated at the same time. The oldest search gets what it asks for, and the others
share the places that are left in its rounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from slgh.auto.evaluation import Evaluating, Evaluation, Floats
from slgh.auto.local_search import LocalMinimum

MIN_FILL = 0.75
"""Another search begins if less than this share of the places in a round is taken. Other requests of a run, such as the
start, fill less, and its average must reach 0.7. More would take evaluations away from the first search."""

Begin: TypeAlias = Callable[[int, float], Evaluating[LocalMinimum] | None]
"""Begins the search of a number, from 0 on, given the lowest value so far. Returns None if there are no more."""


class _Search:
    """A search that runs, its current request, and the values that it has so far."""

    def __init__(self, steps: Evaluating[LocalMinimum]) -> None:
        self.steps = steps
        self.request = next(steps)
        self.values: list[float] = []

    @property
    def missing(self) -> Floats:
        """Points of the request that have no value yet, (n, d)."""
        return self.request.points[len(self.values) :]

    def receive(self, values: list[float]) -> LocalMinimum | None:
        """Take some of the missing values. Return the outcome if the search has ended."""
        self.values += values
        if len(self.values) == len(self.request.points):
            answer, self.values = np.array(self.values), []
            try:
                self.request = self.steps.send(answer)
            except StopIteration as end:
                found: LocalMinimum = end.value
                return found
        return None


def side_by_side(x: Floats, begin: Begin, width: int, budget: int, *, endless: bool) -> Evaluating[LocalMinimum]:
    """Run searches, the first of them from x, and return the lowest minimum. `converged` is that of the first one.

    Parameters
    ----------
    begin
        Begins the next search.
    width
        Number of points per round.
    budget
        Maximum number of evaluations.
    endless
        True if searches begin until the budget is spent. Otherwise none begins after the first one has ended.
    """
    running: list[_Search] = []
    first: _Search | None = None
    best, converged, begun, more = LocalMinimum(x, math.inf, False), False, 0, True
    minima: list[LocalMinimum] = []
    try:
        while budget > 0:
            taken: list[tuple[_Search, Floats]] = []
            slots = 0
            for search in running:
                slots = slots or min(budget, math.ceil(len(search.missing) / width) * width)
                taken.append((search, search.missing[: slots - _count(taken)]))
            while more and (not taken or _count(taken) < MIN_FILL * slots):
                steps = begin(begun, best.fun)
                more = steps is not None
                if steps is None:
                    break
                try:
                    search = _Search(steps)
                except StopIteration:  # it has ended without an evaluation, and so would others
                    more = False
                    break
                first, begun = first or search, begun + 1
                running.append(search)
                slots = slots or min(budget, math.ceil(len(search.missing) / width) * width)
                taken.append((search, search.missing[: slots - _count(taken)]))
            if not taken:
                break
            oldest = taken[0][0]
            points = np.concatenate([part for _, part in taken])
            is_step = oldest.request.is_step and not oldest.values
            values = yield Evaluation(points, is_step=is_step)
            budget -= len(points)
            at = int(np.argmin(np.where(np.isfinite(values), values, np.inf)))
            if values[at] < best.fun:
                best = LocalMinimum(points[at], float(values[at]), False)
            parts = np.split(values, np.cumsum([len(part) for _, part in taken])[:-1])
            for (search, _), part in zip(taken, parts, strict=True):
                found = search.receive(part.tolist())
                if found is not None:
                    running.remove(search)
                    minima += found.minima
                    if search is first:
                        converged, more = found.converged, more and endless
    finally:
        for search in running:
            search.steps.close()
    # A converged first search may have ended above a point of one that has not.
    return best._replace(converged=converged, found=tuple(minima))


def _count(taken: list[tuple[_Search, Floats]]) -> int:
    """Return the number of points in a round."""
    return sum(len(part) for _, part in taken)
