"""Workers: processes, map and executors. The result does not depend on their number."""

from __future__ import annotations

import multiprocessing
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import slgh
from cases import CASES, assert_same, boom, fun, grad, starts, with_data
from slgh.engine import clusters
from slgh.engine.objective import PointCall
from slgh.engine.shards import ShardCall


def run(workers: Any, **options: Any) -> slgh.Result:
    return slgh.minimize(
        with_data,
        np.zeros((2, 3)),
        method="zoslgh_r",
        t1=0.5,
        step=0.1,
        samples=3,
        max_iter=6,
        seed=0,
        batched=True,
        data=np.array([[1.0, 2.0, 3.0], [0.0, 0.0, 1.0]]),
        sample_xi=lambda rng, n: rng.random(n),
        args=(0.5,),
        workers=workers,
        **options,
    )


def test_any_number_of_workers_gives_the_same_result() -> None:
    alone = run(None)
    for workers in (1, 2, 4, -1):
        assert_same(run(workers), alone)


@pytest.mark.slow
def test_maps_executors_and_pools_are_workers() -> None:
    alone, used = run(None), []

    def mapper(function: Any, items: Any) -> Any:
        used.append(len(items))
        return map(function, items)

    assert_same(run(mapper), alone)
    assert used[0] == 2 * 6
    with ThreadPoolExecutor(2) as executor:
        assert_same(run(executor), alone)
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert_same(run(pool), alone)
        assert_same(run(pool.map), alone)


@pytest.mark.parametrize("kind", [PointCall, ShardCall])
def test_a_worker_of_another_version_says_so(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = pickle.dumps(kind(len, ()))
    assert isinstance(pickle.loads(sent), kind)
    monkeypatch.setattr(clusters, "__version__", "0.0.1")
    with pytest.raises(RuntimeError, match=r"has slgh 0.0.1, and the run has slgh .* Install the same version"):
        pickle.loads(sent)


def test_gradients_run_in_workers_too() -> None:
    case = CASES["slgh_r"]
    alone = case.run(starts(1)[0], vectorized=False, grad=grad)
    assert_same(case.run(starts(1)[0], vectorized=False, grad=grad, workers=2), alone)


def test_what_cannot_be_sent_is_an_error() -> None:
    with pytest.raises(TypeError, match="`fun` must be picklable to run in 2 processes"):
        CASES["zoslgh_r"].run(starts(1)[0], fun=lambda x: float(fun(x)), vectorized=False, workers=2)


def test_an_exception_in_a_worker_reaches_the_caller() -> None:
    with pytest.raises(ZeroDivisionError, match="in a worker"):
        CASES["zoslgh_r"].run(starts(1)[0], fun=boom, vectorized=False, workers=2)


def test_data_follows_its_problem_when_others_have_ended() -> None:
    centers = np.array([[0.0] * 3, [5.0] * 3, [1.0] * 3])

    def distance(x: Any, a: Any) -> Any:
        return ((x - a) ** 2).sum(axis=-1)

    common: dict[str, Any] = {
        "method": "zoslgh_r",
        "t1": 0.1,
        "gamma": 0.9,
        "step": 0.1,
        "samples": 3,
        "max_iter": 200,
        "target": 0.01,
    }
    options: dict[str, Any] = common | {"seed": [1, 2, 3], "batched": True, "data": centers}
    points = slgh.minimize(distance, np.full((3, 3), 0.5), **options)
    together = slgh.minimize(distance, np.full((3, 3), 0.5), vectorized=True, **options)
    assert len(set(points.nit)) > 1, "the problems end at different times"
    np.testing.assert_allclose(points.x, centers, atol=0.1)
    np.testing.assert_array_equal(points.x, together.x)
    single = slgh.minimize(distance, np.full(3, 0.5), data=centers[1], seed=2, **common)
    np.testing.assert_array_equal(single.x, points.x[1])
