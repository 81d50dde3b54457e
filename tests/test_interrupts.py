"""Ctrl-C, killed processes and exceptions: results are kept, and no process is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import slgh

POSIX = pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")


def bowl(x: Any) -> float:
    return float(np.sum((x - 0.3) ** 2))


class Presses:
    """Function that presses Ctrl-C in one of its calls."""

    def __init__(self, at: int, times: int = 1) -> None:
        self.at, self.times, self.calls = at, times, 0

    def __call__(self, x: Any) -> float:
        self.calls += 1
        if self.calls == self.at:
            for _ in range(self.times):
                os.kill(os.getpid(), signal.SIGINT)
        return bowl(x)


ZO: dict[str, Any] = {"method": "zoslgh_r", "t1": 0.5, "step": 0.1, "samples": 9, "max_iter": 50, "seed": 0}


@pytest.mark.parametrize("options", [ZO, {"max_evals": 400, "seed": 0}], ids=["zoslgh_r", "auto"])
@pytest.mark.parametrize("at", [1, 2, 11, 37, 50])
def test_nfev_counts_the_calls_that_were_begun(options: dict[str, Any], at: int) -> None:
    fun = Presses(at)
    result = slgh.minimize(fun, np.full(4, 2.0), **options)
    assert result.status == slgh.Status.INTERRUPTED
    assert result.nfev == fun.calls == at


def test_a_second_and_a_third_ctrl_c_change_nothing() -> None:
    fun = Presses(23, times=3)
    result = slgh.minimize(fun, np.full(4, 2.0), **ZO)
    assert (result.status, result.nfev, fun.calls) == (slgh.Status.INTERRUPTED, 23, 23)
    assert result.fun == bowl(result.x)


def test_ctrl_c_in_a_run_inside_a_run_ends_both() -> None:
    inner = Presses(5)

    def outer(x: Any) -> float:
        return float(slgh.minimize(inner, x, max_evals=20, seed=0).fun)

    result = slgh.minimize(outer, np.full(3, 2.0), **ZO)
    assert result.status == slgh.Status.INTERRUPTED
    assert inner.calls == 5


WORKERS = """
import os, signal, sys, time
import numpy as np
import slgh


def slow(x):
    with open(sys.argv[1], "a") as file:
        file.write(f"{os.getpid()}\\n")
    time.sleep(float(sys.argv[2]))
    return float(np.sum(x**2))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    result = slgh.minimize(slow, np.ones(3), method="zosgd", t1=0.1, step=0.01, samples=7, max_iter=100, workers=2)
    print(result.status.name, result.nit, result.x.shape, flush=True)
"""


class Script:
    """Process that runs minimize with two worker processes."""

    def __init__(self, folder: Path, seconds: float) -> None:
        script = folder / "script.py"
        script.write_text(WORKERS)
        self.pids = folder / "pids"
        self.pids.touch()
        self.process = subprocess.Popen(
            [sys.executable, str(script), str(self.pids), str(seconds)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_for_workers(self) -> set[int]:
        """Wait until both workers evaluate. Return their process IDs."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            pids = {int(line) for line in self.pids.read_text().split()}
            if len(pids) == 2:
                return pids
            time.sleep(0.02)
        self.process.kill()
        raise AssertionError("no workers")


def assert_gone(pids: set[int]) -> None:
    deadline = time.monotonic() + 15
    alive = pids
    while alive and time.monotonic() < deadline:
        alive = {pid for pid in alive if is_alive(pid)}
        time.sleep(0.05)
    for pid in alive:
        os.kill(pid, signal.SIGKILL)
    assert not alive, "worker processes are left behind"


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not (stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z")


@pytest.mark.slow
@POSIX
@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGTERM] if os.name == "posix" else [])
def test_workers_do_not_outlive_a_killed_parent(kill: signal.Signals, tmp_path: Path) -> None:
    script = Script(tmp_path, 0.05)
    pids = script.wait_for_workers()
    script.process.send_signal(kill)
    script.process.communicate(timeout=30)
    assert_gone(pids)


@pytest.mark.slow
@POSIX
@pytest.mark.parametrize("presses", [1, 3])
def test_ctrl_c_does_not_wait_for_evaluations_in_workers(presses: int, tmp_path: Path) -> None:
    script = Script(tmp_path, 60.0)
    pids = script.wait_for_workers()
    for _ in range(presses):
        script.process.send_signal(signal.SIGINT)
        time.sleep(0.02)
    out, err = script.process.communicate(timeout=30)
    assert out.split() == ["INTERRUPTED", "0", "(3,)"], err
    assert_gone(pids)


class Raises:
    """Function that raises in every 37th call, counted over all runs."""

    def __init__(self) -> None:
        self.calls = 0
        self.answered: list[bytes] = []

    def __call__(self, x: Any) -> float:
        self.calls += 1
        if self.calls % 37 == 0:
            raise ConnectionError("the simulator is down")
        self.answered.append(x.tobytes())
        return bowl(x)


def mapped(function: Any, items: Any) -> Any:
    """A user's map function."""
    return map(function, items)


@pytest.mark.parametrize("options", [{"max_evals": 900}, ZO | {"samples": 60}], ids=["auto", "zoslgh_r"])
@pytest.mark.parametrize("workers", [None, mapped])
def test_answers_survive_a_function_that_keeps_raising(options: dict[str, Any], workers: Any, tmp_path: Path) -> None:
    options = {"seed": 0, "max_evals": 900, "workers": workers, **options}
    undisturbed = slgh.minimize(bowl, np.full(30, 2.0), **options)
    fun, failures = Raises(), 0
    while True:
        try:
            result = slgh.minimize(fun, np.full(30, 2.0), checkpoint=tmp_path / "run.npz", **options)
        except ConnectionError:
            failures += 1
            assert failures < 100, "the run makes no progress"
            continue
        break
    np.testing.assert_array_equal(result.x, undisturbed.x)
    assert (result.fun, result.nfev) == (undisturbed.fun, undisturbed.nfev)
    assert failures > 20
    assert len(fun.answered) == result.nfev, "no point was evaluated twice"


def test_a_gradient_that_raises_is_resumed_with_the_values_before_it(tmp_path: Path) -> None:
    calls = [0, 0]

    def fun(x: Any) -> float:
        calls[0] += 1
        return bowl(x)

    def grad(x: Any) -> Any:
        calls[1] += 1
        if calls[1] == 7:
            raise ConnectionError
        return 2 * (x - 0.3)

    options: dict[str, Any] = {"method": "slgh_r", "grad": grad, "t1": 0.5, "step": 0.1, "samples": 4, "max_iter": 8}
    options |= {"seed": 0, "checkpoint": tmp_path / "run.npz"}
    with pytest.raises(ConnectionError):
        slgh.minimize(fun, np.full(3, 2.0), **options)
    result = slgh.minimize(fun, np.full(3, 2.0), **options)
    assert calls == [result.nfev, result.njev + 1]
    straight = slgh.minimize(fun, np.full(3, 2.0), **(options | {"checkpoint": None}))
    np.testing.assert_array_equal(result.x, straight.x)


def test_an_exception_of_the_callback_ends_an_optimizer() -> None:
    def callback(result: Any) -> None:
        if result.nit == 3:
            raise KeyError("mine")

    opt = slgh.Optimizer(np.full(3, 2.0), callback=callback, **ZO)
    for _ in range(2):
        opt.tell(points := opt.ask(), [bowl(p) for p in points])
    with pytest.raises(KeyError, match="mine"):
        opt.tell(points := opt.ask(), [bowl(p) for p in points])
    assert opt.stop()
    assert (opt.result.status, opt.result.success, opt.result.nit) == (slgh.Status.FAILED, False, 3)
    assert opt.result.fun == bowl(opt.result.x)
    with pytest.raises(RuntimeError, match="The run has ended"):
        opt.ask()


def test_ctrl_c_in_tell_is_raised_when_the_values_are_taken_in() -> None:
    def callback(result: Any) -> None:
        if result.nit == 3:
            signal.raise_signal(signal.SIGINT)

    options = {**ZO, "max_iter": 6}
    opt, pressed = slgh.Optimizer(np.full(3, 2.0), callback=callback, **options), 0
    while not opt.stop():
        points = opt.ask()
        try:
            opt.tell(points, [bowl(p) for p in points])
        except KeyboardInterrupt:
            pressed += 1
    assert pressed == 1
    np.testing.assert_array_equal(opt.result.x, slgh.minimize(bowl, np.full(3, 2.0), **options).x)


@pytest.mark.parametrize(
    ("mapping", "error", "match"),
    [
        (
            lambda f, items: [f(item) for item in items][:-1],
            ValueError,
            "one value per item that it gets .expected 10.; got 9",
        ),
        (lambda f, items: [f(item) for item in items] + [1.0], ValueError, "`workers` must return one value per item"),
        (lambda f, items: {i: f(item) for i, item in enumerate(items)}, TypeError, "in the order of the items"),
        (lambda f, items: {f(item) for item in items}, TypeError, "in the order of the items"),
        (lambda f, items: 3.0, TypeError, "in the order of the items"),
        (lambda f, items: None, TypeError, "in the order of the items"),
    ],
)
def test_a_map_that_is_none_is_an_error_that_says_so(mapping: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        slgh.minimize(bowl, np.full(3, 2.0), workers=mapping, **ZO)


def test_minus_infinity_does_not_hide_the_minimum() -> None:
    values: list[float] = []

    def fun(x: Any) -> float:
        values.append(float("-inf") if abs(x[0] - 2) < 0.05 else float(np.sum((x - 1) ** 2)))
        return values[-1]

    result = slgh.minimize(fun, [2.6, 3.0], seed=0)
    lowest = min(v for v in values if np.isfinite(v))
    assert -np.inf in values
    assert result.fun == result.fun_best == lowest < 1e-6
    assert result.nrejected == values.count(-np.inf)


def test_bad_values_in_a_local_search_count_as_rejected() -> None:
    values: list[float] = []

    def fun(x: Any) -> float:
        values.append(float("nan") if x[0] < 0.6 else bowl(x))
        return values[-1]

    result = slgh.minimize(fun, np.full(11, 2.0), phases="local_search", max_evals=500, seed=0)
    bad = int(np.isnan(values).sum())
    assert bad > 0
    assert result.nrejected == bad


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("at", [3, 8, 12])
def test_a_callback_that_raises_in_a_local_search_is_resumed_bit_for_bit(d: int, at: int, tmp_path: Path) -> None:
    def callback(result: Any) -> None:
        if result.nit == at:
            raise ConnectionError

    options: dict[str, Any] = {"phases": "local_search", "max_evals": 25 * d, "seed": 0}
    straight = slgh.minimize(bowl, np.full(d, 2.0), **options)
    with pytest.raises(ConnectionError):
        slgh.minimize(bowl, np.full(d, 2.0), callback=callback, checkpoint=tmp_path / "run.npz", **options)
    resumed = slgh.minimize(bowl, np.full(d, 2.0), checkpoint=tmp_path / "run.npz", **options)
    np.testing.assert_array_equal(resumed.x, straight.x)
    assert (resumed.nfev, resumed.nit) == (straight.nfev, straight.nit)


@pytest.mark.slow
def test_a_callback_that_raises_where_a_problem_of_a_compiled_loop_ends_leaves_a_checkpoint(tmp_path: Path) -> None:
    import jax.numpy as jnp

    def callback(result: Any) -> None:
        if raises and result.nit == straight.nit.min():
            raise ConnectionError

    starts = jnp.asarray([[0.6, 0.3], [2.0, 2.0]])
    options: dict[str, Any] = {"method": "zoslgh_r", "t1": 0.1, "step": 0.1, "samples": 4, "max_iter": 200, "seed": 0}
    options |= {"batched": True, "target": 0.05, "compiled": True, "callback": callback}
    fun = lambda x: jnp.sum((x - 0.3) ** 2)  # noqa: E731
    raises = False
    straight = slgh.minimize(fun, starts, **options)
    assert straight.nit[0] < straight.nit[1]
    raises = True
    with pytest.raises(ConnectionError):
        slgh.minimize(fun, starts, checkpoint=tmp_path / "run.npz", **options)
    raises = False
    resumed = slgh.minimize(fun, starts, checkpoint=tmp_path / "run.npz", **options)
    np.testing.assert_array_equal(resumed.x, straight.x)
    np.testing.assert_array_equal(resumed.nit, straight.nit)


def test_ctrl_c_while_an_exception_is_handled_does_not_replace_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from slgh.engine.run import Run

    def fails(x: Any) -> float:
        raise ValueError("mine")

    close_after = Run.close_after

    def pressed(run: Run, error: BaseException) -> None:
        signal.raise_signal(signal.SIGINT)
        close_after(run, error)

    monkeypatch.setattr(Run, "close_after", pressed)
    with pytest.raises(ValueError, match="mine") as caught:
        slgh.minimize(fails, np.full(3, 2.0), checkpoint=tmp_path / "run.npz", **ZO)
    assert "saved in" in caught.value.__notes__[0]


def test_after_ctrl_c_problems_that_had_completed_are_not_reported_as_not_finite() -> None:
    calls = []

    def fun(x: Any, xi: Any) -> float:
        calls.append(1)
        if len(calls) == 250:
            signal.raise_signal(signal.SIGINT)
        return bowl(x) + float(xi)

    options = {**ZO, "samples": 4, "max_iter": 20, "batched": True, "batch_size": 1}
    result = slgh.minimize(fun, np.full((4, 3), 2.0), sample_xi=lambda rng, n: rng.random(n), **options)
    assert result.status[0] == slgh.Status.COMPLETED
    assert set(result.status[1:].tolist()) == {slgh.Status.INTERRUPTED}
    assert not result.success.any()


def test_ctrl_c_at_the_starts_keeps_the_values_that_are_known() -> None:
    fun = Presses(5)
    options: dict[str, Any] = {"method": "scale_free", "max_evals": 100, "batched": True, "batch_size": 2, "seed": 0}
    result = slgh.minimize(fun, np.full((6, 2), 2.0), **options)
    assert (result.status == slgh.Status.INTERRUPTED).all()
    np.testing.assert_array_equal(result.fun, [bowl(np.full(2, 2.0))] * 4 + [np.nan] * 2)
    assert result.nfev.tolist()[:5] == [1] * 5


LARGE = """
import os, signal, threading
import numpy as np
from slgh import minimize  # now, since importing it may take longer than the timer below


def f(x):
    return 0.0


def g(x):
    return 2 * x


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for i in range(3):
        threading.Timer(1 + 0.1 * i, os.kill, (os.getpid(), signal.SIGINT)).start()
        options = {"method": "gd", "step": 0.1, "max_iter": 10**6, "workers": 2, "history": 0}
        result = minimize(f, np.ones((4, 500_000)), batched=True, grad=g, **options)
        print(result.status[0], flush=True)
"""


@pytest.mark.slow
@POSIX
def test_ctrl_c_while_workers_send_large_gradients_does_not_hang(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(LARGE)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=90, check=False)
    assert done.stdout.split() == [str(int(slgh.Status.INTERRUPTED))] * 3, done.stderr


def test_a_callback_that_raises_where_a_problem_reaches_the_target_is_resumed_bit_for_bit(tmp_path: Path) -> None:
    def callback(result: Any) -> None:
        if result.nit == straight.nit.min():
            raise ConnectionError

    options: dict[str, Any] = {**ZO, "samples": 4, "max_iter": 200, "t1": 0.1, "batched": True, "target": 0.05}
    starts = np.array([[0.6, 0.3], [2.0, 2.0]])
    straight = slgh.minimize(bowl, starts, **options)
    assert straight.nit[0] < straight.nit[1]
    with pytest.raises(ConnectionError):
        slgh.minimize(bowl, starts, callback=callback, checkpoint=tmp_path / "run.npz", **options)
    resumed = slgh.minimize(bowl, starts, checkpoint=tmp_path / "run.npz", **options)
    np.testing.assert_array_equal(resumed.x, straight.x)
    np.testing.assert_array_equal(resumed.nit, straight.nit)
