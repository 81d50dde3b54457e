"""Directional Gaussian smoothing: exact quadrature, orthonormal directions, and the line search of AdaDGS."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import slgh
from cases import fun, starts
from observing import Replay, observe, values_of
from slgh.oracles import Directional, DirectionalSearch
from slgh.oracles.directional import pairs_of_nodes
from slgh.protocols import Context
from slgh.schedules import FollowStep

D = 6
RNG = np.random.default_rng(0)
X, NORMALS = RNG.standard_normal(D), RNG.standard_normal((1, 3 * D, D))
HESSIAN = (lambda a: a @ a.T)(RNG.standard_normal((D, D)))
B = RNG.standard_normal(D)


def quadratic(x: Any) -> Any:
    return 0.5 * np.sum((x @ HESSIAN) * x, axis=-1) + x @ B - 2.0


def see(oracle: Any, f: Any, t: float = 0.7, **options: Any) -> Any:
    return observe(oracle, values_of(f), X, t, Replay(NORMALS), **options)


@pytest.mark.parametrize("nodes", [2, 3, 5, 8, 64])
@pytest.mark.parametrize("basis", ["random", "axes"])
@pytest.mark.parametrize("samples", [D, 3 * D])
@pytest.mark.parametrize("chunk", [1, 20, 1 << 17])
def test_the_gradient_of_a_quadratic_is_exact(nodes: int, basis: str, samples: int, chunk: int) -> None:
    seen = see(Directional(samples=samples, nodes=nodes, basis=basis), quadratic, t=1.3, chunk=chunk)
    np.testing.assert_allclose(seen.g[0], HESSIAN @ X + B, rtol=1e-10)
    assert seen.cosine == 1.0


@pytest.mark.parametrize("nodes", range(2, 8))
def test_quadrature_is_exact_for_polynomials_of_degree_2m_minus_2_and_no_more(nodes: int) -> None:
    t, x = 0.8, np.array([0.3, -0.2])
    far_nodes = pairs_of_nodes(40)

    def derivative(f: Any) -> Any:
        """The derivative of E f(x + t z) in each variable, by many nodes."""
        axes = np.eye(2)
        return [sum(n.weight * n.z * (f(x + t * n.z * e) - f(x - t * n.z * e)) for n in far_nodes) / t for e in axes]

    for degree in range(2 * nodes + 1):
        f = lambda x, k=degree: (x[..., 0] - x[..., 1]) ** k  # noqa: E731
        seen = observe(Directional(samples=2, nodes=nodes, basis="axes"), values_of(f), x, t, Replay(NORMALS))
        exact = np.allclose(seen.g[0], derivative(f), rtol=1e-9, atol=1e-12)
        assert exact == (degree <= 2 * nodes - 2), degree


def test_each_derivative_is_that_of_the_function_smoothed_along_one_line() -> None:
    t, x = 0.6, np.array([0.4, -1.1])
    seen = observe(
        Directional(samples=2, nodes=20, basis="axes"), values_of(lambda x: np.sin(x).sum(-1)), x, t, Replay(NORMALS)
    )
    np.testing.assert_allclose(seen.g[0], np.exp(-(t**2) / 2) * np.cos(x), rtol=1e-12)


@pytest.mark.parametrize("basis", ["random", "axes"])
@pytest.mark.parametrize("samples", [1, 4, D, D + 2])
def test_directions_are_orthonormal_in_groups(basis: str, samples: int) -> None:
    u = Directional(samples=samples, basis=basis)._directions(X[None], Replay(NORMALS), np)[0]
    assert u.shape == (samples, D)
    for group in (u[:D], u[D:]):
        np.testing.assert_allclose(group @ group.T, np.eye(len(group)), atol=1e-12)
    if basis == "axes":
        assert set(np.unique(u)) <= {0.0, 1.0}


def test_fewer_directions_give_an_unbiased_gradient() -> None:
    n, M, slope = 4000, 2, np.arange(1.0, D + 1)
    x = np.zeros((n, D))
    normals = np.random.default_rng(1).standard_normal((n, M, D))
    seen = observe(Directional(samples=M), values_of(lambda x: x @ slope), x, np.full(n, 0.5), Replay(normals))
    # The projection onto M random directions keeps M / d of |slope|^2 on average: each entry deviates by at most |g|.
    error = np.linalg.norm(slope) * (D / M) ** 0.5 / n**0.5
    np.testing.assert_allclose(seen.g.mean(axis=0), slope, atol=5 * error)
    kept = (seen.g * slope).sum(-1) / np.linalg.norm(seen.g, axis=-1) / np.linalg.norm(slope)
    np.testing.assert_allclose((kept**2).mean() ** 0.5, seen.cosine, rtol=0.05)


@pytest.mark.parametrize("nodes", [2, 3, 4, 5])
@pytest.mark.parametrize("needs", [frozenset(), frozenset({"f"})])
@pytest.mark.parametrize("stochastic", [False, True])
def test_the_cost_is_the_number_of_points(nodes: int, needs: frozenset[str], stochastic: bool) -> None:
    asked = 0

    def counted(query: Any) -> Any:
        nonlocal asked
        asked += query.points.shape[1]
        return query.points.sum(-1)

    context: dict[str, Any] = {"needs": needs, "stochastic": stochastic}
    for oracle in (
        Directional(samples=4, nodes=nodes),
        DirectionalSearch(samples=4, nodes=nodes, longest=1.0),
        DirectionalSearch(samples=4, nodes=nodes, longest=1.0, trials=3),
    ):
        asked = 0
        observe(oracle, counted, X, 0.5, Replay(NORMALS, xi=np.arange(9.0)[None]), chunk=20, **context)
        assert asked == oracle.cost(True, Context(xp=np, **context)), oracle
    line = 4 * (nodes - nodes % 2)
    assert Directional(samples=4, nodes=nodes).cost(True, Context(xp=np)) == line
    assert DirectionalSearch(samples=4, nodes=nodes, longest=1.0).cost(True, Context(xp=np)) == line + 51


def test_by_name_the_directions_are_as_many_as_the_variables() -> None:
    for method, more in (("dgs", 0), ("adadgs", 1 + 50)):
        options: dict[str, Any] = {"step": 0.1} if method == "dgs" else {"longest": 1.0}
        result = slgh.minimize(fun, starts(1)[0], method=method, t1=0.5, max_iter=3, vectorized=True, seed=0, **options)
        assert result.nfev == 3 * (4 * 4 + more) + 1
    fewer = slgh.minimize(fun, starts(1)[0], method="dgs", t1=0.5, step=0.1, samples=2, max_iter=3, seed=0)
    assert fewer.nfev == 3 * 4 * 2 + 1


def test_a_line_with_a_bad_value_is_left_out() -> None:
    hole = X + 0.7 * pairs_of_nodes(3)[0].z * np.eye(D)[2]
    cliff = lambda x: np.where(np.linalg.norm(x - hole, axis=-1) < 1e-9, np.nan, quadratic(x))  # noqa: E731
    seen = see(Directional(samples=D, nodes=3, basis="axes"), cliff)
    expected = (HESSIAN @ X + B) * D / (D - 1)
    expected[2] = 0
    np.testing.assert_allclose(seen.g[0], expected, rtol=1e-10)
    assert (seen.rejected[0], bool(seen.ok[0])) == (1, True)


def test_the_search_returns_the_step_to_its_best_point() -> None:
    oracle = DirectionalSearch(samples=D, longest=4.0, contraction=0.8, trials=30)
    g = HESSIAN @ X + B
    lengths = np.append(0.0, 4.0 * 0.8 ** np.arange(30))
    on_the_line = quadratic(X - lengths[:, None] * g / np.linalg.norm(g))
    seen = see(oracle, quadratic)
    np.testing.assert_allclose(seen.g[0], lengths[np.argmin(on_the_line)] * g / np.linalg.norm(g), rtol=1e-9)
    np.testing.assert_allclose(seen.f[0], quadratic(X), rtol=1e-14)


@pytest.mark.parametrize("wall", [1e9, np.inf, np.nan])
def test_the_search_stays_if_no_point_is_lower_or_finite(wall: float) -> None:
    def walled(x: Any) -> Any:
        return np.where(np.linalg.norm(x - X, axis=-1) > 2.0, wall, x @ B)

    far = see(DirectionalSearch(samples=D, longest=4.0, trials=5), walled, t=1e-3)
    assert far.ok is None or far.ok[0]
    np.testing.assert_array_equal(far.g, np.zeros((1, D)))
    near = see(DirectionalSearch(samples=D, longest=4.0, trials=9), walled, t=1e-3)
    np.testing.assert_allclose(np.linalg.norm(near.g), 4.0 * 0.9**7, rtol=1e-12)


def test_the_search_needs_a_finite_value_at_x() -> None:
    oracle = DirectionalSearch(samples=D, longest=4.0)
    seen = see(oracle, lambda x: np.where((x == X).all(axis=-1), np.nan, x @ B))
    assert not seen.ok[0]


def test_t_follows_the_step_and_starts_again_when_the_run_is_stuck() -> None:
    schedule, t, floor = FollowStep(t1=8.0, stuck=0.1, patience=2), np.array([8.0]), np.array([0.5])
    state = schedule.init(t, floor, np)
    seen = []
    for f, length in [(10.0, 2.0), (5.0, 1.0), (4.9, 0.0), (4.9, 0.0), (4.9, 0.0), (1.0, 0.0)]:
        estimate = slgh.protocols.Estimate(g=np.array([[0.0, length]]), cosine=1.0, f=np.array([f]))
        t, state = schedule.next(t, estimate, state, floor, np)
        seen.append(float(t[0]))
    assert seen == [5.0, 3.0, 8.0, 4.0, 8.0, 4.0]


def test_the_value_at_x_never_rises_under_adadgs() -> None:
    result = slgh.minimize(
        fun,
        starts(5),
        method="adadgs",
        t1=2.0,
        longest=5.0,
        batched=True,
        vectorized=True,
        max_iter=40,
        seed=0,
        history="full",
    )
    assert (np.diff(result.history["fun"], axis=-1) <= 0).all() or (np.diff(result.history["fun"], axis=0) <= 0).all()
    assert result.fun.mean() < -0.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nodes": 1}, "`nodes` must be an integer >= 2, got nodes=1"),
        ({"nodes": 65}, "`nodes` must be an integer <= 64, got nodes=65"),
        ({"nodes": 2.5}, "`nodes` must be an integer, got nodes=2.5"),
        ({"basis": "cosines"}, "`basis` must be one of 'random', 'axes'; got basis='cosines'"),
        ({"samples": 0}, "`samples` must be an integer >= 1, got samples=0"),
        ({"longest": 0.0}, "`longest` must be a finite number above 0, got longest=0.0"),
        ({"contraction": 1.0}, "`contraction` must lie in"),
        ({"trials": 0}, "`trials` must be an integer >= 1, got trials=0"),
        ({"stuck": -1.0}, "`stuck` must be a finite number >= 0"),
        ({"patience": 0}, "`patience` must be an integer >= 1"),
        ({"t1": 0.0}, "`t1` must be a finite number above 0, got t1=0.0"),
    ],
)
def test_bad_values_are_refused(options: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"t1": 1.0, "longest": 1.0, "max_iter": 3} | options
    with pytest.raises((ValueError, TypeError), match=message):
        slgh.minimize(fun, starts(1)[0], method="adadgs", **given)


def test_what_depends_on_the_function_has_no_default() -> None:
    with pytest.raises(TypeError, match="`adadgs` needs `longest` and `t1`, without a default"):
        slgh.minimize(fun, starts(1)[0], method="adadgs", max_iter=3)
    with pytest.raises(TypeError, match="`dgs` needs `t1` and `step`, without a default"):
        slgh.minimize(fun, starts(1)[0], method="dgs", max_iter=3)


@pytest.mark.parametrize("oracle", ["directional", "directional_search", "progressive_exponential"])
def test_no_theorem_is_proved_for_the_successors(oracle: str) -> None:
    options: dict[str, Any] = {"t1": 1.0, "step": "theory", "L1": 1.0, "max_iter": 5}
    options |= {"directional_search": {"longest": 1.0}, "progressive_exponential": {"sharpness": 1.0}}.get(oracle, {})
    with pytest.raises(ValueError, match="one that the theorems are proved for"):
        slgh.minimize(fun, starts(1)[0], method="zoslgh_r", oracle=oracle, **options)
