"""A run of "auto" can be interrupted anywhere and continues to the same result, also with ask and tell."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import slgh
from auto_cases import (
    FEWER,
    LARGE,
    START,
    Clock,
    Counted,
    Point,
    assert_same_run,
    bowl,
    calm,
    cliff,
    every_function,
    powers,
    resumable,
    slope,
    uninterrupted,
    uninterrupted_at_length,
    valley,
    waves,
)
from cases import Stopper, noting
from slgh.engine import checkpoint
from slgh.engine import run as loop
from slgh.engine.arguments import PHASES


def everywhere(fun: Point) -> list[int]:
    """Return calls in every phase: at the start, within the landscape phase, and at regular intervals afterwards."""
    return [1, 2, 20, *range(50, uninterrupted(fun).nfev, 101), uninterrupted(fun).nfev]


@pytest.mark.parametrize("fun", [bowl, waves, cliff, calm])
def test_the_runs_that_are_broken_off_have_all_phases(fun: Point) -> None:
    whole = uninterrupted(fun)
    assert "f looked" in whole.message
    assert "local search" in whole.message
    assert (whole.history["t"] > 0).any()
    assert (whole.history["t"] == 0).any()


@every_function
def test_a_run_broken_off_by_an_exception_is_continued_bit_for_bit(fun: Point, tmp_path: Path) -> None:
    for at in everywhere(fun):
        file = tmp_path / f"{at}.npz"
        with pytest.raises(Stopper):
            resumable(Counted(fun, at, Stopper), checkpoint=file)
        rest = Counted(fun)
        assert_same_run(resumable(rest, checkpoint=file), uninterrupted(fun))
        assert len(rest.values) < uninterrupted(fun).nfev - at + 100, "known values are not evaluated again"


def test_a_checkpoint_without_the_ends_of_phases_is_continued(tmp_path: Path) -> None:
    """Files of older versions lack them."""
    file = tmp_path / "run.npz"
    with pytest.raises(Stopper):
        resumable(Counted(waves, uninterrupted(waves).nfev - 20, Stopper), checkpoint=file)
    found = checkpoint.read(file)
    assert found is not None
    meta, arrays = found
    assert len(arrays["auto.numbers"])
    meta.pop("slgh")
    checkpoint.write(file, meta, arrays | {"auto.numbers": arrays["auto.numbers"][:, :3]})
    run = resumable(waves, checkpoint=file)
    assert run.phases == ()
    np.testing.assert_array_equal(run.x, uninterrupted(waves).x)


@pytest.mark.parametrize("fun", [valley, cliff])
def test_a_run_broken_off_again_and_again(fun: Point, tmp_path: Path) -> None:
    file, sittings = tmp_path / "run.npz", 0
    while True:
        sittings += 1
        try:
            run = resumable(Counted(fun, 41, Stopper), FEWER, checkpoint=file)
        except Stopper:
            continue
        break
    assert sittings > 5
    assert_same_run(run, uninterrupted(fun, fewer=True))


@pytest.mark.parametrize("fun", [valley, waves])
def test_a_run_broken_off_by_the_keyboard_is_continued_bit_for_bit(fun: Point, tmp_path: Path) -> None:
    for at in everywhere(fun)[1::2]:
        file = tmp_path / f"{at}.npz"
        broken = resumable(Counted(fun, at, KeyboardInterrupt), checkpoint=file)
        assert broken.status == slgh.Status.INTERRUPTED
        assert_same_run(resumable(fun, checkpoint=file), uninterrupted(fun))


@pytest.mark.parametrize("fun", [valley, waves, calm])
def test_a_run_whose_time_was_up_is_continued_bit_for_bit(
    fun: Point, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in everywhere(fun)[1::2]:
        clock, file = Clock(), tmp_path / f"{at}.npz"
        slow = Counted(noting(clock.tick, fun))
        clock.jumps_at = at
        monkeypatch.setattr(loop, "time", clock)
        cut = resumable(slow, checkpoint=file, max_seconds=1.0)
        assert cut.status == slgh.Status.MAX_SECONDS or at == uninterrupted(fun).nfev
        assert cut.nfev <= at + 100
        assert_same_run(resumable(fun, checkpoint=file), uninterrupted(fun))


@pytest.mark.parametrize("fun", [valley, waves])
def test_a_run_that_was_killed_goes_on_from_its_last_checkpoint(fun: Point, tmp_path: Path) -> None:
    file = tmp_path / "run.npz"
    copies: list[Path] = []
    calls = Counted(fun)

    def watched(x: Any) -> float:
        if len(calls.values) % 103 == 0:
            copies.append(tmp_path / f"{len(copies)}.npz")
            shutil.copy(file, copies[-1])
        return calls(x)

    resumable(watched, checkpoint=slgh.Checkpoint(path=file, every_iterations=3))
    assert len(copies) > 6
    for copy in copies:
        assert_same_run(resumable(fun, checkpoint=copy), uninterrupted(fun))


@pytest.mark.parametrize("fun", [powers, waves, cliff])
def test_a_long_run_is_continued_bit_for_bit(fun: Point, tmp_path: Path) -> None:
    """It has covariance homotopies and competing restarts, the plan of which depends on the outcomes before."""
    whole = uninterrupted_at_length(fun)
    assert "covariance homotop" in whole.message
    assert "restarts" in {phase.name for phase in whole.phases}
    for at in (*range(40, LARGE, 163), LARGE - 1):
        file = tmp_path / f"{at}.npz"
        with pytest.raises(Stopper):
            resumable(Counted(fun, at, Stopper), FEWER, max_evals=LARGE, checkpoint=file)
        rest = Counted(fun)
        assert_same_run(resumable(rest, FEWER, max_evals=LARGE, checkpoint=file), whole)
        assert len(rest.values) < LARGE - at + 100


def shaky(asked: list[int]) -> Point:
    """A bowl with noise that is deterministic at each point except the start."""

    def fun(x: Any) -> float:
        asked[0] += 1
        again = asked[0] if (x == START).all() else 0
        return float(bowl(x)) + np.random.default_rng([*x.view(np.uint64).tolist(), again]).normal()

    return fun


def test_a_noisy_run_is_continued_bit_for_bit(tmp_path: Path) -> None:
    whole = resumable(shaky([0]))
    assert "looked noisy" in whole.message
    for at in (150, 300, 700):
        file = tmp_path / f"{at}.npz"
        with pytest.raises(Stopper):
            resumable(Counted(shaky([0]), at, Stopper), checkpoint=file)
        assert_same_run(resumable(shaky([at]), checkpoint=file), whole)


@every_function
def test_a_finished_run_is_finished(fun: Point, tmp_path: Path) -> None:
    file, calls = tmp_path / "run.npz", Counted(fun)
    resumable(fun, checkpoint=file)
    assert_same_run(resumable(calls, checkpoint=file), uninterrupted(fun))
    assert calls.values == []


def test_a_run_that_gave_up_has_given_up(tmp_path: Path) -> None:
    file, calls = tmp_path / "run.npz", Counted(lambda x: np.nan)
    first = resumable(calls, checkpoint=file)
    again = resumable(Counted(lambda x: np.nan), checkpoint=file)
    assert first.status == again.status == slgh.Status.NONFINITE
    assert (first.nfev, first.nit, first.message) == (again.nfev, again.nit, again.message)


def test_a_run_that_reached_its_target_has_reached_it(tmp_path: Path) -> None:
    file = tmp_path / "run.npz"
    first = resumable(valley, checkpoint=file, target=0.01)
    calls = Counted(valley)
    assert_same_run(resumable(calls, checkpoint=file, target=0.01), first)
    assert (first.status, calls.values) == (slgh.Status.TARGET, [])


def test_another_budget_is_another_run(tmp_path: Path) -> None:
    resumable(bowl, checkpoint=tmp_path / "run.npz")
    with pytest.raises(ValueError, match="number of evaluations, which the method plans by is 960, here it is 961"):
        resumable(bowl, checkpoint=tmp_path / "run.npz", max_evals=961)


def test_other_phases_are_another_run(tmp_path: Path) -> None:
    resumable(bowl, checkpoint=tmp_path / "run.npz")
    with pytest.raises(ValueError, match="belongs to another run: its phases is"):
        resumable(bowl, checkpoint=tmp_path / "run.npz", phases=("homotopy", "local_search"))


def tell_all(opt: slgh.Optimizer, fun: Point) -> slgh.Result:
    while not opt.stop():
        points = opt.ask()
        opt.tell(points, np.array([fun(point) for point in points]))
    return opt.result


@every_function
@pytest.mark.parametrize(("x0", "max_evals"), [(FEWER, 30), (FEWER, 150), (START, 150), (START, 960)])
def test_ask_and_tell_is_the_same_run(fun: Point, x0: Any, max_evals: int) -> None:
    opt = slgh.Optimizer(x0, max_evals=max_evals, seed=4, history="x")
    assert_same_run(tell_all(opt, fun), resumable(fun, x0, max_evals=max_evals))


def test_ask_and_tell_with_gradients_is_the_same_run() -> None:
    opt = slgh.Optimizer(START, gradients=True, max_evals=200, seed=4, history="x")
    while not opt.stop():
        points = opt.ask()
        answer = slope if opt.asks == "grad" else bowl
        opt.tell(points, np.array([answer(point) for point in points]))
    assert opt.result.njev > 0
    assert_same_run(opt.result, resumable(bowl, grad=slope, max_evals=200))


def test_ask_and_tell_is_continued(tmp_path: Path) -> None:
    for asked in (1, 2, 5, 20, 40):
        options: dict[str, Any] = {"max_evals": 960, "seed": 4, "history": "x"}
        opt = slgh.Optimizer(
            START, checkpoint=slgh.Checkpoint(path=tmp_path / f"{asked}.npz", every_iterations=1), **options
        )
        for _ in range(asked):
            points = opt.ask()
            opt.tell(points, [valley(point) for point in points])
        del opt
        again = slgh.Optimizer(START, checkpoint=tmp_path / f"{asked}.npz", **options)
        assert_same_run(tell_all(again, valley), uninterrupted(valley))


def test_a_checkpoint_whose_phases_are_others_is_refused(tmp_path: Path) -> None:
    """A version with another plan must not take the outcome of one phase for that of another."""
    file = tmp_path / "run.npz"
    with pytest.raises(Stopper):
        resumable(Counted(waves, 500, Stopper), checkpoint=file)
    meta, arrays = checkpoint.read(file) or pytest.fail("there is no file")
    (key,) = (name for name in arrays if name.endswith("numbers"))
    arrays[key][0, 0] = PHASES.index("restarts")
    checkpoint.write(file, meta, arrays)
    with pytest.raises(ValueError, match="of another version of slgh: its next phase is 'restarts', not 'landscape'"):
        resumable(waves, checkpoint=file)
