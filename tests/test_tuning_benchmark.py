"""The benchmark of hyperparameter tuning: its problems, methods, records and ranks."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")
sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

import tuning
from tuning_study import page, records
from tuning_study.methods import METHODS, Spent, Watched, run
from tuning_study.problems import FAILED, PROBLEMS, TEST, TRAINING, Problem

from slgh.space import Boolean, Categorical, Float, Integer, Space

NEEDS = {"TPE": ["optuna"], "optuna-CMA-ES": ["optuna", "cmaes"], "scikit-optimize": ["skopt"]}

CHEAP = Problem(
    "cheap",
    lambda v: (v["x"] - 0.2) ** 2 + np.log10(v["rate"]) ** 2 + abs(v["n"] - 3) + (v["kind"] != "b") + v["flag"],
    {
        "x": Float(0, 1),
        "rate": Float(1e-3, 1e2, log=True),
        "n": Integer(0, 9),
        "many": Integer(1, 100, log=True),
        "kind": Categorical(["a", "b", None]),
        "flag": Boolean(),
    },
)


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_losses_are_finite_and_repeat(problem: Problem) -> None:
    space = Space(problem.space)
    values = space.sample(np.random.default_rng(3))
    assert problem(values) == problem(values) <= FAILED
    assert problem(space.center()) < 5


def test_the_reported_problems_are_not_those_of_training() -> None:
    assert len(TEST) == 3
    assert not {p.name for p in TEST} & {p.name for p in TRAINING}
    assert not {p.loss for p in TEST} & {p.loss for p in TRAINING}


def test_refused_values_have_the_largest_loss() -> None:
    def refuse(values: Any) -> float:
        raise ValueError

    assert Problem("", refuse, {})({}) == Problem("", lambda v: float("nan"), {})({}) == FAILED


def test_the_budget_is_kept() -> None:
    fun = Watched(problem=CHEAP, budget=2)
    values = Space(CHEAP.space).center()
    fun(values)
    fun(values | {"n": 3})
    with pytest.raises(Spent):
        fun(values)
    assert fun.count == 2
    assert fun.best == CHEAP(values | {"n": 3})


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", METHODS)
def test_methods_use_the_budget_and_repeat(method: str) -> None:
    for library in NEEDS.get(method.removesuffix("-univariate"), ["nevergrad"] if "nevergrad" in method else []):
        pytest.importorskip(library)
    first, seconds = run(method, CHEAP, 0, 12)
    assert (first.count, seconds > 0) == (12, True)
    assert first.best == run(method, CHEAP, 0, 12)[0].best


def recorded(folder: Path, method: str, problem: Problem, seed: int, best: float) -> None:
    watched = Watched(problem=problem, budget=50, count=50, best=best, seconds=0.5)
    records.append(method, seed, watched, 0.1, folder)


def test_a_run_without_a_record_is_run_and_others_are_not(tmp_path: Path) -> None:
    recorded(tmp_path, "random", CHEAP, 0, 7.0)
    more = {"seconds": np.inf, "folder": tmp_path}
    tuning.run_all(["random"], [CHEAP], [50], 2, **more)
    assert [line["best"] == 7.0 for line in records.read("random", tmp_path).values()] == [True, False]
    tuning.run_all(["random"], [CHEAP], [50], 3, seconds=-1, folder=tmp_path)
    assert len(records.read("random", tmp_path)) == 2
    line = json.loads((tmp_path / "random.jsonl").read_text().splitlines()[0])
    assert (line["own_ms"], line["loss_ms"]) == (2.0, 10.0)


def test_ranks_are_averaged_over_ties_and_complete_seeds(tmp_path: Path) -> None:
    for seed, values in enumerate([(1.0, 2.0, 1.0 + 1e-12), (3.0, 2.0, 1.0)]):
        for method, best in zip(["slgh", "TPE", "random"], values, strict=True):
            recorded(tmp_path, method, CHEAP, seed, best)
    recorded(tmp_path, "slgh", CHEAP, 2, 0.0)
    values, seeds = page.best_values([CHEAP], ["slgh", "TPE", "random"], 50, 20, tmp_path)
    assert seeds == [0, 1]
    assert page.ranks_of(values)[0].tolist() == [[1.5, 3, 1.5], [3, 2, 1]]
    shown = page._ranks([CHEAP], ["slgh", "TPE", "random"], 50, 20, tmp_path)
    assert "| **mean rank** | 2.25 | 2.50 | **1.25** |" in shown
    assert page.critical_difference(10, 13) == pytest.approx(3.757, abs=0.01)  # Demsar (2006): q = 3.164
    assert page.interval(np.array([1.0, 2.0, 3.0])) == pytest.approx(4.303 / np.sqrt(3), abs=1e-3)


def test_the_page_is_that_of_the_records() -> None:
    assert page.PAGE.read_text() == page.render(records.FOLDER)
