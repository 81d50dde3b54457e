"""`step="theory"`, `noise` and xhat follow the theorems when passed to `minimize`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import slgh
from slgh.theory import plan
from slgh.updates import Descent, NoiseAware

WELLS = slgh.problems.wells(3)
L0, L1 = WELLS.smooth.L0, WELLS.smooth.L1  # type: ignore[union-attr]
X0 = WELLS.x0


def terms(x: Any, xi: Any) -> Any:
    """A stochastic version of the wells: noise that is linear in x."""
    return WELLS.fun(x) + 0.1 * np.sin(xi) * x[..., 0]


@pytest.mark.parametrize(
    ("theorem", "fun", "method", "options", "step"),
    [
        ("3.4", WELLS.smooth, "slgh_r", {}, 1 / L1),
        ("4.1", WELLS.fun, "zoslgh_r", {}, 1 / (2 * 7 * L1)),
        ("4.1", WELLS.fun, "zoslgh_d", {"eta": 1e-3}, 1 / (2 * 7 * L1)),
        ("4.2", terms, "zoslgh_r", {"sample_xi": 50}, min(1 / (14 * L1), ((400 - 55) * 7) ** -0.5)),
    ],
)
def test_the_step_is_the_theorems(theorem: str, fun: Any, method: str, options: dict[str, Any], step: float) -> None:
    result = slgh.minimize(
        fun,
        X0,
        method=method,
        step="theory",
        L1=L1,
        t1=0.5,
        gamma=0.99,
        max_iter=400,
        seed=0,
        vectorized=True,
        **options,
    )
    assert f"By Theorem {theorem}" in result.message
    assert isinstance(result.method.update, Descent)
    assert result.method.update.step == pytest.approx(step)


def test_noise_sets_the_floor_and_the_step_of_algorithm_4() -> None:
    common: dict[str, Any] = {"method": "zoslgh_r", "t1": 0.5, "gamma": 0.9, "max_iter": 200, "vectorized": True}
    result = slgh.minimize(WELLS.fun, X0, noise=1e-4, L1=L1, seed=0, **common)
    assert result.method.update == NoiseAware(L1=L1, nu=1e-4)
    assert result.t == pytest.approx(0.01)
    assert "By Theorem C.1" in result.message
    stochastic = slgh.minimize(terms, X0, noise=1e-4, L1=L1, seed=0, sample_xi=50, **common)
    k0 = int(np.ceil(np.log(1 / 3) / np.log(0.9)))
    assert stochastic.method.update == NoiseAware(L1=L1, nu=1e-4, cap=((200 - k0) * 7) ** -0.5)
    plain = slgh.minimize(WELLS.fun, X0, noise=1e-4, step=0.01, seed=0, **common)
    assert plain.method.update == Descent(step=0.01)


def test_sampled_gradients_are_stochastic_ones() -> None:
    result = slgh.minimize(
        WELLS.fun,
        X0,
        grad=WELLS.grad,
        method="slgh_r",
        step="theory",
        L1=0.01,
        t1=0.5,
        gamma=0.9,
        max_iter=400,
        seed=0,
        vectorized=True,
    )
    assert "By Theorem 3.5" in result.message
    k0 = int(np.ceil(np.log(3**-0.5) / np.log(0.9)))
    assert result.method.update.step == pytest.approx((400 - k0) ** -0.5)


def test_a_plans_parameters_are_the_plan() -> None:
    it = plan("zoslgh_r", L1=L1, d=3, t1=0.5, eps=0.3, gamma=0.99, T=40)
    it = dataclasses.replace(it, k0=31)
    many = slgh.minimize(
        WELLS.fun, np.tile(X0, (100, 1)), batched=True, vectorized=True, seed=0, history="x", **it.parameters
    )
    same = (many.history["x"] == many.xhat[None]).all(axis=-1)
    assert np.unique(same.argmax(axis=0)).tolist() == list(range(31, 40))
    assert "By Theorem 4.1" in many.message
    tolerant = plan("zoslgh_r", L1=L1, d=3, t1=0.5, gamma=0.99, T=40, nu=1e-4, floor=0.02)
    result = slgh.minimize(WELLS.fun, X0, vectorized=True, seed=0, **tolerant.parameters)
    assert result.method.update == tolerant.update
    assert result.method.floor == 0.02


def test_a_run_of_theorem_3_4_can_be_extended(tmp_path: Path) -> None:
    common: dict[str, Any] = {"method": "slgh_r", "step": "theory", "L1": L1, "t1": 0.5, "gamma": 0.99}
    file = tmp_path / "run.npz"
    slgh.minimize(WELLS.smooth, X0, **common, max_iter=40, checkpoint=file)
    extended = slgh.minimize(WELLS.smooth, X0, **common, max_iter=100, checkpoint=file)
    whole = slgh.minimize(WELLS.smooth, X0, **common, max_iter=100)
    np.testing.assert_array_equal(extended.x, whole.x)
    np.testing.assert_array_equal(extended.xhat, whole.xhat)


def test_the_number_of_iterations_may_follow_from_the_budget() -> None:
    result = slgh.minimize(
        terms,
        X0,
        method="zoslgh_r",
        step="theory",
        L1=0.1,
        t1=0.5,
        sample_xi=50,
        max_evals=401,
        seed=0,
        vectorized=True,
    )
    assert result.nit == 200
    k0 = min(int(np.ceil(np.log(3**-0.5) / np.log(0.999))), 100)
    assert result.method.update.step == pytest.approx(((200 - k0) * 7) ** -0.5)


def test_xhat_is_drawn_after_the_burn_in() -> None:
    seeds, T = 300, 40
    common: dict[str, Any] = {"method": "zoslgh_r", "t1": 0.5, "gamma": 0.99, "max_iter": T, "vectorized": True}
    result = slgh.minimize(
        WELLS.fun, np.tile(X0, (seeds, 1)), batched=True, step="theory", L1=L1, seed=0, history="x", **common
    )
    k0 = plan("zoslgh_r", L1=L1, d=3, t1=0.5, gamma=0.99, T=T).k0
    assert k0 == 20
    same = (result.history["x"] == result.xhat[None]).all(axis=-1)
    drawn = np.unique(same.argmax(axis=0))
    assert same.any(axis=0).all()
    assert drawn.min() == k0
    assert drawn.max() == T - 1
    assert len(drawn) == T - k0


def test_xhat_of_theorem_3_4_has_the_least_gradient_of_f() -> None:
    F = WELLS.smooth
    common: dict[str, Any] = {"method": "slgh_r", "L1": L1, "t1": 2.0, "gamma": 0.9, "max_iter": 24, "history": "x"}
    result = slgh.minimize(F, X0, step="theory", **common)
    norms = np.linalg.norm(WELLS.grad(result.history["x"]), axis=-1)  # type: ignore[misc]
    np.testing.assert_array_equal(result.xhat, result.history["x"][norms.argmin()])
    smoothed = np.linalg.norm(F.grad(result.history["x"], result.history["t"]), axis=-1)  # type: ignore[union-attr]
    assert smoothed.argmin() != norms.argmin(), "the test is meaningful only if the two rules differ"
    assert result.njev == 48


def test_a_gradient_that_is_not_finite_is_not_the_least() -> None:
    class Broken:
        """Wells with a NaN gradient of f (not of F) beyond x[0] = 3."""

        value, dt, trace = WELLS.smooth.value, WELLS.smooth.dt, WELLS.smooth.trace  # type: ignore[union-attr]

        def grad(self, x: Any, t: Any) -> Any:
            g = WELLS.smooth.grad(x, t)  # type: ignore[union-attr]
            return np.where(((x[..., 0] > 3) & (t == 0))[..., None], np.nan, g)

    result = slgh.minimize(Broken(), X0, method="slgh_r", step="theory", L1=L1, t1=2.0, gamma=0.9, max_iter=60)
    assert result.xhat[0] < 3


def test_the_tuned_gamma_is_the_theorems() -> None:
    result = slgh.minimize(
        WELLS.smooth, X0, method="slgh_r", step="theory", L1=L1, eps=0.5, gamma="tuned", t1=0.5, max_iter=50
    )
    assert result.method.schedule.gamma == pytest.approx(3 ** (-1.5 * 0.25))


def test_the_tuned_gamma_is_that_of_the_theorem_that_applies() -> None:
    common: dict[str, Any] = {"step": "theory", "L1": L1, "eps": 0.5, "gamma": "tuned", "t1": 0.5, "max_iter": 50}
    sampled = slgh.minimize(WELLS.fun, X0, grad=WELLS.grad, method="slgh_r", vectorized=True, seed=0, **common)
    assert "By Theorem 3.5" in sampled.message
    assert sampled.method.schedule.gamma == pytest.approx(max(3**0.5, 3**1.5 * 0.25) ** -(0.5**4))
    values = slgh.minimize(WELLS.fun, X0, method="slgh_r", oracle="forward", vectorized=True, seed=0, **common)
    assert values.method.schedule.gamma == pytest.approx(3 ** (-0.25 / 6))


def test_optimizer_takes_the_theory_too() -> None:
    opt = slgh.Optimizer(X0, method="zoslgh_r", step="theory", L1=L1, t1=0.5, max_iter=5, seed=0)
    while not opt.stop():
        points = opt.ask()
        opt.tell(points, WELLS.fun(points))
    assert opt.result.method.update.step == pytest.approx(1 / (14 * L1))


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"step": "theory"}, r"pass `L1=\.\.\.`, known or from slgh\.theory\.estimate_smoothness"),
    ({"step": "theory", "L1": 1.0, "update": "adam"}, "for plain descent"),
    ({"step": "theory", "L1": -1.0}, "`L1` must be a finite number above 0"),
    ({"step": 0.1, "gamma": "tuned"}, "goes with `step='theory'`"),
    ({"step": 0.1, "L1": 1.0}, "`L1` goes with `step='theory'`"),
    ({"step": "teory", "L1": 1.0}, "must be a number, or 'theory'"),
    ({"step": "theory", "L1": 1.0, "gamma": "tuned"}, r"pass `eps=\.\.\.`"),
    ({"step": "theory", "L1": 1.0, "max_iter": None, "max_seconds": 1.0}, "pass max_iter or max_evals"),
    ({"step": "theory", "L1": 1.0, "method": "zosgd"}, "must decrease t as slgh_r"),
    ({"step": "theory", "L1": 1.0, "noise": 1.0}, "at most t1"),
    ({"L1": 1.0, "noise": 1e-4, "oracle": "sphere"}, "one that the theorems are proved for where values have an error"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_what_the_theory_does_not_cover_is_refused(options: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"method": "zoslgh_r", "t1": 0.5, "max_iter": 10, "vectorized": True} | options
    with pytest.raises(ValueError, match=message):
        slgh.minimize(WELLS.fun, X0, **given)


def test_a_missing_step_is_told_of_the_theory() -> None:
    with pytest.raises(TypeError, match='step="theory"` with `L1='):
        slgh.minimize(WELLS.fun, X0, method="zoslgh_r", t1=0.5)
