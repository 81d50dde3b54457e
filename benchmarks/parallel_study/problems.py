"""The problems, and the rounds and evaluations that each cell of the tables allows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from clusters import OPTIMA, TOLERANCE, Energy, half_width, start_of
from coco_study.settings import read_methods
from coco_study.suites import LOWER, TRAINING, UPPER, Place, opened
from coco_study.watched import Array

SUITES = ("bbob", "clusters")
BUDGETS = (10, 20, 50, 100, 500)
"""Budgets in multiples of d."""

WORKERS = (8, 64)
DIMENSIONS = (5, 10, 40)
ATOMS = (5, 7)

SPEED_UP = 0.7
"""Share of the possible speed-up that is the target."""

LEAST_ROUNDS = 20
"""A method that adapts to what it sees needs some rounds, however many workers there are."""


@dataclass(frozen=True, kw_only=True, order=True)
class Cluster:
    """A Lennard-Jones cluster of f atoms from start i, with the attributes of COCO's `Place`.

    Energies within the tolerance of the optimum have f - fopt below zero, so they all count as equal.
    """

    d: int
    f: int
    i: int
    suite: str = "clusters"

    @property
    def x0(self) -> Array:
        return np.asarray(start_of(self.f, self.i))

    @property
    def seed(self) -> int:
        return self.i

    @property
    def fopt(self) -> float:
        return OPTIMA[self.f] + TOLERANCE


Somewhere = Place | Cluster


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Settings that all methods get, and sigma0 of CMA-ES."""

    fun: Callable[[Array], float]
    x0: Array
    lower: Array
    upper: Array
    sigma0: float
    seed: int


@contextmanager
def problem_at(place: Somewhere) -> Iterator[Problem]:
    """Open a problem. CMA-ES has the sigma0 of `benchmarks/coco.py` or `benchmarks/clusters.py`."""
    known: dict[str, Any] = {"x0": place.x0, "seed": place.seed}
    one = np.ones(place.d)
    if isinstance(place, Cluster):
        width = half_width(place.f)
        fun = Energy(place.f, 10**9).value
        yield Problem(fun=fun, lower=-width * one, upper=width * one, sigma0=width / 2, **known)
    else:
        sigma0 = read_methods()["cma"].settings["sigma0"]
        with opened(place) as fun:
            yield Problem(fun=fun, lower=LOWER * one, upper=UPPER * one, sigma0=sigma0, **known)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Problems of one kind with a budget in multiples of d, and W workers."""

    group: str
    budget: int
    workers: int

    @property
    def places(self) -> list[Somewhere]:
        """Problems of the cell. Large cells have fewer instances, which saves hours of the peers' time."""
        instances = range(1, 4 - (self.group == "40-D") - (self.budget == BUDGETS[-1]))
        if self.group == "clusters":
            return [Cluster(d=3 * n, f=n, i=i) for n in ATOMS for i in instances]
        d = int(self.group.removesuffix("-D"))
        return [Place(suite="bbob", d=d, f=f, i=i) for f in TRAINING for i in instances]


GROUPS = (*(f"{d}-D" for d in DIMENSIONS), "clusters")


def cells(workers: int) -> list[Cell]:
    """Return the cells with W workers."""
    return [Cell(group=group, budget=budget, workers=workers) for group in GROUPS for budget in BUDGETS]


def target(n: int, workers: int) -> float:
    """Return the target for the speed-up: evaluations per round."""
    return SPEED_UP * min(workers, n / LEAST_ROUNDS)


def rounds_allowed(n: int, workers: int) -> int:
    """Return the rounds that n evaluations take with the target speed-up."""
    return math.ceil(n / target(n, workers))


def evaluations_allowed(n: int, workers: int) -> int:
    """Return the evaluations that a full use of the workers, at most n / 20 at a time, makes in these rounds."""
    return int(rounds_allowed(n, workers) * min(workers, n / LEAST_ROUNDS))
