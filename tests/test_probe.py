"""The probe: its numbers are those of F, its advice agrees with runs, and it makes the stated evaluations."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from array_api_compat import array_namespace
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

import slgh
from cases import noting
from libraries import every_library, to_library
from slgh.plotting.probe_plot import plot_probe
from slgh.probe import RADII, Probe, estimate, expected_drops, jackknife, probe, rise_share

mpl.use("Agg")
NUMBERS = ("value", "gradient_norm", "snr", "curvature", "reached", "score")


def sphere(x: Any) -> Any:
    return 0.5 * (x * x).sum(axis=-1)


def ellipsoid(x: Any) -> Any:
    return np.sum(10.0 ** np.arange(x.shape[-1]) * x * x, axis=-1)


def rastrigin(x: Any) -> Any:
    return np.sum(x * x - 10 * np.cos(2 * np.pi * x) + 10, axis=-1)


def stairs(x: Any) -> Any:
    return np.sum(np.floor(x + 0.5) ** 2, axis=-1)


def pairs(fun: Any, x: np.ndarray, t: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return values (k, 2, M) at +u and -u."""
    return np.stack([[fun(x + one * u), fun(x - one * u)] for one in t])


def test_the_estimates_are_the_printed_formulas() -> None:
    u, t = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, -2.0]]), np.array([0.5])
    f = np.array([[[3.0, 1.0, 2.0], [1.0, 2.0, 6.0]]])
    odd, even = np.array([2.0, -1.0, -4.0]), np.array([2.0, 1.5, 4.0])
    g = odd[:, None] * u
    signal = sum(g[i] @ g[j] for i in range(3) for j in range(3) if i != j) / 6
    spread = np.trace(np.cov(g.T))
    found = estimate(u, t, f)
    assert found.value[0] == pytest.approx(even.mean())
    assert found.gradient_norm[0] == pytest.approx(max(signal, 0) ** 0.5)
    assert found.snr[0] == pytest.approx(signal / spread)
    assert found.curvature[0] == pytest.approx(2 / 0.25 * np.polyfit([1.0, 2.0, 4.0], even, 1)[0])


def test_on_a_sphere_the_curvature_is_1_at_all_radii() -> None:
    found = probe(sphere, [3.0, -4.0, 12.0], vectorized=True, seed=0)
    np.testing.assert_allclose(found.curvature, 1, rtol=1e-6)
    np.testing.assert_allclose(found.curvature_se, 0, atol=1e-6)


@pytest.mark.parametrize("d", [1, 2, 10])
def test_on_a_sphere_gradient_and_snr_are_those_of_a_linear_function(d: int) -> None:
    """Variance of the U-statistic: 4(M-2)/(M(M-1)) 2|x|^4 + 2/(M(M-1)) (d + 7)|x|^4. The SNR is 1 / (d + 1)."""
    M, x0 = 500, np.full(d, 2.0)
    found = probe(sphere, x0, t=[0.1, 3.0], samples=M, steps=2, vectorized=True, seed=0)
    square = x0 @ x0
    sd = square * (8 * (M - 2) / (M * (M - 1)) + 2 * (d + 7) / (M * (M - 1))) ** 0.5
    assert (np.abs(found.gradient_norm**2 - square) < 5 * sd).all()
    assert (np.abs(found.snr - 1 / (d + 1)) < 5 * found.snr_se).all()
    value = square / 2 + found.t**2 * d / 2
    assert (np.abs(found.value - value) < 5 * found.t**2 * (d / 2 / M) ** 0.5).all()


def test_the_curvature_is_that_of_the_smoothed_function() -> None:
    """Rastrigin's ripple vanishes: F has second derivative 2 + 40 pi^2 exp(-2 pi^2 t^2) cos(2 pi x) per variable."""
    x0 = np.full(3, 1.1)
    found = probe(rastrigin, x0, t=[0.05, 0.2, 2.0], samples=2000, steps=2, vectorized=True, seed=0)
    expected = 2 + 40 * np.pi**2 * np.exp(-2 * np.pi**2 * found.t**2) * np.cos(2.2 * np.pi)
    assert (np.abs(found.curvature - expected) < 5 * found.curvature_se).all()
    assert found.curvature_se[2] < 0.5


def test_standard_errors_are_the_spread_over_seeds() -> None:
    x, t = np.array([1.0, -2.0, 0.5]), np.array([0.3, 2.0])
    draws = [np.random.default_rng(seed).standard_normal((30, 3)) for seed in range(300)]
    found = np.array([estimate(u, t, pairs(rastrigin, x, t, u)) for u in draws])
    errors = np.array([jackknife(u, t, pairs(rastrigin, x, t, u)) for u in draws])
    np.testing.assert_allclose((errors**2).mean(axis=0) ** 0.5, found.std(axis=0), rtol=0.25)


@pytest.mark.parametrize(("fun", "x0"), [(rastrigin, np.full(5, 3.3)), (slgh.problems.ackley().fun, np.full(2, 5.0))])
def test_the_advice_is_to_start_well_above_the_ripples_and_that_homotopy_helps(fun: Any, x0: np.ndarray) -> None:
    for seed in range(5):
        found = probe(fun, x0, vectorized=True, seed=seed)
        assert found.helps
        assert found.t1 >= 1
        assert "f rises" in found.message


@pytest.mark.parametrize("fun", [sphere, ellipsoid, slgh.problems.himmelblau().fun])
def test_where_f_only_falls_homotopy_is_not_said_to_help(fun: Any) -> None:
    for seed in range(5):
        found = probe(fun, np.array([5.0, 5.0]), vectorized=True, seed=seed)
        assert not found.helps
        assert found.rise == 0
        assert "L-BFGS" in found.message


def test_ripples_that_the_way_misses_show_in_the_curvature() -> None:
    def f(x: Any) -> Any:
        return np.sum(x**2 + 0.002 * (1 - np.cos(200 * x)), axis=-1)

    found = probe(f, np.zeros(10) + 1.0, vectorized=True, seed=0, t=[1e-3, 0.1, 1.0])
    assert found.helps
    assert abs(found.curvature[0]) > 10 * abs(found.curvature[2])


def test_where_f_is_flat_around_x0_homotopy_helps() -> None:
    found = probe(stairs, np.full(3, 7.3), vectorized=True, seed=0)
    assert found.helps
    assert found.snr[0] == 0
    assert "flat" in found.message


def test_where_nothing_lower_is_found_it_says_so() -> None:
    found = probe(sphere, np.zeros(2), vectorized=True, seed=0)
    assert not found.helps
    assert (found.score == 0).all()
    assert found.message.startswith("No radius found a value below f(x0) = 0")


def test_radii_that_saw_nothing_are_rehearsed_again_and_then_named() -> None:
    def two_wells(x: Any) -> Any:
        return np.sum(x**4 - 16 * x**2 + 5 * x, axis=-1) / 2

    found = probe(two_wells, np.full(10, 3.0), vectorized=True, seed=0)
    assert found.t1 == pytest.approx(9.49, rel=0.01)
    assert found.nfev == 1008 + 3 * (2 + 4 * 4 * 24)
    assert "From t = 30 nothing below f(x0) was found" in found.message


def test_where_nothing_lower_is_found_there_is_no_advice() -> None:
    found = probe(lambda x: np.sum(x**2, axis=-1), np.zeros(3), vectorized=True, seed=0)
    assert np.isnan(found.t1)
    assert not found.helps
    assert "No radius found a value below" in found.message


def test_a_start_without_a_value_costs_no_more() -> None:
    def f(x: np.ndarray) -> np.ndarray:
        return np.where((x == 3.3).all(axis=-1), np.nan, rastrigin(x))

    assert probe(f, np.full(3, 3.3), vectorized=True, seed=0).nfev == 1008


def test_a_plot_needs_no_finite_curvature() -> None:
    found = probe(sphere, np.full(2, 6.0), vectorized=True, seed=0)
    for curvature in (np.full(8, np.nan), np.full(8, -2e-6), found.curvature):
        low, high = plot_probe(dataclasses.replace(found, curvature=curvature)).figure.axes[1].get_ylim()
        assert not (curvature < 0).any() or (low, high) == pytest.approx((-3e-6, 2e-7))


def test_flat_is_meant_beside_the_drop() -> None:
    found = probe(lambda x: -np.exp(-5 * np.sum((x - 2) ** 2)), np.zeros(3), seed=0)
    assert found.helps
    assert "f is flat around x0" in found.message


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ackley", "hole", "rosenbrock"])
def test_the_score_ranks_t1_as_the_runs_do(name: str) -> None:
    """benchmarks/probe.py measures 0.84 to 0.95 on average, and at least 0.70."""
    problem = slgh.problems.PROBLEMS[name]()
    found = probe(problem.fun, problem.x0, vectorized=True, seed=1)
    starts = np.tile(problem.x0, (11, 1))
    usual = {"method": "scale_free", "oracle": "antithetic", "shape": 1.0, "alpha": 0.5, "fall": 6e-6}
    options: dict[str, Any] = {"batched": True, "vectorized": True, "seed": 0, "history": None, **usual}
    runs = [np.median(slgh.minimize(problem.fun, starts, t1=t, **options).fun) for t in found.t]
    assert spearmanr(found.score, -np.round(runs, 3))[0] > 0.7


def test_a_larger_radius_keeps_what_its_budget_leaves_of_a_smaller_ones_promise() -> None:
    t = np.array([1.0, 10.0, 100.0])
    eps = 10.0**-30
    np.testing.assert_allclose(expected_drops(np.array([1.0, 4.0, 0.0]), t, eps), [1.0, 4.0, 3.6])
    np.testing.assert_allclose(expected_drops(np.array([1.0, 0.5, 3.0]), t, eps), [1.0, 0.9, 3.0])


@given(st.lists(st.floats(-10, 10), min_size=3, max_size=3), st.lists(st.floats(-10, 10), min_size=3, max_size=3))
def test_a_convex_function_never_rises_on_the_way_down(a: list[float], b: list[float]) -> None:
    way = np.linspace(a, b, 33)
    assert rise_share(np.round(ellipsoid(way), 6)) == 0


def test_the_advice_does_not_depend_on_the_units_of_f() -> None:
    one, other = (probe(f, np.full(4, 3.3), vectorized=True, seed=0) for f in (rastrigin, lambda x: 8 * rastrigin(x)))
    np.testing.assert_allclose(other.score, 8 * one.score)
    np.testing.assert_allclose(other.snr, one.snr)
    np.testing.assert_allclose(other.curvature, 8 * one.curvature)
    assert (one.t1, one.helps) == (other.t1, other.helps)


def test_points_outside_the_bounds_are_never_evaluated() -> None:
    seen: list[np.ndarray] = []

    def watched(x: np.ndarray) -> Any:
        seen.append(x.reshape(-1, 3).copy())
        return rastrigin(x)

    low, high = np.array([-1.0, 0.0, -np.inf]), np.array([4.0, 3.4, 3.5])
    found = probe(watched, np.full(3, 3.3), bounds=list(zip(low, high, strict=True)), vectorized=True, seed=0)
    points = np.concatenate(seen)
    assert len(points) == found.nfev
    assert ((points >= low) & (points <= high)).all()


def test_the_radii_are_those_around_the_first_one_of_auto() -> None:
    unbounded = probe(sphere, np.full(2, 6.0), vectorized=True, seed=0)
    bounded = probe(sphere, np.full(2, 6.0), vectorized=True, seed=0, bounds=[(-10, 10)] * 2)
    np.testing.assert_allclose(unbounded.t, 6 * RADII)
    np.testing.assert_allclose(bounded.t, 5 * RADII)
    given_ones = probe(sphere, np.full(2, 6.0), vectorized=True, seed=0, t=[0.5, 2])
    assert given_ones.t.tolist() == [0.5, 2.0]


def test_bad_values_are_dropped_and_counted() -> None:
    bad = 0

    def f(x: np.ndarray) -> np.ndarray:
        nonlocal bad
        values = np.where(x[..., 0] > 3.5, np.nan, rastrigin(x))
        # x0 and all pairs come as one array; the path has 31 points; a step of a run has two pairs.
        pair = np.isnan(values).reshape(2, -1).any(axis=0) if len(x) == 4 else np.isnan(values)
        if len(x) > 31:
            pair = np.isnan(values[1:]).reshape(8, 2, 12).any(axis=1)
        bad += int(pair.sum())
        return values

    found = probe(f, np.full(3, 3.3), vectorized=True, seed=0)
    assert np.isfinite(found.reached).all()
    assert np.isfinite(found.value[found.t < 1]).all()
    assert found.helps
    assert 0 < found.nrejected == bad


def test_infinities_of_both_signs_are_bad_values() -> None:
    def f(x: np.ndarray) -> np.ndarray:
        return np.select([x[..., 0] > 3.5, x[..., 0] < 3.1], [np.inf, -np.inf], rastrigin(x))

    found = probe(f, np.full(3, 3.3), vectorized=True, seed=0)
    assert np.isfinite(found.score).all()
    assert np.isfinite(found.fun)
    assert np.isnan(found.snr_se[-1])


def test_a_start_without_a_value_is_no_obstacle() -> None:
    found = probe(lambda x: np.nan if (x == 3).all() else float(sphere(x)), np.full(2, 3.0), seed=0)
    assert found.fun < 1
    assert np.isfinite(found.score).all()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_function_without_any_value_is_an_error(value: float) -> None:
    with pytest.raises(ValueError, match=r"`fun` must be finite somewhere around `x0`"):
        probe(lambda x: value, [1.0, 2.0], seed=0)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"samples": 2}, ValueError, "`samples` must be an integer >= 3, got samples=2"),
        ({"samples": 2.5}, TypeError, "`samples` must be an integer"),
        ({"steps": 1}, ValueError, "`steps` must be an integer >= 2"),
        ({"t": [1.0, 0.5]}, ValueError, "`t` must be a sequence of ascending finite numbers above 0"),
        ({"t": [0.0, 1.0]}, ValueError, "`t` must be"),
        ({"t": [1.0, np.inf]}, ValueError, "`t` must be"),
        ({"t": []}, ValueError, "`t` must be"),
        ({"t": 2.0}, ValueError, "`t` must be"),
        ({"t": "wide"}, ValueError, "`t` must be.*'wide'"),
        ({"seed": -1}, ValueError, "`seed`"),
        ({"bounds": [(0, 1)]}, ValueError, r"`bounds` must have one pair per variable \(expected 2\); got 1"),
        ({"bounds": [(0, 1), (0, 1)]}, ValueError, "`x0` must lie within `bounds`"),
        ({"x0": [[1.0, 2.0]]}, ValueError, r"`x0` must have shape \(d,\)"),
        ({"x0": [np.nan, 2.0]}, ValueError, "`x0` must be finite"),
        ({"fun": 3}, TypeError, "`fun` must be callable"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_evaluated(
    options: dict[str, Any], error: type[Exception], words: str
) -> None:
    called: list[Any] = []
    given_ones: dict[str, Any] = {"fun": noting(called.append, lambda x: 0.0), "x0": [1.0, 2.0]} | options
    with pytest.raises(error, match=words):
        probe(given_ones.pop("fun"), given_ones.pop("x0"), **given_ones)
    assert not called


@pytest.mark.parametrize(("k", "samples", "steps"), [(None, 12, 24), (3, 5, 7)])
def test_it_takes_as_many_evaluations_as_it_says(k: int | None, samples: int, steps: int) -> None:
    calls = 0

    def f(x: np.ndarray) -> float:
        nonlocal calls
        calls += 1
        return float(rastrigin(x))

    t = None if k is None else np.geomspace(0.1, 2, k)
    found = probe(f, np.full(3, 3.3), t=t, samples=samples, steps=steps, seed=0)
    assert found.nfev == calls == (k or 8) * (2 * samples + 4 * steps + 2) + 32


def test_the_same_seed_gives_the_same_probe() -> None:
    one, same, other = (probe(rastrigin, np.full(3, 3.3), vectorized=True, seed=seed) for seed in (5, 5, 6))
    for name in NUMBERS:
        np.testing.assert_array_equal(getattr(one, name), getattr(same, name))
        assert not np.array_equal(getattr(one, name), getattr(other, name))
    assert str(one) == str(same)
    drawn = probe(rastrigin, np.full(3, 3.3), vectorized=True, steps=2)
    again = probe(rastrigin, np.full(3, 3.3), vectorized=True, steps=2, seed=drawn.seed)
    np.testing.assert_array_equal(drawn.snr, again.snr)


def test_point_by_point_is_as_vectorized() -> None:
    whole = probe(lambda x, a: a * rastrigin(x), np.full(3, 3.3), vectorized=True, seed=0, args=(2.0,))
    single = probe(lambda x, a: a * float(rastrigin(x)), np.full(3, 3.3), seed=0, args=(2.0,))
    for name in NUMBERS:
        np.testing.assert_allclose(getattr(single, name), getattr(whole, name), rtol=1e-12, atol=1e-12)
    assert single.message == whole.message


@every_library
@pytest.mark.parametrize("vectorized", [True, False])
def test_the_function_gets_arrays_of_x0s_library(library: str, vectorized: bool) -> None:
    x0 = to_library(np.array([3.0, 1.0], np.float32), library)
    seen = set()

    def f(x: Any) -> Any:
        seen.add((array_namespace(x), x.dtype))
        return sphere(x)

    found = probe(f, x0, t=[0.5, 2.0], vectorized=vectorized, seed=0, steps=6)
    assert seen == {(array_namespace(x0), x0.dtype)}
    np.testing.assert_allclose(found.curvature, 1, rtol=1e-3)
    assert found.fun < found.value.min()
    assert type(found.x) is np.ndarray


def test_a_closed_form_is_probed_by_its_values() -> None:
    problem = slgh.problems.rosenbrock()
    form, plain = (probe(f, problem.x0, vectorized=True, seed=0) for f in (problem.smooth, problem.fun))
    np.testing.assert_allclose(form.score, plain.score)


def test_ctrl_c_reaches_the_caller() -> None:
    calls = 0

    def f(x: np.ndarray) -> float:
        nonlocal calls
        calls += 1
        if calls == 20:
            raise KeyboardInterrupt
        return float(sphere(x))

    with pytest.raises(KeyboardInterrupt):
        probe(f, [1.0, 2.0], seed=0)


def test_it_prints_as_a_table_that_marks_t1() -> None:
    found = probe(rastrigin, np.full(3, 3.3), vectorized=True, seed=0)
    lines = str(found).splitlines()
    assert len(lines) == 1 + len(found.t) + 1
    assert [line.endswith("*") for line in lines[1:-1]] == (found.t == found.t1).tolist()
    assert lines[-1] == found.message
    assert max(map(len, lines[:-1])) <= 80


def test_it_is_shown_in_a_few_lines_and_as_a_table_in_a_notebook() -> None:
    found = probe(rastrigin, np.full(30, 3.3), vectorized=True, seed=0)
    lines = repr(found).splitlines()
    assert len(lines) < 12
    assert f"       t1: {found.t1:.6g}" in lines
    assert [line.count("(30 numbers)") for line in lines if line.lstrip().startswith("x: ")] == [1]
    table = found._repr_html_()
    assert table.count("<tr") == table.count("</tr>") == 7 + 1 + len(found.t)
    bold = table.partition('<tr style="font-weight: bold"><td>')[2]
    assert bold.startswith(f"{found.t1:.3g}</td>")
    nothing = probe(lambda x: 1.0, [1.0], seed=0, steps=2)
    assert "bold" not in nothing._repr_html_()


def test_the_plot_draws_the_numbers_and_t1() -> None:
    from matplotlib import pyplot as plt

    found = probe(rastrigin, np.full(3, 3.3), vectorized=True, seed=0)
    ax = plot_probe(found)
    assert isinstance(ax, mpl.axes.Axes)
    drawn = [np.asarray(line.get_xdata()) for line in ax.lines]
    assert any((x == found.t1).all() for x in drawn)
    np.testing.assert_allclose(np.asarray(ax.lines[0].get_ydata()), found.score / found.score.max())
    mine = plt.figure().add_subplot()
    assert plot_probe(found, mine) is mine
    flat = probe(lambda x: 1.0, [1.0], seed=0, steps=2)
    plot_probe(flat, plt.figure().add_subplot()).figure.canvas.draw()
    plt.close("all")


def test_without_matplotlib_the_plot_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    found: Probe = probe(sphere, [1.0], vectorized=True, seed=0, steps=2)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"slgh\[plot\]"):
        plot_probe(found)


def test_importing_the_probe_does_not_load_matplotlib() -> None:
    code = "import sys, slgh.probe; print('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
