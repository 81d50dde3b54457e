"""Points are asked for a few at a time, and told in any order. The run stays that of `minimize`."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import slgh
from cases import Case, assert_same, every_method, fun, grad, starts
from optimizer_cases import make, options_of, pickled, waves


@every_method
def test_any_order_and_any_subsets_give_the_run_of_minimize(case: Case) -> None:
    opt = slgh.Optimizer(starts(1)[0], method=case.method, gradients=case.first_order, **options_of(case))
    rng = np.random.default_rng(3)
    running: list[tuple[Any, Any]] = []
    while not opt.stop():
        points, kind = opt.ask(int(rng.integers(1, 4))), opt.asks
        extra = () if opt.xi is None else (opt.xi,)
        values = grad(points, *extra) if kind == "grad" else fun(points, *extra)
        running += [(points[k], values[k]) for k in range(len(points))]
        assert running, "a point is out, or there is one to ask for"
        if len(points) == 0 or rng.random() < 0.3:
            # A stochastic f has different values at equal points, which are told in the order of `ask`.
            told = np.arange(min(2, len(running))) if case.stochastic else rng.permutation(len(running))[:2]
            for k in told:
                opt.tell([running[k][0]], [running[k][1]])
            running = [pair for k, pair in enumerate(running) if k not in told]
    assert not running
    assert_same(opt.result, case.run(starts(1)[0]))


def test_each_point_is_asked_for_once_until_it_is_abandoned() -> None:
    opt = make()
    first, second = opt.ask(3), opt.ask(3)
    assert (len(first), len(second), len(opt.ask(5))) == (3, 1, 0)
    np.testing.assert_array_equal(np.concatenate([first, second]), opt.ask())
    opt.abandon(first[1:])
    np.testing.assert_array_equal(opt.ask(9), first[1:])
    opt.tell(second, fun(second))
    np.testing.assert_array_equal(opt.ask(), first)
    assert len(opt.ask(0)) == 0


def test_a_subset_ends_the_iteration_when_it_is_the_last() -> None:
    opt = make()
    points = opt.ask()
    opt.tell(points[[2, 0]], fun(points[[2, 0]]))
    assert opt.result.nfev == 0
    opt.tell(points[[3, 1]], fun(points[[3, 1]]))
    assert opt.result.nfev == 4


def test_failed_points_are_told_as_nan() -> None:
    opt = make()
    points = opt.ask()
    opt.tell(points[1:2], [np.nan])
    opt.tell(points[[0, 2, 3]], fun(points[[0, 2, 3]]))
    assert opt.result.nfev == 4
    assert np.isfinite(opt.result.fun)


def test_points_told_twice_or_foreign_are_refused_and_nothing_is_lost() -> None:
    opt, other = make(), make()
    points = opt.ask()
    opt.tell(points[:2], fun(points[:2]))
    for wrong, match in ((points[:1], "which has a value"), (points[3:] + 1, "which is not one")):
        with pytest.raises(ValueError, match=match):
            opt.tell(wrong, fun(wrong))
        with pytest.raises(ValueError, match=match):
            opt.tell(np.concatenate([points[2:3], wrong]), fun(np.concatenate([points[2:3], wrong])))
        with pytest.raises(ValueError, match=match):
            opt.abandon(wrong)
    opt.tell(points[2:], fun(points[2:]))
    other.tell(points, fun(points))
    np.testing.assert_array_equal(opt.ask(), other.ask())


def test_equal_points_are_told_one_by_one() -> None:
    opt = slgh.Optimizer(np.zeros(2), bounds=[(0, 0), (0, 0)], method="zoslgh_r", t1=1, step=0.1, samples=3, max_iter=1)
    points = opt.ask()
    assert len(np.unique(points, axis=0)) == 1
    for point in points:
        assert not opt.stop()
        opt.tell([point], [1.0])
    with pytest.raises((ValueError, RuntimeError)):
        opt.tell(points, np.ones(len(points)))


@pytest.mark.parametrize("way", ["pickle", "checkpoint"])
def test_values_of_an_incomplete_iteration_survive(way: str, tmp_path: Path) -> None:
    file = slgh.Checkpoint(path=tmp_path / "run.npz", every_seconds=0)

    def begin() -> slgh.Optimizer:
        checkpoint = file if way == "checkpoint" else None
        return slgh.Optimizer(np.full(6, 2.0), max_evals=300, seed=1, checkpoint=checkpoint)

    opt, seen = begin(), []
    for step in itertools.count():
        if opt.stop():
            break
        points = opt.ask(2)
        seen += [point.tobytes() for point in points]
        opt.tell(points, waves(points))
        if step % 3 == 0 and not opt.stop():
            opt = pickled(opt) if way == "pickle" else begin()
    alone = slgh.minimize(waves, np.full(6, 2.0), vectorized=True, max_evals=300, seed=1)
    assert_same(opt.result, alone)
    assert len(seen) == alone.nfev, "no point is evaluated again"


def test_a_batch_is_told_at_once() -> None:
    opt = slgh.Optimizer(starts(2), method="zoslgh_r", t1=0.5, step=0.1, samples=3, max_iter=2, batched=True, seed=0)
    with pytest.raises(ValueError, match="`n` is for a single problem"):
        opt.ask(1)
    points = opt.ask()
    with pytest.raises(ValueError, match="`points` must be those of the last `ask`"):
        opt.tell(points[:, :2], fun(points[:, :2]))
    with pytest.raises(ValueError, match="`abandon` is for a single problem"):
        opt.abandon(points)


@pytest.mark.parametrize("n", [-1, 1.5])
def test_a_wrong_number_of_points(n: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="`n` must be an integer"):
        make().ask(n)
