"""An Optimizer can be pickled, and saved and loaded as a dictionary, at any time. The run keeps its bits."""

from __future__ import annotations

import copy
import io
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import slgh
from cases import Case, assert_same, every_method, fun, grad, starts
from optimizer_cases import options_of, pickled, waves


def through_files(opt: slgh.Optimizer, make: Callable[[], slgh.Optimizer]) -> slgh.Optimizer:
    """Write the state as JSON and as .npz without pickle, and load both into a new Optimizer."""
    state = opt.state_dict()
    header, file = json.dumps(state["header"]), io.BytesIO()
    np.savez(file, allow_pickle=False, **state["arrays"])
    file.seek(0)
    with np.load(file, allow_pickle=False) as arrays:
        other = make()
        other.load_state_dict({"header": json.loads(header), "arrays": dict(arrays)})
    return other


def drive(opt: slgh.Optimizer, swap: Callable[[slgh.Optimizer], slgh.Optimizer], every: int) -> slgh.Result:
    """Drive a run. Replace the Optimizer every few steps, between ask and tell."""
    step = 0
    while not opt.stop():
        points = opt.ask()
        step += 1
        if step % every == 0:
            opt = swap(opt)
            np.testing.assert_array_equal(opt.ask(), points)
        extra = () if opt.xi is None else (opt.xi,)
        opt.tell(points, grad(points, *extra) if opt.asks == "grad" else fun(points, *extra))
    return opt.result


@every_method
def test_every_method_is_pickled(case: Case) -> None:
    opt = slgh.Optimizer(starts(1)[0], method=case.method, gradients=case.first_order, **options_of(case))
    assert_same(drive(opt, pickled, every=7), case.run(starts(1)[0]))


@every_method
def test_every_method_is_saved_and_loaded(case: Case) -> None:
    def make() -> slgh.Optimizer:
        return slgh.Optimizer(
            starts(3), method=case.method, gradients=case.first_order, **options_of(case), batched=True
        )

    assert_same(drive(make(), lambda opt: through_files(opt, make), every=11), case.run(starts(3), batched=True))


@pytest.mark.parametrize(("d", "max_evals"), [(2, 60), (3, 1500), (20, 900), (20, 6000)])
def test_auto_is_pickled_in_all_its_phases(d: int, max_evals: int) -> None:
    opt, step = slgh.Optimizer(np.full(d, 2.3), max_evals=max_evals, seed=4), 0
    while not opt.stop():
        points = opt.ask()
        step += 1
        if step % 13 == 0:
            opt = pickled(opt)
        opt.tell(points, waves(points))
    assert_same(opt.result, slgh.minimize(waves, np.full(d, 2.3), vectorized=True, max_evals=max_evals, seed=4))


def test_a_copy_goes_its_own_way() -> None:
    opt = slgh.Optimizer(np.full(4, 2.0), max_evals=300, seed=0)
    opt.tell(points := opt.ask(), waves(points))
    other = copy.deepcopy(opt)
    before = opt.ask()
    other.tell(points := other.ask(), -waves(points))
    np.testing.assert_array_equal(opt.ask(), before)
    assert not np.array_equal(other.ask(), before)


def test_a_run_that_has_ended_keeps_its_result() -> None:
    opt = slgh.Optimizer(np.full(4, 2.0), max_evals=100, seed=0)
    while not opt.stop():
        opt.tell(points := opt.ask(), waves(points))
    other = pickled(opt)
    assert other.stop()
    assert_same(other.result, opt.result)
    assert other.result.message == opt.result.message


def test_a_generated_seed_travels() -> None:
    opt = slgh.Optimizer(np.full(4, 2.0), max_evals=100)
    other = pickled(opt)
    for one in (opt, other):
        while not one.stop():
            one.tell(points := one.ask(), waves(points))
    assert_same(other.result, opt.result)
    assert other.result.seed == opt.result.seed


def test_the_state_wins_over_a_checkpoint(tmp_path: Path) -> None:
    file = tmp_path / "run.npz"
    opt = slgh.Optimizer(np.full(4, 2.0), max_evals=300, seed=0, checkpoint=file)
    for _ in range(3):
        opt.tell(points := opt.ask(), waves(points))
    np.testing.assert_array_equal(pickled(opt).ask(), opt.ask())


def test_a_state_is_loaded_without_a_seed() -> None:
    first, second = (slgh.Optimizer(np.full(4, 2.0), max_evals=300) for _ in range(2))
    first.tell(points := first.ask(), waves(points))
    second.load_state_dict(first.state_dict())
    np.testing.assert_array_equal(second.ask(), first.ask())


def test_after_a_state_that_is_refused_the_run_goes_on() -> None:
    opt = slgh.Optimizer(np.full(4, 2.0), max_evals=300, seed=0)
    points = opt.ask()
    with pytest.raises(ValueError, match="not a complete checkpoint"):
        opt.load_state_dict({})
    np.testing.assert_array_equal(opt.ask(), points)
    opt.tell(points, waves(points))


def test_a_sampler_of_data_is_not_copied() -> None:
    class Data:
        def __deepcopy__(self, memo: Any) -> Any:
            raise AssertionError("the data are large")

        def sample(self, rng: np.random.Generator, n: int) -> Any:
            return rng.random(n)

    opt = slgh.Optimizer(
        np.full(4, 2.0), sample_xi=Data().sample, method="zoslgh_r", t1=1, step=0.1, max_iter=3, samples=2, seed=0
    )
    assert opt.state_dict()["header"]["k"] == 0


def test_a_checkpoint_of_another_run_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "run.npz"
    opt = slgh.Optimizer(np.full(4, 2.0), max_evals=300, seed=0, checkpoint=file)
    saved = pickle.dumps(opt)
    file.unlink()
    slgh.minimize(waves, np.full(4, 3.0), vectorized=True, max_evals=60, seed=0, checkpoint=file)
    with pytest.raises(ValueError, match="belongs to another run"):
        pickle.loads(saved)


def test_a_batch_goes_on_from_values_of_single_points(tmp_path: Path) -> None:
    options: dict[str, Any] = {"batched": True, "method": "zoslgh_r", "t1": 1, "step": 0.1, "max_iter": 3, "samples": 4}
    calls = []

    def breaks(x: Any) -> float:
        calls.append(1)
        if len(calls) == 8:
            raise ZeroDivisionError
        return float(waves(x))

    file = tmp_path / "run.npz"
    with pytest.raises(ZeroDivisionError):
        slgh.minimize(breaks, starts(2), checkpoint=file, seed=0, **options)
    opt = slgh.Optimizer(starts(2), checkpoint=file, seed=0, **options)
    while not opt.stop():
        opt.tell(points := opt.ask(), waves(points))
    assert_same(opt.result, slgh.minimize(waves, starts(2), vectorized=True, seed=0, **options))


def test_the_state_of_another_run_is_refused() -> None:
    state = slgh.Optimizer(np.full(4, 2.0), max_evals=300, seed=0).state_dict()
    with pytest.raises(ValueError, match=r"`state` belongs to another run: its .*Pass the arguments of that run"):
        slgh.Optimizer(np.full(4, 3.0), max_evals=300, seed=0).load_state_dict(state)


@pytest.mark.parametrize("damage", ["header", "arrays", "shape", "nothing"])
def test_a_damaged_state_is_refused(damage: str) -> None:
    opt = slgh.Optimizer(np.full(4, 2.0), max_evals=300, seed=0)
    opt.tell(points := opt.ask(), waves(points))
    state = opt.state_dict()
    if damage == "shape":
        state["arrays"]["state.x"] = np.zeros((1, 5))
    elif damage == "nothing":
        state = {}
    else:
        state[damage] = dict(list(state[damage].items())[1:])
    with pytest.raises(ValueError, match="not a complete checkpoint"):
        slgh.Optimizer(np.full(4, 2.0), max_evals=300, seed=0).load_state_dict(state)


@pytest.mark.slow
@pytest.mark.parametrize("library", ["torch", "jax"])
def test_arrays_of_other_libraries_are_pickled(library: str) -> None:
    module = pytest.importorskip("jax.numpy" if library == "jax" else library)
    x0 = module.ones(4)
    opt = slgh.Optimizer(x0, method="zoslgh_r", t1=0.5, step=0.01, samples=3, max_iter=12, seed=3)
    alone = slgh.Optimizer(x0, method="zoslgh_r", t1=0.5, step=0.01, samples=3, max_iter=12, seed=3)
    while not opt.stop():
        opt = pickled(opt)
        assert bool((opt.ask() == alone.ask()).all())
        for one in (opt, alone):
            one.tell(points := one.ask(), waves(np.asarray(points)))
    assert bool((opt.result.x == alone.result.x).all())
