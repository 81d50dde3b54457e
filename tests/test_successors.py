"""The benchmark of the paper's successors: equal budgets, equal tuning, records that resume, and its table."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import approx_fprime

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

import successors
from successors_study import methods, page, records
from successors_study.problems import COMPARISONS, REPORTED, TUNING

every_comparison = pytest.mark.parametrize("name", COMPARISONS)

SMALL = dataclasses.replace(COMPARISONS["phase-2"], name="small", budget=200, seeds=2, tuning=1)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(records, "FOLDER", tmp_path)
    return tmp_path


@every_comparison
def test_the_solution_is_a_minimum_and_the_gradient_that_of_f(name: str) -> None:
    instance = COMPARISONS[name].make(3, TUNING)
    np.testing.assert_allclose(instance.fun(instance.solution), instance.minimum, atol=1e-10)
    assert instance.error(instance.solution) < 1e-6
    assert instance.rise > 0.1
    if instance.grad is not None:
        differences = approx_fprime(instance.x0, instance.fun)
        np.testing.assert_allclose(instance.grad(instance.x0), differences, rtol=1e-3, atol=1e-3)


@every_comparison
def test_instances_for_tuning_are_not_reported(name: str) -> None:
    comparison = COMPARISONS[name]
    reported = [comparison.make(seed, REPORTED) for seed in range(comparison.seeds)]
    for seed in range(comparison.tuning):
        tuning = comparison.make(seed, TUNING)
        assert all(np.linalg.norm(tuning.x0 - i.x0) > 1e-3 for i in reported)


@every_comparison
def test_every_method_with_settings_has_equally_many_trials(name: str) -> None:
    comparison = COMPARISONS[name]
    for method in comparison.methods:
        tried = methods.trials(method, comparison)
        assert len(tried) == (1 if method in methods.UNTUNED else methods.TRIALS)
        assert tried == methods.trials(method, comparison)


def test_one_batch_of_data_is_as_good_as_single_runs() -> None:
    for method in ("slgh_r", "zoslgh_d", "power_hp", "dgs", "adadgs"):
        settings = methods.trials(method, SMALL)[0]
        together = methods.run(method, settings, SMALL, REPORTED, [0, 1])
        for seed, outcome in enumerate(together):
            (alone,) = methods.run(method, settings, SMALL, REPORTED, [seed])
            np.testing.assert_allclose(outcome.f, alone.f, rtol=1e-6)
            assert (outcome.values, outcome.gradients) == (alone.values, alone.gradients)


def test_no_method_exceeds_the_budget() -> None:
    for method in SMALL.methods:
        settings = methods.trials(method, SMALL)[0]
        for outcome in methods.run(method, settings, SMALL, REPORTED, [0, 1]):
            assert outcome.gradients <= SMALL.budget
            assert outcome.values + outcome.gradients <= methods.allowed(method, SMALL)
            assert np.isfinite(outcome.f)


def test_runs_are_recorded_once_and_the_table_is_drawn_from_the_records(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = dataclasses.replace(SMALL, methods=("zoslgh_r", "auto"))
    monkeypatch.setattr(successors, "COMPARISONS", {"small": small})
    successors.run_all([])
    before = {file.name: file.read_text() for file in folder.iterdir()}
    assert len(before["small.zoslgh_r.jsonl"].splitlines()) == methods.TRIALS + 2
    file = folder / "small.zoslgh_r.jsonl"
    whole = file.read_text()
    cut = whole[: whole.rstrip("\n").rindex("\n") + 20]
    file.write_text(cut)

    ran: list[Any] = []

    def noted(*given: Any) -> Any:
        ran.append(given)
        return methods.run(*given)

    monkeypatch.setattr(successors, "run", noted)
    successors.run_all([])
    assert [(given[0], given[4]) for given in ran] == [("zoslgh_r", [1])]
    assert len(file.read_text().splitlines()) == methods.TRIALS + 2

    runs = page.reported(small)
    assert {method: len(lines) for method, lines in runs.items()} == {"zoslgh_r": 2, "auto": 2}
    ranks = page.mean_ranks(runs)
    assert sum(ranks.values()) == 3.0
    best = min(ranks, key=lambda m: ranks[m])
    row = next(line for line in page.table([small]).splitlines() if f"`{best}`" in line)
    assert "**" in row
    assert "/2, f " in row
