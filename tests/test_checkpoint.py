"""A resumed run is bit-equal to the uninterrupted one, however it was stopped."""

from __future__ import annotations

import dataclasses
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import slgh
from cases import CASES, Case, Stopper, assert_same, every_method, fails_after, fun, grad, noting, starts
from slgh.engine import checkpoint, snapshot


@every_method
@pytest.mark.parametrize("at", [1, 2, 7, 20])
def test_a_run_that_was_broken_off_is_continued_bit_for_bit(case: Case, at: int, tmp_path: Path) -> None:
    whole = case.run(starts(3), batched=True, history="full")
    file = tmp_path / "run.npz"
    options: dict[str, Any] = {"batched": True, "history": "full", "checkpoint": file}
    with pytest.raises(Stopper) as caught:
        case.run(starts(3), fun=fails_after(at), **options)
    assert "complete iterations, saved in" in caught.value.__notes__[0]
    assert_same(case.run(starts(3), **options), whole)


@every_method
def test_a_batch_of_which_some_have_ended_is_continued(case: Case, tmp_path: Path) -> None:
    free = case.run(starts(6), batched=True)
    options: dict[str, Any] = {"batched": True, "target": float(np.median(free.fun_best)) + 1e-9}
    whole = case.run(starts(6), **options)
    file = tmp_path / "run.npz"
    with pytest.raises(Stopper):
        case.run(starts(6), fun=fails_after(29), checkpoint=file, **options)
    assert_same(case.run(starts(6), checkpoint=file, **options), whole)


def test_large_noise_is_rewound_too(tmp_path: Path) -> None:
    d = 50_000
    options: dict[str, Any] = {
        "method": "zoslgh_r",
        "t1": 1.0,
        "step": 1e-6,
        "samples": 7,
        "max_iter": 4,
        "seed": 1,
        "vectorized": True,
    }
    whole = slgh.minimize(fun, np.ones(d), **options)
    with pytest.raises(Stopper):
        slgh.minimize(fails_after(9), np.ones(d), checkpoint=tmp_path / "r", **options)
    assert_same(slgh.minimize(fun, np.ones(d), checkpoint=tmp_path / "r", **options), whole)


def test_a_finished_run_is_not_run_again_and_can_be_extended(tmp_path: Path) -> None:
    case, file = CASES["zoslgh_r"], tmp_path / "run.npz"
    first = case.run(starts(1)[0], max_iter=20, checkpoint=file)
    calls = []
    again = case.run(starts(1)[0], max_iter=20, checkpoint=file, fun=noting(lambda x: calls.append(len(x)), fun))
    assert_same(first, again)
    assert calls == [1]
    longer = case.run(starts(1)[0], max_iter=45, checkpoint=file)
    straight = case.run(starts(1)[0], max_iter=45)
    for name in ("x", "fun", "t", "nit", "nfev"):
        np.testing.assert_array_equal(longer[name], straight[name])


def test_a_planned_run_cannot_be_extended_and_says_so(tmp_path: Path) -> None:
    case, file = CASES["scale_free"], tmp_path / "run.npz"
    case.run(starts(1)[0], max_iter=20, checkpoint=file)
    with pytest.raises(ValueError, match="its number of iterations, which the method plans by is 20, here it is 30"):
        case.run(starts(1)[0], max_iter=30, checkpoint=file)


@pytest.mark.parametrize("at", [3, 17, 25])
def test_a_thinned_history_of_ended_problems_is_continued(at: int, tmp_path: Path) -> None:
    case = CASES["zoslgh_r"]
    target = float(np.median(case.run(starts(6), batched=True).fun_best)) + 1e-9
    options: dict[str, Any] = {"batched": True, "target": target, "history": 8}
    whole = case.run(starts(6), **options)
    with pytest.raises(Stopper):
        case.run(starts(6), fun=fails_after(at), checkpoint=tmp_path / "run", **options)
    assert_same(case.run(starts(6), checkpoint=tmp_path / "run", **options), whole)


def test_xhat_of_an_extended_run_is_the_one_that_was_drawn(tmp_path: Path) -> None:
    case = CASES["zoslgh_r"]
    first = case.run(starts(1)[0], max_iter=100)
    with pytest.raises(Stopper):
        case.run(starts(1)[0], max_iter=100, fun=fails_after(3), checkpoint=tmp_path / "run")
    longer = case.run(starts(1)[0], max_iter=120, checkpoint=tmp_path / "run")
    np.testing.assert_array_equal(longer.xhat, first.xhat)


def test_a_part_that_is_no_dataclass_is_recognised_again(tmp_path: Path) -> None:
    class Own:
        name: ClassVar[str] = "own"

        def __init__(self, step: float) -> None:
            self.step = step

        def init(self, x: Any, xp: Any) -> tuple[Any, ...]:
            return ()

        def apply(self, x: Any, estimate: Any, t: Any, state: Any, xp: Any) -> tuple[Any, tuple[Any, ...]]:
            return x - self.step * estimate.g, state

    options: dict[str, Any] = {"method": "zosgd", "t1": 0.1, "max_iter": 5, "seed": 0, "checkpoint": tmp_path / "run"}
    first = slgh.minimize(fun, starts(1)[0], update=Own(0.1), **options)
    assert_same(slgh.minimize(fun, starts(1)[0], update=Own(0.1), **options), first)
    with pytest.raises(ValueError, match="its method is"):
        slgh.minimize(fun, starts(1)[0], update=Own(0.2), **options)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScaledDescent:
    """A part whose field is an array."""

    name: ClassVar[str] = "diagonal_scaling"
    steps: Any

    def init(self, x: Any, xp: Any) -> tuple[Any, ...]:
        return ()

    def apply(self, x: Any, estimate: Any, t: Any, state: Any, xp: Any) -> tuple[Any, tuple[Any, ...]]:
        return x - self.steps * estimate.g, state


def test_a_part_may_hold_an_array(tmp_path: Path) -> None:
    options: dict[str, Any] = {"method": "zosgd", "t1": 0.1, "max_iter": 5, "seed": 0, "checkpoint": tmp_path / "run"}
    first = slgh.minimize(fun, starts(1)[0], update=ScaledDescent(steps=np.full(4, 0.1)), **options)
    assert_same(slgh.minimize(fun, starts(1)[0], update=ScaledDescent(steps=np.full(4, 0.1)), **options), first)
    with pytest.raises(ValueError, match="its method is"):
        slgh.minimize(fun, starts(1)[0], update=ScaledDescent(steps=np.full(4, 0.2)), **options)


def test_an_unseeded_run_goes_on_with_its_own_seed(tmp_path: Path) -> None:
    case, file = CASES["zoslgh_r"], tmp_path / "run.npz"
    with pytest.raises(Stopper):
        case.run(starts(1)[0], seed=None, fun=fails_after(9), checkpoint=file)
    resumed = case.run(starts(1)[0], seed=None, checkpoint=file)
    assert_same(case.run(starts(1)[0], seed=resumed.seed), resumed)


CHILD = """
import sys, time
from pathlib import Path
import numpy as np, slgh
from slgh.engine import checkpoint
import os, signal

mode, file, T = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
if mode == "mid-write":
    original, count = np.savez, [0]
    def savez(handle, *args, **arrays):
        count[0] += 1
        if count[0] == 7:
            handle.write(b"PK half a file")
            handle.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        original(handle, *args, **arrays)
    np.savez = savez

def f(x):
    if mode == "slow":
        time.sleep(0.0002)
    return ((x - 1) ** 2).sum(axis=-1)

result = slgh.minimize(
    f, np.zeros((2, 3)), method="zoslgh_d", t1=1.0, eta=1e-3, step=0.01, samples=5, max_iter=T, seed=2, batched=True,
    vectorized=True, checkpoint=slgh.Checkpoint(path=file, every_iterations=1),
)
print(result.x.tobytes().hex(), result.nfev.tolist())
"""


def child(mode: str, file: Path, T: int) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", CHILD, mode, str(file), str(T)], stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_a_run_killed_in_the_middle_of_a_write_is_continued_bit_for_bit(tmp_path: Path) -> None:
    plain, _ = child("plain", tmp_path / "whole", 60).communicate()
    killed = child("mid-write", tmp_path / "run", 60)
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    assert list(tmp_path.glob("run.*.tmp")), "there is a half-written file"
    found = checkpoint.read(tmp_path / "run")
    assert found is not None
    meta, _ = found
    assert 0 < meta["k"] < 60
    resumed, _ = child("plain", tmp_path / "run", 60).communicate()
    assert resumed == plain
    assert not list(tmp_path.glob("*.tmp")), "it was removed"


@pytest.mark.slow
def test_a_run_killed_again_and_again_is_continued_bit_for_bit(tmp_path: Path) -> None:
    T = 400
    plain, _ = child("plain", tmp_path / "whole", T).communicate()
    file, rng = tmp_path / "run", np.random.default_rng(0)
    for _ in range(4):
        process = child("slow", file, T)
        while not file.exists() and process.poll() is None:
            time.sleep(0.01)
        time.sleep(float(rng.uniform(0.0, 0.3)))
        process.kill()
        process.communicate()
    resumed, _ = child("plain", file, T).communicate()
    assert resumed == plain


def saved(tmp_path: Path) -> Path:
    file = tmp_path / "run.npz"
    CASES["zoslgh_r"].run(starts(1)[0], checkpoint=file)
    return file


def test_a_checkpoint_that_is_cut_short_is_an_error(tmp_path: Path) -> None:
    file = saved(tmp_path)
    whole = file.read_bytes()
    for size in (0, 10, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:size])
        with pytest.raises(ValueError, match="is not a complete checkpoint"):
            CASES["zoslgh_r"].run(starts(1)[0], checkpoint=file)
        assert file.read_bytes() == whole[:size], "it is unchanged"


def test_any_other_file_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("not a checkpoint")
    with pytest.raises(ValueError, match="is not a complete checkpoint"):
        CASES["zoslgh_r"].run(starts(1)[0], checkpoint=file)
    assert file.read_text() == "not a checkpoint"


def test_a_checkpoint_of_another_version_is_an_error(tmp_path: Path) -> None:
    file = saved(tmp_path)
    found = checkpoint.read(file)
    assert found is not None
    meta, arrays = found
    checkpoint.write(file, meta | {"slgh": 99}, arrays)
    with pytest.raises(ValueError, match="has format 99, this version reads 4"):
        CASES["zoslgh_r"].run(starts(1)[0], checkpoint=file)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"x0": np.zeros(4)}, "x0"),
        ({"gamma": 0.5}, "method"),
        ({"seed": 6}, "seed"),
        ({"bounds": [(-9, 9)] * 4}, "bounds"),
        ({"on_nonfinite": "penalize"}, "on_nonfinite"),
        ({"sample_xi": 7}, "number of terms"),
        ({"data": np.ones(2)}, "data"),
        ({"history": "x"}, "history"),
        ({"update": "adam"}, "method"),
    ],
)
def test_a_checkpoint_of_another_run_is_an_error(change: dict[str, Any], what: str, tmp_path: Path) -> None:
    file = saved(tmp_path)
    options = {"x0": starts(1)[0]} | change
    with pytest.raises(ValueError, match=f"belongs to another run: its {what} is"):
        CASES["zoslgh_r"].run(options.pop("x0"), checkpoint=file, **options)


def test_a_place_that_cannot_be_written_is_an_error_before_anything_is_evaluated(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    calls: list[int] = []
    for place in (tmp_path / "no" / "such" / "folder", blocked / "run"):
        with pytest.raises(
            OSError, match=r"`checkpoint` must be a file that can be written, got .*: .* is not a folder\.$"
        ):
            CASES["zoslgh_r"].run(starts(1)[0], checkpoint=place, fun=noting(lambda x: calls.append(1), fun))
    assert not calls


def test_a_disk_that_fills_up_does_not_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case, file = CASES["zoslgh_r"], tmp_path / "run"
    whole = case.run(starts(1)[0])
    write, count = checkpoint.write, []

    def full(*args: Any) -> None:
        count.append(1)
        if len(count) > 5:
            raise OSError(28, "No space left on device")
        write(*args)

    monkeypatch.setattr(snapshot, "write", full)
    with pytest.warns(RuntimeWarning, match="the last complete checkpoint stays") as warned:
        result = case.run(starts(1)[0], checkpoint=slgh.Checkpoint(path=file, every_iterations=1))
    assert len(warned) == 1
    assert_same(result, whole)
    found = checkpoint.read(file)
    assert found is not None
    assert found[0]["k"] == 4


def test_wrong_settings_are_errors() -> None:
    with pytest.raises(TypeError, match="`checkpoint` must be a path or a Checkpoint, got 5"):
        CASES["zoslgh_r"].run(starts(1)[0], checkpoint=5)
    with pytest.raises(ValueError, match="`every_iterations` must be an integer >= 1"):
        slgh.Checkpoint(path="x", every_iterations=0)


def test_gradients_are_saved_too(tmp_path: Path) -> None:
    case, file = CASES["slgh_d"], tmp_path / "run"
    whole = case.run(starts(1)[0])
    calls = []

    def failing(x: Any) -> Any:
        calls.append(1)
        if len(calls) == 8:
            raise Stopper
        return grad(x)

    with pytest.raises(Stopper):
        case.run(starts(1)[0], grad=failing, checkpoint=file)
    assert_same(case.run(starts(1)[0], checkpoint=file), whole)


def test_a_run_that_averages_its_last_tenth_cannot_be_extended(tmp_path: Path) -> None:
    params = {"t1": 0.5, "samples": 3, "schedule": "ratio", "gamma": 0.95}
    case = dataclasses.replace(CASES["scale_free stochastic"], params=params)
    options: dict[str, Any] = {"checkpoint": tmp_path / "run"}
    case.run(starts(1)[0], max_iter=20, **options)
    with pytest.raises(ValueError, match="number of iterations, which the method plans by is 20, here it is 40"):
        case.run(starts(1)[0], max_iter=40, **options)
