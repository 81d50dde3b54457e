"""The benchmark of parallel evaluations counts rounds, resumes, and computes its tables from the records."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cocoex")
sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

from coco_study import running
from coco_study.suites import TRAINING, Place
from coco_study.watched import Spent
from parallel import PAGE, main
from parallel_study import page, records
from parallel_study.methods import METHODS, PEERS, pick
from parallel_study.problems import (
    BUDGETS,
    Cell,
    Cluster,
    cells,
    evaluations_allowed,
    problem_at,
    rounds_allowed,
    target,
)
from parallel_study.ranking import EVALUATIONS, ROUNDS, contests, loss, overall, ranks, speed_up
from parallel_study.records import Job, Record
from parallel_study.rounds import Rounds

import slgh

NEEDS = {"cma": ["cma"], "ng": ["nevergrad"], "optuna": ["optuna", "cmaes"]}
SMALL = Place(suite="bbob", d=5, f=1, i=1)
CELL = Cell(group="5-D", budget=10, workers=8)


def first(x: Any) -> float:
    return float(x[0])


def everything(place: Any) -> bool:
    return True


# Rounds


def test_a_call_with_m_points_takes_m_divided_by_w_rounds() -> None:
    fun = Rounds(first, fopt=0.0, workers=4)
    for m, rounds in ((1, 1), (4, 2), (5, 4), (9, 7)):
        assert len(fun(np.ones((m, 2)))) == m
        assert fun.rounds == rounds
    assert fun.evaluations == 19


def test_the_lowest_value_is_kept_by_evaluation_and_by_round() -> None:
    fun = Rounds(first, fopt=1.0, workers=2)
    fun(np.array([[9.0], [7.0], [8.0], [5.0], [math.nan]]))
    fun(np.array([[4.0]]))
    assert [fun.after(n) for n in range(7)] == [math.inf, 8.0, 6.0, 6.0, 4.0, 4.0, 3.0]
    assert [fun.after(math.inf, rounds) for rounds in range(5)] == [math.inf, 6.0, 4.0, 4.0, 3.0]
    assert fun.after(1, 4) == 8.0, "whichever ends first"
    assert fun.curve() == [6.0, 4.0, 4.0]


@pytest.mark.parametrize(("n", "workers"), [(50, 8), (160, 8), (161, 8), (20_000, 8), (400, 64), (20_000, 64)])
def test_the_rounds_are_those_of_the_target(n: int, workers: int) -> None:
    rounds = rounds_allowed(n, workers)
    assert n / rounds <= target(n, workers) < n / (rounds - 1)
    assert 1.4 * n < evaluations_allowed(n, workers) <= rounds * workers
    assert target(n, workers) == pytest.approx(0.7 * min(workers, n / 20))


def test_a_run_ends_when_its_rounds_or_its_evaluations_are_used() -> None:
    wide = Rounds(lambda x: 1.0, fopt=0.0, workers=8, budgets=[100, 400])
    narrow = Rounds(lambda x: 1.0, fopt=0.0, workers=8, budgets=[400])
    for fun, m in ((wide, 8), (narrow, 1)):
        with suppress(Spent):
            while True:
                fun(np.zeros((m, 3)))
    assert wide.evaluations in range(evaluations_allowed(400, 8), evaluations_allowed(400, 8) + 8)
    assert wide.rounds <= rounds_allowed(400, 8)
    assert (narrow.evaluations, narrow.rounds) == (400, 400), "all evaluations, though the rounds were used before"
    found = Rounds(lambda x: 0.0, fopt=0.0, workers=8, budgets=[400])
    found(np.zeros((1, 3)))
    with pytest.raises(Spent):
        found(np.zeros((1, 3)))


# Problems and methods


def test_the_cells_have_the_stated_problems() -> None:
    assert {cell.budget for cell in cells(8)} == set(BUDGETS)
    counts = {(cell.group, cell.budget): len(cell.places) for cell in cells(8)}
    assert counts["5-D", 10] == counts["10-D", 100] == 3 * len(TRAINING)
    assert counts["10-D", 500] == counts["40-D", 100] == 2 * len(TRAINING)
    assert (counts["40-D", 500], counts["clusters", 10]) == (len(TRAINING), 6)


def test_clusters_within_the_tolerance_of_the_optimum_tie() -> None:
    place = Cluster(d=15, f=5, i=1)
    with problem_at(place) as problem:
        assert len(problem.x0) == len(problem.lower) == 15
        assert np.all(np.abs(problem.x0) <= problem.upper)
        assert problem.fun(problem.x0) > place.fopt
    assert place.fopt == pytest.approx(-9.103852 + 1e-4)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "place"), [*((name, SMALL) for name in PEERS), ("cma", Cluster(d=15, f=5, i=1))])
def test_peers_use_the_same_budget_and_repeat(name: str, place: Any) -> None:
    for library in NEEDS.get(name.partition("-")[0], []):
        pytest.importorskip(library)
    job = Job(method=METHODS[name], workers=8, place=place, budgets=(5, 10))
    record, again = job(), job()
    assert dataclasses.replace(again, seconds=record.seconds) == record
    n = 10 * place.d
    assert n <= record.evaluations < evaluations_allowed(n, 8) + 16
    assert record.by_evaluations[0] >= record.by_evaluations[1]
    assert all(by_rounds <= value for by_rounds, value in zip(record.by_rounds, record.by_evaluations, strict=True))


def test_slgh_gets_the_workers_and_a_vectorized_function(monkeypatch: pytest.MonkeyPatch) -> None:
    got: dict[str, Any] = {}

    def minimize(fun: Any, x0: Any, *, parallel: int, **keywords: Any) -> None:
        got.update(keywords, parallel=parallel)
        for _ in range(5):
            fun(np.tile(x0, (10, 1)))

    monkeypatch.setattr(slgh, "minimize", minimize)
    record = Job(method=METHODS["slgh"], workers=8, place=SMALL, budgets=(10,))()
    assert (got["parallel"], got["vectorized"], got["max_evals"], got["seed"]) == (8, True, 50, SMALL.seed)
    assert got["bounds"] == [(-5.0, 5.0)] * 5
    assert (record.evaluations, record.rounds) == (50, 10)
    assert [method.name for method in pick(["slgh", "cma"], "a")] == ["slgh@a", "cma"]


# Ranks


def made(name: str, place: Any, value: float, by_rounds: float, *, workers: int = 8, rounds: int = 10) -> Record:
    return Record(
        method=name,
        workers=workers,
        code="",
        place=place,
        budgets=(10,),
        by_evaluations=(value,),
        by_rounds=(by_rounds,),
        evaluations=50,
        rounds=rounds,
        curve=(),
        seconds=0.0,
    )


def found_of(value: Callable[[str, int], tuple[float, float]], entrants: Sequence[tuple[str, int]]) -> Any:
    """Return records of all problems of the cell, with the same values on each."""
    of = [made(name, place, *value(name, w), workers=w) for name, w in entrants for place in CELL.places]
    return {key: record for record in of for key in record.keys}


def test_values_below_the_precision_tie_and_versions_are_ranked_apart() -> None:
    values = {
        ("slgh", 8): (1e-12, 3.0),
        ("slgh@b", 8): (5.0, 0.5),
        ("slgh", 1): (1e-3, 0.0),
        ("cma", 8): (1e-9, 1.0),
        ("random", 8): (2.0, 2.0),
    }
    found = found_of(lambda name, w: values[name, w], list(values))
    versions = [("slgh", 8), ("slgh@b", 8)]
    (contest,) = contests(found, [CELL], versions, PEERS, everything)
    assert contest.peers == ("cma", "random")
    by_evaluations = ranks(found, contest, versions, contest.peers, EVALUATIONS)
    assert by_evaluations == {"slgh": 1.5, "cma": 1.5, "random": 3.0, "slgh@b": 3.0}
    assert ranks(found, contest, versions, contest.peers, ROUNDS) == {
        "slgh": 3.0,
        "cma": 1.0,
        "random": 2.0,
        "slgh@b": 1.0,
    }
    assert overall(found, [contest], versions, EVALUATIONS) == by_evaluations
    assert loss(found, contest, "slgh") == -0.5, "1.5 with 8 workers, 2 with one"


def test_only_complete_methods_and_problems_of_all_versions_are_compared() -> None:
    found = found_of(lambda name, w: (1.0, 1.0), [("slgh", 8), ("cma", 8), ("random", 8)])
    last = CELL.places[-1]
    del found["random", 8, last, 10]
    (contest,) = contests(found, [CELL], [("slgh", 8)], PEERS, everything)
    assert contest.peers == ("cma",)
    del found["slgh", 8, last, 10]
    (contest,) = contests(found, [CELL], [("slgh", 8)], PEERS, everything)
    assert last not in contest.places
    assert contest.peers == ("cma", "random")
    assert contests(found, [CELL], [("slgh@b", 8)], PEERS, everything) == []


def test_the_speed_up_is_the_evaluations_per_round() -> None:
    found = found_of(lambda name, w: (1.0, 1.0), [("slgh", 8), ("cma", 8)])
    key = ("slgh", 8, CELL.places[0], 10)
    found[key] = dataclasses.replace(found[key], rounds=50)
    (contest,) = contests(found, [CELL], [("slgh", 8)], PEERS, everything)
    speed = speed_up(found, contest, "slgh")
    assert (speed.mean, speed.lowest) == (pytest.approx(5.0 - 4.0 / 33), 1.0)
    assert speed.target == pytest.approx(0.7 * 2.5)


# The commands


def in_this_process(jobs: list[Job], *, workers: int, seconds: float) -> Any:
    """Like `coco_study.jobs.run_jobs`, but in this process, which saves the start of others."""
    for job in jobs if seconds > 0 else []:
        future: Future[Record] = Future()
        future.set_result(job())
        yield job, future


def test_runs_are_recorded_once_and_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(running, "run_jobs", in_this_process)
    narrow = ["--records", str(tmp_path), "--d", "5", "--budgets", "10,20", "--functions", "1,8", "--instances", "1"]
    words = ["run", "--methods", "random", "--W", "8,64", *narrow]
    assert main([*words, "--seconds", "0"]) == 0
    assert "0 done, 0 failed, 4 left" in capsys.readouterr().out
    assert main(words) == 0
    assert "4 done" in capsys.readouterr().out
    file = tmp_path / "bbob.random.jsonl"
    whole = file.read_text()
    file.write_text(whole[:-20])
    assert len(records.read(tmp_path)) == 6, "two budgets per line"
    assert main(words) == 0
    assert "3 runs already recorded, 1 done" in capsys.readouterr().out
    seconds = {record.place: record.seconds for record in records.read(tmp_path).values()}
    assert len(file.read_text().splitlines()) == 4
    assert set(seconds) == {Place(suite="bbob", d=5, f=f, i=1) for f in (1, 8)}


def test_the_numbers_of_the_page_come_from_the_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = {("slgh", 8): (1.0, 2.0), ("slgh", 1): (3.0, 0.0), ("cma", 8): (2.0, 1.0), ("random", 8): (3.0, 3.0)}
    found = found_of(lambda name, w: values[name, w], list(values))
    for record in dict.fromkeys(found.values()):
        with (tmp_path / f"bbob.{record.method}.jsonl").open("a") as file:
            file.write(record.line() + "\n")
    assert records.read(tmp_path) == found
    markdown = tmp_path / "page.md"
    assert main(["page", "--records", str(tmp_path), "--markdown", str(markdown)]) == 0
    text = markdown.read_text()
    assert "| 5-D, 10 d | 1.8 | **5.0** (5.0) |" in text
    assert "| 5-D, 10 d | 2.00 | **1.00** | 3.00 | 33 |" in text, "by rounds"
    assert "| 5-D, 10 d | **1.00** | 2.00 | 3.00 | 33 |" in text, "by evaluations"
    assert "| 5-D, 10 d | -1.50 |" in text, "rank 1 with 8 workers, rank 2.5 with one"
    assert main(["ranks", "--records", str(tmp_path), "--label", "slgh", "--d", "5", "--budgets", "10"]) == 0
    assert "## Mean rank by rounds, W = 8" in capsys.readouterr().out


def test_the_page_is_that_of_the_records() -> None:
    assert PAGE.read_text() == page.page(records.read(records.FOLDER))
