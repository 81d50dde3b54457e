"""The test functions and their closed forms; Theorem 3.1 and Lemmas 3.2 and 3.3 on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from cases import smooth_of
from slgh import problems
from slgh.problems import PROBLEMS, Problem

SMOOTH = [problems.rosenbrock(), problems.rosenbrock(4), problems.himmelblau(), problems.wells(), problems.wells(3)]
smooth_problems = pytest.mark.parametrize("problem", SMOOTH, ids=[f"{p.name}{p.d}" for p in SMOOTH])


def gauss_hermite(fun: Any, x: np.ndarray, t: float, n: int) -> float:
    """Return E fun(x + t u) by a product rule with n nodes per variable."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n)
    grid = np.stack(np.meshgrid(*[nodes] * len(x), indexing="ij"), axis=-1).reshape(-1, len(x))
    product = np.prod(np.stack(np.meshgrid(*[weights] * len(x), indexing="ij"), axis=-1), axis=-1).ravel()
    return float(fun(x + t * grid) @ product / product.sum())


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_minimum_is_one(name: str) -> None:
    problem = PROBLEMS[name]()
    for minimizer in problem.minimizers:
        assert problem.fun(minimizer) == pytest.approx(problem.minimum, abs=1e-9)
        near = minimizer + 1e-2 * np.random.default_rng(0).standard_normal((200, problem.d))
        assert (problem.fun(near) >= problem.minimum - 1e-9).all()
    assert problem.fun(problem.x0) > problem.minimum + 0.1


@pytest.mark.parametrize(("name", "d"), [("ackley", 7), ("rosenbrock", 7), ("hole", 7), ("wells", 7)])
def test_functions_have_any_dimension(name: str, d: int) -> None:
    problem = PROBLEMS[name](d)
    assert problem.d == d
    assert problem.fun(np.stack([problem.x0] * 3)).shape == (3,)
    assert problem.fun(problem.minimizers[0]) == pytest.approx(problem.minimum, abs=1e-9)


@pytest.mark.parametrize(("name", "d"), [("ackley", 0), ("rosenbrock", 1), ("hole", -1), ("wells", 2.5)])
def test_a_wrong_dimension_is_an_error(name: str, d: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="`d` must be an integer"):
        PROBLEMS[name](d)


@smooth_problems
@given(data=st.data())
def test_closed_forms_are_the_expectation(problem: Problem, data: st.DataObject) -> None:
    x = np.array(data.draw(st.lists(st.floats(-3, 3), min_size=problem.d, max_size=problem.d)))
    t = data.draw(st.floats(0.01, 1.0))
    nodes = 8 if problem.name != "wells" else {2: 150, 3: 60}[problem.d]
    assert smooth_of(problem).value(x, np.array(t)) == pytest.approx(
        gauss_hermite(problem.fun, x, t, nodes), rel=1e-6, abs=1e-6
    )


@smooth_problems
@given(data=st.data())
def test_derivatives_of_closed_forms(problem: Problem, data: st.DataObject) -> None:
    F, d = smooth_of(problem), problem.d
    x = np.array(data.draw(st.lists(st.floats(-2, 2), min_size=d, max_size=d)))
    t, h = data.draw(st.floats(0.1, 2.0)), 1e-4
    numeric = [(F.value(x + h * e, np.array(t)) - F.value(x - h * e, np.array(t))) / (2 * h) for e in np.eye(d)]
    np.testing.assert_allclose(F.grad(x, np.array(t)), numeric, rtol=1e-5, atol=1e-3)
    hessian = [(F.grad(x + h * e, np.array(t)) - F.grad(x - h * e, np.array(t))) / (2 * h) for e in np.eye(d)]
    assert F.trace(x, np.array(t)) == pytest.approx(np.trace(hessian), rel=1e-5, abs=1e-3)
    slope = (F.value(x, np.array(t + h)) - F.value(x, np.array(t - h))) / (2 * h)
    assert F.dt(x, np.array(t)) == pytest.approx(slope, rel=1e-5, abs=1e-3)
    assert F.dt(x, np.array(t)) == pytest.approx(t * F.trace(x, np.array(t)), rel=1e-12)


@given(x=st.floats(-3, 3), y=st.floats(-3, 3), t=st.floats(0, 2))
def test_rosenbrock_is_the_printed_polynomial(x: float, y: float, t: float) -> None:
    printed = (
        100 * x**4
        + (-200 * y + 600 * t**2 + 1) * x**2
        - 2 * x
        + 100 * y**2
        - 200 * t**2 * y
        + (300 * t**4 + 101 * t**2 + 1)
    )
    assert smooth_of(problems.rosenbrock()).value(np.array([x, y]), np.array(t)) == pytest.approx(
        printed, rel=1e-9, abs=1e-9
    )


@smooth_problems
@given(data=st.data())
def test_theorem_3_1_the_minimum_of_F_is_at_t_0(problem: Problem, data: st.DataObject) -> None:
    x = np.array(data.draw(st.lists(st.floats(-4, 4), min_size=problem.d, max_size=problem.d)))
    t = data.draw(st.floats(0.01, 3))
    assert smooth_of(problem).value(x, np.array(t)) > problem.minimum


@smooth_problems
def test_theorem_3_1_descent_in_x_and_t_together_ends_at_t_0(problem: Problem) -> None:
    F = smooth_of(problem)

    def value(z: Any) -> float:
        return float(F.value(z[:-1], np.array(z[-1])))

    start = np.append(problem.minimizers[0], 0.3)
    found = optimize.minimize(value, start, bounds=[(None, None)] * problem.d + [(0, None)])
    assert found.x[-1] == pytest.approx(0, abs=1e-4)
    assert found.fun == pytest.approx(problem.minimum, abs=1e-6)


WELLS = [problems.wells(d) for d in (1, 2, 5)]


@pytest.mark.parametrize("problem", WELLS, ids=lambda p: f"d={p.d}")
@given(seed=st.integers(0, 10**6), t=st.floats(0, 3))
def test_lemma_3_2_F_is_as_lipschitz_and_as_smooth_as_f(problem: Problem, seed: int, t: float) -> None:
    F: Any = problem.smooth
    a, b = np.random.default_rng(seed).uniform(-4, 4, (2, problem.d))
    distance, t_ = np.linalg.norm(a - b), np.array(t)
    assert abs(F.value(a, t_) - F.value(b, t_)) <= F.L0 * distance * (1 + 1e-12)
    assert np.linalg.norm(F.grad(a, t_) - F.grad(b, t_)) <= F.L1 * distance * (1 + 1e-12)


@pytest.mark.parametrize("problem", WELLS, ids=lambda p: f"d={p.d}")
@given(seed=st.integers(0, 10**6), t1=st.floats(0, 3), t2=st.floats(0, 3))
def test_lemma_3_3_F_is_lipschitz_in_t(problem: Problem, seed: int, t1: float, t2: float) -> None:
    F: Any = problem.smooth
    x = np.random.default_rng(seed).uniform(-4, 4, problem.d)
    change = abs(F.value(x, np.array(t1)) - F.value(x, np.array(t2)))
    assert change <= F.L0 * problem.d**0.5 * abs(t1 - t2) * (1 + 1e-9) + 1e-15


@pytest.mark.parametrize("problem", WELLS, ids=lambda p: f"d={p.d}")
@given(seed=st.integers(0, 10**6), t=st.floats(0, 3))
def test_the_gradient_gap_of_the_proofs(problem: Problem, seed: int, t: float) -> None:
    """Lemma B.2: |grad f|^2 <= |grad F|^2 + t L0 L1 (d+3)^(3/2)."""
    F: Any = problem.smooth
    x = np.random.default_rng(seed).uniform(-4, 4, problem.d)
    f2, F2 = (np.sum(F.grad(x, np.array(s)) ** 2) for s in (0.0, t))
    assert f2 <= F2 + t * F.L0 * F.L1 * (problem.d + 3) ** 1.5 + 1e-15
