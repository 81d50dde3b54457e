"""The homotopy that learns a full metric."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from slgh.auto.covariance import (
    CovarianceEnd,
    CovarianceOutcome,
    Incumbent,
    SampleSpace,
    choose_rates,
    covariance_homotopy,
    default_samples,
)
from slgh.auto.evaluation import Evaluating
from slgh.engine.bounds import read_bounds

Points = Callable[[NDArray[Any]], Any]
"""Function of points (n, d)."""


def answer(search: Evaluating[CovarianceOutcome], fun: Points) -> tuple[CovarianceOutcome, NDArray[Any], list[float]]:
    """Return the outcome, all points, and t in each iteration."""
    points, radii = [], []
    try:
        evaluation = next(search)
        while True:
            points.append(evaluation.points)
            radii.append(evaluation.t)
            assert evaluation.is_step
            assert np.isfinite(evaluation.points).all()
            evaluation = search.send(np.asarray(fun(evaluation.points), float))
    except StopIteration as end:
        return end.value, np.concatenate(points), radii


def run(
    fun: Points,
    d: int,
    budget: int,
    *,
    x: Any = 1.0,
    t: float = 1.0,
    bounds: Any = None,
    incumbent: Incumbent | None = None,
    t1: float | None = None,
    dtype: Any = float,
) -> tuple[CovarianceOutcome, NDArray[Any], list[float]]:
    dtype = np.dtype(dtype)
    space = SampleSpace(x=np.full(d, x), t=t, widths=np.ones(d), box=read_bounds(bounds, d, dtype), dtype=dtype)
    search = covariance_homotopy(
        space,
        budget,
        incumbent or Incumbent(np.full(d, x), np.inf, False),
        samples=default_samples(d),
        t1=t1 or t,
        rng=np.random.default_rng(0),
    )
    return answer(search, fun)


def rotation(d: int) -> NDArray[Any]:
    return np.asarray(np.linalg.qr(np.random.default_rng(d).normal(size=(d, d)))[0])


def ellipsoid(d: int, condition: float) -> Points:
    """Ellipsoid in rotated coordinates, with minimum 0 at 0."""
    rotated, scales = rotation(d), condition ** np.linspace(0, 1, d)
    return lambda x: np.sum(scales * (x @ rotated) ** 2, axis=-1)


def ridge(x: NDArray[Any]) -> Any:
    """Sharp ridge in rotated coordinates."""
    z = x @ rotation(x.shape[-1])
    return z[:, 0] ** 2 + 100 * np.sqrt(np.sum(z[:, 1:] ** 2, axis=-1))


def sphere(x: NDArray[Any]) -> Any:
    return np.sum(x**2, axis=-1)


@pytest.mark.parametrize(("d", "budget"), [(1, 300), (2, 800), (5, 2_500), (10, 8_000)])
def test_a_rotated_ellipsoid_is_solved(d: int, budget: int) -> None:
    found, points, _ = run(ellipsoid(d, 1e6), d, budget)
    assert found.fun < 1e-8
    assert ellipsoid(d, 1e6)(found.x[None])[0] == pytest.approx(found.fun, rel=1e-9)
    assert len(points) <= budget


def test_a_sharp_ridge_is_solved() -> None:
    assert run(ridge, 5, 8_000)[0].fun < 1e-8


def test_many_variables_have_a_diagonal_metric() -> None:
    """A full one would have 90,000 numbers. Its decompositions would take minutes."""
    scales = 1e3 ** np.linspace(0, 1, 300)
    found, _, _ = run(lambda x: np.sum(scales * x**2, axis=-1), 300, 60_000)
    assert found.fun < 1e-4 * scales.sum()


def test_t_grows_far_from_the_minimum_and_shrinks_near_it() -> None:
    _, _, radii = run(sphere, 5, 2_000, x=100.0, t=0.01)
    assert max(radii) > 10.0
    assert radii[-1] < 1e-6


def test_only_the_order_of_values_matters() -> None:
    plain, rooted = (run(f, 4, 800)[1] for f in (sphere, lambda x: sphere(x) ** 0.25))
    np.testing.assert_array_equal(plain, rooted)


@pytest.mark.parametrize("d", [2, 7, 40])
@pytest.mark.parametrize("factor", [1, 4])
def test_the_weights_are_those_of_the_tutorial(d: int, factor: int) -> None:
    rates = choose_rates(d, factor * default_samples(d), diagonal=False)
    positive, negative = rates.weights[rates.weights > 0], rates.weights[rates.weights < 0]
    assert positive.sum() == pytest.approx(1)
    assert 1 / (positive @ positive) == pytest.approx(rates.effective)
    assert (np.diff(rates.weights) < 0).all()
    # Equation 52: an update cannot make the metric indefinite.
    assert -negative.sum() <= (1 - rates.rank_one - rates.rank_many) / (d * rates.rank_many) + 1e-12
    assert 0 < rates.rank_one + rates.rank_many <= 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bounds", [[(-1.0, 0.3)] * 3, [(0.1, None), (None, None), (-2.0, -2.0)]])
def test_points_are_within_the_bounds(bounds: Any, dtype: Any) -> None:
    """They are mirrored at them, so the minimum may be at a bound."""
    low, high = (
        np.array([side if side is not None else s for side in sides], dtype)
        for s, sides in zip((-np.inf, np.inf), zip(*bounds, strict=True), strict=True)
    )
    _, points, _ = run(lambda x: np.sum((x - 1) ** 2, -1), 3, 1_500, x=-0.5, t=0.5, bounds=bounds, dtype=dtype)
    assert (points >= low).all()
    assert (points <= high).all()


def test_a_minimum_in_a_corner_is_found() -> None:
    found, _, _ = run(lambda x: x @ np.array([1.0, 10.0, 100.0, 0.1]), 4, 3_000, bounds=[(-5, 5)] * 4, t=2.5)
    assert found.fun == pytest.approx(-5 * 111.1, abs=1e-9)


def test_bad_values_are_avoided() -> None:
    beyond = lambda x: np.where(x[:, 0] < 0.5, np.nan, np.sum((x - 0.6) ** 2, -1))  # noqa: E731
    assert run(beyond, 4, 3_000)[0].fun < 1e-10


def test_each_end_has_its_reason() -> None:
    far = Incumbent(np.full(3, 50.0), -1.0, False)
    same = Incumbent(np.zeros(3), 0.0, True)
    ends = {
        CovarianceEnd.NONFINITE: run(lambda x: np.full(len(x), np.nan), 3, 2_000),
        CovarianceEnd.BUDGET: run(sphere, 3, 200),
        CovarianceEnd.CONVERGED: run(sphere, 3, 20_000),
        CovarianceEnd.FLAT: run(lambda x: sphere(x) + 1, 3, 20_000),
        CovarianceEnd.CONDITION: run(lambda x: x[:, 0] ** 2 + np.abs(x[:, 1]) ** 8, 2, 20_000),
        CovarianceEnd.STAGNATION: run(lambda x: np.random.default_rng(len(x)).normal(size=len(x)), 3, 20_000),
        CovarianceEnd.BEHIND: run(sphere, 3, 20_000, incumbent=far),
        CovarianceEnd.SAME_MINIMUM: run(sphere, 3, 20_000, incumbent=same),
        CovarianceEnd.DIVERGED: run(lambda x: x.sum(-1), 3, 20_000),
    }
    assert set(ends) == set(CovarianceEnd)
    assert {end: found.end for end, (found, _, _) in ends.items()} == {end: end for end in ends}


@pytest.mark.parametrize("bounds", [None, [(0, None)] * 2, [(None, None), (0, 5)]])
def test_a_function_without_a_minimum_ends_it_unless_all_variables_are_bounded(bounds: Any) -> None:
    found, _, _ = run(lambda x: -np.log1p(np.sum(np.abs(x), axis=-1)), 2, 10_000, x=1.0, bounds=bounds)
    assert found.end is CovarianceEnd.DIVERGED


def test_a_hopeless_start_is_left_soon() -> None:
    lost = run(sphere, 5, 20_000, incumbent=Incumbent(np.full(5, 50.0), -10.0, False))
    alone = run(sphere, 5, 20_000)
    assert len(lost[1]) < 0.5 * len(alone[1])


def test_a_plateau_is_left() -> None:
    """All values around the start are equal, so t must grow."""
    assert run(lambda x: np.floor(sphere(x)), 3, 3_000, x=3.2, t=1e-3, t1=1.0)[0].fun == 0.0
