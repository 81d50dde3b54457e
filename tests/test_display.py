"""Results print in a few lines: x once, the status by name, large arrays abbreviated, batches summarized."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import numpy as np

import slgh
from cases import CASES, starts
from libraries import every_library, to_library
from slgh.display import WIDTH, as_html, as_text, spread, vector

CASE = CASES["zoslgh_r"]


class Cells(HTMLParser):
    """The text of each cell of a table."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.open: list[str] = []
        self.feed(page)
        assert self.open == [], "every tag is closed"

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        if tag in ("th", "td"):
            self.found.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1] in ("th", "td"):
            self.found[-1] += data


def rows_of(text: str) -> dict[str, str]:
    """Return the rows of the text form. A line without a label continues the row above it."""
    rows: dict[str, str] = {}
    name = ""
    for line in text.splitlines()[1:]:
        label, colon, value = line.partition(": ")
        if colon and label.strip().isidentifier():
            name = label.strip()
            rows[name] = value
        else:
            rows[name] += " " + line.strip()
    return rows


def test_a_result_prints_its_main_entries_once() -> None:
    result = CASE.run(starts(1)[0], max_iter=20)
    text = repr(result)
    rows = rows_of(text)
    assert rows["status"] == "COMPLETED"
    assert rows["success"] == "True"
    assert rows["message"] == result.message
    assert float(rows["fun"]) == float(f"{result.fun:.6g}")
    assert rows["x"] == "[" + ", ".join(f"{value:.4g}" for value in result.x) + "]"
    assert text.count("[") == 1, "x is the only array"
    assert int(rows["nfev"]) == result.nfev
    assert rows["method"] == "zoslgh_r"
    shown = set(rows) - {"more"}
    assert shown | set(rows["more"].split(", ")) == set(result), "an entry that is not printed is named"
    assert shown & set(rows["more"].split(", ")) == set()
    assert str(result) == text


def test_the_best_value_is_printed_if_it_is_another_one() -> None:
    result = CASE.run(starts(1)[0], max_iter=20)
    assert "fun_best" not in rows_of(repr(slgh.Result(**{**result, "fun_best": result.fun})))
    assert rows_of(repr(slgh.Result(**{**result, "fun_best": -1.5})))["fun_best"] == "-1.5"


def test_counts_that_are_usually_zero_are_printed_if_they_are_not() -> None:
    result = CASE.run(starts(1)[0], max_iter=20)
    assert "nrejected" not in rows_of(repr(result))
    assert rows_of(repr(slgh.Result(**{**result, "nrejected": 3})))["nrejected"] == "3"


@every_library
def test_a_batch_is_summarized(library: str) -> None:
    result = CASE.run(to_library(starts(7), library), batched=True, max_iter=20)
    status = np.array([0, 0, 0, 0, 2, 2, 0])
    changed = {"status": status, "success": status == 0, "seed": list(range(7))}
    rows = rows_of(repr(slgh.Result(**{**result, **changed})))
    assert rows["status"] == "5 COMPLETED, 2 MAX_EVALS"
    assert rows["success"] == "5 of 7"
    assert rows["x"] == f"array of shape (7, {result.x.shape[1]})"
    assert rows["nit"] == "20 each"
    assert rows["seed"] == "7 seeds, one per problem"
    values = sorted(result.fun.tolist())
    assert rows["fun"] == f"{values[0]:.6g} to {values[-1]:.6g}, median {values[3]:.6g}"


@every_library
def test_a_large_solution_is_abbreviated(library: str) -> None:
    assert vector(to_library(np.arange(6.0), library)) == "[0, 1, 2, 3, 4, 5]"
    assert vector(to_library(np.arange(12_000) / 8, library)) == (
        "[0, 0.125, 0.25, ..., 1500, 1500, 1500] (12,000 numbers)"
    )
    result = slgh.Result(x=to_library(np.zeros(10**6), library), fun=to_library(np.array(2.5), library))
    assert rows_of(repr(result)) == {"fun": "2.5", "x": "[0, 0, 0, ..., 0, 0, 0] (1,000,000 numbers)"}


def test_a_result_without_entries_prints() -> None:
    assert repr(slgh.Result()) == "Result()"


def test_a_result_of_a_running_run_prints() -> None:
    printed: list[str] = []
    CASE.run(starts(2), batched=True, max_iter=2, callback=lambda r: printed.append(repr(r)))
    CASE.run(starts(1)[0], max_iter=2, callback=lambda r: printed.append(repr(r)))
    assert [rows_of(text)["status"] for text in printed] == ["RUNNING"] * 4


def test_the_range_of_many_values_counts_nan_apart() -> None:
    assert spread(np.array([3.0, np.nan, 1.0])) == "1 to 3, median 2, 1 NaN"
    assert spread(np.array([np.nan, np.nan])) == "2 NaN"
    assert spread(np.array([5, 5])) == "5 each"
    assert spread(np.array([5])) == "5"


def test_no_line_is_wider_than_a_terminal() -> None:
    result = slgh.minimize(lambda x: float(x @ x), np.full(9, 2.0), max_evals=300, seed=0)
    text = repr(result)
    assert max(map(len, text.splitlines())) <= WIDTH
    assert rows_of(text)["message"] == result.message


def test_the_html_form_has_the_same_rows() -> None:
    result = CASE.run(starts(1)[0], max_iter=20)
    cells = Cells(result._repr_html_()).found
    assert dict(zip(cells[::2], cells[1::2], strict=True)) == rows_of(repr(result))


def test_html_is_escaped() -> None:
    rows = {"<b>": "a < b & c"}
    assert Cells(as_html("<i>", rows)).found == ["<b>", "a < b & c"]
    assert as_text("title", rows) == "title:\n  <b>: a < b & c"
