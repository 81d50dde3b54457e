"""slgh as a gradient transformation of optax: formulas, wrappers, dtypes, bad values, restarts and sharding."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import slgh as library
from libraries import Replay, table
from slgh.backends.numpy.backend import NumpyBackend
from slgh.schedules import Budget, Constant, Derivative, DoubleLoop, FollowStep, PowerLaw, Ratio

optax: Any = pytest.importorskip("optax", reason='needs pip install "slgh[optax]"')
pytestmark = pytest.mark.slow  # it needs JAX

jax: Any = pytest.importorskip("jax")
jnp: Any = pytest.importorskip("jax.numpy")
ravel_pytree: Any = pytest.importorskip("jax.flatten_util").ravel_pytree

from slgh.integrations.optax import slgh, smoothed_value_and_grad, zoslgh  # noqa: E402
from slgh.integrations.optax import smoothing as optax_smoothing  # noqa: E402

TESTS = Path(__file__).parent
KINDS = pytest.mark.parametrize("kind", [slgh, zoslgh], ids=["slgh", "zoslgh"])
RADIUS: dict[str, Any] = {"t1": 0.2, "t_end": 0.01, "gamma": 0.95}


def functions(kind: Any, loss: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the arguments of `update` for a loss."""
    return {"grad_fn": jax.grad(loss)} if kind is slgh else {"value_fn": loss}


def trainer(optimizer: Any, kind: Any, loss: Callable[[Any], Any], **extra: Any) -> Callable[..., Any]:
    """Return one training step, (params, state) -> (params, state)."""

    def step(params: Any, state: Any) -> Any:
        updates, state = optimizer.update(None, state, params, **functions(kind, loss), **extra)
        return optax.apply_updates(params, updates), state

    return step


def train(step: Callable[..., Any], params: Any, state: Any, n: int) -> Any:
    for _ in range(n):
        params, state = step(params, state)
    return params, state


def resume(step: Callable[..., Any], reached: Any, n: int) -> Any:
    """Continue training from (params, state)."""
    params, state = reached
    return train(step, params, state, n)


def assert_same(found: Any, expected: Any) -> None:
    """Assert that two trees have the same bits."""
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert jnp.asarray(one).dtype == jnp.asarray(other).dtype
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


def assert_close(found: Any, expected: Any, rtol: float) -> None:
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=rtol, atol=rtol)


def bowl(params: Any) -> Any:
    """Return the squared distance of all leaves from 1."""
    return sum(jnp.sum((jnp.asarray(leaf, jnp.float32) - 1) ** 2) for leaf in jax.tree.leaves(params))


START = {"a": jnp.array([3.0, -2.0], jnp.float32), "b": jnp.array(2.0, jnp.float32)}


# Formulas.


def chosen_noise(monkeypatch: pytest.MonkeyPatch, u: Any) -> None:
    """Let the noise of leaf i in sample s be u[i][s], the same in each step."""

    def normal(key: Any, step: Any, sample: Any, leaf: int, shape: Any, dtype: Any) -> Any:
        return jnp.asarray(u[leaf], dtype)[sample].reshape(shape)

    monkeypatch.setattr(optax_smoothing, "_normal", normal)


A, B0 = np.array([3.0, -1.0]), np.zeros(3)
U = [np.array([[0.5, -2.0], [1.5, 0.25]]), np.array([[1.0, 0.0, -1.0], [0.5, 2.0, -0.5]])]
W = {"layer": [np.sqrt(5.0), np.sqrt(2.0)], "absolute": [1.0, 1.0]}
"""Root mean squares of A and of all five numbers, since B0 is zero."""


def quartic(params: Any) -> Any:
    return (params["a"] ** 4).sum() + (params["a"].sum() + params["b"].sum()) ** 3 + params["b"].sum()


@pytest.mark.parametrize("units", ["layer", "absolute"])
def test_gradients_are_those_of_the_formula(units: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen_noise(monkeypatch, U)
    params, (wa, wb), t = {"a": jnp.asarray(A), "b": jnp.asarray(B0)}, W[units], 0.3
    points = [{"a": A + t * wa * U[0][i], "b": B0 + t * wb * U[1][i]} for i in (0, 1)]
    grads = [jax.grad(quartic)(jax.tree.map(jnp.asarray, point)) for point in points]
    mean = jax.tree.map(lambda one, other: (one + other) / 2, *grads)
    slope = np.mean([wa * U[0][i] @ grads[i]["a"] + wb * U[1][i] @ grads[i]["b"] for i in (0, 1)])

    optimizer = slgh(optax.sgd(0.1), t1=t, eta=1e-4, gamma=0.999999, samples=2, units=units)
    updates, state = optimizer.update(
        None, optimizer.init(params), params, value_and_grad_fn=jax.value_and_grad(quartic)
    )
    assert_close(updates, jax.tree.map(lambda each: -0.1 * each, mean), 1e-12)
    np.testing.assert_allclose(state.t, min(t - 1e-4 * slope / t, 0.999999 * t), rtol=1e-12)
    np.testing.assert_allclose(state.loss, np.mean([quartic(point) for point in points]), rtol=1e-12)
    assert slope > 0

    smoothed = smoothed_value_and_grad(quartic, t1=t, eta=1e-4, gamma=0.999999, samples=2, units=units)
    (value, found), after = smoothed(params, smoothed.init(params))
    assert_close(found, mean, 1e-12)
    assert_close((value, after.t), (state.loss, state.t), 1e-12)


@pytest.mark.parametrize("units", ["layer", "absolute"])
def test_differences_are_those_of_the_formula(units: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen_noise(monkeypatch, U)
    params, (wa, wb), t = {"a": jnp.asarray(A), "b": jnp.asarray(B0)}, W[units], 0.3
    g, trace, F, center = {"a": 0.0 * A, "b": 0.0 * B0}, 0.0, 0.0, float(quartic({"a": A, "b": B0}))
    for ua, ub in zip(*U, strict=True):
        high, low = (float(quartic({"a": A + s * t * wa * ua, "b": B0 + s * t * wb * ub})) for s in (1, -1))
        g["a"] = g["a"] + (high - low) / (2 * t) * ua / wa / 2
        g["b"] = g["b"] + (high - low) / (2 * t) * ub / wb / 2
        trace += (ua @ ua + ub @ ub - 5) * (high + low - 2 * center) / (2 * t * t) / 2
        F += (high + low) / 4

    optimizer = zoslgh(optax.sgd(0.1), t1=t, t_end=1e-6, eta=1e-4, gamma=0.999999, samples=2, units=units)
    updates, state = optimizer.update(None, optimizer.init(params), params, value_fn=quartic)
    assert_close(updates, jax.tree.map(lambda each: jnp.asarray(-0.1 * each), g), 1e-12)
    np.testing.assert_allclose(state.t, max(min(t - 1e-4 * trace, 0.999999 * t), 1e-6), rtol=1e-12)
    np.testing.assert_allclose(state.loss, F, rtol=1e-12)

    smoothed = smoothed_value_and_grad(
        quartic, t1=t, t_end=1e-6, eta=1e-4, gamma=0.999999, samples=2, units=units, zeroth_order=True
    )
    (value, found), after = smoothed(params, smoothed.init(params))
    assert_close(found, jax.tree.map(jnp.asarray, g), 1e-12)
    assert_close((value, after.t), (state.loss, state.t), 1e-12)


@dataclass(frozen=True, kw_only=True)
class ShowTrace:
    """Schedule whose next t is the trace, to observe the estimates."""

    name: ClassVar[str] = "show_trace"
    planned: ClassVar[bool] = False
    needs: ClassVar[frozenset[str]] = frozenset({"trace"})
    t1: float = 0.4

    def init(self, t: Any, floor: Any, xp: Any) -> Any:
        return ()

    def next(self, t: Any, estimate: Any, state: Any, floor: Any, xp: Any) -> Any:
        return estimate.trace, state


@pytest.mark.parametrize("units", ["layer", "model", "absolute"])
@pytest.mark.parametrize("zeroth_order", [False, True])
def test_estimates_are_unbiased(zeroth_order: bool, units: str) -> None:
    """On f = sum c (x - 1)^2, grad F = grad f, F = f + t^2 sum c w^2, and the trace is 2 sum c w^2.

    Each of the 14 means of 4000 independent estimates is within 4.5 standard errors, with probability 0.9999.
    """
    params = {"a": jnp.array([3.0, -1.0]), "b": jnp.array([0.5, 1.5, -1.0])}
    c = {"a": jnp.array([1.0, 0.5]), "b": jnp.array([0.2, 2.0, 1.0])}
    leaves = [np.array(params["a"]), np.array(params["b"])]
    w = {
        "layer": [np.sqrt(np.mean(np.square(leaf))) for leaf in leaves],
        "model": [np.sqrt(np.mean(np.square(np.concatenate(leaves))))] * 2,
        "absolute": [1.0, 1.0],
    }[units]

    def loss(params: Any) -> Any:
        return sum((c[name] * (params[name] - 1) ** 2).sum() for name in c)

    smoothed = smoothed_value_and_grad(
        loss, schedule=ShowTrace(), t_end=1e-3, samples=2, units=units, zeroth_order=zeroth_order, seed=3
    )
    first = smoothed.init(params)

    def estimate(step: Any) -> Any:
        (value, grads), state = smoothed(params, first._replace(step=step))
        return value, state.t, *ravel_pytree(grads)[0]

    found = np.array(jax.jit(jax.vmap(estimate))(jnp.arange(4000)))
    trace = 2 * (w[0] ** 2 * c["a"].sum() + w[1] ** 2 * c["b"].sum())
    exact = [loss(params) + 0.4**2 * trace / 2, trace, *ravel_pytree(jax.grad(loss)(params))[0]]
    z = (found.mean(1) - np.array(exact)) / (found.std(1) / np.sqrt(4000))
    assert np.abs(z).max() < 4.5, z


def network(params: Any) -> Any:
    """Return the loss of a small network on fixed data."""
    rng = np.random.default_rng(1)
    inputs, targets = rng.normal(size=(16, 3)).astype(np.float32), rng.normal(size=16).astype(np.float32)
    hidden = jnp.tanh(inputs @ params["inner"] + params["bias"])
    return jnp.mean((hidden @ params["outer"] - targets) ** 2)


def network_start() -> Any:
    rng = np.random.default_rng(2)
    shapes = {"inner": (3, 5), "bias": (5,), "outer": (5,)}
    return {name: jnp.asarray(rng.normal(size=shape), jnp.float32) for name, shape in shapes.items()}


class Float32Replay(Replay):
    """Noise from the tables, in single precision."""

    def draw_normal(self, key: Any, tag: int, m: int) -> Any:
        return super().draw_normal(key, tag, m).astype(np.float32)


@pytest.mark.parametrize("method", ["slgh_r", "slgh_d", "zoslgh_r", "zoslgh_d"])
def test_training_is_minimizing_with_the_same_noise(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    samples, steps, params = 3, 8, network_start()
    x0, unravel = ravel_pytree(params)
    noise = table(0, samples, x0.size)[:, 0].astype(np.float32)
    starts = np.cumsum([0, *(leaf.size for leaf in jax.tree.leaves(params))])

    def normal(key: Any, step: Any, sample: Any, leaf: int, shape: Any, dtype: Any) -> Any:
        return jnp.asarray(noise)[step, sample, starts[leaf] : starts[leaf + 1]].reshape(shape)

    def replay(self: Any, keys: Any, d: int, sample_xi: Any, *, samples: int) -> Replay:
        return Float32Replay(np.arange(len(keys)), d, None, sample_xi)

    monkeypatch.setattr(optax_smoothing, "_normal", normal)
    monkeypatch.setattr(NumpyBackend, "noise", replay)
    zeroth = method.startswith("zo")
    radius: dict[str, Any] = {"t1": 0.2, "gamma": 0.9, **({"eta": 0.005} if method.endswith("d") else {})}
    flat = jax.jit(lambda x: network(unravel(x)))
    gradient = jax.jit(jax.grad(lambda x: network(unravel(x))))
    expected = library.minimize(
        lambda x: np.asarray(flat(x)),
        np.asarray(x0),
        method=method,
        step=0.05,
        samples=samples,
        max_iter=steps,
        floor=1e-3,
        **({"oracle": "antithetic"} if zeroth else {"grad": lambda x: np.asarray(gradient(x))}),
        **radius,
    )
    kind = zoslgh if zeroth else slgh
    optimizer = kind(optax.sgd(0.05), samples=samples, units="absolute", t_end=1e-3, **radius)
    found, state = train(jax.jit(trainer(optimizer, kind, network)), params, optimizer.init(params), steps)
    assert expected.x.dtype == np.float32
    assert expected.nit == steps
    np.testing.assert_allclose(ravel_pytree(found)[0], expected.x, rtol=1e-6, atol=1e-6 * (10 if zeroth else 1))
    np.testing.assert_allclose(state.t, expected.t, rtol=1e-4 if zeroth else 1e-6)
    assert not np.allclose(x0, expected.x, atol=1e-2)


# Convergence.


def rosenbrock(params: Any) -> Any:
    x, y = params["x"], params["y"]
    return (1 - x) ** 2 + 100 * (y - x**2) ** 2


@KINDS
@pytest.mark.parametrize(
    "base", [optax.sgd(0.05), optax.adam(0.05), optax.adamw(0.05, weight_decay=0.0), optax.sgd(0.02, momentum=0.8)]
)
def test_it_finds_the_minimum_of_a_bowl(kind: Any, base: Any) -> None:
    optimizer = kind(base, samples=4, **RADIUS)
    params, _ = train(jax.jit(trainer(optimizer, kind, bowl)), START, optimizer.init(START), 400)
    assert bowl(params) < 1e-2


@KINDS
def test_it_finds_the_minimum_of_rosenbrocks_function(kind: Any) -> None:
    start = {"x": jnp.array(-1.0), "y": jnp.array(1.0)}
    optimizer = kind(optax.adam(0.02), t1=0.1, t_end=1e-3, total_steps=2000, samples=4)
    params, _ = train(jax.jit(trainer(optimizer, kind, rosenbrock)), start, optimizer.init(start), 3000)
    assert rosenbrock(params) < 0.05


@KINDS
def test_smoothing_leaves_a_poor_local_minimum(kind: Any) -> None:
    def rugged(params: Any) -> Any:
        return params["x"] ** 2 + 3 * jnp.sin(4 * params["x"]) ** 2

    start = {"x": jnp.array(2.4)}
    optimizer = kind(optax.sgd(0.02), t1=1.0, t_end=0.01, total_steps=600, samples=8, units="absolute")
    params, _ = train(jax.jit(trainer(optimizer, kind, rugged)), start, optimizer.init(start), 600)
    plain = start["x"]
    for _ in range(600):
        plain = plain - 0.02 * jax.grad(rugged)({"x": plain})["x"]
    assert rugged(params) < 0.05
    assert rugged({"x": plain}) > 1


# Compilation, and state.


@KINDS
def test_a_compiled_step_is_a_plain_step_and_a_loop(kind: Any) -> None:
    optimizer = kind(optax.adam(0.05), samples=3, eta=1e-3, seed=2**40 + 7, **RADIUS)
    step, state = trainer(optimizer, kind, bowl), optimizer.init(START)
    plain = train(step, START, state, 2)
    assert_close(train(jax.jit(step), START, state, 2), plain, 1e-5)
    loop = jax.jit(lambda carry: jax.lax.scan(lambda each, _: (step(*each), None), carry, None, length=2)[0])
    assert_close(loop((START, state)), plain, 1e-5)
    compiled = jax.jit(optimizer.init)(START)
    assert_close(compiled, state, 1e-6)


@KINDS
def test_nothing_is_compiled_again(kind: Any) -> None:
    traces = []

    def loss(params: Any) -> Any:
        traces.append(1)
        return bowl(params)

    for base, radius in (
        (optax.adam(0.05), RADIUS),
        (optax.sgd(optax.cosine_decay_schedule(0.1, 9)), {"schedule": Ratio(t1=0.1)}),
    ):
        optimizer = kind(base, samples=3, **radius)
        step, state = jax.jit(trainer(optimizer, kind, loss)), optimizer.init(START)
        params, state = step(START, state)
        before = len(traces)
        train(step, params, state, 5)
        assert len(traces) == before
        assert step._cache_size() == 1


@KINDS
def test_the_memory_does_not_grow_with_the_samples(kind: Any) -> None:
    def temporary(samples: int) -> int:
        params = {"x": jnp.zeros(100_000), "y": jnp.ones((10, 100))}
        optimizer = kind(optax.sgd(0.1), samples=samples, eta=1e-3, **RADIUS)
        compiled = jax.jit(trainer(optimizer, kind, bowl)).lower(params, optimizer.init(params)).compile()
        return int(compiled.memory_analysis().temp_size_in_bytes)

    assert temporary(64) < temporary(2) + 1000


@KINDS
@pytest.mark.parametrize("radius", [{"schedule": Budget(t1=0.2, iterations=20)}, {"eta": 1e-3, **RADIUS}], ids=str)
def test_a_restored_state_continues_with_the_same_bits(kind: Any, radius: Any, tmp_path: Path) -> None:
    optimizer = kind(optax.adam(0.05), samples=2, seed=11, **radius)
    step = jax.jit(trainer(optimizer, kind, bowl))
    params, state = train(step, START, optimizer.init(START), 7)
    expected = train(step, params, state, 6)

    leaves, structure = jax.tree.flatten((params, state))
    assert_same(resume(step, jax.tree.unflatten(structure, leaves), 6), expected)

    np.savez(tmp_path / "state.npz", *map(np.asarray, leaves))
    with np.load(tmp_path / "state.npz") as file:
        loaded = [file[name] for name in file.files]
    empty = jax.tree.structure((START, optimizer.init(START)))
    assert_same(resume(step, jax.tree.unflatten(empty, loaded), 6), expected)
    assert int(expected[1].step) == 13


@KINDS
def test_the_noise_depends_on_seed_step_sample_and_leaf(kind: Any) -> None:
    key = np.array([0, 5], np.uint32)

    def draw(key: Any, step: Any, sample: Any, leaf: int) -> tuple[float, ...]:
        return tuple(np.asarray(optax_smoothing._normal(key, step, sample, leaf, (3,), jnp.float32)).tolist())

    assert draw(key, 1, 2, 0) == draw(jnp.asarray(key), jnp.int32(1), jnp.int32(2), 0)
    other = [draw(key, 2, 2, 0), draw(key, 1, 1, 0), draw(key, 1, 2, 1), draw(key + np.uint32(1), 1, 2, 0)]
    assert len({draw(key, 1, 2, 0), draw(key, 2, 1, 0), *other}) == 6

    optimizers = [kind(optax.sgd(0.1), seed=seed, **RADIUS) for seed in (0, 1, 2**32, 2**64 - 1)]
    keys = [tuple(np.asarray(each.init(START).key).tolist()) for each in optimizers]
    assert keys == [(0, 0), (0, 1), (1, 0), (2**32 - 1, 2**32 - 1)]


# Schedules.


@KINDS
def test_t_follows_its_arguments(kind: Any) -> None:
    def radii(**radius: Any) -> list[float]:
        optimizer = kind(optax.sgd(0.01), **radius)
        step, params, state = jax.jit(trainer(optimizer, kind, bowl)), START, optimizer.init(START)
        found = [float(state.t)]
        for _ in range(4):
            params, state = step(params, state)
            found.append(float(state.t))
        return found

    assert radii(t1=0.2, gamma=0.5) == pytest.approx([0.2, 0.1, 0.05, 0.025, 0.0125])
    assert radii(t1=0.2, gamma=0.5, t_end=0.06) == pytest.approx([0.2, 0.1, 0.06, 0.06, 0.06])
    last = 0.002 if kind is slgh else 0.06
    assert radii(t1=0.2, total_steps=3) == pytest.approx([0.2, math.sqrt(0.2 * last), last, last, last])
    assert radii(t1=0.2, total_steps=3, t_end=0.05) == pytest.approx([0.2, 0.1, 0.05, 0.05, 0.05])
    assert radii(schedule=optax.linear_schedule(0.4, 0.1, 3)) == pytest.approx([0.4, 0.3, 0.2, 0.1, 0.1])
    assert radii(schedule=PowerLaw(t1=0.4, t_power=1.0)) == pytest.approx([0.4, 0.2, 0.4 / 3, 0.1, 0.08])
    assert radii(schedule=Constant(t1=0.4)) == pytest.approx([0.4] * 5)
    assert radii(schedule=lambda k: 0.5) == pytest.approx([0.5] * 5)


def test_schedules_that_need_values() -> None:
    optimizer = zoslgh(optax.sgd(0.01), schedule=DoubleLoop(t1=0.2, n0=2, eps0=1e9))
    _, state = train(jax.jit(trainer(optimizer, zoslgh, bowl)), START, optimizer.init(START), 6)
    assert float(state.t) == pytest.approx(0.2 * 0.5**2)
    optimizer = zoslgh(optax.sgd(0.0), schedule=FollowStep(t1=0.2))
    _, state = train(jax.jit(trainer(optimizer, zoslgh, bowl)), START, optimizer.init(START), 3)
    assert 0.2 < float(state.t) < 100
    with pytest.raises(ValueError, match="needs f, which this optimizer does not estimate"):
        slgh(optax.sgd(0.01), schedule=DoubleLoop(t1=0.2))
    smoothed = smoothed_value_and_grad(bowl, schedule=DoubleLoop(t1=0.2, n0=2, eps0=1e9, rule="minibatch"))
    state = smoothed.init(START)
    for _ in range(6):
        _, state = smoothed(START, state)
    assert float(state.t) == pytest.approx(0.2 * 0.5**2)


@KINDS
def test_a_radius_of_zero_does_no_harm(kind: Any) -> None:
    radius: dict[str, Any] = {"t1": 0.1, "eta": 1e3} if kind is slgh else {"schedule": lambda k: 0.0 * k}
    optimizer = kind(optax.sgd(0.05), samples=2, **radius)
    params, state = train(jax.jit(trainer(optimizer, kind, bowl)), START, optimizer.init(START), 5)
    assert float(state.t) == 0
    assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(params))
    if kind is slgh:
        gradients = jax.grad(bowl)(params)
        updates, _ = optimizer.update(None, state, params, grad_fn=jax.grad(bowl))
        assert_close(updates, jax.tree.map(lambda each: -0.05 * each, gradients), 1e-6)


# Trees and dtypes.


TREES: dict[str, Any] = {
    "array": jnp.array([3.0, -2.0], jnp.float32),
    "scalar": jnp.array(2.0),
    "nested": {"a": [jnp.ones((2, 3)), (jnp.zeros(4), None)], "b": jnp.array(2.0, jnp.float16)},
    "low precision": {"a": jnp.array([3.0, -2.0], jnp.bfloat16), "b": jnp.array([0.5], jnp.float16)},
    "mixed": {
        "a": jnp.array([3.0], jnp.float64),
        "b": jnp.array([3.0], jnp.float32),
        "c": jnp.array([2.0], jnp.bfloat16),
    },
    "empty": {"a": jnp.zeros((0, 3)), "b": jnp.array([3.0])},
    "zero": {"a": jnp.zeros(3), "b": jnp.zeros(2)},
    "numpy": {"a": np.array([3.0, -2.0], np.float32)},
    "no leaves": {},
}


@KINDS
@pytest.mark.parametrize("tree", TREES)
def test_every_tree_keeps_its_structure_and_dtypes(tree: str, kind: Any) -> None:
    params = TREES[tree]
    optimizer = kind(optax.adam(0.1), samples=2, eta=1e-6, **RADIUS)

    def loss(params: Any) -> Any:
        return bowl(params) + jnp.float32(0)  # without leaves, the sum is an integer

    step, state = jax.jit(trainer(optimizer, kind, loss)), optimizer.init(params)
    early = train(step, params, state, 2)
    programs = step._cache_size()
    found, after = resume(step, early, 58)
    assert step._cache_size() == programs
    assert jax.tree.structure(found) == jax.tree.structure(params)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(params), strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
    for one, other in zip(jax.tree.leaves(after), jax.tree.leaves(state), strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
    assert loss(found) < 0.7 * loss(params) or not jax.tree.leaves(params)
    assert int(after.rejected) == 0


@KINDS
def test_other_leaves_are_left_as_they_are(kind: Any) -> None:
    params = {
        "x": jnp.array([3.0, -2.0]),
        "count": jnp.arange(3),
        "mask": jnp.array([True, False]),
        "byte": jnp.uint8(7),
    }

    def loss(params: Any) -> Any:
        return jnp.sum((params["x"] - 1) ** 2) + params["count"].sum() * params["mask"].sum()

    def grad(params: Any) -> Any:
        return jax.grad(loss, allow_int=True)(params)

    optimizer = kind(optax.adamw(0.1, weight_decay=0.1), samples=2, **RADIUS)
    of: dict[str, Any] = {"grad_fn": grad} if kind is slgh else {"value_fn": loss}

    def step(params: Any, state: Any) -> Any:
        updates, state = optimizer.update(None, state, params, **of)
        return optax.apply_updates(params, updates), state

    found, state = train(jax.jit(step), params, optimizer.init(params), 60)
    assert loss(found) < loss(params)
    for name in ("count", "mask", "byte"):
        assert_same(found[name], params[name])
    assert state.scales.shape == (1,)
    smoothed = smoothed_value_and_grad(loss, zeroth_order=kind is zoslgh, **RADIUS)
    (_, grads), _ = smoothed(params, smoothed.init(params))
    assert_same(grads["count"], jnp.zeros(3, params["count"].dtype))


def test_bfloat16_is_rounded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    u = np.array([[1.0, -0.3, 0.01]])
    chosen_noise(monkeypatch, [u])
    x = jnp.array([1.0, 2.0, 3.0], jnp.bfloat16)
    seen = []

    def grad(params: Any) -> Any:
        seen.append(params)
        return params

    optimizer = slgh(optax.sgd(0.1), t1=0.1, gamma=0.9, units="absolute")
    updates, _ = optimizer.update(None, optimizer.init(x), x, grad_fn=grad)
    expected = (x.astype(jnp.float32) + jnp.float32(0.1) * jnp.asarray(u[0], jnp.float32)).astype(jnp.bfloat16)
    assert_same(seen[0], expected)
    assert updates.dtype == jnp.bfloat16


# Bad values.


def holes(params: Any) -> Any:
    """A bowl that is NaN where the first variable is above 3."""
    return jnp.where(params["a"][0] > 3, jnp.nan, bowl(params))


@KINDS
def test_bad_samples_are_dropped_and_counted(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    good, bad = [[-1.0, 0.5], [1.0, 0.5]], [[-1.0, 0.5], [1.0, 0.5], [-50.0, 0.0]]
    start = {"a": jnp.array([-10.0, 2.0]), "b": jnp.array(1.0)}
    radius: dict[str, Any] = {"t1": 1.0, "t_end": 1e-3, "eta": 1e-3, "units": "absolute"}

    def nowhere(params: Any) -> Any:
        return bowl(params) * jnp.where(params["a"][0] < -30, jnp.nan, 1.0)

    found = []
    for noise in (good, bad):
        chosen_noise(monkeypatch, [np.array(noise), np.zeros((len(noise), 1))])
        optimizer = kind(optax.adam(0.1), samples=len(noise), **radius)
        found.append(jax.jit(trainer(optimizer, kind, nowhere))(start, optimizer.init(start)))
    (params, state), (after, counted) = found
    assert_close(after, params, 1e-6)
    assert (int(state.rejected), int(counted.rejected)) == (0, 1)
    assert_close(counted._replace(rejected=state.rejected), state, 1e-6)


@KINDS
def test_a_step_without_good_samples_changes_nothing(kind: Any) -> None:
    base = optax.chain(optax.add_noise(0.1, 0.5, 0), optax.adam(0.1))
    optimizer = kind(base, samples=3, t1=0.01, gamma=0.9)
    state = optimizer.init(START)
    params, state = jax.jit(trainer(optimizer, kind, bowl))(START, state)
    broken = jax.jit(trainer(optimizer, kind, lambda params: jnp.nan * bowl(params)))
    after, later = broken(params, state)
    assert_same(after, params)
    assert (int(later.step), int(later.rejected)) == (2, 3)
    assert_same(jax.tree.map(raw, later._replace(step=state.step, rejected=state.rejected)), jax.tree.map(raw, state))
    smoothed = smoothed_value_and_grad(holes, zeroth_order=kind is zoslgh, t1=0.01, gamma=0.9)
    far = {"a": jnp.array([9.0, 1.0]), "b": jnp.array(1.0)}
    (value, grads), state = smoothed(far, smoothed.init(far))
    assert bool(jnp.isnan(value))
    assert_same(grads, jax.tree.map(jnp.zeros_like, far))
    assert float(state.t) == pytest.approx(0.01)


def raw(leaf: Any) -> Any:
    """Return a key of JAX as an array of numbers."""
    return jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf


def test_a_bad_loss_rejects_a_finite_gradient() -> None:
    optimizer = slgh(optax.sgd(0.1), **RADIUS)
    of = {"value_and_grad_fn": lambda params: (jnp.inf, params)}
    updates, state = optimizer.update(None, optimizer.init(START), START, **of)
    assert_same(updates, jax.tree.map(jnp.zeros_like, START))
    assert int(state.rejected) == 1
    assert bool(jnp.isnan(state.loss))


# Wrappers of optax.


def zeros(params: Any) -> Any:
    """Return updates of the right structure, which the transformations ignore."""
    return jax.tree.map(jnp.zeros_like, params)


@KINDS
def test_masked_leaves_are_neither_perturbed_nor_updated(kind: Any) -> None:
    seen = []

    def record(params: Any) -> Any:
        seen.append(params)
        return bowl(params) if kind is zoslgh else jax.grad(bowl)(params)

    optimizer = optax.masked(kind(optax.adamw(0.1), **RADIUS), {"a": True, "b": False})
    of = {("grad_fn" if kind is slgh else "value_fn"): record}
    state = optimizer.init(START)
    updates, state = optimizer.update(zeros(START), state, START, all_params=START, **of)
    assert_same(updates["b"], jnp.zeros_like(START["b"]))
    assert float(jnp.abs(updates["a"]).min()) > 0
    assert state.inner_state.scales.shape == (1,)
    for point in seen:
        assert_same(point["b"], START["b"])
        assert float(jnp.abs(point["a"] - START["a"]).min()) > 0
    with pytest.raises(TypeError, match="pass `all_params=params` to `update`"):
        optimizer.update(zeros(START), state, START, **of)


@KINDS
def test_masked_subtrees_and_training_with_a_mask(kind: Any) -> None:
    params = {"net": {"a": jnp.array([3.0, -2.0]), "n": jnp.array(4)}, "frozen": {"x": jnp.ones(2), "y": jnp.zeros(1)}}

    def loss(params: Any) -> Any:
        return jnp.sum((params["net"]["a"] - params["frozen"]["x"]) ** 2)

    of = {"value_fn": loss} if kind is zoslgh else {"grad_fn": jax.grad(loss, allow_int=True)}
    optimizer = optax.masked(kind(optax.adam(0.1), samples=2, **RADIUS), {"net": True, "frozen": False})

    def step(params: Any, state: Any) -> Any:
        updates, state = optimizer.update(zeros(params), state, params, all_params=params, **of)
        return optax.apply_updates(params, updates), state

    found, _ = train(jax.jit(step), params, optimizer.init(params), 200)
    assert loss(found) < 1e-2
    assert_same((found["frozen"], found["net"]["n"]), (params["frozen"], params["net"]["n"]))


@KINDS
def test_multi_transform_smooths_some_leaves(kind: Any) -> None:
    parts = {"smooth": kind(optax.sgd(0.05), samples=4, **RADIUS), "plain": optax.sgd(0.05)}
    optimizer = optax.multi_transform(parts, {"a": "smooth", "b": "plain"})

    def step(params: Any, state: Any) -> Any:
        gradients = jax.grad(bowl)(params)
        of = functions(kind, bowl)
        updates, state = optimizer.update(gradients, state, params, all_params=params, **of)
        return optax.apply_updates(params, updates), state

    found, _ = train(jax.jit(step), START, optimizer.init(START), 1)
    assert float(found["b"]) == pytest.approx(2.0 - 0.05 * 2)
    found, _ = train(jax.jit(step), START, optimizer.init(START), 300)
    assert bowl(found) < 1e-2


@KINDS
def test_it_is_part_of_a_chain(kind: Any) -> None:
    optimizer = optax.chain(kind(optax.identity(), samples=2, **RADIUS), optax.clip_by_global_norm(0.5), optax.sgd(0.1))
    state = optimizer.init(START)
    updates, state = optimizer.update(None, state, START, **functions(kind, bowl))
    assert float(np.linalg.norm(ravel_pytree(updates)[0])) == pytest.approx(0.05, rel=1e-5)
    assert float(state[0].t) == pytest.approx(0.19)


@KINDS
def test_learning_rates_of_the_base(kind: Any) -> None:
    def moved(base: Any, n: int = 3) -> Any:
        optimizer = kind(base, samples=2, **RADIUS)
        return train(jax.jit(trainer(optimizer, kind, bowl)), START, optimizer.init(START), n)

    scheduled, _ = moved(optax.sgd(optax.piecewise_constant_schedule(0.1, {1: 0.0})))
    once, _ = moved(optax.sgd(0.1), 1)
    assert_close(scheduled, once, 1e-6)
    injected, state = moved(optax.inject_hyperparams(optax.sgd)(learning_rate=0.1))
    assert_close(injected, moved(optax.sgd(0.1))[0], 1e-6)
    assert float(state.base.hyperparams["learning_rate"]) == pytest.approx(0.1)


@KINDS
def test_the_base_may_average_over_minibatches(kind: Any) -> None:
    optimizer = kind(optax.MultiSteps(optax.sgd(0.1), 3), t1=0.1, gamma=0.9)
    step = jax.jit(trainer(optimizer, kind, bowl))
    two = train(step, START, optimizer.init(START), 2)
    assert_same(two[0], START)
    three, state = resume(step, two, 1)
    assert float(three["b"]) != float(START["b"])
    assert float(state.t) == pytest.approx(0.1 * 0.9**3)


@KINDS
@pytest.mark.parametrize(
    "wrap",
    [lambda each: optax.apply_if_finite(each, 3), lambda each: optax.MultiSteps(each, 2)],
    ids=["finite", "multi"],
)
def test_wrappers_that_read_updates_get_zeros(kind: Any, wrap: Any) -> None:
    optimizer = wrap(kind(optax.sgd(0.05), samples=2, **RADIUS))

    def step(params: Any, state: Any) -> Any:
        updates, state = optimizer.update(zeros(params), state, params, **functions(kind, bowl))
        return optax.apply_updates(params, updates), state

    found, _ = train(jax.jit(step), START, optimizer.init(START), 200)
    assert bowl(found) < 0.1


def test_a_base_that_needs_the_value_gets_it() -> None:
    base = optax.chain(optax.sgd(0.05), optax.contrib.reduce_on_plateau(patience=2, cooldown=0))
    optimizer = zoslgh(base, **RADIUS)
    _, state = train(jax.jit(trainer(optimizer, zoslgh, bowl)), START, optimizer.init(START), 3)
    assert bool(jnp.isfinite(state.base[1].best_value))
    optimizer = slgh(base, **RADIUS)
    of = {"value_and_grad_fn": jax.value_and_grad(bowl)}
    _, state = optimizer.update(None, optimizer.init(START), START, **of)
    assert float(state.base[1].best_value) == pytest.approx(float(state.loss))


def test_extra_arguments_go_to_the_base() -> None:
    def update(updates: Any, state: Any, params: Any = None, *, factor: Any, **extra: Any) -> Any:
        return jax.tree.map(lambda each: factor * each, updates), state

    base = optax.GradientTransformationExtraArgs(lambda params: optax.EmptyState(), update)
    optimizer = slgh(base, **RADIUS)
    state = optimizer.init(START)
    one, _ = optimizer.update(None, state, START, grad_fn=jax.grad(bowl), factor=1.0)
    two, _ = optimizer.update(None, state, START, grad_fn=jax.grad(bowl), factor=2.0)
    assert_close(two, jax.tree.map(lambda each: 2 * each, one), 1e-6)


def test_the_state_can_be_mapped_over_the_parameters() -> None:
    optimizer = slgh(optax.adam(0.1), **RADIUS)
    marked = optax.tree_map_params(
        optimizer,
        lambda leaf, name: name,
        optimizer.init(START),
        {"a": "A", "b": "B"},
        transform_non_params=lambda _: "-",
    )
    assert marked.base[0].mu == {"a": "A", "b": "B"}
    assert (marked.t, marked.scales) == ("-", "-")


# The helper for a loop of the user.


@KINDS
@pytest.mark.parametrize("samples", [1, 3])
def test_a_loop_of_the_user_is_the_transformation(kind: Any, samples: int) -> None:
    base = optax.adam(0.05)
    arguments: dict[str, Any] = {"samples": samples, "eta": 1e-3, "seed": 4, **RADIUS}
    smoothed = smoothed_value_and_grad(
        lambda params, shift, *, scale: bowl(params) * scale + shift, zeroth_order=kind is zoslgh, **arguments
    )

    def step(params: Any, state: Any, base_state: Any) -> Any:
        (value, grads), state = smoothed(params, state, 1.5, scale=1.0)
        updates, base_state = base.update(grads, base_state, params)
        return value, optax.apply_updates(params, updates), state, base_state

    params, state, base_state = START, smoothed.init(START), base.init(START)
    for _ in range(5):
        value, params, state, base_state = jax.jit(step)(params, state, base_state)
    optimizer = kind(base, **arguments)
    expected, after = train(
        jax.jit(trainer(optimizer, kind, lambda params: bowl(params) + 1.5)), START, optimizer.init(START), 5
    )
    assert_close((params, state.t, base_state), (expected, after.t, after.base), 1e-5)
    assert float(value) == float(state.loss)


@pytest.mark.parametrize("zeroth_order", [False, True])
@pytest.mark.parametrize("samples", [1, 3])
def test_auxiliary_data_are_those_of_the_last_sample(
    samples: int, zeroth_order: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    u = np.array([[1.0], [2.0], [3.0]])
    chosen_noise(monkeypatch, [u])

    def loss(x: Any) -> Any:
        return x**2, {"x": x, "number": 3, "three": jnp.int32(3)}

    smoothed = smoothed_value_and_grad(
        loss, t1=0.5, gamma=0.9, samples=samples, units="absolute", zeroth_order=zeroth_order, has_aux=True
    )
    ((value, aux), grads), _ = jax.jit(smoothed)(jnp.array(1.0), smoothed.init(jnp.array(1.0)))
    assert float(aux["x"]) == pytest.approx(1 + 0.5 * samples)
    assert (int(aux["number"]), int(aux["three"])) == (3, 3)
    plain = smoothed_value_and_grad(
        lambda x: x**2, t1=0.5, gamma=0.9, samples=samples, units="absolute", zeroth_order=zeroth_order
    )
    (expected, same), _ = plain(jnp.array(1.0), plain.init(jnp.array(1.0)))
    assert_close((value, grads), (expected, same), 1e-12)


# Arguments.


@KINDS
@pytest.mark.parametrize(
    ("arguments", "error", "fragment"),
    [
        ({}, TypeError, "`t1`, the first smoothing radius, is missing"),
        ({"t1": 0.1}, TypeError, "How t falls is not given"),
        ({"t1": -1.0, "gamma": 0.9}, ValueError, "`t1` must be a finite number above 0"),
        ({"t1": 0.1, "gamma": 1.5}, ValueError, "`gamma` must"),
        ({"t1": 0.1, "gamma": 0.9, "t_end": 0.2}, ValueError, "`t_end` must not exceed `t1`"),
        ({"t1": 0.1, "schedule": Ratio(t1=0.1)}, TypeError, "pass it without `t1`"),
        (
            {"schedule": Budget(iterations=3)},
            ValueError,
            "needs `t1`, the first smoothing radius",
        ),
        ({"schedule": 0.1}, TypeError, "`schedule` must be a schedule"),
        ({**RADIUS, "samples": 0}, ValueError, "`samples` must be an integer >= 1"),
        ({**RADIUS, "samples": 1.5}, TypeError, "`samples` must be an integer"),
        (
            {**RADIUS, "units": "layers"},
            ValueError,
            "`units` must be one of 'layer', 'model', 'absolute'.*Did you mean layer?",
        ),
        ({**RADIUS, "seed": -1}, ValueError, "`seed` must be an integer >= 0"),
        ({**RADIUS, "seed": 2**64}, ValueError, "`seed` must be an integer <="),
    ],
    ids=str,
)
def test_wrong_arguments_are_errors(arguments: dict[str, Any], error: Any, fragment: str, kind: Any) -> None:
    with pytest.raises(error, match=fragment):
        kind(optax.sgd(0.1), **arguments)
    with pytest.raises(error, match=fragment):
        smoothed_value_and_grad(bowl, zeroth_order=kind is zoslgh, **arguments)


@KINDS
def test_a_base_must_be_a_transformation(kind: Any) -> None:
    with pytest.raises(TypeError, match="`base` must be a gradient transformation"):
        kind(0.1, **RADIUS)
    with pytest.raises(TypeError, match="`fun` must be a function"):
        smoothed_value_and_grad(3, **RADIUS)  # type: ignore[arg-type]


def test_wrong_calls_are_errors() -> None:
    first, zeroth = slgh(optax.sgd(0.1), **RADIUS), zoslgh(optax.sgd(0.1), **RADIUS)
    state = first.init(START)
    with pytest.raises(ValueError, match="`params` are missing"):
        first.update(START, state, grad_fn=jax.grad(bowl))
    with pytest.raises(TypeError, match=r"pass `grad_fn=jax.grad\(loss\)` or"):
        first.update(START, state, START)
    with pytest.raises(TypeError, match=r"pass `grad_fn=jax.grad\(loss\)` or"):
        first.update(None, state, START, grad_fn=jax.grad(bowl), value_and_grad_fn=jax.value_and_grad(bowl))
    with pytest.raises(TypeError, match="pass `value_fn=loss`"):
        zeroth.update(START, state, START)
    with pytest.raises(ValueError, match="`grad_fn` must return gradients with the structure of the parameters"):
        first.update(None, state, START, grad_fn=jax.value_and_grad(bowl))
    with pytest.raises(TypeError, match="`value_and_grad_fn` must return a loss and its gradients"):
        first.update(None, state, START, value_and_grad_fn=jax.grad(bowl))
    with pytest.raises(TypeError, match="`value_fn` must return the loss as a scalar"):
        zeroth.update(None, state, START, value_fn=lambda params: params["a"])
    with pytest.raises(TypeError, match="`value_fn` must return the loss as a scalar"):
        zeroth.update(None, state, START, value_fn=jax.value_and_grad(bowl))
    with pytest.raises(TypeError, match="must be real, got a leaf of complex"):
        first.init({"a": jnp.array([1j])})
    for wrong in ({"t1": 0.1, "eta": 1.0}, {"schedule": Derivative(t1=0.1, eta=1.0)}):
        with pytest.raises(ValueError, match="`t_end` must be above 0 with `eta`"):
            zoslgh(optax.sgd(0.1), **wrong)
    smoothed = smoothed_value_and_grad(bowl, has_aux=True, **RADIUS)
    with pytest.raises(TypeError, match="`fun` must return a loss and auxiliary data with `has_aux=True`"):
        smoothed(START, smoothed.init(START))


# Devices.


def test_sharded_parameters_stay_sharded(tmp_path: Path) -> None:
    path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
    flags = "--xla_force_host_platform_device_count=8"
    given = {**os.environ, "PYTHONPATH": path, "XLA_FLAGS": flags, "JAX_ENABLE_X64": "1"}
    command = [sys.executable, str(TESTS / "optax_mesh_case.py")]
    done = subprocess.run(command, env=given, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "8 devices\n"
