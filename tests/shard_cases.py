"""Functions that the tests of shards run on workers, which import them from here."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import slgh
from cases import fun, starts

TESTS = Path(__file__).parent


def die_once(x: Any, folder: str) -> Any:
    """Kill the process when the problems are near their minima, but only once per folder."""
    values = fun(x)
    if values.min() < 0 and not (mark := Path(folder, "dead")).exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return values


def die_always(x: Any, folder: str) -> Any:
    """Kill the process when the problems are near their minima."""
    values = fun(x)
    if values.min() < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return values


def fail(x: Any) -> Any:
    """Raise when the problems are near their minima."""
    values = fun(x)
    if values.min() < 0:
        raise ZeroDivisionError("in a shard")
    return values


def run(workers: Any, fun: Any = fun, x0: Any = None, **options: Any) -> slgh.Result:
    """Minimize 40 problems, or as many as x0 has."""
    given = {"batched": True, "vectorized": True, "max_evals": 300, "seed": 3, **options}
    return slgh.minimize(fun, starts(40) if x0 is None else x0, workers=workers, **given)


def python_path() -> str:
    """Return a path from which the tests can be imported."""
    return os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))


def start(*command: str, cwd: Path, **environment: str) -> str:
    """Run a command that can import the tests, and return what it prints."""
    given = {**os.environ, "PYTHONPATH": python_path(), **environment}
    done = subprocess.run(command, env=given, cwd=cwd, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
