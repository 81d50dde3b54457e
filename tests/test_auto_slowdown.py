"""A local search that has slowed down leaves the rest of a small budget to a homotopy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import slgh
from slgh.auto.evaluation import Evaluating, Evaluation
from slgh.auto.local_search import LocalMinimum
from slgh.auto.slowdown import end_if_slow

D = 160


def ripples(x: Any) -> Any:
    """A bowl that hides its ripples from the landscape check."""
    return np.sum(x**2 + 0.3 * (1 - np.cos(8 * x)), axis=-1)


def falling(values: Any) -> Evaluating[LocalMinimum]:
    """A search that takes these values, one by one, as they come."""
    for k in range(len(values)):
        yield Evaluation(np.full((1, 1), float(k)))
    return LocalMinimum(np.zeros(1), -1.0, True)


def outcome(values: Any) -> tuple[LocalMinimum, int]:
    """Return the outcome, and the number of values that were used."""
    search, used = end_if_slow(falling(values), len(values)), 0
    try:
        next(search)
        while True:
            used += 1
            search.send(np.array([values[used - 1]]))
    except StopIteration as end:
        return end.value, used


def test_a_search_that_settles_is_ended_at_its_lowest_point() -> None:
    found, used = outcome(0.5 ** np.arange(100.0))
    assert used == 60
    assert (float(found.x[0]), found.fun, found.converged) == (59.0, 0.5**59, False)


@pytest.mark.parametrize("values", [-np.arange(100.0), 0.99 ** np.arange(100.0), np.full(100, np.nan)])
def test_a_search_that_descends_or_has_no_values_is_not_ended(values: Any) -> None:
    assert outcome(values) == (LocalMinimum(np.zeros(1), -1.0, True), 100)


def test_the_homotopy_then_ends_lower() -> None:
    x0 = np.random.default_rng(0).uniform(-4, 4, D)
    options: dict[str, Any] = {"bounds": [(-5, 5)] * D, "max_evals": 50 * D, "seed": 0, "vectorized": True}
    run = slgh.minimize(ripples, x0, **options)
    alone = slgh.minimize(ripples, x0, phases="local_search", **options)
    assert "f looked smooth: 1 homotopy, 2 local searches." in run.message
    assert run.fun < 0.7 * alone.fun
