"""Functions that the tests of clusters evaluate on workers, which import them from here."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import slgh
from cases import assert_same
from slgh.engine.executors import size_of


def waves(x: Any) -> Any:
    """Return a function with many minima, of points x (..., d)."""
    return (x**2 - np.cos(5 * x)).sum(-1)


def waves_one_by_one(x: Any) -> float:
    """Return the same for one point. Fail for several."""
    assert x.ndim == 1
    return float(waves(x))


def die_once(x: Any, folder: str) -> float:
    """Kill the process at one of the points near the minimum, but only once per folder."""
    if np.sum(x) < 5 and not (mark := Path(folder, "dead")).exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return float(waves(x))


def die_always(x: Any, folder: str) -> float:
    """Kill the process at points near the minimum."""
    if np.sum(x) < 5:
        Path(folder, "dead").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return float(waves(x))


def die_and_count(x: Any, folder: str) -> float:
    """Kill the process at the point (2, 2, 2, 2), the start. Leave a file each time."""
    if (x == 2.0).all():
        Path(folder, str(len(os.listdir(folder)))).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return float(waves(x))


def fail_then_die(x: Any) -> float:
    """Raise at the first point after the start, and kill the process at the next one."""
    if (x == 2.0).all():
        return float(waves(x))
    fail_then_die.calls = getattr(fail_then_die, "calls", 0) + 1  # type: ignore[attr-defined]
    if fail_then_die.calls == 1:  # type: ignore[attr-defined]
        raise ZeroDivisionError("in a worker")
    os.kill(os.getpid(), signal.SIGKILL)
    return 0.0


def fail(x: Any) -> float:
    """Raise at points near the minimum."""
    if np.sum(x) < 5:
        raise ZeroDivisionError("in a worker")
    return float(waves(x))


SHARED: dict[str, Any] = {"max_evals": 200, "samples": 6, "seed": 0, "asynchronous": True}
"""Arguments of an Optimizer that several workers share."""


def work(call: Callable[..., Any]) -> list[bytes]:
    """Evaluate points of an Optimizer until its run ends. `call` calls one of its methods. Return the points."""
    seen: list[bytes] = []
    while not call("stop"):
        for point in (points := call("ask", 1)):
            time.sleep(0.05 if point[0] > 3 else 0.001)  # some evaluations take long
            call("tell", [point], [waves_one_by_one(point)])
            seen.append(point.tobytes())
        if not len(points):
            time.sleep(0.001)
    return seen


def assert_shared(points: list[list[bytes]], result: slgh.Result, log: Any) -> None:
    """Check what the workers of a shared Optimizer have done, and that its log repeats the run."""
    seen = [point for one in points for point in one]
    assert len(seen) == len(set(seen)) == result.nfev <= SHARED["max_evals"], "each point is evaluated once"
    again = slgh.Optimizer(np.full(4, 2.0), **SHARED).replay(log, waves_one_by_one)
    assert_same(again, result)


def run(workers: Any, fun: Any = waves_one_by_one, **options: Any) -> slgh.Result:
    """Minimize in four variables from (2, 2, 2, 2)."""
    return slgh.minimize(fun, np.full(4, 2.0), max_evals=400, seed=0, workers=workers, **options)


def alone(workers: Any, fun: Any = waves_one_by_one, **options: Any) -> slgh.Result:
    """Do in this process the run that is planned for these workers."""
    return run(None, fun, parallel=size_of(workers) or 1, **options)
