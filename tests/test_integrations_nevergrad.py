"""slgh as an optimizer of Nevergrad, checked by Nevergrad's own tests as well."""

from __future__ import annotations

import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ng: Any = pytest.importorskip("nevergrad", reason='needs pip install "slgh[nevergrad]"')
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # Nevergrad takes seconds to import, and warns

import slgh.integrations.nevergrad  # noqa: E402


def create(parametrization: Any = 2, budget: int | None = 300, num_workers: int = 1, seed: int = 0) -> Any:
    optimizer = ng.optimizers.registry["SLGH"](parametrization, budget=budget, num_workers=num_workers)
    optimizer.parametrization.random_state = np.random.RandomState(seed)
    return optimizer


def bowl(x: Any) -> float:
    return float(np.sum((x - np.array([0.5, -0.8])) ** 2))


@pytest.fixture(scope="module")
def own_tests() -> Any:
    """Nevergrad's tests of its optimizers."""
    pytest.importorskip("bayes_opt", reason="Nevergrad's tests need it")
    pytest.importorskip("pandas")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("nevergrad.optimization.test_optimizerlib")


def test_nevergrads_check_passes(own_tests: Any) -> None:
    own_tests.check_optimizer(ng.optimizers.registry["SLGH"], budget=300)


def test_nevergrads_test_of_small_budgets_passes(own_tests: Any) -> None:
    own_tests.test_optimizers_minimal("SLGH")


def test_a_start_far_away_is_kept(own_tests: Any) -> None:
    parametrization = ng.p.Instrumentation(ng.p.Array(init=[1e12, 1e12]))
    optimizer = create(parametrization, budget=100)
    for _ in range(10):
        candidate = optimizer.ask()
        assert candidate.args[0][0] > 100
        optimizer.tell(candidate, 0)


def test_values_that_are_not_finite_are_survived(own_tests: Any) -> None:
    found = create(budget=70).minimize(own_tests.buggy_function)
    assert own_tests.buggy_function(found.value) < 2


def test_it_finds_the_minimum_of_an_instrumented_function() -> None:
    def loss(rate: float, *, size: int, kind: str) -> Any:
        return (np.log10(rate) + 2) ** 2 + (size - 3) ** 2 + (kind != "b")

    parametrization = ng.p.Instrumentation(
        ng.p.Log(lower=1e-5, upper=1.0),
        size=ng.p.Scalar(lower=1, upper=8).set_integer_casting(),
        kind=ng.p.Choice("abc"),
    )
    found = create(parametrization, budget=400).minimize(loss)
    assert loss(*found.args, **found.kwargs) < 0.1


@pytest.mark.parametrize("num_workers", [1, 4, 16])
def test_values_may_arrive_in_any_order(num_workers: int) -> None:
    optimizer, rng = create(num_workers=num_workers), random.Random(0)
    waiting: list[Any] = []
    while optimizer.num_tell < 300:
        while len(waiting) < num_workers and optimizer.num_ask < 300:
            waiting.append(optimizer.ask())
        candidate = waiting.pop(rng.randrange(len(waiting)))
        optimizer.tell(candidate, bowl(candidate.value))
    assert bowl(optimizer.recommend().value) < 1e-2


def test_all_points_of_a_round_differ() -> None:
    optimizer = create(num_workers=8)
    asked = [optimizer.ask() for _ in range(40)]
    assert len({candidate.value.tobytes() for candidate in asked}) == 40
    for candidate in reversed(asked):
        optimizer.tell(candidate, bowl(candidate.value))
    optimizer.tell(optimizer.ask(), 0.0)


def test_a_point_that_was_not_asked_for_may_be_the_best() -> None:
    optimizer = create()
    optimizer.tell(optimizer.ask(), 5.0)
    optimizer.tell(optimizer.parametrization.spawn_child(new_value=np.array([9.0, 9.0])), -1.0)
    assert optimizer.num_tell_not_asked == 1
    np.testing.assert_array_equal(optimizer.recommend().value, [9.0, 9.0])
    optimizer.suggest(np.array([7.0, 7.0]))
    suggested = optimizer.ask()
    np.testing.assert_array_equal(suggested.value, [7.0, 7.0])
    optimizer.tell(suggested, -2.0)
    optimizer.tell(optimizer.ask(), 5.0)
    np.testing.assert_array_equal(optimizer.recommend().value, [7.0, 7.0])


@pytest.mark.parametrize("budget", [None, 30])
def test_it_goes_on_after_the_budget(budget: int | None) -> None:
    optimizer = create(budget=budget)
    for _ in range(100):
        candidate = optimizer.ask()
        optimizer.tell(candidate, bowl(candidate.value))
    assert optimizer.num_tell == 100


def test_a_seed_repeats_the_run() -> None:
    first, second = (create(budget=80, seed=3).minimize(bowl).value for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_a_run_continues_from_its_dump(tmp_path: Path) -> None:
    optimizer = create(budget=80, num_workers=3)
    asked = [optimizer.ask() for _ in range(3)]
    optimizer.dump(tmp_path / "run.pkl")
    loaded = slgh.integrations.nevergrad.SLGH.load(tmp_path / "run.pkl")
    both = [each.ask() for each in (optimizer, loaded)]
    np.testing.assert_array_equal(both[0].value, both[1].value)
    for each, other in zip((optimizer, loaded), both, strict=True):
        for candidate in [other, *asked]:
            each.tell(candidate, bowl(candidate.value))
    np.testing.assert_array_equal(optimizer.ask().value, loaded.ask().value)
