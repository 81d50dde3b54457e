"""Starts: the middle of the bounds, the solution of an earlier run, further points, and points with known values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import optimize

import slgh
from auto_cases import Counted, waves
from cases import assert_same


def bowl(x: Any) -> float:
    return float(np.sum((x - 0.3) ** 2))


@pytest.mark.parametrize(
    "bounds",
    [[(-1, 3), (0, 0.5)], optimize.Bounds([-1, 0], [3, 0.5]), optimize.Bounds([-1.0, 0.0], [3.0, 0.5])],
)
def test_without_x0_the_start_is_the_middle_of_the_bounds(bounds: Any) -> None:
    found = slgh.minimize(bowl, bounds=bounds, max_evals=40, seed=0)
    assert_same(found, slgh.minimize(bowl, [1.0, 0.25], bounds=bounds, max_evals=40, seed=0))


def test_without_x0_an_optimizer_begins_there_too() -> None:
    opt = slgh.Optimizer(bounds=[(-1, 3), (0, 0.5)], max_evals=40, seed=0)
    np.testing.assert_array_equal(opt.ask()[0], [1.0, 0.25])


def test_the_middle_of_a_huge_box_is_finite() -> None:
    huge = float(np.finfo(float).max)
    opt = slgh.Optimizer(bounds=[(-huge, huge), (huge / 2, huge)], max_evals=40, seed=0)
    np.testing.assert_array_equal(opt.ask()[0], [0.0, 0.75 * huge])


def test_a_result_is_a_start() -> None:
    before = slgh.minimize(bowl, np.ones(3), max_evals=30, seed=0)
    assert_same(slgh.minimize(bowl, before, max_evals=30, seed=1), slgh.minimize(bowl, before.x, max_evals=30, seed=1))
    local = optimize.minimize(bowl, np.ones(3))
    assert_same(slgh.minimize(bowl, local, max_evals=30, seed=1), slgh.minimize(bowl, local.x, max_evals=30, seed=1))


STARTS = np.array([[2.0, 2.0], [0.5, 0.25], [-1.0, 0.0]])
METHODS = pytest.mark.parametrize("method", ["auto", "scale_free"])


class Noted:
    """Function that stores its points."""

    def __init__(self, fun: Any) -> None:
        self.fun = fun
        self.points: list[Any] = []

    def __call__(self, x: Any) -> Any:
        self.points.append(np.array(x))
        return self.fun(x)


@METHODS
def test_the_starts_are_evaluated_first(method: str) -> None:
    f = Noted(bowl)
    run = slgh.minimize(f, [3.0, 3.0], starts=STARTS, method=method, max_evals=60, seed=0)
    np.testing.assert_array_equal(f.points[:4], [[3.0, 3.0], *STARTS])
    assert run.nfev == len(f.points) <= 60
    assert run.fun <= bowl(STARTS[1])


@METHODS
@pytest.mark.parametrize("max_evals", [1, 2, 3, 4, 5, 7, 20, 200, 1000])
def test_the_budget_is_exact(method: str, max_evals: int) -> None:
    f = Noted(waves)
    run = slgh.minimize(f, [3.0, 3.0], starts=STARTS, method=method, max_evals=max_evals, seed=0)
    assert run.nfev == len(f.points) <= max_evals
    assert run.fun == min(map(waves, f.points))


@METHODS
def test_the_run_begins_at_the_best_start(method: str) -> None:
    given: dict[str, Any] = {"method": method, "seed": 0, "t1": 1.0}
    several = slgh.minimize(bowl, [3.0, 3.0], starts=STARTS, max_evals=63, **given)
    known = slgh.minimize(bowl, [3.0, 3.0], known=([[3.0, 3.0], *STARTS], [9.0, 8.0, 0.5, 7.0]), max_evals=59, **given)
    if method == "scale_free":
        alone = slgh.minimize(bowl, STARTS[1], max_evals=60, **given)
        np.testing.assert_array_equal(several.x, alone.x)
        assert several.nfev == alone.nfev + 3
        np.testing.assert_array_equal(known.x, alone.x)
    assert several.fun < 0.01
    assert known.fun < 0.01


def test_known_values_cost_nothing() -> None:
    f = Noted(bowl)
    run = slgh.minimize(f, STARTS[1], known=(STARTS, [bowl(x) for x in STARTS]), max_evals=60, seed=0)
    assert not any((x == y).all() for x in f.points[:1] for y in STARTS)
    assert run.nfev == len(f.points)
    assert run.fun <= bowl(STARTS[1])
    reached = slgh.minimize(f, STARTS[1], known=(STARTS, [5.0, 0.0, 4.0]), target=1.0, max_evals=60, seed=0)
    assert (reached.status, reached.nfev, reached.fun) == (slgh.Status.TARGET, 0, 0.0)
    np.testing.assert_array_equal(reached.x, STARTS[1])


def test_without_x0_the_start_is_the_best_known_point_or_the_first_start() -> None:
    known = STARTS, [4.0, np.nan, 3.0]
    opt = slgh.Optimizer(known=known, starts=[[1.0, 1.5]], max_evals=60, seed=0)
    np.testing.assert_array_equal(opt.ask(), [[1.0, 1.5]])
    np.testing.assert_array_equal(slgh.Optimizer(starts=STARTS, max_evals=60, seed=0).ask(), STARTS)


def test_a_result_is_known() -> None:
    before = slgh.minimize(waves, np.full(2, 1.2), max_evals=100, seed=0)
    f = Noted(waves)
    after = slgh.minimize(f, known=before, max_evals=100, seed=1)
    assert after.fun <= before.fun
    assert not (f.points[0] == before.x).all()


def test_repeated_starts_are_evaluated_once() -> None:
    opt = slgh.Optimizer(STARTS[0], starts=[*STARTS, *STARTS], max_evals=60, seed=0)
    np.testing.assert_array_equal(opt.ask(), STARTS)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_starts_without_a_value_are_passed_over(bad: float) -> None:
    run = slgh.minimize(lambda x: bad if x[0] > 1 else bowl(x), [3.0, 3.0], starts=STARTS, max_evals=60, seed=0)
    assert run.fun < 0.1
    none = slgh.minimize(lambda x: bad, [3.0, 3.0], starts=STARTS, max_evals=60, seed=0)
    assert none.status == slgh.Status.NONFINITE


@METHODS
@pytest.mark.parametrize("fails_at", [1, 3, 5, 40, 300])
@pytest.mark.parametrize("fun", [bowl, waves])
def test_an_interrupted_run_keeps_its_start(tmp_path: Path, method: str, fails_at: int, fun: Any) -> None:
    given: dict[str, Any] = {"x0": [3.0, 3.0], "starts": STARTS, "method": method, "max_evals": 500, "seed": 0}
    given["known"] = [[2.5, 2.5]], [7.0]
    whole, file = slgh.minimize(fun, **given), tmp_path / "run.npz"
    with pytest.raises(ZeroDivisionError):
        slgh.minimize(Counted(fun, fails_at), **given, checkpoint=file)
    rest = Counted(fun)
    assert_same(slgh.minimize(rest, **given, checkpoint=file), whole)
    assert len(rest.values) == whole.nfev - fails_at + 1
    with pytest.raises(ValueError, match="starts"):
        slgh.minimize(fun, **given | {"starts": STARTS[:2]}, checkpoint=file)


def test_the_starts_of_a_vectorized_function_with_gradients() -> None:
    run = slgh.minimize(
        lambda x: np.sum((x - 0.3) ** 2, axis=-1),
        [3.0, 3.0],
        grad=lambda x: 2 * (x - 0.3),
        vectorized=True,
        starts=STARTS,
        max_evals=60,
        seed=0,
    )
    assert run.fun < 1e-12
    assert run.nfev + run.njev <= 60


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (
            {"starts": [1.0, 2.0]},
            r"`starts` must be points of shape \(n, 2\), got shape \(2,\). Pass one row per point",
        ),
        ({"starts": [[1.0]]}, r"`starts` must be points of shape \(n, 2\)"),
        ({"starts": [[1.0, np.nan]]}, "`starts` must be finite, got nan"),
        ({"starts": [["a", "b"]]}, r"`starts` must be points \(n, d\), got list"),
        ({"starts": [[1.0, 9.0]], "bounds": [(0, 5)] * 2}, "`starts` must lie within `bounds`, .* got 9.0"),
        ({"known": ([[1.0, 9.0]], [1.0]), "bounds": [(0, 5)] * 2}, "`known` must lie within `bounds`"),
        ({"known": [[1.0, 2.0]]}, r"`known` must be a pair \(points, values\) or a Result"),
        ({"known": ([[1.0, 2.0]], [1.0, 2.0])}, r"`known` must have one value per point \(expected shape \(1,\)\)"),
        ({"known": ([[1.0, 2.0]], ["a"])}, r"`known` must have values \(n,\)"),
        ({"known": slgh.Result(x=np.ones(2))}, "`known` is a result without `x` or `fun`. Pass a pair"),
        ({"starts": STARTS, "method": "zosgd", "t1": 1, "step": 1}, "`starts` is for a single problem with method"),
        ({"starts": STARTS, "sample_xi": 4}, "`starts` is for a single problem"),
    ],
)
def test_wrong_starts(options: dict[str, Any], match: str) -> None:
    with pytest.raises((ValueError, TypeError), match=match):
        slgh.minimize(bowl, [1.0, 1.0], **{"max_evals": 60, "seed": 0} | options)
