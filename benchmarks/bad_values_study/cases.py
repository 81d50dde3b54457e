"""The cases: one function per row, called with a library and an empty folder. Each returns a verdict and a note.

A case that lets an exception escape has the verdict "error".
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from .libraries import BOX, BUDGET, Answer, Array, Fun, Library, NotOffered, Session, sphere, stop_listening

HOLDS, ERROR, WRONG, HANGS, CRASHES, NOT_OFFERED = "holds", "error", "wrong", "hangs", "crashes", "not offered"

BAR = 0.5
"""A value that 300 random points of the box reach in 99 of 100 runs."""

Verdict = tuple[str, str]
CASES: dict[str, Callable[[Library, Path], Verdict]] = {}
CHILDREN: dict[str, Callable[[Library, Path], None]] = {}


def case(function: Callable[[Library, Path], Verdict]) -> Callable[[Library, Path], Verdict]:
    """Register a case by its name, that of its row."""
    CASES[function.__name__] = function
    return function


def child(function: Callable[[Library, Path], None]) -> Callable[[Library, Path], None]:
    """Register the part of a case that runs in its own process."""
    CHILDREN[function.__name__] = function
    return function


def start(function: Callable[[Library, Path], None], library: Library, folder: Path) -> subprocess.Popen[bytes]:
    """Start a child in its own process and session."""
    script = Path(__file__).resolve().parents[1] / "bad_values.py"
    command = [sys.executable, str(script), "child", function.__name__, library.name, str(folder)]
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet, cwd=folder, start_new_session=True)


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a child and what it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def short(error: BaseException) -> str:
    """Format an exception in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:100]}{'...' if len(text) > 100 else ''}".removesuffix(": ")


# Answers


def solved(answer: Answer, fun: Fun, *, bar: float = BAR) -> Verdict:
    """Check that the value at x is below the bar, and that the reported value is `fun(x)`."""
    value = float(fun(answer.x))
    if not value < bar:
        return WRONG, f"f(x) = {value:.3g}, reported {answer.fun}"
    for x, told in ((answer.x, answer.fun), *answer.also):
        if told is not None and not same(told, float(fun(x))):
            return WRONG, f"reported {told:.3g}, where f is {float(fun(x)):.3g}"
    return HOLDS, f"f(x) = {value:.1g}"


def same(a: float, b: float) -> bool:
    """True if two values agree up to rounding."""
    return a == b or bool(abs(a - b) <= 1e-9 * max(abs(a), abs(b), 1e-300))


def equal(a: Answer, b: Answer) -> bool:
    """True if two solutions are the same, bit for bit."""
    return a.x.tobytes() == b.x.tobytes()


def good(x: Array) -> bool:
    """True in the half of the box that holds the minimum."""
    return bool(x[0] >= 0)


class Recorder:
    """Function that stores its points."""

    def __init__(self, fun: Fun) -> None:
        self.fun = fun
        self.points: list[Array] = []

    def __call__(self, x: Array) -> Any:
        self.points.append(np.array(x, float))
        return self.fun(x)


# Values of f


def half_bad(library: Library, bad: Any) -> Verdict:
    """A function that is `bad` on half of the box."""

    def fun(x: Array) -> Any:
        return sphere(x) if good(x) else bad

    return solved(library.minimize(fun), lambda x: sphere(x) if good(x) else np.nan)


@case
def nan_region(library: Library, folder: Path) -> Verdict:
    return half_bad(library, np.nan)


@case
def nan_everywhere(library: Library, folder: Path) -> Verdict:
    try:
        answer = library.minimize(lambda x: np.nan)
    except Exception as error:
        return HOLDS, short(error)
    claimed = answer.success if answer.success is not None else bool(answer.fun is not None and np.isfinite(answer.fun))
    flag = "" if answer.success is None else f", success = {answer.success}"
    return WRONG if claimed else HOLDS, f"reported {answer.fun}{flag}"


@case
def plus_inf_region(library: Library, folder: Path) -> Verdict:
    return half_bad(library, np.inf)


@case
def minus_inf_strip(library: Library, folder: Path) -> Verdict:
    def fun(x: Array) -> float:
        return -np.inf if abs(x[0] - 2) < 0.05 else sphere(x)

    # The strip may be found early, late or never: the worst of five seeds counts.
    verdict, note, met = HOLDS, "", 0
    for seed in range(5):
        seen = Recorder(fun)
        outcome = solved(library.minimize(seen, seed=seed, x0=(2.6, 3.0)), fun)
        met += sum(fun(x) == -np.inf for x in seen.points)
        if outcome[0] != HOLDS:
            verdict, note = outcome
    return verdict, "; ".join(filter(None, [note, f"f was -inf {met} times in five runs"]))


@case
def huge_values(library: Library, folder: Path) -> Verdict:
    def fun(x: Array) -> float:
        return 1e300 * sphere(x)

    return solved(library.minimize(fun), fun, bar=BAR * 1e300)


@case
def constant(library: Library, folder: Path) -> Verdict:
    seen = Recorder(lambda x: 3.0)
    answer = library.minimize(seen)
    if answer.fun is not None and answer.fun != 3.0:
        return WRONG, f"reported {answer.fun}"
    return HOLDS if len(seen.points) <= BUDGET else WRONG, f"{len(seen.points)} calls"


# Exceptions, Ctrl-C and resume


class SimulationFailed(Exception):
    """An exception class of the user."""


class Counted:
    """Sphere that counts its calls in a file, across processes, and runs `action` at call `at` of this process."""

    def __init__(self, folder: Path, at: int = 0, then: str = "") -> None:
        self.file, self.at, self.then, self.calls = folder / "calls", at, then, 0

    def __call__(self, x: Array) -> float:
        self.calls += 1
        with self.file.open("ab") as file:
            file.write(b".")
        if self.calls == self.at:
            if self.then == "raise":
                raise SimulationFailed("no license")
            os.kill(os.getpid(), signal.SIGKILL)
        return sphere(x)

    def total(self) -> int:
        """Return the number of calls in all processes."""
        return self.file.stat().st_size


@case
def exception(library: Library, folder: Path) -> Verdict:
    for kind in (SimulationFailed, ValueError):
        calls = 0

        def fun(x: Array, kind: type[Exception] = kind) -> float:
            nonlocal calls
            calls += 1
            if calls == 50:
                raise kind("no license")
            return sphere(x)

        try:
            library.minimize(fun)
        except kind:
            continue
        except Exception as error:
            return ERROR, f"{kind.__name__} became {short(error)}"
        return WRONG, f"{kind.__name__} was swallowed"
    return HOLDS, ""


@child
def fail_at_50(library: Library, folder: Path) -> None:
    library.resume(Counted(folder, 50, "raise"), folder / "state", budget=120)


@child
def kill_at_60(library: Library, folder: Path) -> None:
    library.resume(Counted(folder, 60, "kill"), folder / "state", budget=120)


@child
def run_to_the_end(library: Library, folder: Path) -> None:
    answer = library.resume(Counted(folder), folder / "state", budget=120)
    (folder / "answer").write_bytes(answer.x.tobytes())


def offers_resume(library: Library) -> None:
    """Raise NotOffered if there is no saved state."""
    if type(library).resume is Library.resume:
        library.resume(sphere, Path(), budget=0)


@case
def exception_resume(library: Library, folder: Path) -> Verdict:
    offers_resume(library)
    start(fail_at_50, library, folder).wait()
    before = Counted(folder).total()
    if start(run_to_the_end, library, folder).wait():
        return ERROR, "the second run failed"
    after = Counted(folder).total() - before
    return (
        HOLDS if before == 50 and after <= 120 - 50 + 30 else WRONG,
        f"{before} calls, then {after}; the budget is 120",
    )


@case
def ctrl_c(library: Library, folder: Path) -> Verdict:
    seen = Recorder(sphere)

    def fun(x: Array) -> float:
        value = seen(x)
        if len(seen.points) == 100:
            signal.raise_signal(signal.SIGINT)
        return float(value)

    try:
        answer = library.interruptible(fun)
    except KeyboardInterrupt:
        return ERROR, "KeyboardInterrupt; the best point is lost"
    best = min(sphere(x) for x in seen.points[:70])
    if len(seen.points) > 200:
        return WRONG, f"went on for {len(seen.points)} calls"
    return HOLDS if sphere(answer.x) <= best else WRONG, f"f(x) = {sphere(answer.x):.2g}, best of 70 calls {best:.2g}"


class Slow:
    """Slow sphere that writes the ID of its process into a folder."""

    def __init__(self, folder: Path, seconds: float, kill: bool = False) -> None:
        self.pids, self.seconds, self.kill = folder / "pids", seconds, kill
        self.pids.mkdir(exist_ok=True)

    def __call__(self, x: Array) -> float:
        mine = self.pids / str(os.getpid())
        if self.kill and mine.exists():
            # Only one worker does this: the first that creates this folder, in its second call.
            with contextlib.suppress(FileExistsError):
                (self.pids.parent / "killed").mkdir()
                os.kill(os.getpid(), signal.SIGKILL)
        mine.touch()
        time.sleep(self.seconds)
        return sphere(x)


@child
def until_interrupted(library: Library, folder: Path) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    fun = Slow(folder, 0.2)
    try:
        try:
            answer = library.interruptible(fun, budget=5000, parallel=True)
        except NotOffered:
            answer = library.interruptible(fun, budget=5000)
        stop_listening()
        note = {"fun": sphere(answer.x)}
    except BaseException as error:
        stop_listening()
        note = {"error": short(error)}
    (folder / "answer.new").write_text(json.dumps(note))
    os.replace(folder / "answer.new", folder / "answer")


@case
def three_ctrl_c(library: Library, folder: Path) -> Verdict:
    process = start(until_interrupted, library, folder)
    try:
        if not wait_for(lambda: any((folder / "pids").glob("*")), 30):
            return ERROR, "did not start"
        time.sleep(4)
        began = time.monotonic()
        for _ in range(3):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)
            time.sleep(0.3)
        answer = folder / "answer"
        back = wait_for(lambda: answer.exists() or process.poll() is not None, 14)
        seconds = time.monotonic() - began
        if not back:
            return HANGS, f"no answer after {seconds:.0f} s"
        if not answer.exists():
            return CRASHES, f"exit status {process.returncode}"
        found = json.loads(answer.read_text())
        if "error" in found:
            return ERROR, f"{found['error']}; the best point is lost"
        return HOLDS if seconds < 5 and np.isfinite(found["fun"]) else WRONG, f"back after {seconds:.0f} s"
    finally:
        end(process)


def wait_for(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait until the condition holds. Return False if it does not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@case
def sigkill_resume(library: Library, folder: Path) -> Verdict:
    offers_resume(library)
    whole, killed = folder / "whole", folder / "killed"
    for place in (whole, killed):
        place.mkdir()
    start(kill_at_60, library, killed).wait()
    if Counted(killed).total() != 60:
        return ERROR, f"the first run ended after {Counted(killed).total()} calls"
    for place in (whole, killed):
        if start(run_to_the_end, library, place).wait():
            return ERROR, f"the {place.name} run failed"
    agree = (whole / "answer").read_bytes() == (killed / "answer").read_bytes()
    calls = f"{Counted(killed).total()} calls in both processes"
    return HOLDS if agree else WRONG, calls if agree else f"another result; {calls}"


# Buffers, threads and global state


def shifting(x: Array) -> float:
    """Sphere that modifies its argument."""
    x -= 1.0
    return float(np.sum(x**2))


@case
def fun_writes(library: Library, folder: Path) -> Verdict:
    return solved(library.minimize(shifting), sphere)


@case
def vectorized_fun_writes(library: Library, folder: Path) -> Verdict:
    return solved(library.vectorized(shifting), sphere)


@case
def callback_writes(library: Library, folder: Path) -> Verdict:
    calls, refused = 0, 0

    def write(given: list[Any]) -> None:
        nonlocal calls, refused
        calls += 1
        for item in given:
            try:
                if isinstance(item, dict):
                    item.update(dict.fromkeys(item, 0.7))
                else:
                    item[...] = 0.7
            except ValueError:
                refused += 1

    clean = library.minimize(sphere, callback=lambda given: None)
    verdict, note = solved(written := library.minimize(sphere, callback=write), sphere)
    if not calls:
        return ERROR, "the callback was not called"
    if verdict == HOLDS and not equal(clean, written):
        return WRONG, "another result"
    return verdict, f"{note}, {calls} calls{', the arrays are read-only' if refused else ''}"


def drive(session: Session, values: Callable[[list[Array]], Array]) -> Answer:
    """Run a session to its end."""
    while not session.done():
        session.tell(values(session.ask()))
    return session.answer()


def fresh(points: list[Array]) -> Array:
    return np.array([sphere(point) for point in points])


@case
def reused_buffer(library: Library, folder: Path) -> Verdict:
    buffer = np.empty(1000)

    def reused(points: list[Array]) -> Array:
        buffer[:] = 1e6
        values = buffer[: len(points)]
        values[:] = fresh(points)
        return values

    a = drive(library.session(budget=120, seed=0), fresh)
    b = drive(library.session(budget=120, seed=0), reused)
    return (HOLDS, "") if equal(a, b) else (WRONG, f"f(x) = {sphere(b.x):.2g} instead of {sphere(a.x):.2g}")


@case
def interleaved(library: Library, folder: Path) -> Verdict:
    alone = [drive(library.session(budget=120, seed=seed), fresh) for seed in (0, 1)]
    sessions = [library.session(budget=120, seed=seed) for seed in (0, 1)]
    while not all(session.done() for session in sessions):
        for session in sessions:
            if not session.done():
                session.tell(fresh(session.ask()))
    agree = [equal(a, session.answer()) for a, session in zip(alone, sessions, strict=True)]
    return (HOLDS, "") if all(agree) else (WRONG, f"{agree.count(False)} of 2 with another result")


@case
def nested(library: Library, folder: Path) -> Verdict:
    def fun(x: Array) -> float:
        library.minimize(sphere, budget=60, seed=1)
        return sphere(x)

    return solved(library.minimize(fun, budget=80), sphere)


@case
def threads(library: Library, folder: Path) -> Verdict:
    def fun(x: Array) -> float:
        time.sleep(0.001)
        return sphere(x)

    found: list[Any] = [None] * 4

    def run(seed: int) -> None:
        try:
            found[seed] = library.minimize(fun, budget=120, seed=seed)
        except Exception as error:
            found[seed] = error

    alone = [library.minimize(fun, budget=120, seed=seed) for seed in range(4)]
    running = [threading.Thread(target=run, args=(seed,), daemon=True) for seed in range(4)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    for each in found:
        if isinstance(each, Exception):
            return ERROR, short(each)
    agree = [equal(a, b) for a, b in zip(alone, found, strict=True)]
    return (HOLDS, "") if all(agree) else (WRONG, f"{agree.count(False)} of 4 with another result")


@case
def global_random_state(library: Library, folder: Path) -> Verdict:
    library.minimize(sphere, budget=60)
    np.random.seed(5)  # noqa: NPY002
    random.seed(5)
    before = repr(np.random.get_state()), random.getstate()  # noqa: NPY002
    library.minimize(sphere)
    changed = [
        name
        for name, a, b in zip(
            ("np.random", "random"),
            before,
            (repr(np.random.get_state()), random.getstate()),  # noqa: NPY002
            strict=True,
        )
        if a != b
    ]
    return (WRONG, f"{' and '.join(changed)} changed") if changed else (HOLDS, "")


@case
def seterr(library: Library, folder: Path) -> Verdict:
    settings = np.seterr(all="raise") and np.geterr()
    seen = []

    def fun(x: Array, size: float) -> float:
        seen.append(np.geterr() == settings)
        return size * sphere(x)

    for size in (1.0, 1e300):
        try:
            library.minimize(lambda x, size=size: fun(x, size))
        except FloatingPointError as error:
            return ERROR, f"values of size {size:g}: {short(error)}"
    if np.geterr() != settings:
        return WRONG, "the setting is another one afterwards"
    return (HOLDS, "") if all(seen) else (WRONG, "f does not see the setting")


@case
def warnings_as_errors(library: Library, folder: Path) -> Verdict:
    library.minimize(sphere, budget=60)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return solved(library.minimize(sphere), sphere)


# Limits and seeds


@case
def hard_budget(library: Library, folder: Path) -> Verdict:
    notes, verdict = [], HOLDS
    for budget in (1, 7, 50, 101):
        seen = Recorder(sphere)
        if not library.within(seen, budget):
            notes.append(f"no setting for {budget}")
            continue
        notes.append(f"{len(seen.points)} of {budget}")
        if len(seen.points) > budget:
            verdict = WRONG
    return verdict, ", ".join(notes)


def outside(seen: Recorder, box: Any) -> int:
    """Return the number of points outside the box."""
    low, high = np.transpose(box)
    return int(sum(not ((x >= low) & (x <= high)).all() for x in seen.points))


@case
def bounds(library: Library, folder: Path) -> Verdict:
    box = ((0.1, 0.3), (0.1, 0.3))
    seen = Recorder(sphere)
    library.minimize(seen, box=box, x0=(0.2, 0.2))
    n = outside(seen, box)
    return WRONG if n else HOLDS, f"{n} of {len(seen.points)} points outside"


@case
def x0_outside(library: Library, folder: Path) -> Verdict:
    seen = Recorder(sphere)
    try:
        library.minimize(seen, x0=(7.0, 0.0))
    except Exception as error:
        return HOLDS, short(error)
    n = outside(seen, BOX)
    return WRONG if n else HOLDS, f"{n} of {len(seen.points)} points outside"


@case
def same_seed(library: Library, folder: Path) -> Verdict:
    found = []
    for other in (3, 4):
        np.random.seed(other)  # noqa: NPY002
        random.seed(other)
        found.append(library.minimize(sphere, seed=2))
    return (HOLDS, "") if equal(*found) else (WRONG, "two results")


# What f returns


def refused(library: Library, bad: Any) -> Verdict:
    """A function that returns something that is no number on half of the box."""
    try:
        return half_bad(library, bad)
    except Exception as error:
        return HOLDS, short(error)


@case
def returns_shape_1(library: Library, folder: Path) -> Verdict:
    return solved(library.minimize(lambda x: np.array([sphere(x)])), sphere)


@case
def returns_large_int(library: Library, folder: Path) -> Verdict:
    def fun(x: Array) -> int:
        return int(1e6 * sphere(x)) * 10**20

    return solved(library.minimize(fun), fun, bar=BAR * 1e26)


@case
def returns_none(library: Library, folder: Path) -> Verdict:
    return refused(library, None)


@case
def returns_complex(library: Library, folder: Path) -> Verdict:
    # A library that takes the real part finds its minimum here.
    return refused(library, -1.0 + 1j)


@case
def returns_string(library: Library, folder: Path) -> Verdict:
    return refused(library, "failed")


@case
def returns_masked(library: Library, folder: Path) -> Verdict:
    return refused(library, np.ma.masked)


# Saved states


@child
def fail_at_60(library: Library, folder: Path) -> None:
    library.resume(Counted(folder, 60, "raise"), folder / "state", budget=120)


@case
def damaged_state(library: Library, folder: Path) -> Verdict:
    offers_resume(library)
    start(fail_at_60, library, folder).wait()
    sound = (folder / "state").read_bytes()
    beside = {path.name: path.read_bytes() for path in folder.glob("state.*")}

    def resumed(content: bytes, number: int) -> Answer:
        place = folder / f"copy{number}"
        place.mkdir()
        (place / "state").write_bytes(content)
        for name, text in beside.items():
            (place / name).write_bytes(text)
        # Information that is not in a saved state must not change the result here.
        np.random.seed(0)  # noqa: NPY002
        return library.resume(sphere, place / "state", budget=120)

    expected, refusals, others = resumed(sound, 0), 0, 0
    for number, content in enumerate(damaged(sound), 1):
        try:
            answer = resumed(content, number)
        except Exception:
            refusals += 1
        else:
            others += not equal(answer, expected)
    return WRONG if others else HOLDS, f"{refusals} refused, {others} of {number} continued to another result"


def damaged(sound: bytes) -> Iterable[bytes]:
    """Return 36 copies with one flipped bit, at equal distances, and 4 that end early."""
    for k in range(36):
        copy = bytearray(sound)
        copy[(2 * k + 1) * len(sound) // 72] ^= 1 << k % 8
        yield bytes(copy)
    for k in range(4):
        yield sound[: k * len(sound) // 4]


class Hostile:
    """Object that runs a command when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.marker),)


@case
def hostile_state(library: Library, folder: Path) -> Verdict:
    offers_resume(library)
    marker, state = folder / "marker", folder / "state"
    hostile = np.array([Hostile(marker)], dtype=object)
    start(fail_at_60, library, folder).wait()
    names = []
    with contextlib.suppress(Exception), np.load(state) as arrays:
        names = list(arrays.files)
    for path in folder.glob("state.*"):
        path.unlink()
    errors = []
    for form in ("pickle", "npy", "npz"):
        if form == "pickle":
            state.write_bytes(pickle.dumps(Hostile(marker)))
        elif form == "npy":
            with state.open("wb") as file:
                np.save(file, hostile, allow_pickle=True)
        else:
            with state.open("wb") as file:
                np.savez(file, **dict.fromkeys(names or ["header"], hostile))
        try:
            library.resume(sphere, state, budget=120)
        except Exception as error:
            errors.append(short(error))
        if marker.exists():
            return WRONG, f"the command ran ({form})"
    return HOLDS, errors[0] if errors else "the file was ignored"


# Worker processes


@case
def killed_worker(library: Library, folder: Path) -> Verdict:
    try:
        return solved(library.parallel(Slow(folder, 0.002, kill=True)), sphere)
    except NotOffered:
        raise
    except Exception as error:
        return HOLDS, short(error)


@child
def run_workers(library: Library, folder: Path) -> None:
    library.parallel(Slow(folder, 0.05), budget=50_000)


@case
def killed_parent(library: Library, folder: Path) -> Verdict:
    if type(library).parallel is Library.parallel or library.name == "optuna":
        library.parallel(sphere)
    process = start(run_workers, library, folder)
    try:
        if not wait_for(lambda: len(list((folder / "pids").glob("*"))) >= 2, 30):
            return ERROR, "two workers did not start"
        time.sleep(0.5)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        workers = [int(path.name) for path in (folder / "pids").iterdir()]
        began = time.monotonic()
        gone = wait_for(lambda: not any(alive(pid) for pid in workers), 10)
        left = sum(alive(pid) for pid in workers)
        seconds = time.monotonic() - began
        return (HOLDS, f"gone after {seconds:.1f} s") if gone else (WRONG, f"{left} of {len(workers)} workers left")
    finally:
        end(process)


def alive(pid: int) -> bool:
    """Return True if a process runs (a zombie does not)."""
    found = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return bool(found.stdout.strip()) and not found.stdout.strip().startswith("Z")


@case
def wrong_map(library: Library, folder: Path) -> Verdict:
    notes = []
    for change in (-1, 1):

        def values(fun: Callable[[Any], Any], items: Iterable[Any], change: int = change) -> list[Any]:
            found = [fun(item) for item in items]
            return found[:-1] if change < 0 else [*found, found[-1]]

        try:
            answer = library.mapped(values)
        except NotOffered:
            raise
        except Exception as error:
            notes.append(short(error))
        else:
            return WRONG, f"one value too {'few' if change < 0 else 'many'}: f(x) = {sphere(answer.x):.2g}"
    return HOLDS, notes[0]
