"""Starts: the middle of the bounds, the solution of an earlier run, further points, and points with known values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import optimize

import slgh
from cases import assert_same


def bowl(x: Any) -> float:
    return float(np.sum((x - 0.3) ** 2))


@pytest.mark.parametrize(
    "bounds",
    [[(-1, 3), (0, 0.5)], optimize.Bounds([-1, 0], [3, 0.5]), optimize.Bounds([-1.0, 0.0], [3.0, 0.5])],
)
def test_without_x0_the_start_is_the_middle_of_the_bounds(bounds: Any) -> None:
    found = slgh.minimize(bowl, bounds=bounds, max_evals=40, seed=0)
    assert_same(found, slgh.minimize(bowl, [1.0, 0.25], bounds=bounds, max_evals=40, seed=0))


def test_without_x0_an_optimizer_begins_there_too() -> None:
    opt = slgh.Optimizer(bounds=[(-1, 3), (0, 0.5)], max_evals=40, seed=0)
    np.testing.assert_array_equal(opt.ask()[0], [1.0, 0.25])


def test_the_middle_of_a_huge_box_is_finite() -> None:
    huge = float(np.finfo(float).max)
    opt = slgh.Optimizer(bounds=[(-huge, huge), (huge / 2, huge)], max_evals=40, seed=0)
    np.testing.assert_array_equal(opt.ask()[0], [0.0, 0.75 * huge])


def test_a_result_is_a_start() -> None:
    before = slgh.minimize(bowl, np.ones(3), max_evals=30, seed=0)
    assert_same(slgh.minimize(bowl, before, max_evals=30, seed=1), slgh.minimize(bowl, before.x, max_evals=30, seed=1))
    local = optimize.minimize(bowl, np.ones(3))
    assert_same(slgh.minimize(bowl, local, max_evals=30, seed=1), slgh.minimize(bowl, local.x, max_evals=30, seed=1))
