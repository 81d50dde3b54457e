"""Functions and helpers for the tests of "auto"."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from array_api_compat import array_namespace

import slgh
from cases import assert_same

Point = Callable[[Any], Any]


def bowl(x: Any) -> Any:
    """Smooth function with minimum 1. Its condition number grows with the number of variables."""
    xp = array_namespace(x)
    return 1 + xp.sum(xp.arange(1.0, x.shape[-1] + 1, dtype=x.dtype) ** 2 * (x - 0.3) ** 2, axis=-1)


def slope(x: Any) -> Any:
    """The gradient of the bowl."""
    return 2 * np.arange(1.0, x.size + 1) ** 2 * (x - 0.3)


def valley(x: Any) -> Any:
    """Rosenbrock's function."""
    xp = array_namespace(x)
    return xp.sum(100 * (x[..., 1:] - x[..., :-1] ** 2) ** 2 + (1 - x[..., :-1]) ** 2, axis=-1)


def waves(x: Any) -> Any:
    """Rastrigin's function."""
    xp = array_namespace(x)
    return xp.sum(x**2 + 10 * (1 - xp.cos(2 * np.pi * x)), axis=-1)


def cliff(x: Any) -> Any:
    """Waves that are NaN on a half-space."""
    return np.where(x[..., 0] > 1.5, np.nan, waves(x))


def calm(x: Any) -> Any:
    """A bowl that is NaN on a half-space."""
    return np.where(x[..., 0] < 0.25, np.nan, bowl(x))


FUNCTIONS = {f.__name__: f for f in (bowl, valley, waves, cliff, calm)}
every_function = pytest.mark.parametrize("fun", FUNCTIONS.values(), ids=FUNCTIONS.keys())


def minimize(fun: Any, x0: Any, **options: Any) -> slgh.Result:
    """Call slgh.minimize with the defaults of most tests here."""
    return slgh.minimize(fun, x0, **{"seed": 2, "vectorized": True, **options})


class Counted:
    """Function of one point that stores its values, and can raise at a given call."""

    def __init__(self, fun: Point, fails_at: int = 0, error: type[BaseException] = ZeroDivisionError) -> None:
        self.fun, self.fails_at, self.error = fun, fails_at, error
        self.values: list[float] = []

    def __call__(self, x: Any) -> float:
        assert np.isfinite(x).all()
        if len(self.values) + 1 == self.fails_at:
            raise self.error
        self.values.append(float(self.fun(x)))
        return self.values[-1]


KINDS: dict[str, Callable[[Any, Any], Any]] = {
    "smooth": lambda x, rng: bowl(x),
    "rugged": lambda x, rng: waves(x),
    "noisy": lambda x, rng: bowl(x) + rng.normal(),
    "cliff": lambda x, rng: cliff(x),
    "islands": lambda x, rng: waves(x) if np.sin(9 * x).sum() > 0 else np.nan,
    "steps": lambda x, rng: np.floor(bowl(x)),
    "constant": lambda x, rng: 1.0,
    "nothing": lambda x, rng: np.nan,
    "infinite": lambda x, rng: np.inf if x[0] < 1.0 else bowl(x),
}


LENGTHS = np.array([0.01, 1.0, 100.0, 0.1, 10.0])
"""Sides of a box that differ by a factor of 10,000."""

START = np.full(11, 1.25)
"""In this many variables, all local searches use L-BFGS-B."""

FEWER = np.full(3, 1.25)
"""In this many variables, many local searches use quadratic models."""


def resumable(fun: Point, x0: Any = START, **options: Any) -> slgh.Result:
    """Run with all phases."""
    return slgh.minimize(fun, x0, **{"max_evals": 80 * (x0.size + 1), "seed": 4, "history": "x", **options})


@functools.cache
def uninterrupted(fun: Point, *, fewer: bool = False) -> slgh.Result:
    return resumable(fun, FEWER if fewer else START)


def assert_same_run(a: slgh.Result, b: slgh.Result) -> None:
    assert_same(a, b)
    assert (a.message, a.success) == (b.message, b.success)
    assert a.phases == b.phases


class Clock:
    """Clock that moves only when a test advances it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.ticks, self.jumps_at = 0, 0

    def tick(self, x: Any) -> None:
        self.ticks += 1
        self.now += 2.0 * (self.ticks == self.jumps_at)

    def monotonic(self) -> float:
        return self.now


LOCAL: dict[str, Any] = {"phases": ("local_search", "restarts"), "seed": 0}
"""Options of a run that consists of local searches."""


def answered(talk: Any, fun: Point, gradient: Point = slope) -> tuple[Any, int]:
    """Answer the requests of a generator. Return its result and the number of evaluations."""
    answer, n = None, 0
    while True:
        try:
            request = talk.send(answer)
        except StopIteration as end:
            return end.value, n
        n += len(request.points)
        answer = np.array([(gradient if request.gradient else fun)(x) for x in request.points])


LARGE = 1500
"""Budget that is large in three variables: covariance homotopies take part."""


def powers(x: Any) -> Any:
    """Sum of different powers in rotated coordinates, with minimum 0 at 0.7. Local searches stall on it."""
    d = x.shape[-1]
    rotated = np.linalg.qr(np.random.default_rng(d).normal(size=(d, d)))[0]
    return np.sqrt(np.sum(np.abs((x - 0.7) @ rotated) ** np.linspace(2, 6, d), axis=-1))


@functools.cache
def uninterrupted_at_length(fun: Point) -> slgh.Result:
    return resumable(fun, FEWER, max_evals=LARGE)
