"""Estimate the run time: time each method for a few hundred evaluations, and each function for a few."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import lru_cache

import numpy as np

from coco_study.jobs import Job, processes
from coco_study.settings import Method
from coco_study.suites import LOWER, UPPER, Place, functions, opened
from coco_study.watched import Spent, Watched

Column = tuple[str, int, int]
"""Suite, d, and budget of the runs."""


def hours(jobs: Iterable[Job]) -> dict[tuple[str, Column], float]:
    """Return the CPU hours of each method and column."""
    found: dict[tuple[str, Column], float] = {}
    names: dict[str, Method] = {}
    runs: dict[tuple[str, Column], int] = {}
    for job in jobs:
        names[job.method.name] = job.method
        key = job.method.name, (job.place.suite, job.place.d, job.budgets[-1])
        runs[key] = runs.get(key, 0) + 1
    with processes(1) as alone:
        for (name, (suite, d, budget)), number in runs.items():
            seconds = alone.submit(seconds_per_evaluation, names[name], suite, d, budget).result()
            found[name, (suite, d, budget)] = number * budget * seconds / 3600
    return found


def seconds_per_evaluation(method: Method, suite: str, d: int, budget: int) -> float:
    """Return the seconds per evaluation: those of the method plus those of the function."""
    return method_seconds(method, suite, d, budget) + function_seconds(suite, d)


def method_seconds(method: Method, suite: str, d: int, budget: int) -> float:
    """Return the seconds per evaluation that the method itself needs, without the function.

    The method is timed for max(500, 5 d) evaluations, after a short run that imports and compiles.
    """
    place = Place(suite=suite, d=d, f=functions(suite)[2], i=1)
    box = np.full(d, LOWER), np.full(d, UPPER)
    for evaluations in (50, min(budget, max(500, 5 * d))):
        with opened(place) as problem, warnings.catch_warnings(), suppress(Spent):
            warnings.simplefilter("ignore")
            fun = Watched(problem, fopt=place.fopt, budgets=[evaluations], noisy=place.noisy)
            begin = time.process_time()
            method.bound()(fun, place.x0, *box, budget, place.seed)
        took = (time.process_time() - begin) / fun.count
    return max(took - _seconds(place), 0.0)


@lru_cache
def function_seconds(suite: str, d: int) -> float:
    """Return the mean time of an evaluation over the functions of a suite."""
    return float(np.mean([_seconds(Place(suite=suite, d=d, f=f, i=1)) for f in functions(suite)]))


def _seconds(place: Place, repeats: int = 10) -> float:
    points = np.random.default_rng(0).uniform(LOWER, UPPER, (repeats + 1, place.d))
    with opened(place) as problem:
        problem(points[0])
        begin = time.process_time()
        for x in points[1:]:
            problem(x)
        return (time.process_time() - begin) / repeats


def lines(found: dict[tuple[str, Column], float], names: Sequence[str]) -> list[str]:
    """Format the hours by method and by column as two lists. A run for a larger budget also covers the smaller ones."""
    by_method = {name: sum(h for (who, _), h in found.items() if who == name) for name in names}
    by_column = {
        f"{suite}, d = {d}, {budget // d} d": sum(h for (_, column), h in found.items() if column == (suite, d, budget))
        for suite, d, budget in sorted({column for _, column in found})
    }
    rows = {**by_method, **by_column, "total": sum(found.values())}
    width = max(map(len, rows))
    return [f"{'CPU hours':{width}}", *(f"{name:{width}} {hours:8.2f}" for name, hours in rows.items())]
