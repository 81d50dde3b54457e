"""Small budgets in few variables: searches on quadratic models that begin with a wide trust region."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slgh
from auto_cases import KINDS, Counted, Point, answered, assert_same_run, bowl, cliff, every_function, valley, waves
from cases import Stopper
from slgh.auto import model_search
from slgh.auto.local_search import LocalMinimum, SearchRegion
from slgh.auto.wide_search import is_small, wide_search

X0 = np.array([1.25, -2.5, 3.0])


def small(fun: Point, x0: Any = X0, **options: Any) -> slgh.Result:
    return slgh.minimize(
        fun, x0, **{"max_evals": 150, "seed": 4, "history": "x", "bounds": [(-5, 5)] * len(x0), **options}
    )


@pytest.mark.parametrize(
    ("d", "largest"), [(1, 100), (2, 200), (3, 300), (5, 300), (10, 300), (15, 300), (16, 320), (20, 400)]
)
def test_small_budgets(d: int, largest: int) -> None:
    assert is_small(largest, d)
    assert not is_small(largest + 1, d)


def test_no_budget_is_small_in_many_variables() -> None:
    assert not is_small(1, 21)


@pytest.mark.parametrize("max_evals", [2, 3, 4, 20, 61, 150])
def test_a_small_budget_is_spent_to_the_last_evaluation(max_evals: int) -> None:
    calls = Counted(waves)
    run = small(calls, max_evals=max_evals)
    assert run.nfev == len(calls.values) == max_evals
    assert run.fun == min(calls.values)


def test_a_small_budget_has_local_searches_alone() -> None:
    run = small(waves)
    assert not run.history["t"].any()
    assert [phase.name for phase in run.phases][:2] == ["local_search", "restarts"]
    assert len(run.phases) > 2
    assert run.message.startswith("The planned iterations were completed. ")
    assert "local searches." in run.message


@pytest.mark.parametrize("phases", [("homotopy",), ("landscape", "homotopy", "local_search")])
def test_without_restarts_the_plan_is_that_of_larger_budgets(phases: Any) -> None:
    assert small(waves, phases=phases).history["t"].any() or "1 local search" in small(waves, phases=phases).message


def test_declared_noise_excludes_this_plan() -> None:
    run = slgh.minimize(lambda x: float(np.sum(x**2)), np.ones(3), max_evals=200, seed=0, noise=0.1)
    assert "homotop" in run.message


def test_the_start_is_evaluated_once() -> None:
    run = small(valley)
    assert not (run.history["x"] == X0).all(axis=1).any(), "the steps are the other points"


@every_function
def test_a_small_run_broken_off_anywhere_is_continued_bit_for_bit(fun: Point, tmp_path: Path) -> None:
    whole = small(fun)
    for at in (1, 2, 3, 9, *range(20, whole.nfev, 27), whole.nfev):
        file = tmp_path / f"{at}.npz"
        with pytest.raises(Stopper):
            small(Counted(fun, at, Stopper), checkpoint=file)
        rest = Counted(fun)
        assert_same_run(small(rest, checkpoint=file), whole)
        assert len(rest.values) <= whole.nfev - at + 1, "known values are not evaluated again"


@settings(max_examples=40)
@given(d=st.integers(1, 5), max_evals=st.integers(1, 100), kind=st.sampled_from(sorted(KINDS)), seed=st.integers(0, 99))
def test_the_budget_and_the_bounds_are_hard_whatever_f_does(d: int, max_evals: int, kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    low, high = np.full(d, -2.0), np.full(d, 3.0)

    def fun(x: Any) -> Any:
        assert (x >= low).all()
        assert (x <= high).all()
        return KINDS[kind](x, rng)

    calls = Counted(fun)
    run = slgh.minimize(
        calls, rng.uniform(low, high), bounds=list(zip(low, high, strict=True)), max_evals=max_evals, seed=seed
    )
    assert run.nfev == len(calls.values) <= max_evals


def test_nowhere_finite_is_given_up() -> None:
    run = small(lambda x: np.nan)
    assert (run.status, run.success) == (slgh.Status.NONFINITE, False)
    assert run.nfev == 150


def test_a_start_where_f_is_not_finite_does_not_matter() -> None:
    start = np.full(3, 3.0)
    assert np.isnan(cliff(start))
    assert small(cliff, start).fun < 30


@pytest.mark.parametrize("scale", [2.0**-40, 2.0**60])
def test_a_multiple_of_f_gives_the_same_points(scale: float) -> None:
    np.testing.assert_array_equal(small(lambda x: scale * waves(x)).history["x"], small(waves).history["x"])


def test_another_unit_of_x_gives_the_same_points() -> None:
    scaled = small(lambda x: waves(x / 1024), 1024 * X0, bounds=[(-5120, 5120)] * 3)
    np.testing.assert_array_equal(scaled.history["x"] / 1024, small(waves).history["x"])


def test_a_basin_lower_than_that_of_the_first_search_is_found() -> None:
    def two_basins(x: Any) -> Any:
        near, far = np.sum((x - 1.0) ** 2, -1), np.sum((x + 3.0) ** 2, -1)
        return np.minimum(near, 0.3 * far - 5)

    found = small(two_basins, np.full(2, 1.5), max_evals=200)
    assert found.history["fun"][found.phases[0].stop - 1] == pytest.approx(0, abs=1e-6)
    assert found.fun == pytest.approx(-5, abs=1e-6)


REGION = SearchRegion(
    x=np.array([2.0, -1.0]), unit=np.ones(2), low=np.full(2, -5.0), high=np.full(2, 5.0), dtype=np.dtype(float)
)

LOWER = LocalMinimum(np.array([4.0, 4.0]), 0.5, converged=True)
"""A minimum elsewhere, below that of the bowl."""


def test_a_search_that_is_not_promising_ends_early() -> None:
    (found, long), (_, short) = (answered(wide_search(REGION, 200, best), bowl) for best in (None, LOWER))
    assert found.fun == pytest.approx(1, abs=1e-13)
    assert short < long - 5


def test_a_promising_search_is_finished() -> None:
    found, _ = answered(wide_search(REGION, 200, LOWER._replace(fun=1.0 + 1e-9)), bowl)
    assert found.fun < 1 + 1e-13


def test_a_search_that_finds_the_same_minimum_again_ends_early() -> None:
    _, apart = answered(wide_search(REGION, 200, LOWER._replace(fun=1.0)), valley)
    _, again = answered(wide_search(REGION, 200, LOWER._replace(fun=-1e-9, x=np.ones(2))), valley)
    assert again < apart


def test_a_search_is_continued_from_its_state() -> None:
    low, high = np.full(3, -5.0), np.full(3, 5.0)
    grid = np.linspace(0.3, 0.7, 1_000_001)
    lowest = 3 * np.min((grid - 0.7) ** 4 + (grid - 0.3) ** 2)
    seen: list[float] = []

    def run(solver: Any) -> Any:
        try:
            z = next(solver)
            while True:
                seen.append(float(np.sum((z - 0.7) ** 4 + (z - 0.3) ** 2)))
                z = solver.send(seen[-1])
        except StopIteration as end:
            return end.value

    state = run(model_search.search(low, high, radius=3.0, radius_end=1e-2))
    rough = len(seen)
    assert state.rho == 1e-2
    after = run(model_search.search(low, high, radius_end=1e-7, state=state))
    assert after.rho == 1e-7
    assert min(seen) < min(seen[:rough])
    assert min(seen) == pytest.approx(lowest, abs=1e-12)
    assert len(seen) - rough < rough, "the points are used again"
