"""The functions with known constants for Table 1, the measurement, and the effect of an error."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import smooth_of
from libraries import other_libraries, to_library, to_numpy
from slgh.paper.experiments import complexity as c
from slgh.paper.experiments import error_tolerance as e
from slgh.paper.experiments import iterations
from slgh.plotting.style import as_bytes
from slgh.problems import Problem
from slgh.problems.chain import chain
from slgh.problems.slide import slide
from slgh.theory import THEOREMS

pytestmark = pytest.mark.slow

PROBLEMS = [slide(1), slide(3), chain(1), chain(3), chain(4, links=2)]
each_problem = pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: f"{p.name}{p.d}")


# The functions


def draw(problem: Problem, seed: int, n: int = 1) -> np.ndarray:
    """Return points in the relevant region of the function."""
    reach = 3.0 if problem.name == "slide" else 2 * problem.smooth.n**-0.5  # type: ignore[union-attr]
    return np.random.default_rng(seed).uniform(-reach, reach, (n, problem.d))


@each_problem
@given(seed=st.integers(0, 10**6), t=st.floats(0, 1))
def test_closed_forms_are_the_expectation(problem: Problem, seed: int, t: float) -> None:
    """Averages over 20,000 antithetic pairs, within 5 standard errors."""
    x = draw(problem, seed)[0]
    u = np.random.default_rng([seed, 1]).standard_normal((20_000, problem.d))
    values = (problem.fun(x + t * u) + problem.fun(x - t * u)) / 2
    error = 5 * values.std() / len(u) ** 0.5 + 1e-9
    assert smooth_of(problem).value(x, np.array(t)) == pytest.approx(values.mean(), abs=error)


@each_problem
@given(seed=st.integers(0, 10**6), t=st.floats(0.05, 1))
def test_derivatives_of_closed_forms(problem: Problem, seed: int, t: float) -> None:
    F, x, h, at = smooth_of(problem), draw(problem, seed)[0], 1e-4, np.array(t)
    steps = h * np.eye(problem.d)
    slopes = [(F.value(x + s, at) - F.value(x - s, at)) / (2 * h) for s in steps]
    np.testing.assert_allclose(F.grad(x, at), slopes, atol=2e-5)
    hessian = [(F.grad(x + s, at) - F.grad(x - s, at)) / (2 * h) for s in steps]
    assert F.trace(x, at) == pytest.approx(np.trace(hessian), abs=2e-3)
    assert F.dt(x, at) == pytest.approx((F.value(x, at + h) - F.value(x, at - h)) / (2 * h), abs=1e-4)


@each_problem
def test_the_constants_hold_and_are_not_far_off(problem: Problem) -> None:
    F: Any = problem.smooth
    x, h = draw(problem, 0, 20_000), 1e-4
    slopes = np.linalg.norm(problem.grad(x), axis=1)  # type: ignore[misc]
    rows = [problem.grad(x + h * s) - problem.grad(x - h * s) for s in np.eye(problem.d)]  # type: ignore[misc]
    curvatures = np.linalg.norm(np.stack(rows, axis=1) / (2 * h), 2, axis=(1, 2))
    assert 0.5 * F.L0 < slopes.max() <= F.L0
    assert 0.8 * F.L1 < curvatures.max() <= F.L1 * (1 + 1e-6)
    values = problem.fun(x)
    assert values.max() - problem.minimum <= F.span
    assert values.min() >= problem.minimum


def test_the_chain_has_its_minimum_where_all_links_are_closed() -> None:
    problem = chain(5, links=3)
    assert problem.fun(problem.minimizers[0]) == pytest.approx(-1)
    np.testing.assert_allclose(problem.grad(problem.minimizers[0]), 0, atol=1e-14)  # type: ignore[misc]
    np.testing.assert_array_equal(problem.grad(problem.x0)[3:], 0)  # type: ignore[misc]


def test_a_variable_of_the_chain_feels_nothing_before_the_last_one_has_moved() -> None:
    problem = chain(4)
    x, way = problem.x0.copy(), 0.5
    for moved in range(4):
        g = problem.grad(x)  # type: ignore[misc]
        assert g[moved] < -0.2
        assert (np.abs(g[moved + 1 :]) < 1e-4).all()
        x[moved] = way


@pytest.mark.parametrize(("make", "d"), [(slide, 0), (slide, 2.5), (chain, 0), (chain, "2")])
def test_a_wrong_dimension_is_an_error(make: Any, d: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="`d` must be an integer"):
        make(d)


def test_a_chain_has_no_more_links_than_variables() -> None:
    with pytest.raises(ValueError, match="`links` must be an integer <= d = 3"):
        chain(3, links=4)


@other_libraries
@pytest.mark.parametrize("problem", PROBLEMS[1::2], ids=lambda p: f"{p.name}{p.d}")
def test_closed_forms_are_the_same_on_every_library(problem: Problem, library: str) -> None:
    F, x, t = problem.smooth, draw(problem, 5, 4), np.array([0.0, 0.1, 0.5, 2.0])
    for name in ("value", "grad", "dt", "trace"):
        found = getattr(F, name)(to_library(x, library), to_library(t, library))
        np.testing.assert_allclose(to_numpy(found), getattr(F, name)(x, t), rtol=1e-12, atol=1e-14)


# Table 1


def test_the_slide_takes_almost_the_iterations_that_theorem_3_4_allows() -> None:
    cell = dataclasses.replace(c.TABLE[0], eps={"slide": (0.1, 0.05, 0.025)}, d={"slide": (2,)})
    fits = c.complexity(c.measure(cell, "slide", 2), [cell]).fits
    found = next(fit for fit in fits if (fit.function, fit.gamma) == ("slide", "constant"))
    assert 1.8 < found.T.p < 2
    assert math.isnan(found.T.q)
    assert found.largest < 0.01


def test_long_chains_take_eps_to_the_minus_2() -> None:
    found = c.exponents([m for n in (16, 32, 64) for m in c.measure_worst_case(n)])
    assert 1.85 < found.p < 2.05


@pytest.mark.parametrize("theorem", THEOREMS)
def test_the_iterations_of_a_theorem_stay_below_its_bound(theorem: str) -> None:
    cell = next(cell for cell in c.TABLE if cell.theorem == theorem)
    eps = max(cell.eps["wells"])
    small = dataclasses.replace(cell, eps={"wells": (1.1 * eps, eps)}, max_length={"wells": 1024})
    found = c.measure(small, "wells", 2)
    assert len(found) == 4
    for m in found:
        assert m.T is not None
        assert 0 < m.T < 0.1 * m.bound
    wide, narrow = (m for m in found if m.gamma == "constant")
    assert wide.T < narrow.T  # type: ignore[operator]


def test_the_explicit_bounds_at_a_constant_gamma_have_the_exponents_of_the_tuned_row() -> None:
    """With the tuned gamma as an equation, the exponents are larger."""
    tuned_row = {"3.4": (2, 0), "3.5": (4, 0), "4.1": (2, 1), "4.2": (4, 1), "C.1": (2, 1), "C.2": (4, 1)}
    for fit in c.complexity([]).fits:
        p, q = tuned_row[fit.theorem]
        if fit.gamma == "constant":
            assert fit.T.p == pytest.approx(p, abs=0.01)
            assert fit.T.q == pytest.approx(q, abs=0.05)
        else:
            assert fit.T.p > p + 1.5


def measured(T: list[float | None], eps: list[float], d: list[int]) -> list[c.Measured]:
    """Return measurements of an artificial function."""
    return [
        c.Measured(theorem="4.1", function="wells", gamma="constant", d=n, eps=s, T=v, bound=10**6)
        for v, s, n in zip(T, eps, d, strict=True)
    ]


def test_exponents_are_fitted_with_their_errors() -> None:
    grid = [(s, n) for s in (0.5, 0.25, 0.125) for n in (2, 4, 8)]
    noise = np.random.default_rng(0).normal(0, 0.05, len(grid))
    eps, d = [s for s, _ in grid], [n for _, n in grid]
    exact = c.exponents(measured([7 * s**-1.5 * n**0.5 for s, n in grid], eps, d))
    assert [exact.p, exact.q] == pytest.approx([1.5, 0.5])
    T = [7 * s**-1.5 * n**0.5 * math.exp(z) for (s, n), z in zip(grid, noise, strict=True)]
    found = c.exponents(measured(T, eps, d))
    assert 0.01 < found.p_se < 0.06
    assert abs(found.p - 1.5) < 4 * found.p_se
    assert abs(found.q - 0.5) < 4 * found.q_se
    assert math.isnan(c.exponents(measured([10.0, None], [0.5, 0.25], [2, 2])).p)


def test_the_first_mean_below() -> None:
    squares = np.array([4.0, 4.0, 1.0, 1.0, 0.0, 0.0])
    assert iterations.first_below(squares, 0, 1.0, argmin=True) == 3
    assert iterations.first_below(squares, 0, 1.5, argmin=False) == 5  # means 4, 4, 3, 2.5, 2, 1.7
    assert iterations.first_below(squares, 2, 0.8, argmin=False) == 6  # means 1, 1, 2/3, 1/2 from the third on
    assert iterations.first_below(squares, 0, 0.5, argmin=False) is None


def test_lengths_are_interpolated_by_powers() -> None:
    lengths = [4, 16, 64]
    means = [1 / n**0.5 for n in lengths]
    assert iterations.length_below(means, lengths, 10, 32**-0.25) == pytest.approx(42)
    assert iterations.length_below(means, lengths, 10, 1.0) is None
    assert iterations.length_below(means, lengths, 10, 0.1) is None
    assert iterations.length_below([0.1, 1.0, 0.01], lengths, 0, 0.5) > 16  # type: ignore[operator]


@pytest.fixture(scope="module")
def small() -> c.Complexity:
    cells = [dataclasses.replace(cell, d=dict.fromkeys(cell.eps, (2, 4))) for cell in c.TABLE[:2]]
    grid = [(s, n) for s in (0.5, 0.25) for n in (2, 4)]
    return c.complexity(
        [
            dataclasses.replace(m, theorem=cell.theorem, gamma=gamma)
            for cell in cells
            for gamma in ("constant", "tuned")
            for m in measured([s**-2 * n for s, n in grid], [s for s, _ in grid], [n for _, n in grid])
        ],
        cells,
    )


def test_the_table_and_the_json(small: c.Complexity) -> None:
    rows = small.rows()
    assert {len(row) for row in rows} == {len(c.HEADINGS)}
    row = next(row for row in rows if row[:3] == ("3.4", "wells", "constant"))
    assert row[3:7] == ("d^3/2 eps^-2", "2.00", "1.00", "<= 6e-05")
    known = [m for m in small.measured if (m.theorem, m.function, m.gamma) == row[:3]]
    assert row[7] == f"{len(known)}/{len(known)}"
    found = json.loads(json.dumps(small.as_dict(), allow_nan=False))
    assert found["measured"][0]["T"] == 8
    assert "its two rows coincide" in found["note"]


def test_every_cell_of_table_1_is_measured() -> None:
    assert [cell.theorem for cell in c.TABLE] == list(THEOREMS)
    labels = [job.label for job in c.jobs()]
    assert len(set(labels)) == len(labels) >= 36


def test_the_figures_are_drawn(small: c.Complexity) -> None:
    curves = tuple(e.Curve(error=error, method="Algorithm 4", mean=(1.0, 0.5)) for error in e.ERRORS)
    means = e.draw_means(e.Tolerance(nu=1e-5, T=(10, 20), curves=curves, bound=(2.0, 1.0), printed=(3.0, 2.0)))
    assert [len(ax.lines) for ax in means.axes] == [3, 3]
    assert sum(bool(ax.lines) for ax in c.draw(small).axes) == 2
    for figure in (means, c.draw(small), e.draw_error()):
        assert as_bytes(figure, "png").startswith(b"\x89PNG")


def test_a_figure_without_matplotlib_names_the_extra(small: c.Complexity, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "slgh\[plot\]"'):
        c.draw(small)


def test_the_smoothed_form_of_figure_2_has_no_minima_of_the_error() -> None:
    f_error, smoothed = (line.get_ydata() for line in e.draw_error().axes[1].lines)
    minima = [int(np.sum((y[1:-1] < y[:-2]) & (y[1:-1] < y[2:]))) for y in (np.asarray(f_error), np.asarray(smoothed))]
    assert minima[0] > 20
    assert minima[1] <= 2


# Appendix C


def test_the_constants_of_the_rippled_function() -> None:
    x = np.linspace(-10, 10, 100_001)[:, None]
    g = e.rippled_grad(x)[:, 0]
    np.testing.assert_allclose(g[1:-1], np.gradient(e.rippled(x), x[:, 0])[1:-1], atol=1e-6)
    assert np.abs(g).max() <= 1 + e.RIPPLE * e.WAVES
    assert np.abs(np.gradient(g, x[:, 0])).max() <= 1 + e.RIPPLE * e.WAVES**2


@pytest.mark.parametrize("error", e.ERRORS)
def test_the_errors_are_as_large_as_they_say_and_as_rough(error: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (10_000, 2))
    values = e.ERRORS[error](x)
    assert 0.7 < np.abs(values).max() <= 1
    near = e.ERRORS[error](x + rng.uniform(0, 1e-10, x.shape))
    assert np.abs(near - values).max() < 0.02 if error == "continuous" else np.mean(near != values) > 0.3


def test_algorithm_4_stays_below_the_bound_of_theorem_C_1_and_no_floor_does_not() -> None:
    records = [job.run(lambda share: None) for job in e.jobs(T=5000, seeds=4)]
    found = e.error_tolerance(records, T=5000)
    assert {(curve.error, curve.method) for curve in found.curves} == {
        (error, method)
        for error in ("continuous", "discontinuous")
        for method in ("Algorithm 4", "Algorithm 4, floor 0", "Algorithm 3, floor 0")
    }
    for curve in found.curves:
        below = np.array(curve.mean) <= np.array(found.bound)
        if curve.method == "Algorithm 4":
            assert below.all()
            assert curve.mean[-1] < 0.2 * found.bound[-1]
        else:
            assert curve.mean[-1] > found.printed[-1] > found.bound[-1]
    assert {len(row) for row in found.rows()} == {len(e.HEADINGS)}
    assert json.loads(json.dumps(found.as_dict(), allow_nan=False))["nu"] == 1e-5
