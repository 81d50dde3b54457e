"""SPSA, OpenAI-ES and power-transformed smoothing, each as a plain loop: the library gives the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import slgh
from slgh.backends.numpy.noise import NumpyNoise, entropies

T, D, SEED = 150, 5, 4
X0 = np.linspace(-2.0, 1.5, D)


def f(x: Any) -> float:
    """A rugged bowl with coupled variables."""
    return float(np.sum(x**2 + np.sin(3 * x)) + 0.2 * np.prod(x[:2]))


def directions(M: int) -> Any:
    """Return the normals (T, M, D) that a run with this seed uses."""
    return NumpyNoise(entropies(SEED, 1), D, np.float64).normal(T * M).reshape(T, M, D)


def run(method: str, **options: Any) -> slgh.Result:
    return slgh.minimize(f, X0, method=method, max_iter=T, seed=SEED, history="full", **options)


def test_spsa() -> None:
    M, a, c = 2, 0.2, 0.1
    result = run("spsa", step=a, t1=c, samples=M)
    x, A = X0, 0.1 * T
    for k, u in enumerate(directions(M)):
        a_k, c_k = a / (k + 1 + A) ** 0.602, c / (k + 1) ** 0.101
        delta = np.sign(u)
        g = np.mean([(f(x + c_k * s) - f(x - c_k * s)) / (2 * c_k * s) for s in delta], axis=0)
        x = x - a_k * g
        assert result.history["t"][k] == pytest.approx(c_k, rel=1e-14)
    np.testing.assert_allclose(result.x, x, rtol=1e-12)
    assert result.fun < f(X0) - 5
    assert result.nfev == 2 * M * T + 1


def test_the_offset_of_spsa_is_a_tenth_of_the_iterations_that_the_budget_allows() -> None:
    by_evals = slgh.minimize(f, X0, method="spsa", step=0.2, t1=0.1, max_evals=2 * T + 1, seed=SEED)
    assert by_evals.nit == T
    assert by_evals.status == slgh.Status.COMPLETED
    given = run("spsa", step=0.2, t1=0.1, offset=0.1 * T)
    np.testing.assert_array_equal(by_evals.x, given.x)
    assert not np.array_equal(by_evals.x, run("spsa", step=0.2, t1=0.1, offset=0).x)


def test_openai_es() -> None:
    M, sigma, step = 4, 0.3, 0.05
    result = run("openai_es", step=step, t1=sigma, samples=M)
    x, m, v = X0, np.zeros(D), np.zeros(D)
    for k, u in enumerate(directions(M), 1):
        both = np.concatenate([u, -u])
        shaped = (stats.rankdata([f(x + sigma * e) for e in both]) - 1) / (2 * M - 1) - 0.5
        g = shaped @ both / (2 * M * sigma)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        x = x - step * (m / (1 - 0.9**k)) / (np.sqrt(v / (1 - 0.999**k)) + 1e-8)
    np.testing.assert_allclose(result.x, x, rtol=1e-10)
    assert result.fun < f(X0) - 5
    assert result.nfev == 2 * M * T + 1


@pytest.mark.parametrize("halving", [None, 50.0, 1000.0])
def test_power_gs(halving: float | None) -> None:
    M, sigma, N, step = 8, 0.5, 0.7, 0.1
    result = run("power_gs", step=step, t1=sigma, samples=M, sharpness=N, halving=halving)
    x = X0
    for k, u in enumerate(directions(M)):
        ascent = np.mean([np.exp(-N * f(x + sigma * e)) * e for e in u], axis=0)
        fallen = 1.0 if halving is None else halving / (halving + k)
        x = x + step * fallen * ascent / np.linalg.norm(ascent)
    np.testing.assert_allclose(result.x, x, rtol=1e-10)
    assert result.fun < f(X0) - 5
    assert result.nfev == M * T + 1
    if halving == 1000.0:
        np.testing.assert_array_equal(run("power_gs", step=step, t1=sigma, samples=M, sharpness=N).x, result.x)


def test_power_gs_scales_with_its_sharpness() -> None:
    common: dict[str, Any] = {"method": "power_gs", "step": 0.1, "t1": 0.5, "samples": 8, "max_iter": T, "seed": SEED}
    plain = slgh.minimize(f, X0, sharpness=0.7, **common)
    scaled = slgh.minimize(lambda x: 2.0**30 * f(x), X0, sharpness=0.7 * 2.0**-30, **common)
    np.testing.assert_array_equal(scaled.x, plain.x)


@pytest.mark.parametrize(
    ("method", "needed"),
    [
        ("spsa", "`t1` and `step`"),
        ("openai_es", "`t1` and `step`"),
        ("power_gs", "`sharpness` and `t1` and `step`"),
    ],
)
def test_what_depends_on_the_function_has_no_default(method: str, needed: str) -> None:
    with pytest.raises(TypeError, match=f"`{method}` needs {needed}, without a default"):
        slgh.minimize(f, X0, method=method, max_iter=10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"oracle": "rademacher"}, "one that the theorems are proved for"),
        ({"oracle": "exponential", "sharpness": 1.0}, "one that the theorems are proved for"),
        ({"oracle": "antithetic", "values": "ranks"}, "one that the theorems are proved for"),
    ],
)
def test_no_theorem_speaks_of_these_oracles(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        slgh.minimize(f, X0, method="zoslgh_r", t1=1.0, step="theory", L1=5.0, max_iter=10, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "power_gs", "sharpness": 0.0}, "`sharpness` must be a finite number above 0, got sharpness=0.0"),
        ({"method": "power_gs", "sharpness": 1.0, "samples": 1}, "`samples` must be an integer >= 2, got samples=1"),
        ({"method": "power_gs", "sharpness": 1.0, "halving": -1.0}, "`halving` must be a finite number above 0"),
        ({"method": "openai_es", "values": "rank"}, "`values` must be one of 'raw', 'ranks'; got values='rank'"),
        ({"method": "spsa", "offset": -1.0}, "`offset` must be a finite number >= 0, got offset=-1.0"),
        ({"method": "spsa", "t_power": 0.0}, "`t_power` must be a finite number above 0"),
        ({"method": "spsa", "step_power": 0.0}, "`step_power` must be a finite number above 0"),
        (
            {"method": "spsa", "schedule": "derivative", "eta": 0.1},
            "needs trace, which the oracle 'rademacher' does not",
        ),
    ],
)
def test_bad_hyperparameters_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        slgh.minimize(f, X0, **{"t1": 1.0, "step": 0.1, "max_iter": 10} | options)
