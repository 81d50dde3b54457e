"""Any number of runs in one process, in any order. Each gives the result that it gives alone."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from typing import Any

import numpy as np
import pytest

import slgh

pytestmark = [
    pytest.mark.timeout(120),  # detects the deadlock that used to happen here
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*fork:RuntimeWarning"),
]

runs_at_once = pytest.mark.parametrize("n", [2, 10, pytest.param(100, marks=pytest.mark.slow)])


def valley(x: Any) -> float:
    """Rosenbrock's function."""
    return float(np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2) + (x[0] - 1) ** 2)


def options(i: int) -> dict[str, Any]:
    """Return options of run i: 1 to 10 variables, and a budget that the default method spends on a local search."""
    d = 1 + i if i < 10 else 1 + i % 3
    return {"x0": np.full(d, -1.0), "max_evals": 12 * (d + 1), "seed": i}


def alone(i: int) -> slgh.Result:
    return slgh.minimize(valley, **options(i))


def tell_once(opt: slgh.Optimizer) -> None:
    points = opt.ask()
    opt.tell(points, [valley(p) for p in points])


def assert_alone(found: slgh.Result, i: int) -> None:
    expected = alone(i)
    np.testing.assert_array_equal(found.x, expected.x)
    assert (found.fun, found.nfev, found.status) == (expected.fun, expected.nfev, expected.status)


@runs_at_once
def test_optimizers_interleaved_in_one_thread(n: int) -> None:
    optimizers = [slgh.Optimizer(**options(i)) for i in range(n)]
    while not all(opt.stop() for opt in optimizers):
        for opt in optimizers:
            if not opt.stop():
                tell_once(opt)
    for i in range(0, n, max(1, n // 10)):
        assert_alone(optimizers[i].result, i)


@runs_at_once
def test_optimizers_in_threads(n: int) -> None:
    found: dict[int, slgh.Result] = {}

    def drive(i: int) -> None:
        opt = slgh.Optimizer(**options(i))
        while not opt.stop():
            tell_once(opt)
            time.sleep(0)
        found[i] = opt.result

    threads = [threading.Thread(target=drive, args=(i,), daemon=True) for i in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    for i in range(0, n, max(1, n // 10)):
        assert_alone(found[i], i)


@runs_at_once
def test_optimizers_in_asyncio(n: int) -> None:
    async def drive(i: int) -> slgh.Result:
        opt = slgh.Optimizer(**options(i))
        while not opt.stop():
            tell_once(opt)
            await asyncio.sleep(0)
        return opt.result

    async def all_of_them() -> list[slgh.Result]:
        return await asyncio.gather(*(drive(i) for i in range(n)))

    found = asyncio.run(asyncio.wait_for(all_of_them(), 60))
    for i in range(0, n, max(1, n // 10)):
        assert_alone(found[i], i)


@runs_at_once
def test_minimize_runs_beside_optimizers_that_wait(n: int) -> None:
    waiting = [slgh.Optimizer(**options(i)) for i in range(n)]
    for opt in waiting:
        for _ in range(4):
            tell_once(opt)
    assert_alone(alone(3), 3)
    for i in range(0, n, max(1, n // 10)):
        while not waiting[i].stop():
            tell_once(waiting[i])
        assert_alone(waiting[i].result, i)


@pytest.mark.slow
def test_minimize_runs_inside_the_function_of_minimize() -> None:
    def outer(x: Any) -> float:
        inner = slgh.minimize(lambda y: float((y[0] - x[0]) ** 2), [0.5], max_evals=30, seed=0)
        return float(x[0] ** 2 + inner.fun)

    direct = slgh.minimize(outer, [2.0], max_evals=30, seed=1)
    assert direct.nfev <= 30
    assert direct.fun < 1

    def twice(x: Any) -> float:
        return float(slgh.minimize(outer, x, max_evals=24, seed=0).fun)

    assert slgh.minimize(twice, [2.0], max_evals=24, seed=1).nfev <= 24


def test_slow_runs_in_threads_do_not_wait_for_each_other() -> None:
    """While one run waits in its function, another one finishes."""
    inside, release = threading.Event(), threading.Event()

    def blocked(x: Any) -> float:
        calls.append(1)
        if len(calls) == 12:
            inside.set()
            release.wait(60)
        return valley(x)

    calls: list[int] = []
    thread = threading.Thread(target=lambda: slgh.minimize(blocked, np.full(3, -1.0), max_evals=60, seed=0))
    thread.start()
    try:
        assert inside.wait(30)
        assert_alone(alone(2), 2)
    finally:
        release.set()
        thread.join(30)
    assert not thread.is_alive()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_that_is_forked_in_the_middle_of_a_run_runs_its_own() -> None:
    opt = slgh.Optimizer(**options(3))
    for _ in range(6):
        tell_once(opt)
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if alone(2).fun < valley(options(2)["x0"]) else 1)
        finally:
            os._exit(2)
    deadline = time.monotonic() + 30
    done, status = 0, -1
    while not done and time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        time.sleep(0.02)
    if not done:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert done, "the child hangs"
    assert os.waitstatus_to_exitcode(status) == 0
    while not opt.stop():
        tell_once(opt)
    assert_alone(opt.result, 3)


def test_an_optimizer_may_be_told_from_another_thread_each_time() -> None:
    opt = slgh.Optimizer(**options(4))
    while not opt.stop():
        thread = threading.Thread(target=tell_once, args=(opt,))
        thread.start()
        thread.join(30)
    assert_alone(opt.result, 4)
