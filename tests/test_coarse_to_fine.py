"""The oracle with smooth directions: its formula, its mean, closed forms of its homotopy, and its grid."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import slgh
from observing import Replay, observe, values_of
from slgh.oracles import Antithetic, CoarseToFine
from slgh.oracles.cosines import CosineBasis, cosine_matrix

GRID = (4, 6)
D = 24
X = np.random.default_rng(1).standard_normal(D)
W = np.random.default_rng(2).standard_normal(D) / 5


def transform() -> Any:
    """The cosine transform of GRID as a matrix, one basis vector per row."""
    like = np.zeros(1)
    return np.kron(cosine_matrix(4, like, np), cosine_matrix(6, like, np))


def projection(limit: float) -> tuple[Any, int]:
    """The projection onto the cosines with frequencies up to a limit, and their number."""
    kept = CosineBasis(GRID).frequencies(np.zeros(1), np) <= limit
    C = transform()[kept]
    return C.T @ C, int(kept.sum())


def waves(x: Any) -> Any:
    return np.cos(x @ W)


def repeated(seed: int) -> Iterator[Replay]:
    """400 draws of 50 directions."""
    rng = np.random.default_rng(seed)
    for _ in range(400):
        yield Replay(rng.standard_normal((1, 50, D)))


def oracle(samples: int, **fields: Any) -> CoarseToFine:
    return CoarseToFine(**{"samples": samples, "grid": GRID, "t_fine": 0.3, "coarsest": 0.2, **fields})


@pytest.mark.parametrize(("t", "limit"), [(1.0, 0.3), (0.5, 0.6), (5.0, 0.2), (0.2, 1.5), (0.1, 3.0)])
def test_it_is_its_formula(t: float, limit: float) -> None:
    xi = np.random.default_rng(0).standard_normal((1, 5, D))
    seen = observe(oracle(5), values_of(waves), X, t, Replay(xi))
    P, n = projection(limit)
    C = transform()
    u = np.sqrt(D / n) * (xi[0] * (np.diag(C @ P @ C.T) > 0.5)) @ C
    slopes = [(waves(X + t * one) - waves(X - t * one)) / (2 * t) for one in u]
    np.testing.assert_allclose(seen.g[0], n / (D * 5) * np.array(slopes) @ u, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("t", [1.0, 0.5, 0.2])
def test_its_mean_is_the_gradient_of_the_homotopy_projected(t: float) -> None:
    """A z-test: F(x, t) = cos(w.x) exp(-t^2 w' S w / 2) with S = (d / n) P. 5 standard errors fail once in 10^6."""
    P, n = projection(max(0.2, 0.3 / t))
    damping = np.exp(-(t**2) * (D / n) * W @ P @ W / 2)
    expected = P @ (-np.sin(X @ W) * damping * W)
    found = np.array([observe(oracle(50), values_of(waves), X, t, noise).g[0] for noise in repeated(7)])
    error = found.std(axis=0, ddof=1) / 20
    assert (np.abs(found.mean(axis=0) - expected) <= 5 * error + 1e-12).all()


def test_its_mean_value_is_the_homotopy() -> None:
    """For f(x) = x'A x the homotopy is f(x) + t^2 (d / n) tr(A P)."""
    A = np.random.default_rng(3).standard_normal((D, D))
    A = A @ A.T / D
    P, n = projection(0.3)
    quadratic = values_of(lambda x: np.einsum("...i,ij,...j->...", x, A, x))
    found = np.array([observe(oracle(50), quadratic, X, 1.0, noise).F[0] for noise in repeated(8)])
    error = found.std(ddof=1) / 20
    assert abs(found.mean() - (X @ A @ X + D / n * np.trace(A @ P))) <= 5 * error


def test_at_small_t_it_is_the_antithetic_oracle_in_other_coordinates() -> None:
    xi = np.random.default_rng(0).standard_normal((1, 5, D))
    fine = observe(oracle(5), values_of(waves), X, 0.1, Replay(xi))
    turned = observe(Antithetic(samples=5), values_of(waves), X, 0.1, Replay(xi @ transform()))
    np.testing.assert_allclose(fine.g, turned.g, rtol=1e-10)


def test_a_smooth_field_is_found_with_fewer_samples() -> None:
    """In 32 x 32 variables the minimizer is a smooth bump."""
    side = np.linspace(-1, 1, 32)
    goal = np.exp(-4 * (side[:, None] ** 2 + side**2)).ravel()

    def fun(x: Any) -> Any:
        return np.sum((x - goal) ** 2, axis=-1)

    oracles: dict[str, dict[str, Any]] = {"antithetic": {}, "coarse_to_fine": {"grid": (32, 32), "t_fine": 0.1}}
    runs = {
        name: slgh.minimize(
            fun,
            np.zeros(1024),
            method="scale_free",
            oracle=name,
            t1=1.0,
            max_evals=2000,
            seed=0,
            vectorized=True,
            **more,
        ).fun
        for name, more in oracles.items()
    }
    assert runs["coarse_to_fine"] < 0.3 * runs["antithetic"]


def test_a_time_series_needs_no_grid() -> None:
    seen = observe(oracle(3, grid=()), values_of(waves), X, 1.0, Replay(np.ones((1, 3, D))))
    assert np.isfinite(seen.g).all()


def test_a_grid_of_another_size_is_an_error_that_says_so() -> None:
    with pytest.raises(ValueError, match=r"`grid` must have as many points as there are variables, 24; got \(5, 5\)"):
        slgh.minimize(waves, X, method="zoslgh_r", oracle="coarse_to_fine", grid=(5, 5), t_fine=0.1, t1=1.0, step=0.1)


@pytest.mark.parametrize("wrong", [{"t_fine": 0}, {"t_fine": -1.0}, {"coarsest": 0.0}])
def test_limits_must_be_positive(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=f"`{next(iter(wrong))}` must be"):
        oracle(3, **wrong)
