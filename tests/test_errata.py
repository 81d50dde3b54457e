"""Misprints and gaps of the paper: the printed parameters do not give the printed results, the corrected ones do."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from cases import find
from slgh.paper import errata
from slgh.paper.errata import claims, confirmed, hole, proofs, tables
from slgh.paper.errata.erratum import Erratum, Measurement
from slgh.paper.experiments.paper_table import unit

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parent.parent / "docs" / "errata.md").read_text()
BY_NAME = {it.name: it for it in errata.ERRATA}
SLOW = {"GradOpt's stopping rule", "the number of outer loops", "digits"}
"""Errata that take more than a few seconds, although they are deterministic."""


def no_tick(share: float) -> None:
    assert 0 <= share <= 1


@functools.cache
def measurement(name: str) -> Measurement:
    return BY_NAME[name].measure(no_tick)


def measured(name: str) -> Any:
    """Return the measurement of an erratum."""
    return measurement(name).found


class TestTables:
    def test_no_minibatch_makes_a_step_of_a_tenth_stay_where_the_paper_says(self) -> None:
        found = tables.ackley_step.measure(no_tick, samples=(10, 100)).found
        assert found["curvature"] * 0.1 > 2 > found["curvature"] * 0.01
        assert max(found["printed"]["ZOSGD"]) < 5
        assert found["ours"]["ZOSGD"] == pytest.approx([12.63, 12.63], abs=0.01)
        assert max(found["printed"]["ZOSLGH_r 0.995"]) < 5
        assert found["ours"]["ZOSLGH_r 0.995"][1] == pytest.approx(6.56, abs=0.01)

    def test_with_small_minibatches_the_printed_values_of_ackley_are_out_of_reach(self) -> None:
        found = tables.ackley_minibatch.measure(no_tick, samples=(1, 10)).found
        assert min(f["low"] for f in found["ZOGradOpt 0.5"]) > 1.4e-2 + unit("1.4e-2")
        assert min(f["low"] for f in found["ZOSLGH_r 0.999"]) > 1.7e-2 + unit("1.7e-2")

    def test_one_row_of_the_paper_disagrees_with_its_own_point(self) -> None:
        found = measured("Ackley's value")
        assert found["wrong"] == ["ackley ZOGradOpt 0.8"]
        assert 0.020 < found["low"] < found["high"] < 0.022

    def test_the_paper_rounds_some_figures_and_truncates_others(self) -> None:
        found = tables.digits.measure(no_tick, slow=False).found
        assert max(found["rounded"], found["truncated"]) < found["within"] == found["figures"]

    def test_one_stopping_rule_gives_gradopt_s_figures(self) -> None:
        own, *others = tables.gradopt_rule.measure(no_tick, slow=False).found.values()
        assert list(own.values()) == pytest.approx([14.14, 80.51], abs=0.01)
        for other in others:
            assert abs(other["himmelblau GradOpt 0.5"] - 14.14) > 0.1


class TestClaims:
    def test_the_slope_in_t_is_t_times_the_trace(self) -> None:
        found = measured("the slope in t")
        assert found["trace"] == pytest.approx(10.0)
        assert found["dt"] == pytest.approx(3.0) == found["t"] * found["trace"]

    def test_algorithm_1_ends_at_a_stationary_point_of_f_only_with_radius_0(self) -> None:
        found = measured("Algorithm 1's last radius")
        assert found["above"] > 1
        assert found["zero"] < 1e-6

    def test_where_t_does_not_come_to_0_nor_does_himmelblau(self) -> None:
        found = measured("the last t")
        assert found["f"] == pytest.approx(0.21, abs=0.01)
        assert found["t"] > 0.2
        assert found["f_longer"] < 1e-8

    def test_gradopt_is_not_stuck_on_himmelblau(self) -> None:
        short, long = measured("GradOpt on Himmelblau")["ends"]
        assert short["f"] == pytest.approx(80.51, abs=0.01)
        assert short["slope"] > 10
        assert short["minimum"] < short["maximum"]
        assert long["f"] < 0.1

    def test_where_the_smoothed_functions_have_their_minima(self) -> None:
        found = measured("Himmelblau at t = 2")
        assert found["x"] == pytest.approx([0.578, 0.525], abs=1e-3)
        assert found["distance"] > 1.5
        found = measured("Rosenbrock at t = 1.5")
        x = 1 / (400 * 1.5**2 + 1)
        assert found["x"] == pytest.approx([x, x * x + 1.5**2], abs=1e-6)
        assert found["f"] > 500

    def test_the_double_loop_is_about_as_fast_on_rosenbrock(self) -> None:
        found = claims.outer_loops.measure(no_tick, target=0.5).found
        assert found["loops"] > 10
        assert found["GradOpt 0.5"] < 1.5 * found["SLGH_r 0.995"]


class TestHole:
    def test_first_order_methods_never_leave_the_axis(self) -> None:
        found = hole.order.measure(no_tick).found
        assert max(found["first"]) < 1e-12
        assert min(found["zeroth"]) > 1e-3
        assert abs(found["x"][0] + 0.248) > unit("-0.248")

    def test_ten_samples_give_table_6(self) -> None:
        found = hole.minibatch.measure(no_tick, samples=(10,)).found
        assert found["inside"] == [[True, True, True]]
        ratio, slower, derivative = found["found"][0]
        assert slower == 0 < ratio < 0.3 < 0.95 < derivative

    def test_the_printed_y_tells_the_floor(self) -> None:
        found = hole.floor.measure(no_tick, floors=(1e-3, 0.02, 0.2)).found
        assert found["y"][0] == 0
        assert found["y"][1] > 0.05 < found["f"][1]
        assert found["f"][2] < 0.05

    def test_slgh_d_outperforms_slgh_r(self) -> None:
        *ratio, derivative = hole.better.measure(no_tick, seeds=20).found.values()
        assert derivative < -56.6 < -1 < min(ratio)

    def test_both_slopes_find_the_hole(self) -> None:
        found = hole.slope.measure(no_tick, seeds=50).found
        assert min(found["trace"][1], found["exact"][1]) > 0.95


class TestProofs:
    def test_no_test_function_meets_assumption_a1(self) -> None:
        found = measured("Assumption A1")
        assert min(found["slopes"].values()) > 1e3
        assert found["curvature"] > 1e6

    def test_a_bounded_function_never_becomes_convex(self) -> None:
        assert max(measured("A1 and convexity")["share"]) < -0.4

    def test_table_1_has_one_row_twice(self) -> None:
        found = measured("Table 1's rows")
        for name, (p, q) in found.items():
            assert p == pytest.approx(proofs.TABLE_1[name][0], abs=0.01)
            assert q == pytest.approx(0 if name.startswith("3") else 1, abs=0.05)
            assert proofs.TABLE_1[name][1] > q + 0.9

    def test_the_tuned_gamma_as_an_equation_costs_more_than_a_constant(self) -> None:
        found = measured("the tuned gamma")
        assert found["inverse"][-1] > 1e5
        assert all(tuned > constant for tuned, constant in zip(found["T"], found["T_constant"], strict=True))

    def test_a_floor_stays_in_the_bound(self) -> None:
        assert measured("the floor in the theorems")["left"][0] > 0.2

    def test_the_burn_in_is_not_free(self) -> None:
        found = measured("the beginning of the sum")
        assert found["grown"] > 2 * found["constant"]

    def test_two_nu_an_iteration_makes_the_bound_grow(self) -> None:
        found = measured("2 nu in every iteration")
        assert found["printed"][-1] > found["printed"][-2]
        assert found["ours"] == sorted(found["ours"], reverse=True)

    def test_slips_of_the_proofs(self) -> None:
        assert measured("4 nu")["units"] == pytest.approx(2)
        found = measured("a division by 0")
        assert found["printed"] == pytest.approx(0, abs=1e-15)
        assert found["ours"] == pytest.approx(found["beta"] / 2)
        assert measured("two lost squares")["ratio"] > 10


def test_what_holds() -> None:
    found = confirmed.measure(no_tick)
    assert max(found["named"]) < 0.01
    assert found["convex"][0] == 1
    assert 0.9 < found["convex"][1] < 1
    near, away, end = found["return"]
    assert end < near < away
    assert found["hole"] == [2, 1]
    assert found["ackley"] == [12, 0]
    for row in confirmed.rows(found):
        assert "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" in PAGE


def test_names_are_unique_and_every_erratum_has_its_job() -> None:
    assert len(BY_NAME) == len(errata.ERRATA)
    assert [job.label for job in errata.EXPERIMENT.jobs()] == [*BY_NAME, "what holds"]


class TestPage:
    """docs/errata.md contains the measurements of the experiment."""

    @staticmethod
    def rows() -> dict[str, tuple[str, ...]]:
        """Return the rows of the committed table by their first column."""
        table = find(r"<!-- slgh reproduce errata -->\n(.*?)<!-- end -->", PAGE, re.DOTALL)[1]
        found = [
            tuple(cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1])
            for line in table.strip().splitlines()
            if line.startswith("| ")
        ]
        assert found[0] == errata.HEADINGS
        return {row[0]: row for row in found[1:]}

    def test_it_says_what_is_declared(self) -> None:
        rows = self.rows()
        assert len(rows) == len(errata.ERRATA)
        for it in errata.ERRATA:
            assert rows[f"{it.where}: {it.name}"][1:4] == (it.says, it.takes, it.prints)
            assert all(rows[f"{it.where}: {it.name}"][4:])

    @pytest.mark.parametrize("name", [it.name for it in errata.ERRATA if not it.random and it.name not in SLOW])
    def test_its_figures_are_measured_again(self, name: str) -> None:
        it = BY_NAME[name]
        assert self.rows()[f"{it.where}: {name}"] == errata.cells(
            it, json.loads(json.dumps(measurement(name)._asdict()))
        )

    @pytest.mark.parametrize("it", errata.ERRATA, ids=lambda it: it.name)
    def test_each_has_a_section(self, it: Erratum) -> None:
        assert re.search(rf"^### .*{re.escape(it.name)}", PAGE, re.MULTILINE | re.IGNORECASE)
