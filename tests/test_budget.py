"""Limits are hard: fun is never called more than max_evals times, and counts are exact."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slgh
from cases import CASES, assert_same, fun, grad, noting, starts
from slgh.engine import run as run_module


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


class Seconds:
    """A clock on which each evaluation takes a second, and the bowl that it evaluates."""

    def __init__(self) -> None:
        self.now, self.values, self.points = 0.0, list[float](), list[Any]()

    def monotonic(self) -> float:
        return self.now

    def bowl(self, x: Any, *rest: Any) -> float:
        self.now += 1
        self.points.append(np.array(x))
        self.values.append(float(np.sum((np.asarray(x) - 0.3) ** 2)))
        return self.values[-1]

    def slope(self, x: Any, *rest: Any) -> Any:
        self.now += 1
        return 2 * (np.asarray(x) - 0.3)


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> Seconds:
    clock = Seconds()
    monkeypatch.setattr(run_module, "time", clock)
    return clock


TUNED: dict[str, Any] = {"step": 0.1, "t1": 0.5, "samples": 20}


@pytest.mark.parametrize(
    ("options", "final"),
    [
        ({}, 0),  # the landscape check
        ({"starts": np.linspace(0, 1, 60).reshape(20, 3)}, 0),
        ({"starts": np.linspace(0, 1, 60).reshape(20, 3), "cache": True}, 0),
        ({"phases": ("homotopy",), "samples": 20}, 0),
        ({"method": "scale_free", "samples": 20}, 1),
        ({"method": "zoslgh_r", **TUNED}, 1),
        ({"method": "zosvrg", "sample_xi": 30, **TUNED}, 20),
        ({"max_evals": 60, "bounds": [(-2, 2)] * 3, "parallel": 8}, 0),
    ],
)
def test_max_seconds_is_checked_between_evaluations(options: dict[str, Any], final: int, seconds: Seconds) -> None:
    """`final` is the number of evaluations at the solution after the limit."""
    arguments: dict[str, Any] = {"max_evals": 5000, "seed": 0, **options}
    result = slgh.minimize(seconds.bowl, np.ones(3), max_seconds=6.5, **arguments)
    assert result.status == slgh.Status.MAX_SECONDS
    assert len(seconds.values) == result.nfev == 7 + final
    if result.method.reports == "best":
        assert result.fun == result.fun_best == min(seconds.values)
        np.testing.assert_array_equal(result.x, seconds.points[int(np.argmin(seconds.values))])
    elif "sample_xi" not in options:
        assert (result.nit, result.fun) == (0, seconds.values[-1])
        assert result.fun_best == min(seconds.values)


def test_max_seconds_is_checked_between_gradients(seconds: Seconds) -> None:
    options: dict[str, Any] = {"method": "slgh_r", "grad": seconds.slope, **TUNED, "max_iter": 100}
    result = slgh.minimize(seconds.bowl, np.ones(3), max_seconds=6.5, **options)
    assert result.status == slgh.Status.MAX_SECONDS
    assert seconds.now == result.nfev + result.njev == 7 + 1


@pytest.mark.parametrize("limit", [0.0, 0.5])
def test_a_result_has_a_value_however_short_the_time(limit: float, seconds: Seconds) -> None:
    result = slgh.minimize(seconds.bowl, np.ones(3), max_evals=100, max_seconds=limit, starts=np.zeros((4, 3)), seed=0)
    assert (result.status, result.nfev, result.fun) == (slgh.Status.MAX_SECONDS, 1, seconds.values[0])


def test_a_batch_ends_between_evaluations_and_has_a_value_per_problem(seconds: Seconds) -> None:
    x0 = np.linspace(-1, 1, 12).reshape(4, 3)
    options: dict[str, Any] = {"method": "zoslgh_r", "batched": True, "max_iter": 100, **TUNED}
    result = slgh.minimize(seconds.bowl, x0, max_seconds=30.5, **options)
    assert (result.status == slgh.Status.MAX_SECONDS).all()
    assert len(seconds.values) == 31 + 4
    assert result.fun.tolist() == seconds.values[-4:]
    lowest = [min(own) for own in (seconds.values[:21], seconds.values[21:31])]
    assert (result.fun_best[:2] <= lowest).all(), "values of the iteration that was cut count"


@pytest.mark.parametrize("at", [3, 17, 40, 100])
def test_a_run_cut_within_an_iteration_is_continued_bit_for_bit(at: int, seconds: Seconds, tmp_path: Path) -> None:
    arguments: dict[str, Any] = {"max_evals": 400, "seed": 0, "starts": np.linspace(0, 1, 12).reshape(4, 3)}
    whole = slgh.minimize(seconds.bowl, np.ones(3), **arguments)
    seconds.values.clear()
    file = tmp_path / "run.npz"
    cut = slgh.minimize(seconds.bowl, np.ones(3), max_seconds=at, checkpoint=file, **arguments)
    assert (cut.status, cut.nfev) == (slgh.Status.MAX_SECONDS, at)
    continued = slgh.minimize(seconds.bowl, np.ones(3), checkpoint=file, **arguments)
    assert_same(continued, whole)
    assert len(seconds.values) == whole.nfev, "no point is evaluated twice"


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
