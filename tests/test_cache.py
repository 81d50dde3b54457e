"""A cache: a deterministic function is not called again at the same point, and the result stays the same."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import slgh
from auto_cases import Counted, assert_same_run, bowl, slope, valley
from cases import assert_same

GIVEN: dict[str, Any] = {"max_evals": 600, "seed": 1}


class Seen:
    """Function that notes the points it is called with."""

    def __init__(self, fun: Any) -> None:
        self.fun = fun
        self.points: list[bytes] = []

    def __call__(self, x: Any, *data: Any) -> Any:
        self.points += [point.tobytes() for point in np.reshape(x, (-1, x.shape[-1]))]
        return self.fun(x, *data)


@pytest.mark.parametrize("options", [{}, {"parallel": 4}, {"vectorized": True}], ids=str)
@pytest.mark.parametrize("fun", [bowl, valley])
def test_no_point_is_evaluated_twice(fun: Any, options: dict[str, Any]) -> None:
    without, cached = Seen(fun), Seen(fun)
    plain = slgh.minimize(without, np.ones(3), **GIVEN | options)
    run = slgh.minimize(cached, np.ones(3), **GIVEN | options, cache=True)
    assert_same_run(run, plain)
    assert len(set(cached.points)) == len(cached.points) == len(set(without.points))
    assert run.ncached == run.nfev - len(cached.points)
    assert plain.ncached == 0
    assert run.ncached > 0


def test_gradients_are_cached_too() -> None:
    f, g = Seen(bowl), Seen(slope)
    run = slgh.minimize(f, np.ones(3), grad=g, **GIVEN, cache=True)
    assert_same_run(run, slgh.minimize(bowl, np.ones(3), grad=slope, **GIVEN))
    assert len(set(f.points)) == len(f.points)
    assert len(set(g.points)) == len(g.points)
    assert run.ncached == run.nfev + run.njev - len(f.points) - len(g.points)


@pytest.mark.parametrize("vectorized", [False, True])
def test_problems_with_different_data_do_not_share_values(*, vectorized: bool) -> None:
    def shifted(x: Any, center: Any) -> Any:
        return np.sum((x - center) ** 2, axis=-1)

    given: dict[str, Any] = {"data": np.array([[0.0, 1.0], [2.0, 3.0]]), "batched": True, "vectorized": vectorized}
    runs = [slgh.minimize(shifted, np.ones((2, 2)), **GIVEN, **given, cache=cache) for cache in (False, True)]
    assert_same(*runs)
    assert runs[1].ncached > 0


def test_workers_get_only_new_points() -> None:
    f = Seen(bowl)
    with ThreadPoolExecutor(2) as pool:
        run = slgh.minimize(f, np.ones(3), **GIVEN, workers=pool, cache=True)
        assert_same_run(run, slgh.minimize(bowl, np.ones(3), **GIVEN, workers=pool))
    assert len(set(f.points)) == len(f.points)


def test_a_small_cache_forgets_what_was_not_needed_for_longest() -> None:
    whole, small = (slgh.minimize(bowl, np.ones(3), **GIVEN, cache=size) for size in (True, 2))
    assert_same_run(whole, small)
    assert 0 <= small.ncached < whole.ncached


@pytest.mark.parametrize("fails_at", [5, 30, 200])
def test_a_resumed_run_begins_with_an_empty_cache(tmp_path: Path, fails_at: int) -> None:
    given = {**GIVEN, "x0": np.ones(3), "cache": True}
    with pytest.raises(ZeroDivisionError):
        slgh.minimize(Counted(bowl, fails_at), **given, checkpoint=tmp_path / "run.npz")
    assert_same_run(slgh.minimize(bowl, **given, checkpoint=tmp_path / "run.npz"), slgh.minimize(bowl, **given))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"cache": 0}, "`cache` must be an integer >= 1, got cache=0"),
        ({"cache": "yes"}, "`cache` must be an integer, got cache='yes'"),
        ({"cache": True, "sample_xi": 5}, "`cache` needs a fun without sample_xi"),
    ],
)
def test_wrong_caches(options: dict[str, Any], match: str) -> None:
    with pytest.raises((ValueError, TypeError), match=match):
        slgh.minimize(bowl, np.ones(2), **GIVEN | options)


def test_a_closed_form_has_no_cache() -> None:
    with pytest.raises(ValueError, match="`cache` is for functions"):
        slgh.minimize(slgh.problems.rosenbrock().smooth, np.ones(2), **GIVEN, cache=True)
