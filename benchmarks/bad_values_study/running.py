"""Run one cell of the table: a case with a library, in its own process with a time limit."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any, NamedTuple

from .cases import CASES, CHILDREN, CRASHES, ERROR, HANGS, NOT_OFFERED, WRONG, short
from .libraries import LIBRARIES, NotOffered

LIMIT = 60.0
"""Seconds that a cell may take. Most take less than five."""


class Outcome(NamedTuple):
    """A verdict and what happened."""

    verdict: str
    note: str


def run_cell(row: str, library: str, limit: float = LIMIT) -> Outcome:
    """Run a case in its own process."""
    script = Path(__file__).resolve().parents[1] / "bad_values.py"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        folder = Path(place).resolve() / "case"
        folder.mkdir()
        file = folder.with_name("outcome.json")
        process = subprocess.Popen(
            [sys.executable, str(script), "cell", row, library, str(folder), str(file)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd=folder,
            # The case runs in another folder, and must import the same modules as this process.
            env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,
        )
        try:
            _, printed = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            return Outcome(HANGS, f"no answer in {limit:g} s")
        finally:
            # This also ends what the case has left behind: worker processes belong to the group.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if not file.exists():
            last = printed.decode(errors="replace").strip().splitlines()[-1:]
            return Outcome(CRASHES, " ".join([f"exit status {process.returncode}", *last]))
        verdict, note = json.loads(file.read_text())
        return Outcome(verdict, note.replace(str(folder), "FOLDER"))


def cell(row: str, name: str, folder: Path, file: Path) -> None:
    """Run a case in this process, and write the outcome to a file."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    library = LIBRARIES[name]
    logged = listen(name)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            verdict, note = CASES[row](library, folder)
        except NotOffered as error:
            verdict, note = NOT_OFFERED, str(error)
        except BaseException as error:
            verdict, note = ERROR, short(error)
    if verdict == WRONG and (messages := [f"{w.category.__name__}: {w.message}" for w in warned] + logged):
        note += f"; warned: {' '.join(messages[0].split())[:100]}"
    file.write_text(json.dumps([verdict, note]))
    # Threads that hang must not keep the process.
    os._exit(0)


def call_child(function: str, name: str, folder: Path) -> None:
    """Run the part of a case that needs its own process."""
    listen(name)
    CHILDREN[function](LIBRARIES[name], folder)


def listen(name: str) -> list[str]:
    """Collect Optuna's log messages instead of printing them."""
    messages: list[str] = []
    if name == "optuna":
        import optuna

        class Collect(logging.Handler):
            def emit(self, record: Any) -> None:
                messages.append(record.getMessage())

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        optuna.logging.disable_default_handler()
        logging.getLogger("optuna").addHandler(Collect())
    return messages
