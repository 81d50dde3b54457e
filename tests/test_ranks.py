"""Ranks instead of values: their definition and invariances."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import slgh
from libraries import parametrize_libraries, to_library
from slgh.backends.numpy.noise import NumpyNoise, entropies
from slgh.oracles.ranks import centered_ranks
from slgh.protocols import Answer

SMALL = st.integers(-3, 3).map(float)
"""Few different values, so that many are equal."""

ROWS = st.lists(st.tuples(SMALL, st.booleans()), min_size=1, max_size=12)


def by_hand(values: Any, ok: Any) -> Any:
    """Compute the ranks of the good values with SciPy, ties averaged, from -1/2 to 1/2."""
    ranks, good = np.zeros(len(values)), np.asarray(ok, bool)
    if good.sum() > 1:
        ranks[good] = (stats.rankdata(np.asarray(values)[good]) - 1) / (good.sum() - 1) - 0.5
    return ranks


@given(row=ROWS)
def test_ranks_are_centered_ties_are_averaged_and_bad_values_left_out(row: list[tuple[float, bool]]) -> None:
    values, ok = np.array(row, float).T
    found = centered_ranks(Answer(values[None], ok[None]), np)[0]
    np.testing.assert_allclose(found, by_hand(values, ok), atol=1e-15)
    np.testing.assert_array_equal(
        centered_ranks(Answer(values[None]), np), centered_ranks(Answer(values[None], np.ones((1, len(row)))), np)
    )


def test_ranks_of_a_batch_are_those_of_each_problem() -> None:
    rng = np.random.default_rng(0)
    values, ok = rng.integers(0, 5, (7, 10)).astype(float), rng.integers(0, 2, (7, 10)).astype(float)
    found = centered_ranks(Answer(values, ok), np)
    for row, v, good in zip(found, values, ok, strict=True):
        np.testing.assert_allclose(row, by_hand(v, good), atol=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_ranks_are_the_same_on_every_library_and_compiled(dtype: str) -> None:
    jax, torch = pytest.importorskip("jax"), pytest.importorskip("torch")
    from slgh.backends.torch.arrays import xp as torch_xp

    rng = np.random.default_rng(0)
    values = rng.integers(0, 50, (3, 40)).astype(dtype)
    values[0, :4] = [0.0, -0.0, np.finfo(dtype).max, -np.finfo(dtype).max]
    ok = rng.integers(0, 2, (3, 40)).astype(dtype)
    expected = centered_ranks(Answer(values, ok), np)
    assert expected.dtype == dtype
    compiled = jax.jit(lambda values, ok: centered_ranks(Answer(values, ok), jax.numpy))(values, ok)
    np.testing.assert_allclose(compiled, expected, rtol=2 * float(np.finfo(dtype).eps))
    np.testing.assert_array_equal(
        centered_ranks(Answer(torch.tensor(values), torch.tensor(ok)), torch_xp).numpy(), expected
    )


@parametrize_libraries("numpy", "torch")
def test_ranks_are_among_all_samples_of_a_minibatch_that_is_asked_in_chunks(library: str) -> None:
    d, M, asked = 70_000, 4, []

    def bowl(x: Any) -> Any:
        asked.append(x.shape[-2])
        return (x**2).sum(-1)

    common: dict[str, Any] = {"samples": M, "max_iter": 1, "seed": 3, "vectorized": True}
    run = slgh.minimize(
        bowl, to_library(np.ones(d), library), method="openai_es", t1=0.1, step=1.0, update="descent", **common
    )
    assert asked == [2] * M + [1], "the test is meaningful only if there are chunks"
    u = NumpyNoise(entropies(3, 1), d, np.float64).normal(M)[0]
    values = [((1 + 0.1 * e) ** 2).sum() for e in (*u, *-u)]
    ranks = (stats.rankdata(values) - 1) / (2 * M - 1) - 0.5
    np.testing.assert_allclose(run.x, 1 - ranks @ np.concatenate([u, -u]) / (2 * M * 0.1), rtol=1e-10)


def rugged(x: Any) -> Any:
    return np.sum(x**2 + 0.3 * np.sin(3 * x), axis=-1)


def cliff(x: Any) -> Any:
    return np.where(x.sum(axis=-1) > 0.5, np.nan, rugged(x))


BY_RANKS: dict[str, dict[str, Any]] = {
    "openai_es": {"method": "openai_es", "t1": 0.5, "step": 0.05},
    "spsa": {"method": "spsa", "t1": 0.5, "step": 0.05, "values": "ranks"},
    "scale-free": {
        "method": "zoslgh_r",
        "oracle": "antithetic",
        "values": "ranks",
        "update": "scale_free",
        "t1": 1.0,
        "gamma": 0.97,
    },
}


@pytest.mark.parametrize("name", BY_RANKS)
@pytest.mark.parametrize("fun", [rugged, cliff])
@pytest.mark.parametrize(
    "increasing",
    [
        lambda f: f**3,
        lambda f: 1000.0 + 0.125 * f,
        lambda f: 2.0**40 * f,
        lambda f: np.arctan(f),
        lambda f: -np.exp(-f),
    ],
    ids=["cube", "affine", "diagonal_scaling", "arctan", "exp"],
)
def test_by_ranks_iterates_are_those_of_any_increasing_function_of_f(name: str, fun: Any, increasing: Any) -> None:
    common = {"samples": 6, "max_iter": 100, "seed": 1, "vectorized": True, "history": "x", **BY_RANKS[name]}
    x0 = np.array([1.0, -2.0, 0.5])
    plain = slgh.minimize(fun, x0, **common)
    other = slgh.minimize(lambda x: increasing(fun(x)), x0, **common)
    assert (plain.nrejected > 0) == (fun is cliff)
    assert len(np.unique(plain.history["x"], axis=0)) > 90
    np.testing.assert_array_equal(other.history["x"], plain.history["x"])
    np.testing.assert_array_equal(other.x_best, plain.x_best)


@pytest.mark.parametrize("name", BY_RANKS)
def test_raw_values_do_see_the_difference(name: str) -> None:
    common = {"samples": 6, "max_iter": 10, "seed": 1, "vectorized": True, **BY_RANKS[name], "values": "raw"}
    x0 = np.array([1.0, -2.0, 0.5])
    other = slgh.minimize(lambda x: np.arctan(rugged(x)), x0, **common)
    assert not np.array_equal(slgh.minimize(rugged, x0, **common).x, other.x)
