"""The explorer's data: F on a grid for decreasing t, exact if there is a closed form, otherwise blurred."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import truncnorm

import slgh
from cases import smooth_of
from slgh.plotting.explorer import MAX_BLURRED_POINTS, Explorer, box_around, explore
from slgh.plotting.path import Path
from slgh.problems import himmelblau, rosenbrock
from slgh.smoothing import Quadrature

SQUARE = ((-5.0, 5.0), (-5.0, 5.0))
WAVES = "x**2 + 2*cos(5*x)"


def look(F: Any, **options: Any) -> Explorer:
    given: dict[str, Any] = {"name": "f", "title": "f", "box": SQUARE, "t1": 2.0}
    return explore(F, **given | options)


def error(found: Explorer, exact: Explorer) -> float:
    """Return the largest error of F relative to its range at that t, which is visible in a picture."""
    off = np.abs(found.F - exact.F).reshape(len(exact.t), -1).max(axis=1)
    return float((off / np.ptp(exact.F.reshape(len(exact.t), -1), axis=1)).max())


def path(x: Any) -> Path:
    x = np.asarray(x, float)
    n = len(x)
    return Path(label="", iteration=np.arange(n), x=x, t=np.zeros(n), fun=np.zeros(n))


def test_t_falls_from_t1_to_0_in_ever_smaller_steps() -> None:
    t = look(himmelblau().smooth).t
    assert t[0] == 2.0
    assert t[-1] == 0.0
    steps = -np.diff(t)
    assert (steps > 0).all()
    assert (np.diff(steps) < 0).all()


def test_a_closed_form_is_taken_as_it_is() -> None:
    problem = rosenbrock()
    found = look(problem.smooth, box=((-3.0, 2.0), (-1.0, 4.0)), frames=5, points=11)
    assert found.F.shape == (5, 11, 11)
    x, y = found.axes
    assert found.F[1, 7, 2] == smooth_of(problem).value(np.array([[x[2], y[7]]]), found.t[1:2])[0]
    np.testing.assert_allclose(found.F[-1, 7, 2], problem.fun(np.array([x[2], y[7]])), rtol=1e-12)


@pytest.mark.parametrize("problem", [rosenbrock(), himmelblau()], ids=lambda p: p.name)
@pytest.mark.parametrize("box", [SQUARE, ((-3.0, 2.0), (-1.0, 7.0))], ids=["square", "oblong"])
def test_the_blur_is_F_but_for_a_thousandth_of_the_picture(problem: Any, box: Any) -> None:
    assert error(look(problem.fun, box=box), look(problem.smooth, box=box)) < 1e-3


def test_the_blur_of_one_variable_is_F() -> None:
    F = slgh.smooth(WAVES)
    found, exact = (look(f, box=((-2.0, 2.0),)) for f in (F.fun, F))
    assert found.F.shape == (61, 1001)
    assert error(found, exact) < 1e-4


@pytest.mark.parametrize("d", [1, 2])
def test_a_radius_far_larger_than_the_box_takes_coarser_grids_and_no_more_points(d: int) -> None:
    F = slgh.smooth("sum(x[i]**2 + x[i] for i in range(d))")
    asked = []

    def fun(x: np.ndarray) -> Any:
        asked.append(len(x))
        return F.fun(x)

    box = ((-0.2, 0.3),) * d
    found, exact = (look(f, box=box, t1=200.0, frames=9, points=41) for f in (fun, F))
    # F is nearly flat over such a box, so the error is measured relative to its values.
    np.testing.assert_allclose(found.F[:-1], exact.F[:-1], rtol=1e-3)
    np.testing.assert_array_equal(found.F[-1], exact.F[-1])
    assert sum(asked) < 12 * MAX_BLURRED_POINTS[d] ** d


def test_a_function_is_asked_once_for_each_point() -> None:
    asked: list[np.ndarray] = []

    def fun(x: np.ndarray) -> Any:
        asked.append(x)
        return np.sum(x**2, axis=-1)

    look(fun, points=21)
    points = np.concatenate(asked)
    assert len(np.unique(points, axis=0)) == len(points)
    assert len(points) == (21 + 2 * 5 * 4) ** 2  # five times t1 on each side, four points per unit


def test_rows_are_the_second_variable() -> None:
    found = look(lambda x: x[..., 0] + 10 * x[..., 1], box=((0.0, 1.0), (0.0, 2.0)), points=3, frames=2)
    np.testing.assert_allclose(found.F, [[[0, 0.5, 1], [10, 10.5, 11], [20, 20.5, 21]]] * 2, atol=1e-9)


def test_where_f_is_not_finite_F_is_the_mean_over_the_rest() -> None:
    def fun(x: np.ndarray) -> Any:
        return np.where(x[:, 0] >= 0, x[:, 0] ** 2, np.nan)

    found = look(fun, box=((-1.0, 3.0),), points=401)
    x = found.axes[0]
    for i in (0, 10, 20):
        t = found.t[i]
        u = truncnorm(-x / t, np.inf)  # E [(x + t u)^2 | x + t u >= 0]
        exact = x**2 + 2 * x * t * u.mean() + t**2 * (u.var() + u.mean() ** 2)
        near = x > -3 * t  # farther away, no point within reach has a value
        np.testing.assert_allclose(found.F[i, near], exact[near], atol=0.02)
    np.testing.assert_array_equal(np.isnan(found.F[-1]), x < 0)


@pytest.mark.parametrize("box", [((-1.0, 1.0),), SQUARE], ids=["1-D", "2-D"])
def test_a_function_without_any_value_leaves_nothing_to_see(box: Any) -> None:
    found = look(lambda x: np.full(len(x), np.inf), box=box, points=11, frames=3)
    assert not np.isfinite(found.F).any()
    assert np.isnan(found.F[0]).all()


def test_nan_spreads_to_no_neighbor_of_a_point() -> None:
    found = look(lambda x: 1 / x[:, 0], box=((-1.0, 1.0),), points=5)
    np.testing.assert_array_equal(np.isfinite(found.F[-1]), [True, True, False, True, True])


def test_quadrature_is_blurred_instead() -> None:
    def fun(x: np.ndarray) -> Any:
        return np.log(1 + np.sum(x**2, axis=-1))

    formula = slgh.smooth("log(1 + x**2) + log(1 + y**2)", fallback="quadrature")
    separable = Quadrature(lambda x: np.log(1 + x**2), separable=True)
    for F in (formula, separable, Quadrature(fun)):
        found = look(F, points=21)
        x, y = found.axes
        exact = F.value(np.array([[x[3], y[12]]]), found.t[10:11])
        np.testing.assert_allclose(found.F[10, 12, 3], exact[0], rtol=1e-3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"box": ()}, "one or two variables, got 0"),
        ({"box": ((0, 1),) * 3}, "one or two variables, got 3"),
        ({"box": ((1, 1),)}, r"low < high, got \(1, 1\)"),
        ({"box": ((0, np.inf),)}, r"got \(0, inf\)"),
        ({"t1": 0.0}, "`t1` must be a finite number above 0"),
        ({"frames": 1}, "`frames` must be an integer >= 2"),
        ({"points": 1}, "`points` must be an integer >= 2"),
        ({"paths": [path([[0.0]])]}, r"x of shape \(k, 2\)"),
        ({"minimizers": [1.0, 2.0]}, r"`minimizers` must have shape \(n, 2\), like `box`; got \(2,\)"),
        ({"minimizers": [[1.0]]}, r"got \(1, 1\)"),
        ({"F": lambda x: x}, r"`F` must map points \(1000, 2\) to values \(1000,\)"),
    ],
)
def test_bad_arguments_are_named(changes: dict[str, Any], message: str) -> None:
    arguments = {"F": himmelblau().fun} | changes
    with pytest.raises(ValueError, match=message):
        look(arguments.pop("F"), **arguments)


def test_known_minimizers_are_kept() -> None:
    problem = himmelblau()
    np.testing.assert_array_equal(look(problem.smooth, minimizers=problem.minimizers).minimizers, problem.minimizers)
    assert look(problem.smooth).minimizers is None


def test_a_box_has_equal_sides_and_contains_paths_and_minimizers() -> None:
    box = box_around([path([[0.0, 0.0], [4.0, 1.0]]), path([[0.0, -2.0]])], minimizers=[[1.0, 3.0]])
    sides = [high - low for low, high in box]
    assert sides[0] == pytest.approx(sides[1])
    for x, y in ((0, 0), (4, 1), (0, -2), (1, 3)):
        assert box[0][0] < x < box[0][1]
        assert box[1][0] < y < box[1][1]


@pytest.mark.parametrize("x", [[[3.0, 4.0]], [[3.0, 4.0]] * 5, [[3.0, 4.0], [np.nan, 0.0], [np.inf, 1.0], [3.0, 4.0]]])
def test_a_path_that_goes_nowhere_has_a_box_all_the_same(x: Any) -> None:
    assert box_around([path(x)]) == ((2.0, 4.0), (3.0, 5.0))


@pytest.mark.parametrize("far", [0.0, 1e-12, 1e9, 1e99, -1e99])
def test_a_box_is_one_however_far_away(far: float) -> None:
    ((low, high),) = box_around([path([[far]])])
    assert low < far < high


def test_a_run_that_diverged_has_a_box_as_far_as_it_made_sense() -> None:
    assert box_around([path([[0.0], [7.0], [1e200]])]) == ((-1.5, 8.5),)
    with pytest.raises(ValueError, match="finite x"):
        box_around([path([[np.nan]])])
