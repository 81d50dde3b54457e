"""Runs on JAX arrays: tracing, compiling once, the fallback to a Python loop, and refused input."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import slgh
from cases import CASES, fun, starts
from slgh.backends.jax import loop as jax_loop

pytestmark = pytest.mark.slow


def test_the_same_problem_is_traced_and_compiled_once(monkeypatch: Any) -> None:
    traces = []

    class Counted(jax_loop.CompiledBlocks):
        def _block(self, *args: Any, **options: Any) -> Any:
            traces.append(1)
            return super()._block(*args, **options)

    monkeypatch.setattr(jax_loop, "cached_blocks", functools.lru_cache(Counted))
    case, x0, shift = CASES["zoslgh_d"], jnp.asarray(starts(1)[0]), jnp.ones(4)
    first = case.run(x0, lambda x: ((x - shift) ** 2).sum(-1))
    for options in ({"seed": 8}, {"max_iter": 77}, {"step": 0.01, "t1": 1, "eta": 2, "gamma": 0.5}, {"t1": 2}):
        case.run(x0 + 1, lambda x: ((x - shift) ** 2).sum(-1), **options)
    again = case.run(x0, lambda x: ((x - shift) ** 2).sum(-1))
    np.testing.assert_array_equal(first.x, again.x)
    assert len(traces) == 1
    case.run(jnp.asarray(starts(3)), lambda x: ((x - shift) ** 2).sum(-1), batched=True)
    assert len(traces) == 2


def test_a_function_that_has_changed_is_compiled_anew() -> None:
    class Bowl:
        center: Any = 0.0

        def __call__(self, x: Any) -> Any:
            return ((x - self.center) ** 2).sum(-1)

    bowl, x0 = Bowl(), jnp.asarray(starts(1)[0])
    for bowl.center in (1.0, 2.0, jnp.full(4, 3.0), jnp.full(4, 4.0), np.full(4, 5.0), jnp.full(4, 3.0)):
        result = slgh.minimize(bowl, x0, max_evals=2000, seed=0)
        assert result.engine == "jax while_loop"
        np.testing.assert_allclose(result.x, np.broadcast_to(bowl.center, 4), atol=1e-3)
        np.testing.assert_allclose(result.fun, bowl(result.x), rtol=1e-10)


@pytest.mark.parametrize(
    "untraceable",
    [
        lambda x: float(np.sin(np.asarray(x)).sum() + (np.asarray(x) ** 2).sum()),
        lambda x: (x**2).sum() if x[0] > 0 else (x**2).sum() + 1,
    ],
)
def test_what_cannot_be_traced_runs_in_a_python_loop_and_says_so(untraceable: Any) -> None:
    result = CASES["zoslgh_d"].run(jnp.asarray(starts(1)[0]), untraceable, vectorized=False)
    assert result.engine == "jax python loop"
    assert "In a Python loop: it cannot be traced" in result.message
    assert result.success


def test_functions_that_call_back_into_python_are_told_apart() -> None:
    def bowl(center: float) -> Any:
        shape = jax.eval_shape(lambda: jnp.zeros((), jnp.float64))
        there = lambda x: np.sum((x - center) ** 2)  # noqa: E731
        return lambda x: jax.pure_callback(there, shape, x, vmap_method="sequential")

    for center in (1.0, -1.0):
        result = slgh.minimize(bowl(center), jnp.zeros(2), max_evals=1000, seed=0)
        assert result.engine == "jax while_loop"
        np.testing.assert_allclose(result.x, [center, center], atol=1e-2)


def test_local_searches_do_not_call_fun_for_each_query() -> None:
    calls = 0

    def bowl(x: Any, center: Any) -> Any:
        nonlocal calls
        calls += 1
        return ((x - center) ** 2).sum()

    result = slgh.minimize(bowl, jnp.zeros(3), max_evals=1000, seed=0, data=jnp.ones(3))
    assert "local searches" in result.message
    assert result.nfev > 900
    assert calls < 30
    np.testing.assert_allclose(result.x, 1.0, atol=1e-5)


@pytest.mark.parametrize("vectorized", [True, False])
def test_a_gradient_that_the_method_does_not_need_is_left_alone(vectorized: bool) -> None:
    for given in (True, None):
        assert CASES["zoslgh_d"].run(jnp.zeros(4), grad=given, vectorized=vectorized).njev == 0


def test_an_error_in_fun_is_the_users_own() -> None:
    def broken(x: Any) -> Any:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        CASES["zoslgh_d"].run(jnp.asarray(starts(1)[0]), broken)


def test_sample_xi_gets_a_key() -> None:
    x0 = jnp.asarray(starts(2))
    case = CASES["zoslgh_r stochastic"]
    result = case.run(x0, batched=True, sample_xi=lambda key, n: jax.random.uniform(key, (n,), x0.dtype))
    assert result.engine == "jax while_loop"
    assert (result.fun_se > 0).all()


def test_inside_jit_it_is_refused() -> None:
    with pytest.raises(TypeError, match="call it outside jit"):
        jax.jit(lambda x: slgh.minimize(lambda y: (y**2).sum(), x).x)(jnp.ones(2))


def test_float32_without_x64_in_a_fresh_process() -> None:
    code = (
        "import jax.numpy as jnp, jax, slgh\n"
        "r = slgh.minimize(lambda x: (x**2).sum(), jnp.ones(3), max_evals=200, seed=1)\n"
        "print(r.engine, r.x.dtype, r.nfev <= 200, jax.config.jax_enable_x64, bool(r.fun < 1e-3))"
    )
    command = [sys.executable, "-W", "error", "-c", code]
    plain = {**os.environ, "JAX_ENABLE_X64": "0"}
    printed = subprocess.run(command, capture_output=True, text=True, check=True, env=plain).stdout
    assert printed.split() == ["jax", "while_loop", "float32", "True", "False", "True"]


def test_auto_takes_values_unless_told_to_differentiate() -> None:
    x0 = jnp.ones(3)
    assert slgh.minimize(lambda x: (x**2).sum(), x0, max_evals=100).method.oracle.name == "diagonal_scaling"
    assert slgh.minimize(lambda x: (x**2).sum(), x0, max_evals=100, grad=True).method.oracle.name == "sampled_gradient"
    with pytest.raises(ValueError, match="for NumPy pass the gradient"):
        slgh.minimize(lambda x: (x**2).sum(), np.ones(3), max_evals=100, grad=True)


def test_compiled_is_checked() -> None:
    with pytest.raises(ValueError, match="not possible here: on_nonfinite='raise' checks every value"):
        CASES["zoslgh_d"].run(jnp.asarray(starts(1)[0]), compiled=True, on_nonfinite="raise")
    with pytest.raises(TypeError, match="`compiled` must be True, False or None"):
        CASES["zoslgh_d"].run(jnp.ones(4), compiled="yes")
    with pytest.raises(ValueError, match="workers call fun from Python"):
        CASES["zoslgh_d"].run(jnp.ones(4), compiled=True, workers=map, vectorized=False)


def test_parameters_have_to_be_flattened() -> None:
    with pytest.raises(TypeError, match="Flatten parameters into a vector"):
        slgh.minimize(fun, {"a": jnp.ones(2)})


def test_the_progress_bar_says_that_the_loop_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr("slgh.engine.recorder.ProgressBar.say", lambda bar, state, k=0: shown.append(state))
    CASES["zoslgh_d"].run(jnp.asarray(starts(1)[0]), max_iter=20, progress=True)
    assert shown[0] == "compiling the loop"
    assert "best" in shown[-1]


def test_a_progress_bar_is_closed_if_the_loop_cannot_be_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[bool] = []
    monkeypatch.setattr("slgh.engine.recorder.ProgressBar.stop", lambda bar: stopped.append(True))
    with pytest.raises(ValueError, match="compiled=True"):
        CASES["zoslgh_d"].run(
            jnp.asarray(starts(1)[0]), lambda x: float(x.sum()), max_iter=20, progress=True, compiled=True
        )
    assert stopped == [True]
