"""Power homotopy: samples weighted by exp(-N f), where N grows as t falls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import slgh
from cases import fun, grad, starts
from observing import Replay, observe, values_of
from slgh.oracles import Exponential, ProgressiveExponential, ProgressiveGradient, SampledGradient
from slgh.protocols import Context

D, M = 3, 8
RNG = np.random.default_rng(0)
X, U = RNG.standard_normal(D), RNG.standard_normal((1, M, D))
T = 0.4


def answers(query: Any) -> Any:
    return (fun if query.what == "fun" else grad)(query.points)


def memory(t1: float) -> tuple[Any]:
    """The oracle's memory after a first iteration at t1."""
    return (np.array([t1]),)


@pytest.mark.parametrize("growth", [0.0, 1.0, 2.5])
def test_the_power_grows_as_t_falls(growth: float) -> None:
    oracle = ProgressiveExponential(samples=M, sharpness=0.7, growth=growth)
    for t1 in (T, 4 * T):
        N = 0.7 * (t1 / T) ** growth
        seen = observe(oracle, values_of(fun), X, T, Replay(U), state=memory(t1))
        fixed = observe(Exponential(samples=M, sharpness=N), values_of(fun), X, T, Replay(U))
        np.testing.assert_allclose(seen.g, fixed.g, rtol=1e-12)


@pytest.mark.parametrize("oracle", [ProgressiveExponential, ProgressiveGradient])
def test_the_first_radius_is_remembered(oracle: Any) -> None:
    part, ctx = oracle(samples=M, sharpness=0.7), Context(xp=np)
    state = part.init(X[None], ctx)
    for t in (T, T / 2, T / 4):
        N, state = part._power(np.array([t]), state, np)
        np.testing.assert_allclose(N, [[0.7 * T / t]], rtol=1e-15)


@pytest.mark.parametrize("chunk", [D, 3 * D, 100])
def test_the_gradient_is_a_weighted_mean_of_gradients(chunk: int) -> None:
    seen = observe(
        ProgressiveGradient(samples=M, sharpness=2.0), answers, X, T, Replay(U), state=memory(2 * T), chunk=chunk
    )
    points = X + T * U[0]
    weights = np.exp(-4.0 * fun(points))
    np.testing.assert_allclose(seen.g[0], weights @ grad(points) / weights.sum(), rtol=1e-12)
    np.testing.assert_allclose(seen.F[0], fun(points).mean(), rtol=1e-12)


def test_a_small_power_gives_the_sampled_gradient() -> None:
    seen = observe(ProgressiveGradient(samples=M, sharpness=1e-12), answers, X, T, Replay(U), state=memory(T))
    plain = observe(SampledGradient(samples=M), answers, X, T, Replay(U))
    np.testing.assert_allclose(seen.g, plain.g, rtol=1e-9)


def test_a_large_power_picks_the_lowest_sample() -> None:
    seen = observe(ProgressiveGradient(samples=M, sharpness=1e9), answers, X, T, Replay(U), state=memory(T))
    points = X + T * U[0]
    np.testing.assert_allclose(seen.g[0], grad(points)[np.argmin(fun(points))], rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_power_that_overflows_picks_the_lowest_sample(dtype: Any) -> None:
    options: dict[str, Any] = {"t1": 1.0, "t_end": 1e-8, "sharpness": 1.0, "growth": 60.0, "gamma": 0.5, "max_iter": 30}
    options.pop("t_end")
    run = slgh.minimize(fun, starts(1)[0].astype(dtype), method="zopower_hp", seed=0, **options)
    assert run.success
    assert np.isfinite(run.x).all()


@pytest.mark.parametrize("of", ["fun", "grad"])
@pytest.mark.parametrize("chunk", [D, 100])
def test_a_bad_sample_has_no_weight(of: str, chunk: int) -> None:
    def with_a_hole(query: Any) -> Any:
        values = answers(query)
        hole = np.linalg.norm(query.points - (X + T * U[0, 0]), axis=-1) < 1e-12
        values[hole if query.what == of else np.zeros_like(hole)] = np.nan
        return values

    oracle = ProgressiveGradient(samples=M, sharpness=1.0)
    seen = observe(oracle, with_a_hole, X, T, Replay(U), state=memory(T), chunk=chunk)
    rest = observe(ProgressiveGradient(samples=M - 1, sharpness=1.0), answers, X, T, Replay(U[:, 1:]), state=memory(T))
    np.testing.assert_allclose(seen.g, rest.g, rtol=1e-12)
    assert (seen.rejected[0], bool(seen.ok[0])) == (1, True)


def test_the_first_order_method_counts_both_kinds_of_evaluations() -> None:
    options: dict[str, Any] = {"t1": 1.0, "step": 0.1, "sharpness": 1.0, "samples": 4, "seed": 0}
    result = slgh.minimize(fun, starts(1)[0], grad=grad, method="power_hp", max_iter=5, **options)
    assert (result.nfev, result.njev) == (5 * 4 + 1, 5 * 4)
    with pytest.raises(ValueError, match="`power_hp` needs gradients"):
        slgh.minimize(fun, starts(1)[0], method="power_hp", max_iter=5, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"growth": -1.0}, "`growth` must be a finite number >= 0, got growth=-1.0"),
        ({"sharpness": 0.0}, "`sharpness` must be a finite number above 0, got sharpness=0.0"),
        ({"samples": 1}, "`samples` must be an integer >= 2, got samples=1"),
    ],
)
def test_bad_values_are_refused(options: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"t1": 1.0, "sharpness": 1.0, "max_iter": 3} | options
    with pytest.raises(ValueError, match=message):
        slgh.minimize(fun, starts(1)[0], method="zopower_hp", **given)
