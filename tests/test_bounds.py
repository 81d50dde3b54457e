"""Bounds: points outside are reflected into the box and never evaluated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import Bounds

import slgh
from cases import CASES, Case, fun, grad, noting, starts
from slgh.engine.bounds import Box, read_bounds
from slgh.problems import rosenbrock

INF = float("inf")
SIDE = st.one_of(st.just(-INF), st.floats(-5, 0)), st.one_of(st.just(INF), st.floats(0, 5))


@given(low=SIDE[0], high=SIDE[1], x=st.floats(-100, 100))
def test_reflection_lands_inside_and_leaves_the_inside_alone(low: float, high: float, x: float) -> None:
    inside, sign = Box(np.array([low]), np.array([high])).reflect(np.array([[x]]), np)
    assert low <= inside[0, 0] <= high
    assert sign[0, 0] in ((0.0,) if low == high else (-1.0, 1.0))
    if low <= x <= high:
        assert inside[0, 0] == x
        assert sign[0, 0] == float(low < high)


@given(low=st.floats(-5, -0.1), high=st.floats(0.1, 5), x=st.floats(-30, 30))
def test_the_sign_is_the_derivative_of_the_reflection(low: float, high: float, x: float) -> None:
    box, h = Box(np.array([low]), np.array([high])), 1e-6
    at, before, after = (box.reflect(np.array([[v]]), np) for v in (x, x - h, x + h))
    if before[1] == after[1]:
        assert (after[0] - before[0])[0, 0] / (2 * h) == pytest.approx(at[1][0, 0], abs=1e-3)


def test_reflection_is_a_mirror() -> None:
    box = Box(np.array([0.0, 0.0, -INF]), np.array([1.0, INF, 2.0]))
    points = np.array([[1.25, -0.5, 2.5], [2.25, 3.0, -9.0], [-1.25, 0.0, 2.0]])
    np.testing.assert_allclose(box.reflect(points, np)[0], [[0.75, 0.5, 1.5], [0.25, 3.0, -9.0], [0.75, 0.0, 2.0]])


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_no_method_evaluates_outside_the_box(case: Case) -> None:
    low, high = np.array([-2.0, -2.0, -INF, 0.5]), np.array([0.5, 2.0, 1.0, 0.5])
    seen: list[np.ndarray] = []

    def note(x: Any, *extra: Any) -> None:
        seen.append(np.reshape(x, (-1, 4)).copy())

    options = {"grad": noting(note, grad)} if case.first_order else {}
    x0 = np.clip(starts(2), low, high)
    result = case.run(x0, fun=noting(note, fun), batched=True, bounds=Bounds(low, high), history="x", **options)
    points = np.concatenate([*seen, result.x, result.x_best, result.xhat, *result.history["x"]])
    assert ((points >= low) & (points <= high)).all()


def test_a_minimum_on_the_boundary_is_found() -> None:
    result = slgh.minimize(
        lambda x: ((x - 3) ** 2).sum(axis=-1),
        np.zeros(5),
        bounds=[(-1, 1)] * 5,
        max_evals=4000,
        seed=0,
        vectorized=True,
    )
    np.testing.assert_allclose(result.x, np.ones(5), atol=1e-3)


def test_a_fixed_variable_does_not_disturb_the_others() -> None:
    def steep(x: Any) -> Any:
        return 1000 * x[..., 0] + (x[..., 1:] ** 2).sum(axis=-1)

    def slope(x: Any) -> Any:
        return np.concatenate([np.full((*x.shape[:-1], 1), 1000.0), 2 * x[..., 1:]], axis=-1)

    bounds = [(2, 2), (-5, 5), (-5, 5)]
    result = slgh.minimize(steep, [2.0, 3.0, 3.0], grad=slope, bounds=bounds, max_evals=2000, seed=0, vectorized=True)
    assert result.x[0] == 2.0
    assert result.fun == pytest.approx(2000, abs=1e-3)


def test_a_closed_form_is_projected() -> None:
    result = slgh.minimize(
        rosenbrock().smooth,
        [-3, 2],
        method="slgh_r",
        t1=1.5,
        gamma=0.99,
        step=1e-4,
        max_iter=2000,
        bounds=[(-4, 0), (-4, 4)],
    )
    assert result.x[0] == 0.0


@pytest.mark.parametrize(
    ("bounds", "match"),
    [
        ([(0, 1)], r"one pair per variable \(expected 2\); got 1"),
        ([(1, 0), (0, 1)], r"low <= high, got \(1.0, 0.0\) for variable 0"),
        ([(0, float("nan")), (0, 1)], "low <= high"),
        (5, "scipy.optimize.Bounds or one pair"),
        ([(0, 1), (0, 1, 2)], "scipy.optimize.Bounds or one pair"),
        (Bounds([0, 0, 0], [1, 1, 1]), r"one entry per variable \(expected 2\)"),
        ([(5, 6), (5, 6)], "`x0` must lie within `bounds`"),
    ],
)
def test_wrong_bounds_are_errors(bounds: object, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        slgh.minimize(lambda x: 0.0, [0.5, 0.5], bounds=bounds)


def test_none_is_no_bound() -> None:
    box = read_bounds([(None, 1), (0, None)], 2, np.float64)
    assert box is not None
    np.testing.assert_array_equal(box.low, [-INF, 0])
    assert read_bounds([(None, None)] * 2, 2, np.float64) is None
    assert read_bounds(None, 2, np.float64) is None
