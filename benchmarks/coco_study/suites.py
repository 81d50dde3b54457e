"""COCO's suites: training and test functions, starts, optima and targets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

SUITES = ("bbob", "bbob-largescale", "bbob-noisy")

TRAINING = (1, 2, 3, 5, 8, 10, 12, 15, 17, 20, 22)
"""Constants are chosen on these functions and instances 1 to 5, and on no others."""

MULTIMODAL = 15
"""First multimodal function of BBOB."""

INSTANCES = (6, 7, 8)
"""Instances of the tables. None of them was used to choose constants."""

FRESH_INSTANCES = (9, 10)
"""Instances of a table apart. No method was run on them before slgh was complete."""

TARGETS = tuple(10 ** (2 - k / 5) for k in range(51))
"""COCO's targets: f - fopt = 10^2, 10^1.8, ..., 10^-8."""

PRECISION = TARGETS[-1]
"""Values below this are equal. It is COCO's last target."""

BENEATH = {1: (101, 107), 8: (104, 110), 7: (113,), 10: (116,), 14: (119,), 17: (122,), 19: (125,), 21: (128,)}
"""Function of bbob under each group of three functions of bbob-noisy (Gaussian, uniform and Cauchy noise)."""

NOISE_FREE = {first + k: f for f, firsts in BENEATH.items() for first in firsts for k in range(3)}

LOWER, UPPER = -5.0, 5.0
START = 4.0
"""Starts are uniform in [-4, 4]^d, where COCO places its optima."""


@dataclass(frozen=True, kw_only=True, order=True)
class Place:
    """One problem of a suite."""

    suite: str
    d: int
    f: int
    i: int

    @property
    def noisy(self) -> bool:
        """True if two evaluations of the same point differ."""
        return self.suite == "bbob-noisy"

    @property
    def entropy(self) -> list[int]:
        """Entropy of the start and the seed."""
        return [SUITES.index(self.suite), self.d, self.f, self.i]

    @property
    def x0(self) -> NDArray[np.float64]:
        """Start, the same for all methods."""
        return np.random.default_rng(self.entropy).uniform(-START, START, self.d)

    @property
    def seed(self) -> int:
        """Seed, the same for all methods."""
        return int(np.random.default_rng([*self.entropy, 1]).integers(1, 2**31 - 2**20))

    @property
    def fopt(self) -> float:
        """Minimum value. It depends only on the function and the instance, and has two decimals (up to 1e-14)."""
        from cocoex.bare_problem import BareProblem

        return float(BareProblem("bbob", plain(self.f), 2, self.i).best_value())


def functions(suite: str) -> tuple[int, ...]:
    """Return the numbers of a suite's functions."""
    return tuple(sorted(NOISE_FREE)) if suite == "bbob-noisy" else tuple(range(1, 25))


def plain(f: int) -> int:
    """Return the number of the bbob function without the noise."""
    return NOISE_FREE.get(f, f)


def is_training(f: int) -> bool:
    """Return True if constants were chosen on this function, with or without noise."""
    return plain(f) in TRAINING


def is_multimodal(f: int) -> bool:
    """Return True for f15 to f24, with or without noise."""
    return plain(f) >= MULTIMODAL


@contextmanager
def opened(place: Place) -> Iterator[Any]:
    """Open a problem of COCO. Each call opens a new suite, which restarts the noise of bbob-noisy."""
    import cocoex

    index = place.f - 100 * place.noisy
    chosen = f"dimensions: {place.d} function_indices: {index}"
    suite = cocoex.Suite(place.suite, f"instances: {place.i}", chosen)
    problem = suite[0]
    try:
        if problem.id_triple != (place.f, place.d, place.i):
            raise RuntimeError(f"Expected {place}, but `cocoex` opened {problem.id}.")
        yield problem
    finally:
        problem.free()
