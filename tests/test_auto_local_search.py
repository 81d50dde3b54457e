"""Local searches: alone, and with errors and interruptions."""

from __future__ import annotations

import signal
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slgh
from auto_cases import (
    LENGTHS,
    LOCAL,
    Clock,
    Counted,
    Point,
    answered,
    assert_same_run,
    bowl,
    cliff,
    minimize,
    valley,
    waves,
)
from slgh.auto.local_search import MODEL_MAX_GRADIENTS, MODEL_MAX_VARIABLES, SearchRegion, local_search
from slgh.auto.quasi_newton import lbfgsb
from slgh.engine import run as loop


def test_a_local_search_has_its_unit_in_each_variable() -> None:
    seen = Counted(lambda x: np.sum((x / LENGTHS - 0.5) ** 2))
    run = slgh.minimize(
        seen, 0.9 * LENGTHS, bounds=[(0, s) for s in LENGTHS], phases="local_search", max_evals=400, seed=0
    )
    np.testing.assert_allclose(run.x, 0.5 * LENGTHS, rtol=1e-6)


@pytest.mark.parametrize("max_evals", [60, 2000], ids=["models", "l-bfgs-b"])
@pytest.mark.parametrize("at", [2, 9, 40])
def test_an_exception_in_a_local_search_has_its_own_traceback(max_evals: int, at: int) -> None:
    fun = Counted(valley, at)
    with pytest.raises(ZeroDivisionError) as caught:
        slgh.minimize(fun, np.full(4, -1.0), max_evals=max_evals, **LOCAL)
    assert caught.traceback[-1].name == "__call__"
    assert "slgh: raised after" in caught.value.__notes__[0]


@pytest.mark.parametrize("max_evals", [60, 2000], ids=["models", "l-bfgs-b"])
def test_an_optimizer_in_a_local_search_has_no_thread(max_evals: int) -> None:
    before = threading.enumerate()
    opt = slgh.Optimizer(np.full(4, -1.0), max_evals=max_evals, **LOCAL)
    for _ in range(5):
        points = opt.ask()
        opt.tell(points, [valley(point) for point in points])
        assert threading.enumerate() == before


def test_two_runs_do_not_disturb_each_other() -> None:
    options = {"max_evals": 200, **LOCAL}
    alone = [slgh.minimize(fun, np.full(4, -1.0), **options) for fun in (valley, bowl)]
    both = [slgh.Optimizer(np.full(4, -1.0), **options) for _ in range(2)]
    while not all(opt.stop() for opt in both):
        for opt, fun in zip(both, (valley, bowl), strict=True):
            if not opt.stop():
                points = opt.ask()
                opt.tell(points, [fun(point) for point in points])
    for opt, run in zip(both, alone, strict=True):
        assert_same_run(opt.result, run)


def test_ctrl_c_in_a_local_search_returns_what_there_is() -> None:
    calls = Counted(valley)

    def pressed(x: Any) -> float:
        if len(calls.values) == 70:
            signal.raise_signal(signal.SIGINT)
        return calls(x)

    run = slgh.minimize(pressed, np.full(4, -1.0), max_evals=2000, **LOCAL)
    assert run.status == slgh.Status.INTERRUPTED
    assert run.fun == min(calls.values)


@pytest.mark.parametrize("max_evals", [60, 2000], ids=["models", "l-bfgs-b"])
def test_the_target_ends_a_local_search(max_evals: int) -> None:
    calls = Counted(bowl)
    run = slgh.minimize(calls, np.full(4, -1.0), max_evals=max_evals, target=1.5, **LOCAL)
    assert (run.status, run.success) == (slgh.Status.TARGET, True)
    assert run.fun == bowl(run.x) <= 1.5
    assert run.nfev == len(calls.values) <= max_evals
    assert min(calls.values[:-5]) > 1.5


def test_the_callback_sees_a_local_search_and_ends_it() -> None:
    seen: list[Any] = []

    def look_on(intermediate_result: Any) -> bool:
        seen.append(intermediate_result)
        return len(seen) == 4

    run = slgh.minimize(valley, np.full(4, -1.0), max_evals=2000, callback=look_on, **LOCAL)
    assert (run.status, run.nit, run.nfev) == (slgh.Status.CALLBACK, 4, 1 + 4 * 5)
    assert [(r.nit, r.t) for r in seen] == [(1, 0.0), (2, 0.0), (3, 0.0), (4, 0.0)]
    assert all(r.fun == valley(r.x) and r.fun_best == valley(r.x_best) for r in seen)
    np.testing.assert_array_equal(seen[0].x, np.full(4, -1.0))


def test_a_callback_may_raise_stop_iteration() -> None:
    def enough(result: Any) -> None:
        raise StopIteration

    assert slgh.minimize(valley, np.full(4, -1.0), max_evals=2000, callback=enough, **LOCAL).nit == 1


def test_an_exception_in_the_callback_reaches_the_caller() -> None:
    def fail(result: Any) -> None:
        raise KeyError("callback")

    with pytest.raises(KeyError, match="callback"):
        slgh.minimize(valley, np.full(4, -1.0), max_evals=2000, callback=fail, **LOCAL)


def test_time_that_is_up_ends_a_local_search(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(loop, "time", clock)

    def slow(x: Any) -> float:
        clock.now += 1.0
        return float(valley(x))

    run = slgh.minimize(slow, np.full(4, -1.0), max_evals=2000, max_seconds=50.0, **LOCAL)
    assert run.status == slgh.Status.MAX_SECONDS
    assert 50 <= run.nfev <= 50 + 9


@pytest.mark.parametrize("max_evals", [60, 2000], ids=["models", "l-bfgs-b"])
def test_a_bad_value_in_a_local_search_raises_if_that_is_wanted(max_evals: int) -> None:
    with pytest.raises(FloatingPointError):
        slgh.minimize(cliff, np.full(4, 1.4), max_evals=max_evals, on_nonfinite="raise", **LOCAL)


def test_a_step_whose_differences_take_several_requests_is_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    one = minimize(valley, np.full(8, -1.0), max_evals=600, history="x", **LOCAL)
    monkeypatch.setattr("slgh.auto.local_search.MAX_REQUEST_NUMBERS", 3 * 8)
    several = minimize(valley, np.full(8, -1.0), max_evals=600, history="x", **LOCAL)
    n = len(one.history["x"])
    np.testing.assert_array_equal(several.history["x"][:n], one.history["x"])
    assert len(several.history["x"]) <= n + 1, "the last step may have started"
    assert several.history["nfev"][0] == 1 + 1 + 3, "the start, and the first three of eight differences"


def place(x: Any, low: float = -np.inf, high: float = np.inf, dtype: Any = np.float64) -> SearchRegion:
    x = np.asarray(x, float)
    ones = np.ones_like(x)
    return SearchRegion(x=x, unit=ones, low=low * ones, high=high * ones, dtype=np.dtype(dtype))


def ellipsoid(x: Any) -> float:
    return float(np.sum(10.0 ** np.linspace(0, 6, x.size) * (x - 0.5) ** 2))


@pytest.mark.parametrize(("fun", "d", "budget"), [(valley, 10, 2500), (ellipsoid, 20, 4000), (valley, 3, 2000)])
def test_a_local_search_finds_the_minimum(fun: Point, d: int, budget: int) -> None:
    (x, low, *_), n = answered(local_search(place(np.full(d, -1.0)), budget, np.inf, gradients=False), fun)
    assert n <= budget
    assert low == fun(x) < 1e-9


@pytest.mark.parametrize("fun", [bowl, lambda x: 1 + float(np.sum(np.cumsum(x - 0.3) ** 2))])
def test_few_variables_on_a_short_budget_are_left_to_quadratic_models(fun: Point) -> None:
    d, budget = 3, MODEL_MAX_GRADIENTS * 4 - 1
    assert d <= MODEL_MAX_VARIABLES
    sizes = []

    def talk() -> Any:
        inner = local_search(place(np.full(d, -1.0)), budget, np.inf, gradients=False)
        try:
            request = next(inner)
            while True:
                sizes.append(len(request.points))
                request = inner.send((yield request))
        except StopIteration as end:
            return end.value

    (x, low, *_), n = answered(talk(), fun)
    assert set(sizes) == {1}, "quadratic models use no differences"
    assert n <= budget
    assert low == fun(x) < 1 + 1e-5


def test_a_local_search_on_gradients() -> None:
    gradient = lambda x: 2 * 10.0 ** np.linspace(0, 6, x.size) * (x - 0.5)  # noqa: E731
    (_, low, *_), n = answered(
        local_search(place(np.full(20, -1.0)), 1000, np.inf, gradients=True), ellipsoid, gradient
    )
    assert low < 1e-9
    assert n <= 1000


def test_a_local_search_keeps_to_the_bounds() -> None:
    def inside(x: Any) -> float:
        assert (x >= 0.75).all()
        assert (x <= 2).all()
        return float(valley(x))

    (x, _, *_), _ = answered(local_search(place(np.full(5, 2.0), 0.75, 2.0), 2000, np.inf, gradients=False), inside)
    np.testing.assert_allclose(x, np.ones(5), atol=1e-5)


def test_a_local_search_below_no_incumbent_ends_early() -> None:
    above = lambda x: 1 + ellipsoid(x)  # noqa: E731
    (_, low, converged, *_), whole = answered(local_search(place(np.ones(8)), 5000, np.inf, gradients=False), above)
    _, early = answered(local_search(place(np.ones(8)), 5000, -1.0, gradients=False), above)
    assert converged
    assert low < 1 + 1e-12
    assert early < whole


@settings(max_examples=25)
@given(d=st.integers(1, 12), budget=st.integers(1, 300), seed=st.integers(0, 50))
def test_a_local_search_never_asks_for_more_than_it_has(d: int, budget: int, seed: int) -> None:
    x = np.random.default_rng(seed).normal(size=d)
    seen = Counted(waves)
    (best, low, *_), n = answered(local_search(place(x), budget, np.inf, gradients=False), seen)
    assert n <= budget
    assert np.isfinite(best).all()
    assert low == np.inf or low in seen.values


@pytest.mark.parametrize(("d", "start"), [(2, 1.0), (2, 5.0), (10, 5.0), (40, 1.0)])
def test_auto_stays_near_what_it_has_visited(d: int, start: float) -> None:
    """On a function that is flat or concave in most places, quasi-Newton steps would be thousands long."""
    seen: list[float] = []

    def griewank(x: Any) -> float:
        seen.append(float(np.max(np.abs(x))))
        return float(np.sum(x * x) / 4000 - np.prod(np.cos(x / np.sqrt(np.arange(1, d + 1)))) + 1)

    assert slgh.minimize(griewank, np.full(d, start), seed=0).fun < 0.1
    assert max(seen) < 25 * start


@pytest.mark.parametrize("name", ["ackley", "log"])
@pytest.mark.parametrize("start", [1.0, 5.0])
@pytest.mark.parametrize("d", [2, 10])
def test_without_bounds_no_point_is_farther_than_one_step_of_ten_t1(name: str, start: float, d: int) -> None:
    """No step that was cut lowers these functions, so that the limit is never doubled. t1 is `start`."""
    seen: list[float] = []
    f = slgh.problems.ackley(d).fun if name == "ackley" else lambda x: np.log1p(np.sum(x * x))

    def noted(x: Any) -> float:
        seen.append(float(np.max(np.abs(x))))
        return float(f(x))

    assert slgh.minimize(noted, np.full(d, start), seed=0).fun < 1e-3
    assert max(seen) <= 11 * start


def test_a_minimum_far_away_is_found_by_doubling_the_reach() -> None:
    result = slgh.minimize(lambda x: float(np.sum((x - 1e4) ** 2)), np.ones(5), seed=0)
    np.testing.assert_allclose(result.x, 1e4)
    assert result.nfev <= 2000


def test_a_step_that_is_too_long_is_cut_without_an_evaluation() -> None:
    """log(1 + x^2) is concave at 30: its quasi-Newton steps are long."""
    start, seen = np.array([30.0]), [30.0]
    solver = lbfgsb(start, np.array([-np.inf]), np.array([np.inf]), memory=10, tolerance=0.0, reach=2.0)
    x = next(solver)
    while abs(x[0]) > 1e-6 and len(seen) < 100:
        seen.append(float(x[0]))
        x = solver.send((float(np.log1p(x[0] ** 2)), 2 * x / (1 + x**2)))
    moves = np.abs(np.diff(seen))
    assert moves[:3].max() <= 2.0
    assert moves.max() > 2.0
    assert abs(x[0]) <= 1e-6


def test_a_bad_value_is_rejected_or_penalized_as_the_user_says() -> None:
    """The first difference is NaN. If rejected, its variable has no slope. If penalized, the search avoids it."""

    def first_step(on_nonfinite: str) -> Any:
        start = np.array([1.0, 2.0])
        region = SearchRegion(
            x=start, unit=np.ones(2), low=np.full(2, -np.inf), high=np.full(2, np.inf), dtype=np.dtype(float)
        )
        search = local_search(region, 1000, np.inf, gradients=False, on_nonfinite=on_nonfinite)
        assert len(next(search).points) == 3
        return search.send(np.array([1.0, np.nan, 1.5])).points[0] - start

    rejected, penalized = first_step("reject"), first_step("penalize")
    assert rejected[0] == 0
    assert penalized[0] < 0
    assert rejected[1] < 0
    assert penalized[1] < 0
