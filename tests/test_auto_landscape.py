"""The landscape phase distinguishes smooth, rugged and noisy functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from auto_cases import Point, answered, bowl, valley, waves
from slgh.auto.landscape import POINTS, Landscape, affordable_lines, check_landscape, has_poles


def ackley(x: Any) -> Any:
    return -20 * np.exp(-0.2 * np.sqrt(np.mean(x**2))) - np.exp(np.mean(np.cos(2 * np.pi * x))) + 20 + np.e


NOISE = np.random.default_rng(0)
EPS32 = float(np.finfo(np.float32).eps)


@pytest.mark.parametrize("d", [2, 10, 40])
@pytest.mark.parametrize("unit", [1.0, 2.0**60])
@pytest.mark.parametrize(
    ("fun", "verdict"),
    [
        (lambda x: np.sum(x**2), Landscape.SMOOTH),
        (lambda x: np.sum(10.0 ** np.linspace(0, 6, x.size) * x**2), Landscape.SMOOTH),
        (lambda x: np.sum(x), Landscape.SMOOTH),
        (lambda x: 7.0, Landscape.SMOOTH),
        (lambda x: 1e9 + np.sum(x**2), Landscape.SMOOTH),
        (valley, Landscape.SMOOTH),
        (waves, Landscape.RUGGED),
        (ackley, Landscape.RUGGED),
        (lambda x: np.sum(x**2) if x[0] > 3.1 else np.nan, Landscape.RUGGED),
        (lambda x: np.nan, Landscape.RUGGED),
        (lambda x: np.sum(x**2) * (1 + 0.01 * NOISE.normal()), Landscape.NOISY),
        (lambda x: NOISE.normal(), Landscape.NOISY),
        (
            lambda x: np.sum(x**2) + 100 * NOISE.standard_cauchy() * (NOISE.random() < 0.05),
            Landscape.SMOOTH_WITH_OUTLIERS,
        ),
    ],
    ids=[
        *("sphere", "ellipsoid", "linear", "constant", "offset", "valley", "waves", "ackley"),
        *("cliff", "nothing", "noise of f", "noise", "outliers"),
    ],
)
def test_the_landscape_is_smooth_rugged_or_noisy(fun: Point, verdict: Landscape, d: int, unit: float) -> None:
    right = 0
    for seed in range(5):
        ends = np.random.default_rng([seed, d]).uniform(-5, 5, (6, d))
        found, n = answered(check_landscape(np.full(d, 3.3), ends, 2.0**-52), lambda x: unit * fun(x))
        assert n == 6 * (POINTS + 1) or verdict is Landscape.SMOOTH_WITH_OUTLIERS
        right += found is verdict
    assert right >= 4


def judged(values: Any, n: int = 6, d: int = 8) -> Landscape:
    """Return the landscape if both requests are answered by `values` of all their points. It has gradients."""
    ends = np.random.default_rng(0).uniform(-5, 5, (n, d))
    talk = check_landscape(np.full(d, 3.3), ends, 2.0**-52, gradients=True)
    points = next(talk).points
    points = talk.send(values(points, 1)).points
    assert points.shape == (n, d)
    with pytest.raises(StopIteration) as end:
        talk.send(values(points, 2))
    return Landscape(end.value.value)


@pytest.mark.parametrize("unit", [1.0, 2.0**-900, 2.0**900])
def test_f_has_poles_if_its_highest_value_is_40_interquartile_ranges_above_the_median(unit: float) -> None:
    values = np.linspace(0.0, 2.0, 101)  # the quartiles are 0.5, 1 and 1.5
    for highest, expected in ((40.9, False), (41.1, True)):
        values[-1] = highest
        assert has_poles(unit * np.append(values, [np.nan, np.inf])) is expected
    assert not has_poles(np.append(np.zeros(90), 1.0)), "a plateau has no range to compare with"


def test_a_wall_of_constant_height_is_no_pole() -> None:
    values = np.linspace(0.0, 2.0, 101)
    for height in (1e3, 1e10):
        assert has_poles(np.append(values, [height, height / 3, height / 9, height / 27]))
        assert not has_poles(np.append(values, [height] * 4))


def test_poles_are_seen_with_gradients_alone() -> None:
    def poles(x: Any) -> Any:
        return waves(x) + np.cos(np.pi * x[0] / 2) ** -12

    found = []
    for seed in range(5):
        ends = np.random.default_rng(seed).uniform(-5, 5, (6, 8))
        for gradients in (True, False):
            found.append(answered(check_landscape(np.full(8, 3.3), ends, 2.0**-52, gradients=gradients), poles)[0])
    assert found[::2].count(Landscape.SINGULAR) >= 4
    assert Landscape.SINGULAR not in found[1::2]


@pytest.mark.parametrize("n", [1, 2, 3, 6])
@pytest.mark.parametrize("f", [np.square, np.negative])
def test_last_digits_that_depend_on_how_many_points_are_asked_are_no_noise(f: Any, n: int) -> None:
    def values(points: Any, request: int) -> Any:
        exact = f(points).sum(axis=1) * (1 + 5e-7 * request)
        return exact.astype(np.float32).astype(float)

    assert judged(values, n) is Landscape.SMOOTH


@pytest.mark.parametrize("n", [1, 2, 3, 6])
def test_an_answer_that_changes_is_noise(n: int) -> None:
    def one_jumps(points: Any, request: int) -> Any:
        values = np.sum(points**2, axis=1)
        if request == 1:
            values[POINTS // 2] += 100.0
        return values

    assert judged(one_jumps, n) is Landscape.NOISY
    assert judged(lambda points, request: np.sum(points**2, axis=1) + np.log(2.5 - request), n) is Landscape.NOISY
    assert (
        judged(lambda points, request: np.sum(points**2, axis=1) * (np.nan if request > 1 else 1), n) is Landscape.NOISY
    )
    assert judged(lambda points, request: np.full(len(points), 1.0 if request > 1 else np.nan), n) is Landscape.NOISY


def test_one_value_of_each_line_that_is_not_finite_hides_no_noise() -> None:
    def holed(points: Any, request: int) -> Any:
        values = np.sum(points**2, axis=1)
        if request == 1:
            values = values.reshape(6, -1) + 10 * np.random.default_rng(1).normal(size=(6, POINTS))
            values[:, 7] = np.inf
            values = values.ravel()
        return values

    assert judged(holed) is Landscape.NOISY


def test_values_close_to_the_greatest_number_are_looked_at_without_a_warning() -> None:
    assert judged(lambda points, request: 1.7e308 * np.cos(points[:, 0])) is not Landscape.NOISY


def test_numbers_of_few_digits_are_no_ruggedness() -> None:
    ends = np.random.default_rng(0).uniform(-5, 5, (6, 8))
    coarse = lambda x: float(np.float32(bowl(x)))  # noqa: E731
    assert answered(check_landscape(np.full(8, 3.3), ends, EPS32), coarse)[0] is Landscape.SMOOTH
    short = np.full(8, 3.3) + 1e-4 * ends
    assert answered(check_landscape(np.full(8, 3.3), short, EPS32), coarse)[0] is Landscape.SMOOTH


def test_a_small_budget_is_not_looked_at() -> None:
    assert [affordable_lines(budget) for budget in (0, 100, 283)] == [0, 0, 0]
    assert affordable_lines(10_000) * (POINTS + 1) <= 600
