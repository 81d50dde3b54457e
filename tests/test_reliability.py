"""The page on reliability names existing tests and shows the record, and slgh still behaves as recorded."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

from bad_values_study.cases import CASES
from bad_values_study.libraries import LIBRARIES
from bad_values_study.page import rewrite
from bad_values_study.rows import ROWS
from bad_values_study.running import run_cell

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reliability.md"
RECORD = json.loads((ROOT / "benchmarks" / "bad_values.json").read_text())
QUICK = [
    "nan_everywhere",
    "minus_inf_strip",
    "exception",
    "ctrl_c",
    "vectorized_fun_writes",
    "callback_writes",
    "hard_budget",
    "returns_masked",
    "hostile_state",
    "wrong_map",
]


def test_every_test_that_the_page_names_exists() -> None:
    named = re.findall(r"`(tests/\w+\.py)::(?:\w+::)?(\w+)`", PAGE.read_text())
    assert len(named) > 20
    assert [f"{file}::{name}" for file, name in named if f"def {name}(" not in (ROOT / file).read_text()] == []


def test_every_row_has_a_case_and_an_outcome_for_each_library() -> None:
    assert [row.name for row in ROWS] == list(CASES)
    assert {row: set(cells) for row, cells in RECORD["rows"].items()} == {row.name: set(LIBRARIES) for row in ROWS}


def test_slgh_holds_every_row_but_one_where_it_raises_an_error() -> None:
    verdicts = {row: cells["slgh"]["verdict"] for row, cells in RECORD["rows"].items()}
    assert {row: verdict for row, verdict in verdicts.items() if verdict != "holds"} == {
        "vectorized_fun_writes": "error"
    }


def test_the_page_explains_every_verdict() -> None:
    words = {cell["verdict"] for cells in RECORD["rows"].values() for cell in cells.values()}
    assert words <= set(re.findall(r"^- \*\*([a-z ]+)\*\*: ", PAGE.read_text(), re.MULTILINE))


def test_the_page_shows_what_was_recorded(tmp_path: Path) -> None:
    copy = tmp_path / "page.md"
    shutil.copy(PAGE, copy)
    rewrite(copy, RECORD)
    assert copy.read_text() == PAGE.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("row", QUICK)
def test_slgh_behaves_as_recorded(row: str) -> None:
    outcome = run_cell(row, "slgh")
    assert outcome.verdict == RECORD["rows"][row]["slgh"]["verdict"], outcome.note
