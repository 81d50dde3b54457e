"""max_seconds_per_eval: an evaluation that takes longer is killed, and counts as NaN. No run hangs."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import slgh
from cases import assert_same

GIVEN: dict[str, Any] = {"max_evals": 60, "seed": 0}
FOREVER = 1000.0


def bowl(x: Any) -> float:
    return float(np.sum((x - 0.3) ** 2))


def slope(x: Any) -> Any:
    return 2 * (x - 0.3)


def slow_left(x: Any) -> float:
    """Bowl that hangs on one side of the minimum."""
    if x[0] < 0.25:
        time.sleep(FOREVER)
    return bowl(x)


def nan_left(x: Any) -> float:
    return np.nan if x[0] < 0.25 else bowl(x)


def deaf(x: Any) -> float:
    """Bowl that hangs on one side, and ignores all signals that can be ignored."""
    if x[0] < 0.25:
        for each in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
            signal.signal(each, signal.SIG_IGN)
        while True:
            sum(range(10**6))
    return bowl(x)


def slow_slope(x: Any) -> Any:
    return time.sleep(FOREVER) if x[0] < 0.25 else slope(x)


def nan_slope(x: Any) -> Any:
    return np.full(x.shape, np.nan) if x[0] < 0.25 else slope(x)


def mortal(x: Any, folder: str) -> float:
    """Bowl whose process dies the first two times."""
    for n in range(2):
        try:
            os.close(os.open(f"{folder}/{n}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            continue
        os._exit(3)
    return bowl(x)


def deadly(x: Any) -> float:
    os._exit(3)


def wrong(x: Any) -> float:
    raise KeyError("in a worker")


class Unsendable(Exception):
    def __reduce__(self) -> Any:
        raise TypeError("not to be sent")


def unsendable(x: Any) -> float:
    raise Unsendable


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    before = set(multiprocessing.active_children())
    yield
    assert set(multiprocessing.active_children()) <= before


@pytest.mark.parametrize("fun", [slow_left, deaf])
@pytest.mark.parametrize("workers", [1, 3])
def test_an_evaluation_that_takes_too_long_is_nan(fun: Any, workers: int) -> None:
    run = slgh.minimize(fun, np.ones(2), **GIVEN, workers=workers, max_seconds_per_eval=0.2)
    assert_same(run, slgh.minimize(nan_left, np.ones(2), **GIVEN, parallel=workers))
    assert run.nrejected > 0
    late = f"{run.nrejected} evaluations" if run.nrejected > 1 else "1 evaluation"
    assert f"{late} took longer than max_seconds_per_eval" in run.message


def test_fast_evaluations_are_those_of_a_run_without_a_limit() -> None:
    run = slgh.minimize(bowl, np.ones(2), **GIVEN, workers=2, max_seconds_per_eval=100)
    alone = slgh.minimize(bowl, np.ones(2), **GIVEN, workers=2)
    assert_same(run, alone)
    assert run.message == alone.message


def test_gradients_have_the_limit_too() -> None:
    given: dict[str, Any] = {"method": "gd", "step": 0.3, "max_iter": 30, "seed": 0}
    run = slgh.minimize(bowl, -np.ones(2), grad=slow_slope, **given, workers=1, max_seconds_per_eval=0.1)
    assert_same(run, slgh.minimize(bowl, -np.ones(2), grad=nan_slope, **given))
    assert run.status == slgh.Status.NONFINITE


def test_a_late_value_is_treated_as_a_bad_one() -> None:
    with pytest.raises(FloatingPointError, match="fun"):
        slgh.minimize(slow_left, np.ones(2), **GIVEN, workers=2, max_seconds_per_eval=0.2, on_nonfinite="raise")
    given: dict[str, Any] = {**GIVEN, "on_nonfinite": "penalize"}
    run = slgh.minimize(slow_left, np.ones(2), **given, workers=2, max_seconds_per_eval=0.2)
    assert_same(run, slgh.minimize(nan_left, np.ones(2), **given, parallel=2))


def test_a_point_whose_worker_died_is_evaluated_again(tmp_path: Path) -> None:
    run = slgh.minimize(mortal, np.ones(2), args=(str(tmp_path),), **GIVEN, workers=2, max_seconds_per_eval=100)
    assert_same(run, slgh.minimize(bowl, np.ones(2), **GIVEN, parallel=2))
    assert "A worker died 2 times" in run.message
    with pytest.raises(RuntimeError, match="A worker process died each time that it evaluated the point"):
        slgh.minimize(deadly, np.ones(2), **GIVEN, workers=2, max_seconds_per_eval=100)


def test_an_exception_reaches_the_caller_with_its_traceback() -> None:
    with pytest.raises(KeyError, match="in a worker") as caught:
        slgh.minimize(wrong, np.ones(2), **GIVEN, workers=2, max_seconds_per_eval=100)
    assert "in wrong" in str(caught.value.__cause__)
    with pytest.raises(TypeError, match="cannot be sent from a worker"):
        slgh.minimize(unsendable, np.ones(2), **GIVEN, workers=2, max_seconds_per_eval=100)


def test_a_resumed_run_does_not_repeat_what_took_too_long(tmp_path: Path) -> None:
    file = tmp_path / "run.npz"
    given: dict[str, Any] = {**GIVEN, "max_seconds_per_eval": 0.2, "workers": 2, "checkpoint": file}
    found = slgh.minimize(slow_left, np.ones(2), **given)
    started = time.monotonic()
    assert_same(slgh.minimize(slow_left, np.ones(2), **given), found)
    assert time.monotonic() - started < 100 * 0.2


def test_ctrl_c_does_not_wait_for_an_evaluation() -> None:
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    run = slgh.minimize(slow_left, np.zeros(2), **GIVEN, workers=2, max_seconds_per_eval=FOREVER)
    assert run.status == slgh.Status.INTERRUPTED


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"workers": None}, "`max_seconds_per_eval` needs processes that slgh can kill. Pass `workers`"),
        ({"workers": map}, "`max_seconds_per_eval` needs processes that slgh can kill. Pass `workers`"),
        ({"vectorized": True}, "`max_seconds_per_eval` needs a fun of one point.* Leave out `vectorized`"),
        ({"max_seconds_per_eval": 0}, "`max_seconds_per_eval` must be a finite number above 0"),
        ({"max_seconds_per_eval": "1s"}, "`max_seconds_per_eval` must be a real number"),
    ],
)
def test_wrong_limits(options: dict[str, Any], match: str) -> None:
    given: dict[str, Any] = {**GIVEN, "workers": 2, "max_seconds_per_eval": 1.0}
    with pytest.raises((ValueError, TypeError), match=match):
        slgh.minimize(bowl, np.ones(2), **given | options)


def test_a_function_must_be_picklable() -> None:
    with pytest.raises(TypeError, match="`fun` must be picklable"):
        slgh.minimize(lambda x: bowl(x), np.ones(2), **GIVEN, workers=2, max_seconds_per_eval=1.0)
