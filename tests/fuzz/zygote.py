"""Child processes that start in milliseconds, for targets that kill, interrupt or exhaust them.

A zygote is a process without threads that has imported slgh and an array library. On request it forks a child, which
calls `MODULE.TASK(case, folder)` of this package and writes the result to a file. A child leads its own process group,
so that processes that it leaves behind can be found.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PRELOADED = {
    "numpy": ("scipy.optimize", "concurrent.futures.process", "multiprocessing.forkserver", "slgh"),
    "torch": ("torch",),
    "jax": ("jax",),
    "sympy": ("sympy", "slgh.smoothing.closed_form"),
}

available = hasattr(os, "fork") and sys.platform != "win32"
"""True if this system has fork, signals and process groups."""

POLL = 0.002
"""Seconds between two checks of a child."""

LEAVE = 5.0
"""Seconds in which the processes started by a child must end after it."""


class Child:
    """Forked process that runs a task."""

    def __init__(self, pid: int, folder: Path, limit: float) -> None:
        self.pid, self.folder = pid, folder
        self.deadline = time.monotonic() + limit

    @property
    def running(self) -> bool:
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the end, or for this many seconds. Return True if the child has ended."""
        until = self.deadline if seconds is None else min(self.deadline, time.monotonic() + seconds)
        while self.running and time.monotonic() < until:
            time.sleep(POLL)
        return not self.running

    def wait_for(self, name: str) -> bool:
        """Wait until the child has created this file in its folder. Return False if it ends without doing so."""
        while not (self.folder / name).exists():
            if not self.running or time.monotonic() > self.deadline:
                return (self.folder / name).exists()
            time.sleep(POLL)
        return True

    def send(self, number: int) -> None:
        """Send a signal to the child alone."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def answer(self) -> dict[str, Any] | None:
        """Return the result of the task, or {"error": traceback}, or None if it was killed before."""
        try:
            return json.loads((self.folder / "answer.json").read_text())  # type: ignore[no-any-return]
        except FileNotFoundError:
            return None

    def complaint(self) -> str:
        """Return the stderr of the child, with the stacks of a hung one."""
        try:
            text = (self.folder / "stderr.txt").read_text(errors="replace")
        except FileNotFoundError:
            return ""
        return text if len(text) < 4000 else f"{text[:1500]} ... {text[-2500:]}"

    def left_behind(self, seconds: float = LEAVE) -> list[str]:
        """Return the processes of the child's group that still exist after this many seconds, and kill them."""
        until = time.monotonic() + seconds
        while (left := members(self.pid)) and time.monotonic() < until:
            time.sleep(0.02)
        self.end()
        return left

    def end(self) -> None:
        """Kill the child and its group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)


def members(group: int) -> list[str]:
    """Return the living processes of a process group, as "pid command"."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return []
    listing = subprocess.run(["ps", "-axo", "pid=,pgid=,stat=,args="], capture_output=True, text=True, check=True)
    rows = [line.split(None, 3) for line in listing.stdout.splitlines()]
    return [f"{row[0]} {row[3][:80]}" for row in rows if int(row[1]) == group and not row[2].startswith("Z")]


def ask(library: str, task: str, case: Any, folder: Path, limit: float = 60.0) -> dict[str, Any]:
    """Let a child do a task, and return its answer, or {"error": text} if it raised, died or hung."""
    child = start(library, task, case, folder, limit)
    child.wait()
    child.end()
    answer = child.answer()
    return {"error": f"The process died or hung for {limit} s. {child.complaint()}"} if answer is None else answer


class Zygote:
    """Process that forks children."""

    def __init__(self, library: str) -> None:
        paths = [path or os.getcwd() for path in sys.path]
        self.process = subprocess.Popen(
            [sys.executable, "-m", f"{__package__}.zygote", library],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1", "JAX_ENABLE_X64": "1"},
            start_new_session=True,
        )
        atexit.register(self.close)

    def start(self, task: str, case: Any, folder: Path, limit: float) -> Child:
        """Fork a child that calls a task, "module.function", and ends itself after `limit` seconds."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        request = {"task": task, "case": case, "folder": str(folder), "limit": limit}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return Child(int(self.process.stdout.readline()), folder, limit + 5)

    def close(self) -> None:
        """End the zygote. Its children continue."""
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()
        self.process.wait(10)


_zygotes: dict[tuple[int, str], Zygote] = {}
"""Zygotes by process ID, since a fork of this process must not share one, and by library."""


def start(library: str, task: str, case: Any, folder: Path, limit: float = 60.0) -> Child:
    """Fork a child that calls a task, "module.function", with a case, in its own folder."""
    key = os.getpid(), library
    if key not in _zygotes or _zygotes[key].process.poll() is not None:
        _zygotes[key] = Zygote(library)
    folder.mkdir(parents=True, exist_ok=True)
    return _zygotes[key].start(task, case, folder, limit)


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A temporary folder."""
    with tempfile.TemporaryDirectory(prefix="slgh-fuzz-") as folder:
        yield Path(folder)


def leave(path: Path, text: str) -> None:
    """Write a file that is either complete or absent."""
    beside = path.with_name(path.name + ".part")
    beside.write_text(text)
    beside.rename(path)


def serve(library: str) -> None:
    """Fork children on request until stdin ends."""
    for name in (*PRELOADED["numpy"], *PRELOADED[library]):
        importlib.import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system reaps the children
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _work(json.loads(line))
        print(pid, flush=True)


def _work(request: dict[str, Any]) -> None:
    """Run the task as the child."""
    status = 1
    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        folder = Path(request["folder"])
        nothing = os.open(os.devnull, os.O_RDWR)
        complaints = os.open(folder / "stderr.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for descriptor, number in ((nothing, 0), (nothing, 1), (complaints, 2)):
            os.dup2(descriptor, number)
        faulthandler.dump_traceback_later(request["limit"], exit=True, file=2)
        module, function = request["task"].split(".")
        try:
            answer = getattr(importlib.import_module(f"{__package__}.{module}"), function)(request["case"], folder)
        except BaseException as error:
            answer = {"error": f"{type(error).__name__}: {error}\n{traceback.format_exc()[-1500:]}"}
        leave(folder / "answer.json", json.dumps(answer))
        status = 0
    finally:
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    serve(sys.argv[1])
