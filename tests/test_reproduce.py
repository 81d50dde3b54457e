"""`minimize` reproduces the paper's tables."""

from __future__ import annotations

import dataclasses
from typing import cast

import numpy as np
import pytest

from libraries import engine, other_libraries, to_library
from slgh.paper import PAPER_TABLES
from slgh.paper.experiments.paper_table import PaperTable, RowOutcome, TableRow, judge, record_row, run_row

ROWS = [
    pytest.param(table, row, id=f"{table.name} {row.label}") for table in PAPER_TABLES.values() for row in table.rows
]


EXACT = [param for param in ROWS if cast(PaperTable, param.values[0]).closed_form]


@other_libraries
@pytest.mark.parametrize(("table", "row"), EXACT)
def test_an_exact_row_of_the_paper_comes_out_of_every_library(table: PaperTable, row: TableRow, library: str) -> None:
    if library == "torch" and table.name == "rosenbrock" and row.label != "SLGH_r 0.995":
        pytest.skip(
            "20,000 iterations of a Python loop: one such row is enough, and Himmelblau's table has every method"
        )
    result = run_row(table, row, asarray=lambda x: to_library(x, library), history=0)
    assert judge(table, row, result.x, result.fun) == "match"
    assert result.engine == engine(library)


def test_there_are_ten_exact_rows() -> None:
    assert len(EXACT) == 10


@pytest.mark.slow
def test_following_the_slope_finds_the_hole_and_a_fixed_ratio_does_not() -> None:
    hole = PAPER_TABLES["hole"]
    share = {row.label: float((run_row(hole, row, history=0).fun < -56.5).mean()) for row in hole.rows}
    assert share["ZOSLGH_d 0.999"] >= 0.95
    assert share["ZOSLGH_r 0.995"] <= 0.25
    assert share["ZOSLGH_r 0.999"] <= 0.02


def test_the_judge_can_say_no() -> None:
    table = PAPER_TABLES["rosenbrock"]
    row = table.rows[0]
    assert judge(table, row, np.array([[0.470, 0.216]]), np.array([0.284])) == "differs"
    assert judge(table, row, np.array([[0.4685, 0.2155]]), np.array([0.2841])) == "match"


def test_the_record_of_a_row_has_the_way_from_the_start_to_the_end() -> None:
    table = dataclasses.replace(PAPER_TABLES["hole"], seeds=6)
    shares: list[float] = []
    record = record_row(table, table.rows[2], shares.append)
    outcome, problem = RowOutcome(row=table.rows[2], **record), table.problem()
    assert shares == [1.0]
    np.testing.assert_array_equal(outcome.path_x[0], np.tile(problem.x0, (6, 1)))
    np.testing.assert_array_equal(outcome.path_x[-1], outcome.x)
    assert (outcome.iteration[0], outcome.iteration[-1]) == (0, 1000)
    assert outcome.path_t[0, 0] == 5.0
    path = outcome.path(problem)
    assert path.fun[-1] == pytest.approx(np.sort(outcome.fun)[3])
    assert outcome.runs(problem).fun.shape == (len(outcome.iteration), 6)


def test_with_few_seeds_there_is_no_verdict() -> None:
    table = dataclasses.replace(PAPER_TABLES["hole"], seeds=3)
    x, fun = np.tile([9.319, 0.0], (3, 1)), np.full(3, -56.67)
    assert judge(table, table.rows[2], x, fun) == "too few seeds"
