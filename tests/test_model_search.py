"""The trust-region search on quadratic models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slgh.auto.model_search import Lagrange, minimize_quadratic, search

FREE = np.inf


def run(fun: Callable[[Any], float], low: Any, high: Any, evals: int = 400) -> tuple[list[Any], list[float], bool]:
    """Return points, values, and True if the search ended by itself."""
    solver, points, values = search(np.asarray(low, float), np.asarray(high, float)), [], []
    try:
        z = next(solver)
        for _ in range(evals):
            points.append(z)
            values.append(fun(z))
            z = solver.send(values[-1])
    except StopIteration:
        return points, values, True
    return points, values, False


@pytest.mark.parametrize(("d", "decades"), [(1, 3), (2, 3), (5, 3), (10, 1)])
def test_a_turned_ellipsoid_is_solved_within_forty_evaluations_per_variable(d: int, decades: int) -> None:
    """In ten variables with a condition of 1000, rounding decides if it takes 300 or 600 evaluations."""
    rng = np.random.default_rng(d)
    basis = np.linalg.qr(rng.normal(size=(d, d)))[0]
    matrix = basis @ np.diag(10.0 ** np.linspace(0, decades, d)) @ basis.T
    center = rng.uniform(-1, 1, d)
    points, values, _ = run(lambda z: float((z - center) @ matrix @ (z - center)), [-FREE] * d, [FREE] * d)
    assert min(values[: 40 * d]) < 1e-12
    np.testing.assert_allclose(points[int(np.argmin(values))], center, atol=1e-6)


def test_it_ends_by_itself_at_a_minimum() -> None:
    _, values, ended = run(lambda z: float(np.sum((z - 0.4) ** 2)), [-FREE] * 3, [FREE] * 3)
    assert ended
    assert min(values) < 1e-15


def test_rosenbrocks_valley_is_followed_to_its_end() -> None:
    _, values, _ = run(
        lambda z: 100 * (z[1] + 1 - z[0] ** 2) ** 2 + (1 - z[0]) ** 2, [-FREE] * 2, [FREE] * 2, evals=300
    )
    assert min(values) < 1e-10


@given(
    d=st.integers(1, 5),
    seed=st.integers(0, 1000),
    kind=st.sampled_from(["smooth", "rugged", "constant", "huge", "noise"]),
)
def test_points_stay_within_the_bounds_whatever_f_does(d: int, seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    low, high = -rng.uniform(0, 2, d) * rng.integers(0, 2, d), rng.uniform(0, 2, d) * rng.integers(0, 2, d)
    low, high = np.where(rng.random(d) < 0.2, -FREE, low), np.where(rng.random(d) < 0.2, FREE, high)
    functions: dict[str, Callable[[Any], float]] = {
        "smooth": lambda z: float(np.sum((z - 0.7) ** 2)),
        "rugged": lambda z: float(np.sum(np.cos(40 * z) + z**2)),
        "constant": lambda z: 1.0,
        "huge": lambda z: 1e300 * float(np.sum(z)),
        "noise": lambda z: float(rng.normal()),
    }
    with np.errstate(all="ignore"):
        points, _, _ = run(functions[kind], low, high, evals=120)
    for point in points:
        assert np.isfinite(point).all()
        assert (point >= low).all()
        assert (point <= high).all()


def test_variables_that_cannot_move_stay() -> None:
    points, values, _ = run(lambda z: float(np.sum((z - 1) ** 2)), [0.0, -FREE, 0.0], [0.0, FREE, 0.0])
    assert all(point[0] == point[2] == 0 for point in points)
    assert min(values) == pytest.approx(2.0)
    points, _, ended = run(lambda z: 1.0, [0.0], [0.0])
    assert ended
    assert len(points) == 1


@given(d=st.integers(1, 4), seed=st.integers(0, 10_000), bounded=st.booleans())
def test_the_step_is_as_low_as_a_dense_sample_of_the_ball(d: int, seed: int, bounded: bool) -> None:
    rng = np.random.default_rng(seed)
    gradient, hessian = rng.normal(size=d), rng.normal(size=(d, d))
    hessian = hessian + hessian.T
    radius = 10.0 ** rng.uniform(-2, 1)
    low = np.full(d, -FREE if not bounded else -0.5 * radius)
    step = minimize_quadratic(gradient, hessian, radius, low, -low)
    assert np.linalg.norm(step) <= radius * (1 + 1e-9)
    assert (step >= low - 1e-12).all()
    assert (step <= -low + 1e-12).all()
    value = gradient @ step + 0.5 * step @ hessian @ step
    assert value <= 0
    if not bounded:
        shell = rng.normal(size=(4000, d))
        samples = shell / np.linalg.norm(shell, axis=1)[:, None] * radius * rng.random((4000, 1)) ** (1 / d)
        values = samples @ gradient + 0.5 * np.sum((samples @ hessian) * samples, axis=1)
        assert value <= values.min() + 1e-9 * abs(value)


def test_lagrange_quadratics_are_one_at_their_point_and_zero_at_the_others() -> None:
    shifts = np.random.default_rng(0).normal(size=(8, 3))
    lagrange = Lagrange(shifts)
    table = np.array([lagrange.at(shift) for shift in shifts])
    np.testing.assert_allclose(table, np.eye(8), atol=1e-8)
    constant, gradient, hessian = lagrange.interpolate(values := np.arange(8.0))
    found = constant + shifts @ gradient + 0.5 * np.sum((shifts @ hessian) * shifts, axis=1)
    np.testing.assert_allclose(found, values, atol=1e-8)
