"""The estimators: exact on given noise, and unbiased with the variance from analysis."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from scipy import stats

from cases import noting, smooth_of
from observing import Replay, observe, values_of
from slgh.oracles import (
    Antithetic,
    ClosedForm,
    Exponential,
    Forward,
    Gradient,
    Rademacher,
    SampledGradient,
    Sphere,
    VarianceReduced,
)
from slgh.problems import himmelblau
from slgh.protocols import Answer, Context

ALL_NEEDS = frozenset({"f", "F", "trace", "slope"})


X, T = np.array([0.3, -0.7]), 0.2
U = np.array([[[1.0, 2.0], [-0.5, 0.25], [0.0, -1.0]]])
V = np.array([[[0.1, -2.0], [1.5, 0.5], [-1.0, 1.0]]])


def f(x: Any) -> Any:
    return x[..., 0] ** 2 + np.sin(x[..., 1]) + x[..., 0] * x[..., 1]


def test_forward_is_equations_7_and_9() -> None:
    seen = observe(Forward(samples=3), values_of(f), X, T, Replay(U), needs=ALL_NEEDS)
    rise = np.array([f(X + T * u) - f(X) for u in U[0]])
    np.testing.assert_allclose(seen.g[0], (rise[:, None] * U[0]).mean(axis=0) / T, rtol=1e-14)
    trace = ((U[0] ** 2).sum(axis=1) - 2) @ rise / 3 / T**2
    np.testing.assert_allclose([seen.trace[0], seen.slope[0]], [trace, T * trace], rtol=1e-14)
    np.testing.assert_allclose([seen.f[0], seen.F[0]], [f(X), np.mean([f(X + T * u) for u in U[0]])], rtol=1e-14)


def test_forward_with_separate_directions_takes_the_trace_from_v() -> None:
    seen = observe(Forward(samples=3, slope_from="v"), values_of(f), X, T, Replay(U, V), needs=frozenset({"trace"}))
    reused = observe(Forward(samples=3), values_of(f), X, T, Replay(U), needs=frozenset({"trace"}))
    from_v = observe(Forward(samples=3), values_of(f), X, T, Replay(V), needs=frozenset({"trace"}))
    np.testing.assert_allclose(seen.g, reused.g, rtol=1e-14)
    np.testing.assert_allclose(seen.trace, from_v.trace, rtol=1e-14)


def test_antithetic_pairs_cancel_the_even_part() -> None:
    seen = observe(Antithetic(samples=3), values_of(f), X, T, Replay(U))
    odd = np.array([f(X + T * u) - f(X - T * u) for u in U[0]])
    np.testing.assert_allclose(seen.g[0], (odd[:, None] * U[0]).mean(axis=0) / (2 * T), rtol=1e-14)
    even = observe(Antithetic(samples=3), values_of(lambda x: (x**2).sum(axis=-1)), 0 * X, T, Replay(U))
    np.testing.assert_array_equal(even.g, np.zeros((1, 2)))


def test_antithetic_trace_uses_the_center() -> None:
    seen = observe(Antithetic(samples=3), values_of(f), X, T, Replay(U), needs=frozenset({"trace"}))
    bend = np.array([(f(X + T * u) + f(X - T * u)) / 2 - f(X) for u in U[0]])
    np.testing.assert_allclose(seen.trace[0], ((U[0] ** 2).sum(axis=1) - 2) @ bend / 3 / T**2, rtol=1e-13)


def test_rademacher_takes_the_signs_of_the_directions() -> None:
    asked: list[Any] = []
    seen = observe(Rademacher(samples=3), noting(lambda q: asked.append(q.points), values_of(f)), X, T, Replay(U))
    signs = np.array([[1.0, 1.0], [-1.0, 1.0], [1.0, -1.0]])
    np.testing.assert_allclose(asked[0][0], X + T * np.concatenate([signs, -signs]), rtol=1e-15)
    expected = np.mean([(f(X + T * s) - f(X - T * s)) / (2 * T) / s for s in signs], axis=0)
    np.testing.assert_allclose(seen.g[0], expected, rtol=1e-14)


def exponential_by_hand(values: Any, u: Any, sharpness: float) -> Any:
    weights = np.exp(-sharpness * (np.array(values) - min(values)))
    return -(weights[:, None] * u).mean(axis=0) / T


def test_exponential_weighs_low_values_most() -> None:
    oracle, values = Exponential(samples=3, sharpness=4.0), [f(X + T * u) for u in U[0]]
    seen = observe(oracle, values_of(f), X, T, Replay(U), needs=frozenset({"f"}))
    np.testing.assert_allclose(seen.g[0], exponential_by_hand(values, U[0], 4.0), rtol=1e-13)
    np.testing.assert_allclose([seen.f[0], seen.F[0]], [f(X), np.mean(values)], rtol=1e-14)
    lowest = observe(Exponential(samples=3, sharpness=1e6), values_of(f), X, T, Replay(U))
    np.testing.assert_allclose(lowest.g[0], -U[0][np.argmin(values)] / (3 * T), rtol=1e-14)
    assert (oracle.cost(True, Context(xp=np)), oracle.cost(True, Context(xp=np, needs=frozenset({"f"})))) == (3, 4)


@pytest.mark.parametrize("shift", [-1e8, 0.0, 1e8])
def test_exponential_weights_do_not_overflow(shift: float) -> None:
    plain = observe(Exponential(samples=3, sharpness=2.0), values_of(lambda x: 512 * f(x)), X, T, Replay(U))
    steep = lambda x: 2**20 * (f(x) + shift)  # noqa: E731
    seen = observe(Exponential(samples=3, sharpness=2.0**-10), values_of(steep), X, T, Replay(U))
    np.testing.assert_allclose(seen.g, plain.g, rtol=1e-12 if shift == 0 else 1e-4)


def test_sphere_points_lie_on_the_sphere() -> None:
    asked: list[Any] = []
    observe(Sphere(samples=3), noting(lambda q: asked.append(q.points), values_of(f)), X, T, Replay(U))
    np.testing.assert_allclose(np.linalg.norm(asked[0][0, 1:] - X, axis=1), T, rtol=1e-14)


def test_chunks_do_not_change_the_estimate() -> None:
    rng = np.random.default_rng(0)
    u, v = rng.standard_normal((2, 1, 9, 2))
    for oracle in (
        Forward(samples=9),
        Forward(samples=9, slope_from="v"),
        Antithetic(samples=9),
        Antithetic(samples=9, values="ranks"),
        Rademacher(samples=9),
        Exponential(samples=9, sharpness=3.0),
        Sphere(samples=9),
    ):
        needs = ALL_NEEDS & oracle.provides
        whole = observe(oracle, values_of(f), X, T, Replay(u, v), needs=needs)
        for chunk in (2, 8, 10):
            parts = observe(oracle, values_of(f), X, T, Replay(u, v), needs=needs, chunk=chunk)
            for name in ("g", *needs):
                np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-12)


@pytest.mark.parametrize(
    "oracle",
    [
        Forward(samples=3),
        Antithetic(samples=3),
        Antithetic(samples=3, values="ranks"),
        Rademacher(samples=3),
        Exponential(samples=3, sharpness=3.0),
        Sphere(samples=3),
    ],
    ids=repr,
)
@pytest.mark.parametrize("chunk", [2, 100])
def test_a_bad_sample_is_dropped_and_the_rest_averaged(oracle: Any, chunk: int) -> None:
    moved = {"sphere": U[0, 0] / np.linalg.norm(U[0, 0]), "rademacher": np.sign(U[0, 0])}
    bad_point = X + T * moved.get(oracle.name, U[0, 0])

    def cliff(x: Any) -> Any:
        return np.where(np.linalg.norm(x - bad_point, axis=-1) < 1e-12, np.nan, f(x))

    seen = observe(oracle, values_of(cliff), X, T, Replay(U), chunk=chunk)
    small = dataclasses.replace(oracle, samples=2)
    np.testing.assert_allclose(seen.g, observe(small, values_of(f), X, T, Replay(U[:, 1:])).g, rtol=1e-14)
    assert seen.rejected[0] == 1
    assert seen.ok[0]


@pytest.mark.parametrize("chunk", [2, 100])
@pytest.mark.parametrize(
    "oracle", [Exponential(samples=3, sharpness=3.0), Antithetic(samples=3, values="ranks")], ids=repr
)
def test_samples_that_are_all_bad_teach_nothing(oracle: Any, chunk: int) -> None:
    nowhere = values_of(lambda x: np.full(x.shape[:-1], np.nan))
    seen = observe(oracle, nowhere, X, T, Replay(U), chunk=chunk)
    assert not seen.ok[0]
    np.testing.assert_array_equal(seen.g, np.zeros((1, 2)))


def test_a_bad_center_teaches_nothing() -> None:
    def hole(x: Any) -> Any:
        return np.where((x == X).all(axis=-1), np.inf, f(x))

    seen = observe(Forward(samples=3), values_of(hole), X, T, Replay(U))
    assert not seen.ok[0]
    np.testing.assert_array_equal(seen.g, np.zeros((1, 2)))


def test_stochastic_pairs_share_their_xi() -> None:
    xi = np.array([[10.0, 20.0, 30.0]])
    noisy = lambda q: f(q.points) + q.xi  # noqa: E731
    for oracle in (Forward(samples=3), Antithetic(samples=3), Rademacher(samples=3), Sphere(samples=3)):
        seen = observe(oracle, noisy, X, T, Replay(U, xi=xi), stochastic=True)
        plain = observe(oracle, values_of(f), X, T, Replay(U))
        np.testing.assert_allclose(seen.g, plain.g, rtol=1e-12)
    seen = observe(Forward(samples=3, xi="shared"), noisy, X, T, Replay(U, xi=xi), stochastic=True)
    np.testing.assert_allclose(seen.f[0], f(X) + 10.0)


@pytest.mark.parametrize("chunk", [2, 100])
def test_points_that_are_compared_with_each_other_share_one_xi(chunk: int) -> None:
    noisy = lambda q: f(q.points) + q.xi  # noqa: E731
    for oracle in (
        Exponential(samples=3, sharpness=3.0),
        Antithetic(samples=3, values="ranks", xi="shared"),
    ):
        seen = observe(oracle, noisy, X, T, Replay(U, xi=np.array([[10.0]])), stochastic=True, chunk=chunk)
        np.testing.assert_allclose(seen.g, observe(oracle, values_of(f), X, T, Replay(U)).g, rtol=1e-12)


def test_sampled_gradients_give_the_slope_for_nothing() -> None:
    def gradient(x: Any) -> Any:
        return np.stack([2 * x[..., 0] + x[..., 1], np.cos(x[..., 1]) + x[..., 0]], axis=-1)

    answer = lambda q: gradient(q.points) if q.what == "grad" else f(q.points)  # noqa: E731
    seen = observe(SampledGradient(samples=3), answer, X, T, Replay(U), needs=frozenset({"slope", "trace"}))
    g = np.array([gradient(X + T * u) for u in U[0]])
    np.testing.assert_allclose(seen.g[0], g.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(seen.slope[0], (g * U[0]).sum() / 3, rtol=1e-14)
    np.testing.assert_allclose(seen.trace[0], seen.slope[0] / T, rtol=1e-14)
    exact = observe(Gradient(), answer, X, T, Replay(U))
    np.testing.assert_allclose(exact.g[0], gradient(X), rtol=1e-14)


def test_the_closed_form_is_asked_and_not_changed() -> None:
    F = smooth_of(himmelblau())
    names = {"fun": "value", "F": "value", "F.grad": "grad", "F.trace": "trace", "F.dt": "dt"}

    def answer(q: Any) -> Any:
        t = np.zeros((1, 1)) if q.t is None else q.t
        return getattr(F, names[q.what])(q.points, np.broadcast_to(t, q.points.shape[:2]))

    seen = observe(ClosedForm(), answer, X, T, None, needs=ALL_NEEDS)
    t = np.array(T)
    np.testing.assert_array_equal(seen.g[0], F.grad(X, t))
    np.testing.assert_array_equal(
        [seen.F[0], seen.f[0], seen.trace[0], seen.slope[0]],
        [F.value(X, t), F.value(X, 0 * t), F.trace(X, t), F.dt(X, t)],
    )


def test_variance_reduction_corrects_by_the_snapshot_and_refreshes_it() -> None:
    def terms(q: Any) -> Any:
        return (1 + q.xi) * f(q.points)

    u = np.random.default_rng(0).standard_normal((1, 4 + 2 + 2, 2))
    oracle, noise = VarianceReduced(samples=2, period=3, terms=4), Replay(u, xi=np.array([[1, 3, 0, 2]]))
    state = oracle.init(X[None], Context(xp=np))

    def estimate(x: Any, directions: Any, xi: Any) -> Any:
        rise = np.array([f(x + T * v) - f(x) for v in directions]) * (1 + np.asarray(xi))
        return (rise[:, None] * directions).mean(axis=0) / T

    def ask(x: Any, state: Any, k: int) -> Any:
        talk = oracle.observe(x[None], np.array([T]), state, k == 0, noise, Context(xp=np, stochastic=True))
        try:
            query = next(talk)
            while True:
                query = talk.send(Answer(terms(query)))
        except StopIteration as end:
            return end.value

    full = estimate(X, u[0, :4], range(4))
    seen, state = ask(X, state, 0)
    np.testing.assert_allclose(seen.g[0], full, rtol=1e-13)
    elsewhere = X + 0.3
    seen, state = ask(elsewhere, state, 1)
    expected = estimate(elsewhere, u[0, 6:], [0, 2]) - estimate(X, u[0, 6:], [0, 2]) + full
    np.testing.assert_allclose(seen.g[0], expected, rtol=1e-12)
    np.testing.assert_array_equal(state[0][0], X)
    assert (oracle.cost(True, Context(xp=np)), oracle.cost(False, Context(xp=np))) == (16, 8)


def test_a_snapshot_without_a_finite_value_teaches_nothing() -> None:
    oracle = VarianceReduced(samples=1, period=3, terms=2)
    state = oracle.init(X[None], Context(xp=np))
    noise = Replay(np.ones((1, 3, 2)), xi=np.array([[0]]))
    asked: list[int] = []

    def first_bad(q: Any) -> Any:
        asked.append(1)
        return np.full(q.points.shape[:2], np.nan) if len(asked) == 1 else f(q.points)

    seen = observe(oracle, first_bad, X, T, noise, state=state, k=0, stochastic=True)
    assert not seen.ok[0]


def test_dropped_directions_of_the_slope_are_counted() -> None:
    bad = X + T * V[0, 1]
    cliff = lambda x: np.where(np.linalg.norm(x - bad, axis=-1) < 1e-12, np.nan, f(x))  # noqa: E731
    oracle = Forward(samples=3, slope_from="v")
    seen = observe(oracle, values_of(cliff), X, T, Replay(U, V), needs=frozenset({"trace"}))
    assert seen.rejected[0] == 1


# z-tests against analysis, on f(x) = b.x + |x|^2 / 2, for which F has gradient b + x

B_, D_ = np.array([1.0, -2.0, 0.5]), 3


def quadratic(x: Any) -> Any:
    return x @ B_ + (x**2).sum(axis=-1) / 2


def samples_of(oracle: Any, n: int, needs: frozenset[str] = frozenset()) -> Any:
    """Return n independent observations at x = 0, one sample each, as a batch."""
    u = np.random.default_rng(1).standard_normal((n, 1, D_))
    return observe(oracle, values_of(quadratic), np.zeros((n, D_)), np.full(n, T), Replay(u), needs=needs)


def z_score(sample: Any, mean: float, variance: float) -> float:
    return float((np.mean(sample) - mean) / np.sqrt(variance / len(sample)))


def test_forward_has_the_mean_and_variance_of_analysis() -> None:
    n = 200_000
    seen = samples_of(Forward(), n, frozenset({"trace"}))
    # With s = b.u + t |u|^2 / 2: E s u = b; Var(s u_i) = |b|^2 + b_i^2 + t^2 (d+2)(d+4)/4, E s u = b.
    variance = B_ @ B_ + B_**2 + T**2 * (D_ + 2) * (D_ + 4) / 4
    for i in range(D_):
        assert abs(z_score(seen.g[:, i], B_[i], variance[i])) < 5
    np.testing.assert_allclose(seen.g.var(axis=0), variance, rtol=0.05)
    # Trace: (|u|^2 - d)(t b.u + t^2 |u|^2 / 2) / t^2 has mean d, the trace of the Hessian.
    assert abs(z_score(seen.trace, D_, seen.trace.var())) < 5


def test_antithetic_has_the_variance_of_a_linear_function() -> None:
    seen = samples_of(Antithetic(), 200_000)
    variance = B_ @ B_ + B_**2
    for i in range(D_):
        assert abs(z_score(seen.g[:, i], B_[i], variance[i])) < 5
    np.testing.assert_allclose(seen.g.var(axis=0), variance, rtol=0.05)


def test_rademacher_has_the_mean_and_variance_of_a_linear_function() -> None:
    seen = samples_of(Rademacher(), 200_000)
    variance = B_ @ B_ - B_**2
    for i in range(D_):
        assert abs(z_score(seen.g[:, i], B_[i], variance[i])) < 5
    np.testing.assert_allclose(seen.g.var(axis=0), variance, rtol=0.05)


def cosine_of(oracle: Any, slope: float = 1.0, n: int = 4000, d: int = 50) -> tuple[float, float]:
    """Return the mean cosine between g and the gradient of a linear function, and the expected one."""
    b = np.zeros(d)
    b[0] = slope
    u = np.random.default_rng(3).standard_normal((n, oracle.samples, d))
    seen = observe(oracle, values_of(lambda x: x @ b), np.zeros((n, d)), np.full(n, T), Replay(u))
    return stats.tmean(seen.g[:, 0] / np.linalg.norm(seen.g, axis=1)), seen.cosine


@pytest.mark.slow
def test_exponential_is_sharpest_where_the_samples_differ_by_one() -> None:
    """The standard deviation of f over the samples is t |b| = 0.2, so the best N is 5."""
    found = {N: cosine_of(Exponential(samples=100, sharpness=N)) for N in (1.0, 2.5, 5.0, 10.0, 25.0)}
    assert max(found, key=lambda N: found[N][0]) == 5.0
    measured, expected = found[5.0]
    assert measured == pytest.approx(expected, rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("M", [1, 10, 100])
def test_ranks_lose_little_of_the_cosine(M: int) -> None:
    raw, _ = cosine_of(Antithetic(samples=M))
    ranks, _ = cosine_of(Antithetic(samples=M, values="ranks"))
    assert (3 / np.pi) ** 0.5 - 0.005 < ranks / raw < 1.0 + 1e-12


def test_sphere_is_unbiased() -> None:
    seen = samples_of(Sphere(), 200_000)
    for i in range(D_):
        assert abs(z_score(seen.g[:, i], B_[i], seen.g[:, i].var())) < 5


def test_the_trace_and_the_derivative_are_told_apart() -> None:
    """f = |x|^2, d = 5, t = 0.3: dF/dt = 2 d t = 3 and the trace 2 d = 10."""
    n, d, t = 200_000, 5, 0.3
    u = np.random.default_rng(2).standard_normal((n, 1, d))
    seen = observe(
        Forward(), values_of(lambda x: (x**2).sum(axis=-1)), np.zeros((n, d)), np.full(n, t), Replay(u), needs=ALL_NEEDS
    )
    assert abs(z_score(seen.trace, 10.0, seen.trace.var())) < 5
    assert abs(z_score(seen.slope, 3.0, seen.slope.var())) < 5


def test_the_expected_cosine_is_that_of_the_estimate() -> None:
    """The cosine between g and the gradient of a linear function is near sqrt(M / (M + d))."""
    measured, expected = cosine_of(Antithetic(samples=10))
    assert abs(measured - expected) < 0.02
