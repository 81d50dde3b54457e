"""The logger `slgh` tells what happens between iterations, and is silent by default."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import slgh
from cases import fun, starts


def lines(caplog: pytest.LogCaptureFixture, name: str = "slgh") -> list[str]:
    return [record.getMessage() for record in caplog.records if f"{record.name}.".startswith(f"{name}.")]


@pytest.fixture(autouse=True)
def at_info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="slgh")


def auto(**more: Any) -> slgh.Result:
    return slgh.minimize(fun, starts(1)[0], vectorized=True, seed=1, **({"max_evals": 400} | more))


def test_a_run_logs_its_begin_and_its_end(caplog: pytest.LogCaptureFixture) -> None:
    result = auto()
    first, *_, last = lines(caplog)
    d = starts(1).shape[1]
    assert first == f"Begin: method auto, 1 problem in {d} variables, max_evals=400, seed 1"
    assert last.startswith(f"End: f = {result.fun:.6g} after ")
    assert last.endswith(result.message)
    assert all(record.levelno == logging.INFO for record in caplog.records)


def test_the_phases_of_auto_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    auto()
    said = lines(caplog, "slgh.auto.phases")
    for name in ("landscape", "local_search"):
        begins = sum(line.startswith(f"Begin {name}: ") for line in said)
        assert begins == sum(line.startswith(f"End {name}: ") for line in said) > 0


def test_a_log_does_not_grow_with_the_iterations(caplog: pytest.LogCaptureFixture) -> None:
    method: dict[str, Any] = {"method": "zoslgh_r", "t1": 0.5, "step": 0.1, "max_evals": None}
    auto(**method, max_iter=10)
    few = len(caplog.records)
    auto(**method, max_iter=500)
    assert few == len(caplog.records) - few == 2


def test_a_batch_logs_its_lowest_value(caplog: pytest.LogCaptureFixture) -> None:
    result = slgh.minimize(fun, starts(3), batched=True, vectorized=True, max_evals=60, seed=1)
    first, last = lines(caplog)
    assert "3 problems" in first
    assert last.startswith(f"End: f = {result.fun.min():.6g} ")


def test_checkpoints_are_logged(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    result = auto(checkpoint=path)
    assert f"Saved iteration {result.nit} in {path}" in lines(caplog)
    caplog.clear()
    auto(checkpoint=path)
    assert lines(caplog)[0].startswith(f"Continue after {result.nit} iterations: ")


def test_an_exception_is_logged_and_raised(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ZeroDivisionError):
        slgh.minimize(lambda x: 1 // 0, [1.0], max_evals=10)
    assert lines(caplog)[-1] == "End: ZeroDivisionError after 0 iterations"


def dies_once(x: Any, path: str) -> float:
    """Kill the worker process that evaluates the first point."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return float(np.sum(x**2))
    os.kill(os.getpid(), signal.SIGKILL)
    return 0.0


@pytest.mark.slow
def test_workers_that_are_replaced_are_logged(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    slgh.minimize(dies_once, [1.0, 2.0], args=(str(tmp_path / "died"),), max_evals=40, workers=2, seed=0)
    assert "Replaced 2 worker processes, one of which died" in lines(caplog)


@pytest.mark.parametrize("level", ["", "import logging; logging.getLogger('slgh').setLevel(logging.DEBUG); "])
def test_there_is_no_output_by_default(level: str) -> None:
    code = f"{level}import slgh; slgh.minimize(lambda x: sum(x**2), [1.0], max_evals=50)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("", "")
