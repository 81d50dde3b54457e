"""The oracle that learns widths: its formula, the learned widths, and equality with the antithetic oracle at rate 0."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np
import pytest
from scipy.stats import rankdata, spearmanr

import slgh
from cases import CASES, starts
from libraries import assert_close, engine, other_libraries, replay_noise, to_library
from observing import Replay, observe, values_of
from slgh.backends.numpy.arrays import NumpyContext
from slgh.backends.numpy.noise import NumpyNoise, entropies
from slgh.oracles import Antithetic, DiagonalScaling
from slgh.protocols import Context

X, T = np.array([0.3, -0.7, 1.1]), 0.4
U = np.random.default_rng(0).standard_normal((1, 6, 3))
LOG_WIDTHS = np.array([[0.5, -0.2, -0.3]])


def f(x: Any) -> Any:
    return x[..., 0] ** 2 + np.sin(3 * x[..., 1]) + x[..., 0] * x[..., 2] + np.exp(x[..., 2])


def learned(oracle: DiagonalScaling, fun: Any, noise: Any, **context: Any) -> tuple[Any, Any]:
    """Return the observation from LOG_WIDTHS, and the new memory."""
    memory = []

    class Kept(type(oracle)):  # type: ignore[misc]
        def _learned(self, *arguments: Any) -> Any:
            memory.append(oracle._learned(*arguments))
            return memory[-1]

    fields = {name: getattr(oracle, name) for name in ("samples", "rate", "values", "xi")}
    seen = observe(Kept(**fields), fun, X, T, noise, state=(LOG_WIDTHS,), **context)
    return seen, memory[-1][0]


def by_hand(u: Any, values: Any, good: Any, rate: float, ranks: bool) -> tuple[Any, Any]:
    """Compute the estimate and the new log widths in loops over pairs. `values` (2, M) are f on both sides."""
    w, M = np.exp(LOG_WIDTHS[0]), len(u)
    plus, minus = values
    if ranks:
        both = rankdata(np.concatenate([plus[good], minus[good]]))
        places = np.zeros((2, M))
        places[:, good] = both.reshape(2, -1)
        plus, minus = places
    n = 2 * good.sum()
    slopes, lesson, even = np.zeros(3), np.zeros(3), (plus + minus)[good]
    scale = 1 / (n - 1) if ranks else 1.0
    for i in np.flatnonzero(good):
        slopes += scale * (plus[i] - minus[i]) / (2 * T) * u[i] / w
        below, above = np.sum(even < (plus + minus)[i]), np.sum(even > (plus + minus)[i])
        lesson += (below - above) / (2 * (len(even) - 1)) * (u[i] ** 2 - 1)
    log_widths = LOG_WIDTHS[0] - 2 * rate * lesson / good.sum()
    return slopes / good.sum(), log_widths - log_widths.mean()


def sides(u: Any, fun: Any = f) -> Any:
    moves = T * np.exp(LOG_WIDTHS[0]) * u
    return np.array([[fun(X + move) for move in moves], [fun(X - move) for move in moves]])


@pytest.mark.parametrize("values", ["raw", "ranks"])
def test_diagonal_scaling_is_its_formula(values: str) -> None:
    seen, log_widths = learned(DiagonalScaling(samples=6, rate=0.1, values=values), values_of(f), Replay(U))
    g, expected = by_hand(U[0], sides(U[0]), np.ones(6, bool), 0.1, values == "ranks")
    np.testing.assert_allclose(seen.g[0], g, rtol=1e-12)
    np.testing.assert_allclose(log_widths[0], expected, rtol=1e-12)
    np.testing.assert_allclose(seen.widths, np.exp(LOG_WIDTHS), rtol=1e-15)
    assert seen.F[0] == pytest.approx(sides(U[0]).mean(), rel=1e-14)
    assert seen.f is None


@pytest.mark.parametrize("values", ["raw", "ranks"])
def test_bad_samples_are_left_out(values: str) -> None:
    def cliff(x: Any) -> Any:
        return np.where(x[..., 0] > 0.9, np.nan, f(x))

    good = np.isfinite(sides(U[0], cliff)).all(axis=0)
    assert 2 < good.sum() < 6
    seen, log_widths = learned(DiagonalScaling(samples=6, rate=0.1, values=values), values_of(cliff), Replay(U))
    g, expected = by_hand(U[0], sides(U[0]), good, 0.1, values == "ranks")
    np.testing.assert_allclose(seen.g[0], g, rtol=1e-12)
    np.testing.assert_allclose(log_widths[0], expected, rtol=1e-12)
    assert seen.rejected[0] == 6 - good.sum()


def test_nothing_is_learnt_where_all_is_bad() -> None:
    seen, log_widths = learned(
        DiagonalScaling(samples=6), values_of(lambda x: np.full(x.shape[:-1], np.nan)), Replay(U)
    )
    assert not seen.ok[0]
    np.testing.assert_allclose(log_widths, LOG_WIDTHS, atol=1e-16)


def test_a_value_at_x_is_asked_for_where_it_is_needed() -> None:
    seen, _ = learned(DiagonalScaling(samples=6), values_of(f), Replay(U), needs=frozenset({"f"}))
    without, _ = learned(DiagonalScaling(samples=6), values_of(f), Replay(U))
    assert seen.f[0] == f(X)
    np.testing.assert_array_equal(seen.g, without.g)
    needs = Context(xp=np, needs=frozenset({"f"}))
    assert (DiagonalScaling(samples=6).cost(True, Context(xp=np)), DiagonalScaling(samples=6).cost(True, needs)) == (
        12,
        13,
    )


@pytest.mark.parametrize("xi", ["pairs", "shared"])
def test_a_stochastic_function_has_its_xi_on_both_sides(xi: str) -> None:
    xis = np.array([[0.3, -1.0, 2.0, 0.1, 0.7, -0.4]])

    def noisy(query: Any) -> Any:
        return f(query.points) * (1 + query.xi) + 100 * query.xi

    seen, log_widths = learned(DiagonalScaling(samples=6, rate=0.1, xi=xi), noisy, Replay(U, xi=xis), stochastic=True)
    used = xis[0] if xi == "pairs" else np.full(6, xis[0, 0])
    values = sides(U[0]) * (1 + used) + 100 * used
    g, expected = by_hand(U[0], values, np.ones(6, bool), 0.1, False)
    np.testing.assert_allclose(seen.g[0], g, rtol=1e-10)
    np.testing.assert_allclose(log_widths[0], expected, rtol=1e-10)


@pytest.mark.parametrize("values", ["raw", "ranks"])
def test_in_chunks_ranks_of_even_parts_are_within_each(values: str) -> None:
    whole, _ = learned(DiagonalScaling(samples=6, rate=0.1, values=values), values_of(f), Replay(U))
    cut, log_widths = learned(DiagonalScaling(samples=6, rate=0.1, values=values), values_of(f), Replay(U), chunk=12)
    np.testing.assert_allclose(cut.g, whole.g, rtol=1e-12)
    changes = []
    for part in (slice(0, 4), slice(4, 6)):
        plus, minus = sides(U[0])
        if values == "ranks":
            plus, minus = rankdata([plus, minus]).reshape(2, -1)
        even, u = (plus + minus)[part], U[0][part]
        ranks = (rankdata(even) - 1) / (len(even) - 1) - 0.5
        changes.append(ranks @ (u**2 - 1))
    expected = LOG_WIDTHS[0] - 0.2 * np.sum(changes, axis=0) / 6
    np.testing.assert_allclose(log_widths[0], expected - expected.mean(), rtol=1e-12)


def test_a_single_pair_teaches_no_widths() -> None:
    _, log_widths = learned(DiagonalScaling(samples=1, rate=1.0), values_of(f), Replay(U))
    np.testing.assert_array_equal(log_widths, LOG_WIDTHS)
    _, some = learned(DiagonalScaling(samples=5, rate=1.0), values_of(f), Replay(U), chunk=12)
    assert np.abs(some - LOG_WIDTHS).max() > 0.1, "a chunk of four and one of a single pair"


def test_equal_even_parts_have_equal_ranks() -> None:
    """In rank mode, sums of ranks are often equal. Rounding must not order them."""
    rng, halves = np.random.default_rng(3), []
    for _ in range(30):
        values = rng.permutation(12).astype(float)
        answers = iter([values[None]])
        _, log_widths = learned(
            DiagonalScaling(samples=6, rate=0.1, values="ranks"), lambda _, a=answers: next(a), Replay(U)
        )
        _, expected = by_hand(U[0], values.reshape(2, 6), np.ones(6, bool), 0.1, True)
        np.testing.assert_allclose(log_widths[0], expected, rtol=1e-12)
        halves.append(len(np.unique(values[:6] + values[6:])) < 6)
    assert any(halves), "some sums are equal"


def plain_loop(fun: Any, x: Any, t1: float, fall: float, M: int, rate: float, alpha: float, T: int, seed: int) -> Any:
    """Run the homotopy of "scale_free" in plain NumPy, with the noise of the engine."""
    d = x.size
    noise = NumpyNoise(entropies(seed, 1), d, np.float64, samples=M)
    log_w, path = np.zeros(d), [x]
    for k in range(T):
        t, w = t1 * fall ** ((k / (T - 1)) ** 1.5), np.exp(log_w)
        u = noise.normal(M)[0]
        plus, minus = (np.array([fun(x + sign * t * w * e) for e in u]) for sign in (1, -1))
        g = (plus - minus) @ u / (2 * t * M) / w
        even = rankdata(plus + minus)
        log_w = log_w - 2 * rate * ((even - 1) / (M - 1) - 0.5) @ (u * u - 1) / M
        log_w -= log_w.mean()
        step = alpha * np.sqrt(M / (M + d)) * t * np.sqrt(d)
        x = x - step * w * (w * g) / np.linalg.norm(w * g)
        path.append(x)
    return np.array(path)


def test_a_run_is_a_plain_loop() -> None:
    x0, T = np.full(5, 2.0), 40
    rugged = lambda x: np.sum(x**2 + np.cos(4 * x), axis=-1)  # noqa: E731
    settings: dict[str, Any] = {"fall": 1e-3, "rate": 0.05, "alpha": 0.4, "samples": 7, "t1": 1.5}
    run = slgh.minimize(rugged, x0, method="scale_free", max_iter=T, seed=3, history="x", vectorized=True, **settings)
    path = plain_loop(rugged, x0, 1.5, 1e-3, 7, 0.05, 0.4, T, 3)
    np.testing.assert_allclose(run.history["x"], path[:-1], rtol=1e-12, atol=1e-12)


def widths_after(fun: Any, x0: Any, **options: Any) -> Any:
    """Return the final widths of a run from its checkpoint, in units of their geometric mean."""
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/run.npz"
        slgh.minimize(fun, x0, method="scale_free", vectorized=True, checkpoint=file, **options)
        with np.load(file) as saved:
            return np.exp(saved["a.state.oracle.0"][0])


def test_the_widths_of_an_ellipsoid_are_learnt() -> None:
    steepness = np.random.default_rng(1).permutation(10.0 ** np.linspace(0, 6, 5))
    widths = widths_after(lambda x: np.sum(steepness * x**2, axis=-1), np.ones(5), max_evals=20_000, seed=0, rate=0.03)
    assert spearmanr(widths, -steepness)[0] == pytest.approx(1.0)
    assert np.polyfit(np.log(steepness), np.log(widths), 1)[0] == pytest.approx(-0.5, abs=0.1), "that of a sphere"
    assert np.exp(np.mean(np.log(widths))) == pytest.approx(1.0, rel=1e-12)


def test_a_sphere_teaches_no_widths() -> None:
    widths = widths_after(lambda x: np.sum(x**2, axis=-1), np.ones(8), max_evals=20_000, seed=0)
    assert widths.max() / widths.min() < 4


def test_the_first_widths_are_those_of_the_box() -> None:
    sides = np.array([1.0, 4.0, 16.0])
    box = [(0.0, side) for side in sides]
    widths = widths_after(lambda x: np.sum(x, axis=-1), sides / 2, bounds=box, max_evals=400, seed=0, rate=0.0)
    np.testing.assert_allclose(widths, [0.25, 1.0, 4.0], rtol=1e-12)


@pytest.mark.parametrize("values", ["raw", "ranks"])
@pytest.mark.parametrize("batched", [False, True])
def test_without_learning_it_is_the_antithetic_oracle(values: str, batched: bool) -> None:
    x0 = np.random.default_rng(0).normal(size=(3, 5))
    options: dict[str, Any] = {
        "method": "scale_free",
        "max_evals": 600,
        "samples": 4,
        "seed": 1,
        "history": "x",
        "vectorized": True,
    }
    options |= {"values": values, "fall": 1e-3, "alpha": 0.5, "batched": batched}
    fun = lambda x: np.sum(x**2 + np.cos(4 * x), axis=-1)  # noqa: E731
    scaled = slgh.minimize(fun, x0 if batched else x0[0], rate=0.0, **options)
    plain = slgh.minimize(fun, x0 if batched else x0[0], oracle="antithetic", **options)
    np.testing.assert_array_equal(scaled.history["x"], plain.history["x"])
    np.testing.assert_array_equal(scaled.x, plain.x)


@other_libraries
@pytest.mark.parametrize("values", ["raw", "ranks"])
def test_in_a_long_box_every_library_learns_the_same(values: str, library: str, monkeypatch: Any) -> None:
    """With unequal initial widths and many pairs to learn from. The common table has three pairs."""
    bounds = [(-3.0, 3.0), (-2.0, 40.0), (-2.5, 2.5), (-9.0, 3.0)]
    options: dict[str, Any] = {
        "bounds": bounds,
        "values": values,
        "samples": 12,
        "rate": 0.2,
        "batched": True,
        "history": "x",
    }
    results = []
    for one in ("numpy", library):
        with monkeypatch.context() as patch:
            replay_noise(patch, one)
            results.append(CASES["scale_free"].run(to_library(starts(2), one), floor=0.05, **options))
    assert results[1].engine == engine(library)
    assert_close(results[1], results[0])


@pytest.mark.parametrize("options", [{"rate": -0.1}, {"samples": 0}, {"values": "signs"}, {"xi": "both"}])
def test_wrong_settings(options: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError), match=f"`{next(iter(options))}` must"):
        DiagonalScaling(**options)


@pytest.mark.parametrize("oracle", [Antithetic(samples=6), DiagonalScaling(samples=6)])
def test_a_bad_value_of_the_first_chunk_is_not_counted_against_the_second(oracle: Any) -> None:
    """f(x) is evaluated once. A bad value in the first chunk must not affect the pairs of the second."""
    bad = lambda x: np.where(np.isclose(x, X + T * U[0, 0]).all(axis=-1), np.nan, f(x))  # noqa: E731
    state = () if type(oracle) is Antithetic else (np.zeros((1, 3)),)
    seen = observe(oracle, values_of(bad), X, T, Replay(U), state=state, needs=frozenset({"f"}), chunk=9)
    odd = np.array([f(X + T * u) - f(X - T * u) for u in U[0, 1:]])
    np.testing.assert_allclose(seen.g[0], odd @ U[0, 1:] / 5 / (2 * T), rtol=1e-12)
    assert seen.rejected[0] == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("widths", [False, True])
@pytest.mark.parametrize("centers", [0, 1, 3])
@pytest.mark.parametrize(("B", "m", "d"), [(1, 1, 1), (1, 3, 5), (4, 3, 2)])
def test_pairs_are_placed_to_the_same_bits(dtype: Any, widths: bool, centers: int, B: int, m: int, d: int) -> None:
    source = np.random.default_rng(0)
    x, u, w = (source.normal(size=shape).astype(dtype) for shape in ((B, d), (B, m, d), (B, d)))
    t, scales = np.full(B, 0.3, dtype), np.exp(w) if widths else None
    found, expected = (kind(xp=np).antithetic_points(x, t, u, scales, centers) for kind in (NumpyContext, Context))
    assert found.dtype == expected.dtype == dtype
    np.testing.assert_array_equal(found, expected)
