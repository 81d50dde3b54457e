"""Restarts compete for the evaluations of a large budget."""

from __future__ import annotations

import numpy as np
import pytest

from slgh.auto.covariance import default_samples
from slgh.auto.restarts import MIN_ITERATIONS, Kind, Race, begin, choose_radius, choose_samples

COSTS = {Kind.GROWING: 2_000, Kind.SMALL: 700, Kind.NEAR: 300, Kind.HOMOTOPY: 1_000, Kind.LOCAL_SEARCH: 50}


def raced(budget: int, successful: Kind | None = None, *, trusted: bool = False) -> Race:
    """Return the state after a race in which one kind always finds a lower point."""
    race = begin(5, trusted=trusted)
    while budget > 0:
        kind = race.next(budget)
        race = race.after(kind, COSTS[kind], improved=kind is successful)
        budget -= COSTS[kind]
    return race


@pytest.mark.parametrize("trusted", [False, True])
def test_kinds_without_success_get_equal_shares(trusted: bool) -> None:
    spent = raced(200_000, trusted=trusted).spent
    assert max(spent) < 2 * min(spent)


@pytest.mark.parametrize("kind", list(Kind))
def test_what_makes_progress_gets_more(kind: Kind) -> None:
    spent = raced(200_000, kind).spent
    others = [n for k, n in enumerate(spent) if k != kind]
    assert spent[kind] > 2 * max(others)
    assert min(others) > 0.01 * sum(spent), "the others still have their turn"


def test_a_restart_begins_only_if_it_may_end() -> None:
    race = raced(20_000)
    assert race.expected[Kind.GROWING] > 1_000
    assert all(race.next(left) is not Kind.GROWING for left in range(0, 1_000, 10))


def test_a_kind_that_takes_no_evaluations_is_not_repeated_forever() -> None:
    race, seen = begin(5, trusted=False), set[Kind]()
    for _ in range(20_000):
        kind = race.next(10**6)
        seen.add(kind)
        race = race.after(kind, 0 if kind is Kind.LOCAL_SEARCH else COSTS[kind], improved=False)
    assert seen == set(Kind)


@pytest.mark.parametrize("kind", [Kind.GROWING, Kind.SMALL, Kind.NEAR])
@pytest.mark.parametrize("left", [1, 100, 10_000, 10**9])
def test_samples_grow_as_the_budget_allows(kind: Kind, left: int) -> None:
    rng, least = np.random.default_rng(0), default_samples(5)
    chosen = [choose_samples(kind, 5, growths, left, rng) for growths in (0, 1, 2, 5, 100, 10_000)]
    assert min(chosen) >= least
    assert max(chosen) <= max(least, left // MIN_ITERATIONS)
    if kind is Kind.GROWING:
        assert chosen == sorted(chosen)
        assert chosen[0] == min(2 * least, max(least, left // MIN_ITERATIONS))
        assert choose_samples(kind, 2, 0, 10**9, rng) == default_samples(2)


def test_radii_are_at_most_t1() -> None:
    rng = np.random.default_rng(0)
    radii = [choose_radius(Kind.SMALL, rng) for _ in range(1_000)]
    assert 0.01 <= min(radii) < 0.011
    assert 0.9 < max(radii) <= 1
    assert choose_radius(Kind.GROWING, rng) == 1.0
