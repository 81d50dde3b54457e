"""Mean ranks from the records, and the page `benchmarks/tuning.md`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata, studentized_range, t

from tuning_study import records
from tuning_study.problems import Problem

BUDGETS = (50, 200)
"""Evaluations per run."""

SEEDS = 20
"""Seeds per problem."""

Floats = NDArray[np.float64]


def best_values(
    problems: Sequence[Problem], methods: Sequence[str], budget: int, seeds: int, folder: Path
) -> tuple[Floats, list[int]]:
    """Return the best values (problem, seed, method) of the seeds that all methods have run, and these seeds."""
    found = {method: records.read(method, folder) for method in methods}
    complete = [
        seed for seed in range(seeds) if all((p.name, seed, budget) in found[m] for p in problems for m in methods)
    ]
    values = [[[found[m][p.name, s, budget]["best"] for m in methods] for s in complete] for p in problems]
    return np.array(values).reshape(len(problems), len(complete), len(methods)), complete


def ranks_of(values: Floats) -> Floats:
    """Return ranks along the last axis, averaged where values are equal up to rounding."""
    return np.asarray(rankdata(np.array([float(f"{v:.9g}") for v in values.flat]).reshape(values.shape), axis=-1))


def critical_difference(methods: int, samples: int) -> float:
    """Return Nemenyi's critical difference of mean ranks at 5 %."""
    q = float(studentized_range.ppf(0.95, methods, np.inf))
    return q / np.sqrt(2) * float(np.sqrt(methods * (methods + 1) / (6 * samples)))


def interval(differences: Floats) -> float:
    """Return the half width of the 95 % interval of the mean of paired differences (seeds,)."""
    n = len(differences)
    return float(t.ppf(0.975, n - 1) * differences.std(ddof=1) / np.sqrt(n)) if n > 1 else float("inf")


def ranks_table(
    problems: Sequence[Problem], methods: Sequence[str], budgets: Sequence[int], seeds: int, folder: Path
) -> str:
    """Return mean ranks as lines of text."""
    lines = []
    for budget in budgets:
        values, complete = best_values(problems, methods, budget, seeds, folder)
        if not complete:
            continue
        ranks = ranks_of(values)
        lines += [f"{budget} evaluations, {len(complete)} seeds"]
        lines += [f"{'':28}" + " ".join(f"{m:>15}" for m in methods)]
        rows = [*zip([p.name for p in problems], ranks.mean(axis=1), strict=True), ("mean", ranks.mean(axis=(0, 1)))]
        lines += [f"{name:28}" + " ".join(f"{r:15.2f}" for r in row) for name, row in rows]
    return "\n".join(lines)


def write(folder: Path) -> None:
    """Write the page."""
    raise NotImplementedError
