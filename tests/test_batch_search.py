"""In a batch, "auto" ends with a local search of each problem by L-BFGS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from array_api_compat import array_namespace

import slgh
from libraries import parametrize_libraries, to_library, to_numpy
from slgh.oracles.local import LocalDifferences
from slgh.protocols import Answer, Context, Estimate, Noise
from slgh.updates.lbfgs import LBFGS, Search, direction

D = 4
SEEDS = [3, 4, 5, 6, 7]
OPTIONS: dict[str, Any] = {"batched": True, "vectorized": True, "max_evals": 700, "seed": SEEDS, "history": "full"}
STARTS = np.random.default_rng(1).uniform(-2, 2, (len(SEEDS), D))


def rosenbrock(x: Any) -> Any:
    xp = array_namespace(x)
    return xp.sum(100 * (x[..., 1:] - x[..., :-1] ** 2) ** 2 + (1 - x[..., :-1]) ** 2, axis=-1)


def holes(x: Any) -> Any:
    """Rosenbrock's function, NaN in a quarter of space."""
    return np.where((x[..., 0] > 1.5) | (x[..., 1] < -1), np.nan, rosenbrock(x))


def search(f: Any, g: Any, x: np.ndarray, n: int, bound: float = np.inf) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest value of each problem (B,) in n iterations, and all points (n, B, d)."""
    update, one, points = LBFGS(), np.ones(len(x)), []
    state = update.starting(x, 0.1 * one, 10 * one, np.full_like(x, -bound), np.full_like(x, bound), np)
    for _ in range(n):
        points.append(x)
        x, state = update.apply(x, Estimate(g=g(x), cosine=1.0, f=f(x)), one, state, np)
    return np.min([f(x) for x in points], axis=0), np.array(points)


def rosenbrock_gradient(x: np.ndarray) -> np.ndarray:
    a, g = x[:, 1:] - x[:, :-1] ** 2, np.zeros_like(x)
    g[:, :-1] = -400 * a * x[:, :-1] - 2 * (1 - x[:, :-1])
    g[:, 1:] += 200 * a
    return g


# The update.


def test_a_narrow_valley_is_followed_to_its_end() -> None:
    lowest, _ = search(rosenbrock, rosenbrock_gradient, STARTS, 100)
    assert np.sum(lowest < 1e-20) >= 4  # one start may end in the other local minimum
    assert (lowest < 4).all()


def test_h_is_the_inverse_hessian_of_a_quadratic_after_enough_pairs() -> None:
    a = np.diag([1.0, 10.0, 100.0]) + 0.5
    steps = np.eye(3)[None] + 0.1
    one = np.ones(1)
    start = Search(*LBFGS(memory=3).init(np.zeros((1, 3)), np))
    g = np.array([[1.0, -2.0, 3.0]])
    # A-conjugate steps determine H.
    conjugate: list[np.ndarray] = []
    for s in steps[0]:
        for c in conjugate:
            s = s - c * (c @ a @ s) / (c @ a @ c)
        conjugate.append(s)
    s = np.array(conjugate)[None]
    known = start._replace(g=g, s=s, y=s @ a, f=one)
    np.testing.assert_allclose(direction(known, np.ones((1, 3)), np), -np.linalg.solve(a, g[0])[None])


def test_points_stay_within_bounds_and_reach_a_minimum_on_a_face() -> None:
    _, points = search(rosenbrock, rosenbrock_gradient, np.clip(STARTS, -0.7, 0.7), 100, bound=0.7)
    assert (np.abs(points) <= 0.7).all()
    # The minimum has x_4 = x_3^2 inside, and others where the gradient holds them at a face or vanishes.
    at = points[-1]
    g = rosenbrock_gradient(at)
    free = np.abs(at) < 0.7
    assert np.abs(g[free]).max() < 1e-4
    assert (g * at)[~free].max() <= 0


def test_the_units_of_f_do_not_matter() -> None:
    one = search(rosenbrock, rosenbrock_gradient, STARTS, 40)[1]
    big = search(lambda x: 1024 * rosenbrock(x), lambda x: 1024 * rosenbrock_gradient(x), STARTS, 40)[1]
    np.testing.assert_array_equal(one, big)


def test_infinite_values_are_rejected() -> None:
    wall = lambda x: np.where(x[:, 0] > 1.5, np.inf, rosenbrock(x))  # noqa: E731
    lowest, _ = search(wall, rosenbrock_gradient, np.minimum(STARTS, 1.0), 200)
    assert np.median(lowest) < 1e-15


def test_a_flat_function_is_left_alone() -> None:
    _, points = search(lambda x: np.ones(len(x)), np.zeros_like, STARTS, 30)
    np.testing.assert_array_equal(points, np.broadcast_to(STARTS, points.shape))


# Differences.


@pytest.mark.parametrize("chunk", [1 << 17, 8])
def test_differences_are_exact_on_a_linear_function_and_stay_below_the_bound(chunk: int) -> None:
    oracle, slope = LocalDifferences(samples=D), np.array([1.0, -2.0, 0.5, 4.0])
    x, h = np.zeros((2, D)), np.full((2, D), 0.25)
    state = oracle.starting(np.ones_like(x), h, np.array([[9.0] * D, [9.0, 0.1, 9.0, 0.0]]))
    context = Context(xp=np, chunk=chunk)
    noise: Noise = None  # type: ignore[assignment]
    conversation, points = oracle.observe(x, np.ones(2), state, True, noise, context), []
    query = next(conversation)
    try:
        while True:
            points.append(query.points)
            query = conversation.send(Answer(query.points @ slope))
    except StopIteration as end:
        estimate, _ = end.value
    np.testing.assert_array_equal(estimate.g, np.broadcast_to(slope, (2, D)))
    asked = np.concatenate(points, axis=1)
    assert asked.shape[1] == oracle.cost(True, context)
    assert (asked[1] <= [9.0, 0.1, 9.0, 0.0]).all()


# Runs.


def test_local_searches_make_the_batch_better() -> None:
    alone = slgh.minimize(rosenbrock, STARTS, method="scale_free", **OPTIONS)
    result = slgh.minimize(rosenbrock, STARTS, **OPTIONS)
    assert np.median(result.fun) < 1e-6 < np.median(alone.fun)
    assert "local search" in result.message
    assert result.success.all()
    np.testing.assert_array_equal(result.fun, rosenbrock(result.x))


def test_the_budget_is_exact() -> None:
    calls = []

    def counted(x: np.ndarray) -> Any:
        calls.append(x.shape[1])
        return rosenbrock(x)

    for max_evals in (49, 50, 51, 200, 333):
        calls.clear()
        result = slgh.minimize(counted, STARTS, **OPTIONS | {"max_evals": max_evals})
        assert sum(calls) == result.nfev[0] <= max_evals
        assert (result.nfev == result.nfev[0]).all()


def test_points_are_within_bounds() -> None:
    bounds = [(-2, 0.5)] * D

    def within(x: np.ndarray) -> Any:
        assert ((x >= -2) & (x <= 0.5)).all()
        return rosenbrock(x)

    result = slgh.minimize(within, np.minimum(STARTS, 0.5), bounds=bounds, **OPTIONS)
    best = slgh.minimize(rosenbrock, np.full(D, 0.3), bounds=bounds, max_evals=5000, seed=0).fun
    assert np.median(result.fun) < best + 1e-6


def test_bad_values_do_not_stop_the_searches() -> None:
    result = slgh.minimize(holes, np.clip(STARTS, -0.9, 1.4), **OPTIONS)
    assert np.isfinite(result.fun).all()
    assert np.median(result.fun) < 1e-3


@parametrize_libraries("numpy", "torch", "jax")
@pytest.mark.parametrize("gradients", [False, True])
def test_problems_are_those_of_single_batches(library: str, gradients: bool) -> None:
    options = OPTIONS | ({"grad": True, "max_evals": 200} if gradients else {})
    if gradients and library == "numpy":
        options["grad"] = lambda x: rosenbrock_gradient(x.reshape(-1, D)).reshape(x.shape)
    x0 = to_library(STARTS, library)
    together = slgh.minimize(rosenbrock, x0, **options)
    for b, seed in enumerate(SEEDS):
        alone = slgh.minimize(rosenbrock, x0[b : b + 1], **options | {"seed": [seed]})
        if library == "jax":  # XLA may order the sums of another batch differently
            np.testing.assert_allclose(to_numpy(alone.fun), to_numpy(together.fun)[b : b + 1], atol=1e-2)
        else:
            np.testing.assert_array_equal(to_numpy(alone.x[0]), to_numpy(together.x[b]))
        assert alone.nfev[0] == together.nfev[b]


def test_problems_that_reach_the_target_leave_the_others_unchanged() -> None:
    free = slgh.minimize(rosenbrock, STARTS, **OPTIONS)
    target = float(np.sort(free.fun)[2])
    result = slgh.minimize(rosenbrock, STARTS, **OPTIONS, target=target)
    reached = result.status == slgh.Status.TARGET
    assert reached.sum() == 3
    np.testing.assert_array_equal(result.x[~reached], free.x[~reached])


class Halt(Exception):
    pass


@parametrize_libraries("numpy", "torch", "jax")
@pytest.mark.parametrize("offset", [-1, 0, 1, 7])
def test_a_run_that_is_resumed_is_the_same(offset: int, library: str, tmp_path: Path) -> None:
    """The homotopies end, and the searches begin, after the iteration with this offset."""
    x0 = to_library(STARTS, library)
    whole = slgh.minimize(rosenbrock, x0, **OPTIONS)
    change = int(np.flatnonzero(np.diff(whole.history["t"][:, 0]) == 0)[0]) + 1
    number = 0

    def halt(_: Any) -> None:
        nonlocal number
        number += 1
        if number == change + offset:
            raise Halt

    file = tmp_path / "run"
    with pytest.raises(Halt):
        slgh.minimize(rosenbrock, x0, **OPTIONS, checkpoint=file, callback=halt)
    for _ in range(2):  # the second time, the run has ended
        resumed = slgh.minimize(rosenbrock, x0, **OPTIONS, checkpoint=file)
        np.testing.assert_array_equal(to_numpy(resumed.x), to_numpy(whole.x))
        np.testing.assert_array_equal(resumed.history["fun"], whole.history["fun"])


def test_an_optimizer_does_the_same() -> None:
    options = {name: value for name, value in OPTIONS.items() if name != "vectorized"}
    opt = slgh.Optimizer(STARTS, **options)
    while not opt.stop():
        points = opt.ask()
        opt.tell(points, rosenbrock(points))
    np.testing.assert_array_equal(opt.result.x, slgh.minimize(rosenbrock, STARTS, **OPTIONS).x)


@pytest.mark.slow
@pytest.mark.parametrize("gradients", [False, True])
def test_the_compiled_loop_does_both_stages(gradients: bool) -> None:
    options = OPTIONS | ({"grad": True} if gradients else {}) | {"max_evals": 1000}
    x0 = to_library(STARTS, "jax")
    result = slgh.minimize(rosenbrock, x0, compiled=True, **options)
    plain = slgh.minimize(rosenbrock, x0, compiled=False, **options)
    assert result.engine == "jax while_loop"
    assert np.median(to_numpy(result.fun)) < 1e-6
    np.testing.assert_array_equal(result.nfev, plain.nfev)
    k = int(np.flatnonzero(np.diff(plain.history["t"][:, 0]) == 0)[0])
    np.testing.assert_allclose(result.history["fun"][:k], plain.history["fun"][:k], rtol=1e-4)
