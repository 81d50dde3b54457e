"""The Gaussian process of a mixed search: its formulas, its coordinates, and its suggestions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import approx_fprime

import slgh
from slgh.auto import gaussian_process
from slgh.auto.gaussian_process import condition, first_parameters, squared_differences
from slgh.auto.surrogate_search import Coordinates, Surrogate, log_expected_improvement, warped
from slgh.space import Array, Boolean, Categorical, Float, Integer, Ordinal, Space

Floats = NDArray[np.float64]

SPACE = Space(
    {
        "rate": Float(1e-4, 1.0, log=True),
        "units": Integer(1, 100, log=True),
        "depth": Integer(0, 4),
        "huge": Integer(0, 10**6),
        "size": Ordinal(["small", "medium", "large"]),
        "act": Categorical(["relu", "tanh", None]),
        "bias": Boolean(),
        "weights": Array(2, 0.0, 1.0),
        "fixed": Integer(3, 3),
    }
)
CODED = np.array([False, False, True])


def points(n: int, seed: int = 0) -> Floats:
    """Return points (n, 3) whose last coordinate is one of three codes."""
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.random((n, 2)), rng.integers(3, size=n)])


def wavy(at: Floats) -> Floats:
    return np.asarray(np.sin(5 * at[:, 0]) + at[:, 1] ** 2 + 0.3 * at[:, 2])


def model_of(at: Floats, values: Floats, parameters: Floats) -> gaussian_process.Model:
    return condition(at, CODED, squared_differences(at, CODED), values, parameters)


# The process.


def test_the_process_interpolates_and_knows_where_it_does() -> None:
    at = points(30)
    model = model_of(at, wavy(at), np.array([-0.7, -0.7, 0.0, np.log(1e-7)]))
    mean, deviation = model.predict(at)
    np.testing.assert_allclose(mean, wavy(at), atol=1e-4)
    assert deviation.max() < 1e-2 < model.predict(np.array([[5.0, 5.0, 0.0]]))[1][0]


def test_the_prediction_is_the_formula() -> None:
    at, values, theta = points(6), wavy(points(6)), np.array([-0.5, 0.2, 0.1, np.log(1e-3)])
    new = np.array([0.3, 0.8, 1.0])

    def k(a: Floats, b: Floats) -> float:
        delta = np.where(CODED, a != b, a - b) / np.exp(theta[:3])
        r = float(np.sqrt(5 * delta @ delta))
        return float((1 + r + r**2 / 3) * np.exp(-r))

    K = np.array([[k(a, b) for b in at] for a in at]) + 1e-3 * np.eye(6)
    solved = np.linalg.solve(K, np.column_stack([values, np.ones(6)]))
    center = solved[:, 0].sum() / solved[:, 1].sum()
    residuals = values - center
    scale = residuals @ np.linalg.solve(K, residuals) / 6
    row = np.array([k(new, b) for b in at])
    mean, deviation = model_of(at, values, theta).predict(new[None])
    assert mean[0] == pytest.approx(center + row @ np.linalg.solve(K, residuals), abs=1e-10)
    assert deviation[0] ** 2 == pytest.approx(scale * (1 - row @ np.linalg.solve(K, row)), rel=1e-8)


def test_the_gradient_of_the_posterior_is_that_of_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    """The optimizer gets the density and its gradient, which is compared with differences."""
    seen: list[Any] = []

    def spy(loss: Any, start: Floats, **_: Any) -> Any:
        seen.append(loss)
        return type("Found", (), {"x": start, "fun": 0.0})()

    monkeypatch.setattr("scipy.optimize.minimize", spy)
    at = points(12)
    gaussian_process.fit_parameters(squared_differences(at, CODED), wavy(at), first_parameters(3))
    for theta in (first_parameters(3), np.array([-1.0, 0.3, 0.5, -4.0])):
        differences = approx_fprime(theta, lambda t: seen[0](t)[0], 1e-7)
        np.testing.assert_allclose(seen[0](theta)[1], differences, rtol=1e-4, atol=1e-4)


def test_a_fit_finds_the_variable_that_does_not_matter() -> None:
    at = points(40)
    theta = gaussian_process.fit_parameters(squared_differences(at, CODED), np.sin(6 * at[:, 0]), first_parameters(3))
    assert theta[1] > theta[0] + 1
    assert theta[2] > theta[0] + 1


def test_the_expected_improvement_is_that_of_samples() -> None:
    at = points(8)
    model, new = model_of(at, wavy(at), first_parameters(3)), points(5, seed=1)
    lowest, n = float(wavy(at).min()) + 0.3, 400_000
    mean, deviation = model.predict(new)
    samples = mean + deviation * np.random.default_rng(0).standard_normal((n, 5))
    gains = np.maximum(lowest - samples, 0)
    error = 4.5 * gains.std(axis=0) / np.sqrt(n) + 1e-12
    assert np.all(np.abs(np.exp(log_expected_improvement(model, new, lowest)) - gains.mean(axis=0)) < error)


def test_the_expected_improvement_does_not_underflow() -> None:
    at = points(8)
    model, new = model_of(at, wavy(at), first_parameters(3)), points(50, seed=1)
    gains = log_expected_improvement(model, new, -1e4)
    assert np.isfinite(gains).all()
    assert gains.max() < -745, "the improvement itself is 0 in double precision"


# Values and coordinates.


def test_the_order_of_the_values_survives() -> None:
    values = np.array([3.0, 1.0, 2.0, 1e12, 5.0, np.inf, 1.5])
    found = warped(values)
    assert np.argsort(found[:5]).tolist() == np.argsort(values[:5]).tolist()
    assert found[5] == found[3] < 4
    assert (warped(np.full(3, np.inf)) == 0).all()
    assert (warped(np.full(3, 7.0)) == 0).all()


def test_coordinates_keep_the_values() -> None:
    coordinates, rng = Coordinates(SPACE), np.random.default_rng(0)
    assert coordinates.q == 9
    assert coordinates.coded.tolist() == [False] * 5 + [True, True, False, False]
    z = rng.random((50, SPACE.d))
    at = coordinates.of(z)
    again = coordinates.points(at)
    for each, other in zip(z, again, strict=True):
        a, b = SPACE.decode(each), SPACE.decode(other)
        # The cells of a logarithmic integer end where those of the coordinates nearly do.
        assert abs(a.pop("units") - b.pop("units")) <= 1
        assert SPACE.key(a | {"units": 1}) == SPACE.key(b | {"units": 1})
    np.testing.assert_array_equal(coordinates.of(again), at)


def test_the_design_has_each_choice_equally_often() -> None:
    coordinates = Coordinates(SPACE)
    at = coordinates.design(12, np.random.default_rng(0))
    assert np.unique(at[:, 5], return_counts=True)[1].tolist() == [4, 4, 4]
    assert np.unique(at[:, 6], return_counts=True)[1].tolist() == [6, 6]
    assert sorted(np.floor(12 * at[:, 0]).astype(int)) == list(range(12))


@pytest.mark.parametrize("spread", [1e-3, 0.3])
def test_moved_points_are_other_points_of_the_space(spread: float) -> None:
    coordinates, rng = Coordinates(SPACE), np.random.default_rng(0)
    at = coordinates.random(200, rng)
    moved = coordinates.moved(at, np.full(200, spread), rng)
    np.testing.assert_allclose(coordinates.of(coordinates.points(moved)), moved)
    assert np.mean(np.any(moved != at, axis=1)) > 0.6
    assert moved.min() >= 0


# Suggestions.


def loss(values: Any) -> float:
    """Return 0 at rate 1e-2, 5 layers, tanh, and no bias."""
    act = {"relu": 0.3, "tanh": 0.0, "gelu": 0.5}[values["act"]]
    return float((np.log10(values["rate"]) + 2) ** 2 + 0.2 * (values["layers"] - 5) ** 2 + act + 0.4 * values["bias"])


TREE = {
    "rate": Float(1e-4, 1.0, log=True),
    "layers": Integer(1, 8),
    "act": Categorical(["relu", "tanh", "gelu"]),
    "bias": Boolean(),
}


def test_suggestions_are_new_and_differ() -> None:
    space = Space({"k": Integer(0, 3), "b": Boolean()})
    surrogate = Surrogate(space, np.random.default_rng(0))
    z = np.array(list(space.grid()))[:5]
    known = {space.key(space.decode(each)) for each in z}
    found = surrogate.suggest(z, np.arange(5.0), 8, lambda each: space.key(space.decode(each)) not in known)
    keys = {space.key(space.decode(each)) for each in found}
    assert len(found) == len(keys) == 3, "as many as are left"
    assert not keys & known


def test_forty_evaluations_find_the_discrete_values() -> None:
    found = [slgh.minimize(loss, TREE, max_evals=40, seed=seed) for seed in range(5)]
    right = [(r.x["layers"], r.x["act"], r.x["bias"]) == (5, "tanh", False) and r.fun < 0.05 for r in found]
    assert sum(right) >= 4
    assert all(r.nfev == 40 for r in found)


@pytest.mark.parametrize("parallel", [None, 4])
def test_no_values_are_evaluated_twice(parallel: int | None) -> None:
    space, seen = Space(TREE), []
    slgh.minimize(lambda v: seen.append(space.key(v)) or loss(v), TREE, max_evals=60, seed=0, parallel=parallel)  # type: ignore[func-returns-value]
    assert len(set(seen)) >= 58, "models of the real variables may repeat a point"


def test_bad_values_do_not_stop_the_search() -> None:
    def partly(values: Any) -> float:
        return float("nan") if values["layers"] > 6 else loss(values)

    result = slgh.minimize(partly, TREE, max_evals=50, seed=0)
    assert result.fun < 0.2
    assert slgh.minimize(lambda values: float("inf"), TREE, max_evals=30, seed=0).nfev == 30
