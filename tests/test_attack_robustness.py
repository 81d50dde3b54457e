"""The curves of an attack count successes within queries and distances, over the images that were attacked."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from slgh.attack import AttackResult, Outcome, attack
from slgh.attack.robustness import SuccessCurves, budgets, success_curves
from slgh.plotting.success import success_figure

INF = np.inf


def curves(**changed: Any) -> SuccessCurves:
    """Return curves of three images: two are fooled after 20 and 40 queries, the second one at distance 2."""
    nearest = np.array([[INF, INF, INF], [3.0, INF, INF], [2.5, 4.0, INF], [1.0, 2.0, INF]])
    options: dict[str, Any] = {"queries": np.array([10, 20, 40, 80]), "nearest": nearest, "norm": "l2", "eps": None}
    return SuccessCurves(**options | changed)


def test_success_by_queries_counts_the_images_with_an_adversarial_one() -> None:
    assert_allclose(curves().success_by_queries(), [0, 1 / 3, 2 / 3, 2 / 3])


def test_eps_limits_the_distance_of_a_success() -> None:
    assert_allclose(curves(eps=2.5).success_by_queries(), [0, 0, 1 / 3, 2 / 3])


def test_success_by_distance_is_that_of_the_last_images() -> None:
    distances, shares = curves().success_by_distance()
    assert_array_equal(distances, [1, 2])
    assert_allclose(shares, [1 / 3, 2 / 3])


def test_a_budget_counts_what_was_recorded_within_it() -> None:
    before, exact, between, after = (curves().at(n) for n in (9, 40, 79, 1000))
    assert (before.success, before.median_distance) == (0, INF)
    assert exact[1:] == between[1:]
    assert (exact.median_distance, exact.median_distortion) == (4, 16)
    assert (after.median_distance, after.median_distortion) == (2, 4)
    assert curves(norm="linf").at(40).median_distortion == 4


def test_the_median_is_infinite_until_more_than_half_are_fooled() -> None:
    assert curves().at(20).median_distance == INF


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (50, [50]),
        (100, [100]),
        (500, [100, 200, 500]),
        (995, [100, 200, 500, 995]),
        (20_000, [100, 200, 500, 1000, 2000, 5000, 10_000, 20_000]),
    ],
)
def test_budgets_are_round_and_end_at_the_limit(limit: int, expected: list[int]) -> None:
    assert budgets(limit) == expected


def brighter(a: Any) -> Any:
    return 9 * a


def fool(**options: Any) -> AttackResult:
    """Attack images of two pixels. The second one is misclassified."""
    images = np.array([[0.6, 0.4], [0.6, 0.4], [0.9, 0.1]])
    return attack(brighter, images, [0, 1, 0], **{"max_queries": 200, "seed": 0} | options)


@pytest.mark.parametrize("options", [{}, {"norm": "linf"}, {"method": "zoslgh_r", "t1": 0.1, "step": 0.01}], ids=str)
def test_the_curves_of_a_result_end_at_the_result(options: dict[str, Any]) -> None:
    found = fool(**options)
    made = success_curves(found)
    assert made is not None
    assert made.nearest.shape[1] == 2, "the misclassified image was not attacked"
    won = found.success[[0, 2]]
    assert won.any()
    assert_array_equal(made.nearest[-1][won], found.distance[[0, 2]][won])
    assert (made.nearest[1:] <= made.nearest[:-1]).all()
    assert made.queries[-1] == found.queries.max()


def test_without_a_history_there_is_the_result_alone() -> None:
    made = success_curves(fool(history=0))
    assert made is not None
    assert made.success_by_queries().tolist() == [1.0]


def test_a_success_that_was_not_confirmed_is_none() -> None:
    found = fool()
    doubtful = dataclasses.replace(
        found, success=np.array([False, False, True]), outcome=(Outcome.UNCONFIRMED, *found.outcome[1:])
    )
    made = success_curves(doubtful)
    assert made is not None
    assert made.success_by_queries()[-1] == 0.5


def test_there_are_no_curves_if_no_image_was_attacked() -> None:
    assert success_curves(attack(brighter, np.array([[0.4, 0.6]]), [0])) is None


def test_the_figure_shows_percent_and_eps() -> None:
    figure = success_figure(curves(eps=2.5), title="two of three")
    left, right = figure.axes
    assert_allclose(np.asarray(left.lines[0].get_ydata(), float), [0, 0, 0, 100 / 3, 200 / 3])
    assert_allclose(np.asarray(right.lines[0].get_ydata(), float), [0, 100 / 3, 200 / 3, 200 / 3])
    assert_allclose(np.asarray(right.lines[1].get_xdata(), float), 2.5)
    assert figure.get_suptitle() == "two of three"


def test_the_figure_of_a_failure_is_flat() -> None:
    figure = success_figure(curves(nearest=np.full((4, 3), INF)))
    for ax in figure.axes:
        assert not np.asarray(ax.lines[0].get_ydata()).any()
