"""Ask and tell gives the same run as minimize."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import slgh
from cases import CASES, Case, assert_same, every_method, fun, grad, starts
from optimizer_cases import make, options_of


def drive(opt: slgh.Optimizer) -> slgh.Result:
    while not opt.stop():
        points = opt.ask()
        extra = () if opt.xi is None else (opt.xi,)
        opt.tell(points, grad(points, *extra) if opt.asks == "grad" else fun(points, *extra))
    return opt.result


@every_method
def test_ask_and_tell_is_minimize(case: Case) -> None:
    opt = slgh.Optimizer(starts(1)[0], method=case.method, gradients=case.first_order, **options_of(case))
    assert_same(drive(opt), case.run(starts(1)[0]))


@every_method
def test_a_batch_is_asked_for_at_once(case: Case) -> None:
    target = float(np.median(case.run(starts(4), batched=True).fun_best)) + 1e-9
    options = options_of(case) | {"batched": True, "target": target}
    opt = slgh.Optimizer(starts(4), method=case.method, gradients=case.first_order, **options)
    assert opt.ask().shape[0] == opt.active.size == 4
    assert_same(drive(opt), case.run(starts(4), batched=True, target=target))


@pytest.mark.parametrize(
    ("method", "options"),
    [("zoslgh_r", {"samples": 7}), ("scale_free", {"samples": 4}), ("scale_free", {"parallel": 8})],
)
def test_an_iteration_fills_eight_workers(method: str, options: dict[str, Any]) -> None:
    """The numbers of samples are those that the page on methods recommends."""
    parameters: dict[str, Any] = {"step": 0.1, "t1": 1.0} if method == "zoslgh_r" else {}
    opt = slgh.Optimizer(np.ones(3), method=method, seed=0, max_evals=400, **parameters, **options)
    if len(opt.ask()) == 1:  # the start
        opt.tell(opt.ask(), [3.0])
    assert len(opt.ask()) == 8


def test_asking_twice_gives_the_same_points() -> None:
    opt = make()
    np.testing.assert_array_equal(opt.ask(), opt.ask())


def test_while_running_there_is_a_result_so_far() -> None:
    opt = make()
    assert opt.result.nfev == 0
    opt.tell(points := opt.ask(), fun(points))
    assert opt.result.nfev == 4
    assert opt.result.status == slgh.Status.RUNNING
    assert opt.result.fun == fun(points).min()
    assert not opt.result.success


@pytest.mark.parametrize(
    ("points", "values", "match"),
    [
        (lambda p: p + 1, lambda p: fun(p), "`points` must be points that `ask` has returned.*which is not one"),
        (lambda p: p[:-1], lambda p: fun(p), r"`values` must have shape \(3,\)"),
        (lambda p: p[:, :-1], lambda p: fun(p), "`points` must be those of the last `ask`"),
        (lambda p: p, lambda p: fun(p)[:-1], r"`values` must have shape \(4,\) for points \(4, 4\), got \(3,\)"),
        (lambda p: p, lambda p: None, "`values` must return real numbers|`values` must be real numbers"),
        (lambda p: p, lambda p: [1j] * 4, "real numbers"),
    ],
)
def test_telling_something_else_is_an_error(points: Any, values: Any, match: str) -> None:
    opt = make()
    asked = opt.ask()
    with pytest.raises((ValueError, TypeError), match=match):
        opt.tell(points(asked), values(asked))
    opt.tell(asked, fun(asked))


def test_after_the_end_nothing_is_asked() -> None:
    opt = make()
    drive(opt)
    with pytest.raises(RuntimeError, match="The run has ended"):
        opt.ask()


def test_bad_values_are_told_like_others() -> None:
    opt = make(max_iter=50)
    while not opt.stop():
        opt.tell(points := opt.ask(), np.full(len(points), np.nan))
    assert opt.result.status == slgh.Status.NONFINITE
    strict = make(on_nonfinite="raise")
    with pytest.raises(FloatingPointError, match="`values` must be finite"):
        strict.tell(strict.ask(), [np.nan] * 4)


def test_an_optimizer_is_continued_from_its_checkpoint(tmp_path: Path) -> None:
    whole = drive(make(max_iter=20))
    settings = slgh.Checkpoint(path=tmp_path / "run", every_iterations=1)
    first = make(max_iter=20, checkpoint=settings)
    for _ in range(7):
        first.tell(points := first.ask(), fun(points))
    del first
    assert_same(drive(make(max_iter=20, checkpoint=settings)), whole)


def test_first_order_methods_need_gradients() -> None:
    with pytest.raises(ValueError, match="needs gradients"):
        slgh.Optimizer([1.0], method="gd", step=0.1)
    assert CASES["gd"].first_order


def test_values_may_be_told_in_one_array_again_and_again() -> None:
    buffer, opt = np.empty(4), make(max_iter=20)
    while not opt.stop():
        points = opt.ask()
        values = buffer if len(points) == 4 else np.empty(len(points))
        values[:] = fun(points)
        opt.tell(points, values)
    assert_same(opt.result, drive(make(max_iter=20)))
