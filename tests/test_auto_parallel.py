"""`parallel=W`: "auto" fills rounds of W points, and the result depends on W alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slgh
from cases import assert_same
from slgh.auto.defaults import round_width
from slgh.auto.evaluation import Evaluating, Evaluation
from slgh.auto.local_search import LocalMinimum
from slgh.auto.round_search import search_in_rounds
from slgh.auto.side_by_side import side_by_side


def rastrigin(x: Any) -> Any:
    return (x**2 - 10 * np.cos(2 * np.pi * x)).sum(-1) + 10 * x.shape[-1]


def valley(x: Any) -> Any:
    """Rosenbrock's function, which is smooth."""
    return (100 * (x[..., 1:] - x[..., :-1] ** 2) ** 2 + (1 - x[..., :-1]) ** 2).sum(-1)


class Rounds:
    """A vectorized function that counts evaluations, and rounds of at most W of them."""

    def __init__(self, fun: Callable[[Any], Any], W: int) -> None:
        self.fun, self.W, self.evals, self.rounds = fun, W, 0, 0

    def __call__(self, x: Any) -> Any:
        self.evals += len(x)
        self.rounds += math.ceil(len(x) / self.W)
        return self.fun(x)


def run(fun: Callable[[Any], Any], d: int, n: int, W: int | None, **options: Any) -> slgh.Result:
    box = None if options.pop("unbounded", False) else [(-5, 5)] * d
    return slgh.minimize(fun, np.full(d, 3.3), bounds=box, max_evals=n, seed=4, parallel=W, **options)


@pytest.mark.parametrize("fun", [rastrigin, valley])
@pytest.mark.parametrize(("d", "n"), [(5, 50), (5, 250), (5, 500), (5, 2500), (10, 200), (10, 1000), (40, 2000)])
@pytest.mark.parametrize("W", [8, 64])
def test_rounds_are_as_full_as_promised(fun: Any, d: int, n: int, W: int) -> None:
    counted = Rounds(fun, W)
    found = run(counted, d, n, W, vectorized=True)
    assert counted.evals == found.nfev <= n
    assert counted.evals / counted.rounds >= 0.7 * min(W, n / 20)


@pytest.mark.parametrize("fun", [rastrigin, valley])
@pytest.mark.parametrize(("d", "n"), [(3, 200), (5, 500), (5, 3000), (12, 800)])
def test_workers_and_chunks_do_not_change_the_result(fun: Any, d: int, n: int) -> None:
    alone = run(fun, d, n, 6)
    assert_same(run(fun, d, n, 6, vectorized=True), alone)
    with ThreadPoolExecutor(6) as six, ThreadPoolExecutor(2) as two:
        assert_same(run(fun, d, n, None, workers=six), alone)
        assert_same(run(fun, d, n, 6, workers=two), alone)
        assert_same(run(fun, d, n, 1, workers=two), run(fun, d, n, None))


def test_one_evaluation_at_a_time_is_the_default() -> None:
    assert_same(run(rastrigin, 4, 600, 1), run(rastrigin, 4, 600, None))
    assert run(rastrigin, 4, 600, 8).nit != run(rastrigin, 4, 600, 1).nit


@pytest.mark.parametrize(("d", "n"), [(3, 200), (5, 500), (5, 3000)])
def test_ask_and_tell_in_another_order_gives_the_same_run(d: int, n: int) -> None:
    opt = slgh.Optimizer(np.full(d, 3.3), bounds=[(-5, 5)] * d, max_evals=n, seed=4, parallel=6)
    rng = np.random.default_rng(0)
    while not opt.stop():
        points = rng.permutation(opt.ask())
        for point in points:
            opt.tell([point], [rastrigin(point)])
    assert_same(opt.result, run(rastrigin, d, n, 6))


@pytest.mark.parametrize(("d", "n"), [(3, 200), (5, 500), (5, 3000)])
def test_an_interrupted_run_goes_on_with_its_plan(d: int, n: int, tmp_path: Path) -> None:
    file, left = tmp_path / "run.npz", [n // 2]

    def stops(x: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            raise RuntimeError("stop")
        return rastrigin(x)

    with pytest.raises(RuntimeError, match="stop"):
        run(stops, d, n, 6, checkpoint=file)
    with ThreadPoolExecutor(3) as three:
        assert_same(run(rastrigin, d, n, None, checkpoint=file, workers=three), run(rastrigin, d, n, 6))
    with pytest.raises(ValueError, match="parallel"):
        run(rastrigin, d, n, 5, checkpoint=file)


@settings(deadline=None, max_examples=40)
@given(d=st.integers(1, 12), n=st.integers(1, 900), W=st.integers(1, 70), unbounded=st.booleans())
def test_the_budget_is_hard_for_any_number_of_workers(d: int, n: int, W: int, unbounded: bool) -> None:
    counted = Rounds(rastrigin, W)
    found = run(counted, d, n, W, vectorized=True, unbounded=unbounded)
    assert counted.evals == found.nfev <= n
    assert found.fun == rastrigin(found.x) <= rastrigin(np.full(d, 3.3))


@pytest.mark.parametrize("policy", ["reject", "penalize"])
@pytest.mark.parametrize("n", [250, 600, 3000])
def test_bad_values_do_not_end_a_run(policy: str, n: int) -> None:
    def half(x: Any) -> Any:
        return np.where(x[..., 0] < 1, np.nan, valley(x))

    found = run(half, 5, n, 8, vectorized=True, on_nonfinite=policy)
    assert found.fun < valley(np.full(5, 3.3)) / 100
    assert found.x[0] >= 1


@pytest.mark.parametrize(("parallel", "error"), [(0, ValueError), (-1, ValueError), (2.5, TypeError), ("8", TypeError)])
def test_wrong_numbers_are_refused(parallel: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="`parallel` must be"):
        run(rastrigin, 2, 50, parallel)


def test_what_has_no_rounds_is_refused() -> None:
    with pytest.raises(ValueError, match="'zoslgh_r' has a fixed number of points"):
        run(rastrigin, 2, 50, 8, method="zoslgh_r", t1=1, gamma=0.9, step=0.1, samples=3)
    with pytest.raises(ValueError, match="a batch has many points already"):
        slgh.minimize(rastrigin, np.ones((3, 2)), batched=True, max_evals=50, parallel=8)


def test_workers_of_other_methods_do_not_change_them() -> None:
    options: dict[str, Any] = {"method": "zoslgh_r", "t1": 1, "gamma": 0.9, "step": 0.01, "samples": 3}
    with ThreadPoolExecutor(4) as four:
        assert_same(run(rastrigin, 2, 50, None, workers=four, **options), run(rastrigin, 2, 50, None, **options))


@pytest.mark.parametrize(
    ("parallel", "n", "width"), [(8, 1000, 8), (8, 100, 5), (64, 1000, 50), (8, 10, 1), (1, 99, 1)]
)
def test_small_budgets_get_twenty_rounds(parallel: int, n: int, width: int) -> None:
    assert round_width(parallel, n) == width


# Searches side by side.


def asking(sizes: list[int], log: list[int]) -> Evaluating[LocalMinimum]:
    """Ask for these numbers of points, one request after the other. Log the number of answers of each."""
    lowest = math.inf
    for n in sizes:
        values = yield Evaluation(np.zeros((n, 1)))
        log.append(len(values))
        lowest = min(lowest, float(values.min()))
    return LocalMinimum(np.zeros(1), lowest, True)


def answer(search: Evaluating[LocalMinimum]) -> tuple[list[int], LocalMinimum]:
    """Answer a search by decreasing values. Return the sizes of its rounds, and its outcome."""
    sizes, value = [], 0.0
    try:
        request = next(search)
        while True:
            sizes.append(len(request.points))
            values = value - 1.0 - np.arange(sizes[-1], dtype=np.float64)
            value = float(values[-1])
            request = search.send(values)
    except StopIteration as end:
        return sizes, end.value


def test_the_first_search_is_never_delayed_and_others_fill_its_rounds() -> None:
    logs: list[list[int]] = [[], [], [], []]
    every = iter([[11] * 4, [5] * 2, [6] * 9, [1] * 9])

    def begin(n: int, lowest: float) -> Evaluating[LocalMinimum]:
        return asking(next(every), logs[n])

    sizes, found = answer(side_by_side(np.zeros(1), begin, 8, 1000, endless=False))
    assert sizes[:4] == [16, 16, 16, 12], "11 points take two rounds of 8, with 5 places left"
    assert logs[0] == [11] * 4
    assert logs[1] == [5] * 2
    assert found.converged
    assert found.fun == -sum(sizes)


@pytest.mark.parametrize("endless", [False, True])
def test_searches_begin_until_the_budget_is_spent_or_the_first_has_ended(endless: bool) -> None:
    begun: list[int] = []

    def begin(n: int, lowest: float) -> Evaluating[LocalMinimum]:
        begun.append(n)
        return asking([3, 3], [])

    sizes, _ = answer(side_by_side(np.zeros(1), begin, 6, 50, endless=endless))
    assert sum(sizes) == 50 if endless else begun == [0, 1]


def test_without_a_search_the_start_is_returned() -> None:
    sizes, found = answer(side_by_side(np.ones(2), lambda n, lowest: None, 6, 50, endless=False))
    assert sizes == []
    assert found.x.tolist() == [1, 1]
    assert found.fun == math.inf


# Searches on quadratic models in rounds.


@pytest.mark.parametrize("width", [2, 5, 20])
def test_a_quadratic_is_solved_within_its_bounds(width: int) -> None:
    d = 4
    scale, minimum = np.array([1.0, 3.0, 10.0, 30.0]), np.array([0.5, -1.0, 2.0, -5.0])
    low, high = np.array([-3.0, -3.0, -3.0, -3.0]), np.array([3.0, 3.0, 3.0, 3.0])
    search = search_in_rounds(low, high, width=width, rng=np.random.default_rng(0), radius_end=1e-6)
    best, evals = np.inf, 0
    z = next(search)
    try:
        while True:
            assert z.shape[1] == d
            assert ((z >= low) & (z <= high)).all()
            values = (scale * (z - minimum) ** 2).sum(-1)
            best, evals = min(best, values.min()), evals + len(z)
            z = search.send(values)
    except StopIteration:
        pass
    assert best == pytest.approx(30 * 2.0**2, rel=1e-9), "the last variable ends at its bound"
    assert evals < 1500


def test_variables_without_room_stay_where_they_are() -> None:
    search = search_in_rounds(np.array([-1.0, 0.0]), np.array([1.0, 0.0]), width=4, rng=np.random.default_rng(0))
    z = next(search)
    for _ in range(20):
        assert (z[:, 1] == 0).all()
        z = search.send((z[:, 0] - 0.3) ** 2)
