"""The budget of "auto" is hard, and its counts are exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slgh
from auto_cases import KINDS, Counted, bowl, minimize, waves
from slgh.auto.repeated_values import average


@settings(max_examples=40)
@given(
    kind=st.sampled_from(list(KINDS)),
    d=st.integers(1, 12),
    max_evals=st.integers(1, 400),
    bounded=st.booleans(),
    seed=st.integers(0, 99),
)
def test_the_budget_is_hard_and_the_counts_exact(kind: str, d: int, max_evals: int, bounded: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    fun = Counted(lambda x: KINDS[kind](x, rng))
    place: dict[str, Any] = {"bounds": [(-4.0, 3.0)] * d} if bounded else {}
    run = slgh.minimize(fun, np.full(d, 1.25), max_evals=max_evals, seed=seed, **place)
    assert run.nfev == len(fun.values) <= max_evals
    assert (run.njev, run.seed) == (0, seed)
    finite = [value for value in fun.values if np.isfinite(value)]
    if "looked noisy" in run.message:
        assert kind == "noisy"
        # The average of at most 5 % of the budget.
        assert any(run.fun == average(np.array(fun.values[-n:])).value for n in range(1, 21))
    elif finite:
        assert run.fun == run.fun_best == min(finite)
        assert not run.fun > fun.values[0]
        assert kind == "noisy" or run.fun == fun.fun(run.x)
    else:
        assert not np.isfinite(run.fun)
    assert run.success == (run.status == slgh.Status.COMPLETED)
    assert run.success <= np.isfinite(run.fun)
    expected = (
        {slgh.Status.COMPLETED, slgh.Status.NONFINITE} if run.nit else {slgh.Status.MAX_EVALS, slgh.Status.NONFINITE}
    )
    assert run.status in expected


@pytest.mark.parametrize("max_evals", [40, 41, 42, 43])
def test_the_last_iterate_is_evaluated(max_evals: int) -> None:
    """In many variables, no sample is as low as the iterates at their center."""
    seen = Counted(lambda x: np.sum(x**2))
    run = slgh.minimize(seen, np.full(1000, 3.0), max_evals=max_evals, seed=0)
    assert run.fun == seen.values[-1] < seen.values[0]
    assert len(seen.values) <= max_evals


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("max_evals", range(1, 6))
@pytest.mark.parametrize("kind", ["smooth", "nothing", "cliff"])
def test_the_smallest_budgets(d: int, max_evals: int, kind: str) -> None:
    fun = Counted(lambda x: KINDS[kind](x, None))
    run = slgh.minimize(fun, np.full(d, 1.25), max_evals=max_evals, seed=0)
    assert run.nfev == len(fun.values) <= max_evals
    assert np.isfinite(run.fun) == (kind != "nothing")
    assert not run.success or run.nit > 0


@settings(max_examples=20)
@given(
    d=st.integers(1, 6),
    max_evals=st.integers(30, 500),
    at=st.integers(1, 500),
    kind=st.sampled_from(["smooth", "cliff"]),
)
def test_an_exception_in_fun_reaches_the_caller(d: int, max_evals: int, at: int, kind: str) -> None:
    fun = Counted(lambda x: KINDS[kind](x, None), fails_at=at)
    try:
        run = slgh.minimize(fun, np.full(d, 1.25), max_evals=max_evals, seed=0)
    except ZeroDivisionError:
        assert len(fun.values) == at - 1
    else:
        assert run.nfev == len(fun.values) < at


def test_no_variables_are_an_error_as_before() -> None:
    with pytest.raises(ValueError, match="`x0` must have at least one variable"):
        slgh.minimize(bowl, [])


@pytest.mark.parametrize(("samples", "max_evals"), [(400, 5000), (4000, 5000), (700, 1500)])
def test_iterations_that_do_not_fit_end_nothing_in_a_loop(samples: int, max_evals: int) -> None:
    run = minimize(waves, np.full(3, 3.3), samples=samples, max_evals=max_evals)
    assert run.nfev <= max_evals
    assert run.success


def test_variables_that_are_all_fixed() -> None:
    for d, max_evals in ((2, 80), (2, 900), (12, 900)):
        run = minimize(bowl, np.ones(d), bounds=[(1, 1)] * d, max_evals=max_evals)
        assert run.nfev <= max_evals
        np.testing.assert_array_equal(run.x, np.ones(d))
