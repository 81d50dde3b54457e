"""Limits are hard: fun is never called more than max_evals times, and counts are exact."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slgh
from cases import CASES, fun, grad, noting, starts


@given(
    name=st.sampled_from(list(CASES)),
    max_evals=st.integers(1, 120),
    samples=st.integers(1, 7),
    B=st.integers(1, 3),
    bad=st.booleans(),
)
def test_max_evals_is_never_exceeded(name: str, max_evals: int, samples: int, B: int, bad: bool) -> None:
    case, calls = CASES[name], {"fun": 0, "grad": 0}

    def counted(what: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(x: Any, *extra: Any) -> Any:
            calls[what] += int(np.prod(x.shape[1:-1])) * x.shape[0]
            values = function(x, *extra)
            return np.where(values > 1, np.nan, values) if bad else values

        return call

    options: dict[str, Any] = {"grad": counted("grad", grad)} if case.first_order else {}
    if name != "gd":
        options["samples"] = max(samples, 2) if "sharpness" in case.params else samples
    result = case.run(starts(B), fun=counted("fun", fun), batched=True, max_evals=max_evals, max_iter=None, **options)
    assert calls["fun"] == result.nfev.sum()
    assert calls["grad"] == result.njev.sum()
    assert (result.nfev + result.njev <= max_evals).all()
    assert (result.nfev >= 1).all()
    assert np.isfinite(result.fun[result.success]).all()


@pytest.mark.parametrize("name", ["zoslgh_r", "scale_free", "zosvrg", "slgh_d"])
@pytest.mark.parametrize("max_evals", range(1, 40))
def test_a_point_function_is_called_as_often_as_told(name: str, max_evals: int) -> None:
    case, calls = CASES[name], []

    def one(x: Any, *extra: Any) -> Any:
        calls.append(1)
        return float(fun(x, *extra))

    options = {"grad": noting(lambda x: calls.append(1), grad)} if case.first_order else {}
    result = case.run(starts(1)[0], fun=one, vectorized=False, max_evals=max_evals, max_iter=None, **options)
    assert len(calls) == result.nfev + result.njev <= max_evals


def test_the_budget_that_does_not_fit_an_iteration_still_gives_a_value() -> None:
    result = CASES["zoslgh_r"].run(starts(1)[0], max_evals=2, max_iter=None)
    assert (result.nit, result.nfev, result.status) == (0, 1, slgh.Status.MAX_EVALS)
    assert result.fun == fun(starts(1)[0])
    assert not result.success


def test_max_iter_is_the_planned_end_and_max_evals_cuts_short() -> None:
    case = CASES["zoslgh_r"]
    assert case.run(starts(1)[0], max_iter=5).status == slgh.Status.COMPLETED
    cut = case.run(starts(1)[0], max_iter=50, max_evals=30)
    assert (cut.status, cut.success) == (slgh.Status.MAX_EVALS, False)
    assert cut.nfev == 7 * 4 + 1


def test_zero_iterations_evaluate_the_start() -> None:
    result = CASES["zoslgh_r"].run(starts(1)[0], max_iter=0)
    assert (result.nit, result.nfev, result.fun) == (0, 1, fun(starts(1)[0]))


def test_max_seconds_stops_in_time() -> None:
    start = time.monotonic()
    slow = noting(lambda x: time.sleep(0.002), lambda x: float(fun(x)))
    result = CASES["zoslgh_r"].run(starts(1)[0], fun=slow, vectorized=False, max_iter=None, max_seconds=0.2)
    assert result.status == slgh.Status.MAX_SECONDS
    assert time.monotonic() - start < 2


def test_the_target_is_kept_to() -> None:
    case = CASES["zoslgh_r"]
    result = case.run(starts(1)[0], target=0.5, max_iter=2000)
    assert result.status == slgh.Status.TARGET
    assert result.success
    assert result.fun <= 0.5
    assert result.fun == fun(result.x)
    assert result.nit < 2000


@pytest.mark.slow
def test_without_limits_there_is_a_stated_default() -> None:
    quick: dict[str, Any] = {"vectorized": True, "history": 0}
    auto = slgh.minimize(fun, np.ones(4), seed=0, **quick)
    assert auto.nfev <= 1000 + 200 * 4
    plain = slgh.minimize(fun, np.ones(1), method="gd", grad=grad, step=1e-3, **quick)
    assert plain.nit == 10_000


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"max_evals": 0}, "`max_evals` must be an integer >= 1"),
        ({"max_evals": 2.5}, "`max_evals` must be an integer"),
        ({"max_iter": -1}, "`max_iter` must be an integer >= 0"),
        ({"max_seconds": -1.0}, "`max_seconds` must be a finite number >= 0"),
        ({"target": float("nan")}, "`target` must be a finite number"),
        ({"target": "low"}, "`target` must be a real number"),
    ],
)
def test_wrong_limits_are_errors(options: dict[str, Any], match: str) -> None:
    with pytest.raises((ValueError, TypeError), match=match):
        CASES["zoslgh_r"].run(starts(1)[0], **options)
