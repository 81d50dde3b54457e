"""The first radius and widths that "auto" takes from the bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from auto_cases import LENGTHS, minimize, waves
from slgh.auto.defaults import first_radius, first_widths
from slgh.engine.bounds import Box


def box(*pairs: tuple[float, float]) -> Box:
    return Box(*np.array(pairs, float).T)


def test_the_widths_of_the_box_are_the_first_widths() -> None:
    unlike = box((0, 1), (-2, 2), (3, 19))
    assert first_radius(np.ones((1, 3)), unlike)[0] == pytest.approx(1.0)
    np.testing.assert_allclose(first_widths(unlike, 3), [0.25, 1.0, 4.0])
    np.testing.assert_array_equal(first_widths(box((-5, 5), (0, 10)), 2), [1.0, 1.0])
    assert first_radius(np.ones((2, 2)), box((-5, 5), (0, 10))).tolist() == [2.5, 2.5]


def test_fixed_variables_count_as_the_mean_of_the_others() -> None:
    some = box((0, 1), (7, 7), (0, 4))
    np.testing.assert_allclose(first_widths(some, 3), [0.5, 1.0, 2.0])
    assert first_radius(np.ones((1, 3)), some)[0] == pytest.approx(0.5)


@pytest.mark.parametrize("sides", [(-np.inf, 4), (2, 2), (-1.7e308, 1.7e308)])
def test_without_bounds_all_widths_are_one(sides: tuple[float, float]) -> None:
    np.testing.assert_array_equal(first_widths(box(sides, (1, 1)), 2), [1.0, 1.0])
    assert first_radius(np.full((1, 2), 3.0), box(sides, (1, 1)))[0] == pytest.approx(3.0)


@pytest.mark.parametrize("d", [1, 3, 7, 40])
def test_equal_widths_are_one_to_the_last_bit(d: int) -> None:
    rng = np.random.default_rng(d)
    for low, width in zip(rng.normal(size=20) * 100, rng.uniform(1e-3, 1e3, 20), strict=True):
        alike = box(*[(low, low + width)] * d)
        np.testing.assert_array_equal(first_widths(alike, d), np.ones(d))
        assert first_radius(np.zeros((1, d)), alike)[0] == (low + width - low) / 4


def stretched(x: Any) -> Any:
    """Waves in a box of these lengths."""
    return waves((x - 0.5 * LENGTHS) / LENGTHS * 10 - 1.0)


@pytest.mark.parametrize("method", ["auto", "scale_free"])
def test_a_long_box_is_as_good_as_a_cube(method: str) -> None:
    options = {"max_evals": 1500, "method": method, "history": "x"}
    cube = minimize(lambda x: waves((x - 0.5) * 10 - 1.0), np.full(5, 0.9), bounds=[(0, 1)] * 5, **options)
    long = minimize(stretched, 0.9 * LENGTHS, bounds=[(0, side) for side in LENGTHS], **options)
    assert (cube.history["t"][:6] > 0).all(), "the test is about the homotopy"
    np.testing.assert_allclose(long.history["x"][:6] / LENGTHS, cube.history["x"][:6], rtol=1e-7)
    # Later, rounding decides which of the local minima is found, so that only means over seeds can be compared.
    seeds, options = range(8), {"max_evals": 1500, "method": method}
    cubes = [
        minimize(lambda x: waves((x - 0.5) * 10 - 1.0), np.full(5, 0.9), bounds=[(0, 1)] * 5, seed=s, **options).fun
        for s in seeds
    ]
    longs = [
        minimize(stretched, 0.9 * LENGTHS, bounds=[(0, side) for side in LENGTHS], seed=s, **options).fun for s in seeds
    ]
    assert np.mean(longs) < 2 * np.mean(cubes) + 1
