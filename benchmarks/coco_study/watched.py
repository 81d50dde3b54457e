"""Count evaluations, stop at the budget, and record the quality reached.

On bbob and bbob-largescale the quality is the best f so far, minus fopt. On bbob-noisy it is the best *noise-free* f
of the evaluated points, as in COCO's own post-processing. `cocoex` reports noise-free values to its observer only, so
they are read from the observer's files. The noisy values and `best_observed_fvalue1` are no substitute: the best of
many noisy values is below fopt.
"""

from __future__ import annotations

import math
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coco_study.suites import LOWER, TARGETS, UPPER, Place, opened

Array = NDArray[np.float64]
Run = Callable[["Watched", Array, Array, Array, int, int], object]
"""A method takes fun, x0, lower, upper, budget and seed, and calls fun until that raises `Spent`."""

OBSERVED = "number_target_triggers: 20 base_evaluation_triggers: 1,2,5"
"""Log at each twentieth of a decade of f - fopt, which includes all targets, and at 1, 2, 5, 10, ... times d."""


class Spent(Exception):
    """The budget is spent, or the last target is reached."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Outcome of a run: f - fopt at each budget, and the evaluation that reached each target."""

    at: list[float]
    hits: list[int]
    evaluations: int


class Watched:
    """Function to minimize with at most `budgets[-1]` evaluations.

    A run ends when the last target is reached, since the tables do not distinguish smaller values.
    """

    def __init__(self, problem: Any, *, fopt: float, budgets: Sequence[int], noisy: bool = False) -> None:
        self.problem, self.fopt, self.budgets = problem, fopt, budgets
        self.count, self.best = 0, math.inf
        self.at: list[float] = []
        self.hits: list[int] = []
        self.last_target = -math.inf if noisy else TARGETS[-1]

    def __call__(self, x: NDArray[Any]) -> float:
        if self.count == self.budgets[-1] or self.best <= self.last_target:
            raise Spent
        gap = float(self.problem(x)) - self.fopt
        self.count += 1
        if gap < self.best:
            self.best = gap
            while len(self.hits) < len(TARGETS) and gap <= TARGETS[len(self.hits)]:
                self.hits.append(self.count)
        if self.count == self.budgets[len(self.at)]:
            self.at.append(self.best)
        return gap + self.fopt

    def outcome(self) -> Outcome:
        """Return the outcome. Budgets that were not needed have the last value."""
        at = self.at + [self.best] * (len(self.budgets) - len(self.at))
        return Outcome(at=at, hits=self.hits, evaluations=self.count)


def read_observed(folder: Path, budgets: Sequence[int], evaluations: int) -> Outcome:
    """Return the outcome from the files of COCO's observer: evaluations, and the best noise-free f - fopt so far."""
    lines = [
        line.split(maxsplit=3)
        for file in [*folder.rglob("*.dat"), *folder.rglob("*.tdat")]
        for line in file.read_text().splitlines()
        if not line.startswith("%")
    ]
    curve = sorted((int(count), float(best)) for count, _, best, _ in lines)
    at = [min((best for count, best in curve if count <= budget), default=math.inf) for budget in budgets]
    first = (next((count for count, best in curve if best <= target), None) for target in TARGETS)
    return Outcome(at=at, hits=[count for count in first if count is not None], evaluations=evaluations)


def observe(problem: Any, place: Place, name: str, folder: Path) -> None:
    """Let COCO's observer write into a folder. Its files are complete when the problem is freed."""
    import cocoex

    cocoex.log_level("warning")
    where = f"outer_folder: {folder} result_folder: data algorithm_name: {name}"
    problem.observe_with(cocoex.Observer(place.suite, f"{where} {OBSERVED}"))


def watch(run: Run, place: Place, budgets: Sequence[int], *, name: str, keep: Path | None = None) -> Outcome:
    """Minimize a problem with a method. `keep` is a folder for the observer's files: complete, or not created."""
    with tempfile.TemporaryDirectory() as scratch:
        with opened(place) as problem:
            if place.noisy or keep is not None:
                observe(problem, place, name, Path(scratch))
            fun = Watched(problem, fopt=place.fopt, budgets=budgets, noisy=place.noisy)
            with suppress(Spent):
                run(fun, place.x0, np.full(place.d, LOWER), np.full(place.d, UPPER), budgets[-1], place.seed)
        if keep is not None:
            beside = keep.with_name(f"{keep.name}.{os.getpid()}.tmp")
            shutil.copytree(Path(scratch) / "data", beside)
            shutil.rmtree(keep, ignore_errors=True)
            beside.replace(keep)
        return read_observed(Path(scratch), budgets, fun.count) if place.noisy else fun.outcome()
