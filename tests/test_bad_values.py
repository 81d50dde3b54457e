"""NaN, infinities and exceptions lead to a named status or the user's traceback.

Nothing is lost, no loop is endless.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
from typing import Any

import numpy as np
import pytest

import slgh
from cases import CASES, Case, assert_same, every_method, fun, starts

INF = float("inf")


def sometimes(bad: float, when: Any) -> Any:
    """Return `fun` with the value `bad` where `when(x)` holds."""
    return lambda x, *extra: np.where(when(x), bad, fun(x, *extra))


@every_method
@pytest.mark.parametrize("bad", [np.nan, INF, -INF])
def test_values_that_are_sometimes_bad_are_rejected_and_counted(case: Case, bad: float) -> None:
    holes = sometimes(bad, lambda x: np.sin(40 * x[..., 0]) > 0.7)
    result = case.run(starts(8), fun=holes, batched=True, max_iter=60)
    assert result.nrejected.sum() > 0
    assert np.isfinite(result.fun[result.success]).all()
    assert (np.isfinite(result.fun_best) | (result.status == slgh.Status.NONFINITE)).all()
    assert np.isfinite(result.x).all()


@every_method
def test_a_bad_start_is_left_or_given_up(case: Case) -> None:
    x0 = starts(1)[0]
    result = case.run(x0, fun=sometimes(np.nan, lambda x: (x == x0).all(axis=-1)))
    left = not np.array_equal(result.x, x0)
    assert result.status == (slgh.Status.COMPLETED if left else slgh.Status.NONFINITE)
    assert result.success == bool(np.isfinite(result.fun))


@pytest.mark.parametrize("name", ["zoslgh_r", "zoslgh_d", "scale_free", "zosgd"])
def test_penalize_takes_the_worst_value_so_far(name: str) -> None:
    case = CASES[name]
    wall = sometimes(np.nan, lambda x: x[..., 0] < 0.2)
    x0 = np.full(4, 1.0)
    result = case.run(x0, fun=wall, on_nonfinite="penalize", max_iter=300)
    assert result.success == bool(np.isfinite(result.fun))
    assert np.isfinite(result.fun_best)
    assert result.x_best[0] >= 0.2
    assert result.nrejected == 0


def test_penalize_with_nothing_finite_ends_in_a_status() -> None:
    result = CASES["zoslgh_r"].run(starts(1)[0], fun=lambda x: np.full(len(x), np.nan), on_nonfinite="penalize")
    assert result.status == slgh.Status.NONFINITE


@pytest.mark.parametrize("vectorized", [True, False])
def test_raise_names_the_value_and_the_point(vectorized: bool) -> None:
    with pytest.raises(
        FloatingPointError, match=r"`fun` must be finite with `on_nonfinite='raise'`, got nan at x = \["
    ):
        CASES["zoslgh_r"].run(
            starts(1)[0],
            fun=sometimes(np.nan, lambda x: x[..., 0] != starts(1)[0][0]),
            on_nonfinite="raise",
            vectorized=vectorized,
        )


def test_a_final_value_that_is_not_finite_is_no_success() -> None:
    calls = []

    def last_is_bad(x: Any) -> Any:
        calls.append(len(x))
        return np.full(1, np.nan) if len(x) == 1 else fun(x)

    result = CASES["zoslgh_r"].run(starts(1)[0], fun=last_is_bad)
    assert calls[-1] == 1
    assert (result.status, result.success) == (slgh.Status.NONFINITE, False)
    assert np.isnan(result.fun)
    assert np.isfinite(result.fun_best)


def test_divergence_is_a_status_without_warnings() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = slgh.minimize(
            lambda x: float(x[0] ** 4) if abs(x[0]) < 1e70 else INF,
            [3.0],
            method="gd",
            grad=lambda x: 4 * x**3 if abs(x[0]) < 1e70 else x * INF,
            step=1.0,
            max_iter=1000,
        )
    assert result.status == slgh.Status.NONFINITE
    assert result.nit < 100
    assert result.fun_best <= 81


def test_values_near_the_largest_number_are_survived() -> None:
    for name in ("zoslgh_r", "zoadamm", "scale_free", "zoslgh_d"):
        result = CASES[name].run(starts(1)[0], fun=lambda x: 1e308 * np.tanh(fun(np.clip(x, -9, 9))))
        assert np.isfinite(result.x).all()
        assert np.isfinite(result.fun)


def test_the_users_own_warnings_are_not_silenced() -> None:
    with pytest.warns(RuntimeWarning, match="invalid value encountered in log"):
        slgh.minimize(lambda x: np.log(-np.ones(1)), [1.0], method="zosgd", t1=1, step=1, max_iter=1)


def test_an_exception_arrives_with_its_own_traceback() -> None:
    def broken(x: Any) -> Any:
        raise KeyError("the user's own")

    with pytest.raises(KeyError, match="the user's own") as caught:
        CASES["zoslgh_r"].run(starts(1)[0], fun=broken)
    assert "broken" in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert "raised after 0 complete iterations" in caught.value.__notes__[0]


@pytest.mark.parametrize("vectorized", [True, False])
def test_ctrl_c_in_the_function_gives_the_result_so_far(vectorized: bool) -> None:
    calls = []

    def interrupted(x: Any) -> Any:
        calls.append(1)
        if len(calls) == 20:
            os.kill(os.getpid(), signal.SIGINT)
        return fun(x)

    result = CASES["zoslgh_r"].run(starts(1)[0], fun=interrupted, max_iter=1000, vectorized=vectorized)
    assert (result.status, result.success) == (slgh.Status.INTERRUPTED, False)
    assert result.nit == (19 if vectorized else 4)
    assert np.isfinite(result.fun)


def test_after_ctrl_c_the_function_is_not_called_again() -> None:
    calls = []

    def interrupted(x: Any) -> Any:
        calls.append(len(x))
        if len(calls) > 10:
            os.kill(os.getpid(), signal.SIGINT)
        return fun(x)

    result = CASES["zoslgh_r"].run(starts(1)[0], fun=interrupted)
    assert len(calls) == 11
    assert (result.status, result.success, result.nit) == (slgh.Status.INTERRUPTED, False, 10)
    assert result.nfev == sum(calls)
    np.testing.assert_array_equal(result.x, result.x_best)
    assert result.fun == result.fun_best == fun(result.x)


def test_ctrl_c_in_the_final_evaluation_loses_nothing() -> None:
    calls = []

    def interrupted(x: Any) -> Any:
        calls.append(len(x))
        if calls[-1] == 1:
            os.kill(os.getpid(), signal.SIGINT)
        return fun(x)

    result = CASES["zoslgh_r"].run(starts(1)[0], fun=interrupted, max_iter=10)
    assert (result.status, result.success, result.nit) == (slgh.Status.INTERRUPTED, False, 10)
    assert result.nfev == sum(calls)
    assert result.fun == result.fun_best == fun(result.x)


def test_ctrl_c_of_a_terminal_reaches_workers_too_and_the_result_is_kept() -> None:
    code = (
        "import os, signal, sys, time, threading, numpy as np, slgh\n"
        "def f(x):\n    time.sleep(0.005); return float((x**2).sum())\n"
        "def press_soon(r):\n"  # in the run, while workers evaluate: the imports before it may take seconds
        "    if r.nit == 2: threading.Timer(0.1, os.killpg, (0, signal.SIGINT)).start()\n"
        "if __name__ == '__main__':\n"
        "    parameters = dict(method='zosgd', t1=.1, step=.01, samples=3, max_iter=10**6)\n"
        "    r = slgh.minimize(f, np.ones(3), workers=2, callback=press_soon, **parameters)\n"
        "    print(r.status.name, np.isfinite(r.fun))\n"
    )
    with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
        script.write(code)
        script.flush()
        done = subprocess.run(
            [sys.executable, script.name],
            capture_output=True,
            text=True,
            start_new_session=True,
            check=False,
            timeout=60,
        )
    assert done.stdout.split() == ["INTERRUPTED", "True"], done.stderr


def test_minimize_runs_outside_the_main_thread() -> None:
    found = []
    thread = threading.Thread(target=lambda: found.append(CASES["zoslgh_r"].run(starts(1)[0])))
    thread.start()
    thread.join()
    assert_same(found[0], CASES["zoslgh_r"].run(starts(1)[0]))


@pytest.mark.parametrize("oracle", ["forward", "sphere"])
def test_one_bad_value_in_the_first_chunk_of_directions_drops_one_sample(oracle: str) -> None:
    """The directions of 40 samples in 4,000 variables are evaluated in chunks. Only the first chunk has f(x)."""

    def first_chunk_has_a_bad_value(points: Any) -> Any:
        values = points.sum(axis=-1)
        if values.size == 33:
            values[3] = np.nan
        return values

    options: dict[str, Any] = {"method": "zosgd", "oracle": oracle, "t1": 1.0, "step": 1e-4, "samples": 40}
    result = slgh.minimize(first_chunk_has_a_bad_value, np.zeros(4000), max_iter=1, vectorized=True, seed=0, **options)
    assert result.nrejected == 1
