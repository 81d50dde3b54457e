"""The benchmark of training: equal budgets and tuning for all methods, and a page from the records."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.slow
pytest.importorskip("torch", reason='needs pip install "slgh[torch]"')
sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

import torch  # noqa: E402
from training_study import page, study  # noqa: E402
from training_study.methods import FORWARD_METHODS, GRADIENT_METHODS, settings, train  # noqa: E402
from training_study.tasks import TASKS, Problem, Task, Vector  # noqa: E402

WITH_GRADIENTS = [name for name in TASKS if TASKS[name].gradients]


class Counted:
    """A quadratic loss that counts its evaluations, and those with a gradient."""

    def __init__(self) -> None:
        self.forward, self.backward = 0, 0
        self.model = Vector(torch.ones(3))

    def loss(self, g: torch.Generator) -> Any:
        self.forward += 1
        value = (self.model.x**2).sum()
        if value.requires_grad:
            value.register_hook(self._count)
        return value

    def _count(self, gradient: Any) -> None:
        self.backward += 1

    def score(self, split: str) -> float:
        return float((self.model.x.detach() ** 2).sum())


def task_of(gradients: bool, counted: Counted) -> Task:
    return dataclasses.replace(
        TASKS["sine" if gradients else "sign"],
        make=lambda seed: Problem(counted.model, counted.loss, counted.score),
        budget=60,
        units="absolute",
    )


@pytest.mark.parametrize("method", [*GRADIENT_METHODS, *FORWARD_METHODS])
def test_every_method_spends_the_budget_and_descends(method: str) -> None:
    counted, gradients = Counted(), method in GRADIENT_METHODS
    problem = train(task_of(gradients, counted), method, 0.05 if gradients else 0.1, 0.01, 0)
    assert counted.forward == 60
    assert counted.backward == (60 if gradients else 0)
    assert problem.score("test") < 1.5


@pytest.mark.parametrize("name", TASKS)
def test_every_method_is_tuned_over_as_many_settings(name: str) -> None:
    assert len({len(set(settings(TASKS[name], method))) for method in study.methods_of(name)}) == 1


def test_zoslgh_descends_as_mezo_on_a_quadratic() -> None:
    """The differences of a quadratic do not depend on the radius, so that their steps have the same distribution."""
    ends: dict[str, list[float]] = {"MeZO": [], "ZOSLGH": []}
    for method, found in ends.items():
        for seed in range(40):
            counted = Counted()
            found.append(train(task_of(False, counted), method, 0.03, 1.0, seed).score("test"))
    means = [float(np.mean(np.log(found))) for found in ends.values()]
    error = math.sqrt(sum(float(np.var(np.log(found))) / 40 for found in ends.values()))
    assert abs(means[0] - means[1]) < 4 * error


def test_jobs_are_tuned_first_and_then_reported(tmp_path: Path) -> None:
    name, task = "cnn", TASKS["cnn"]
    jobs = list(study.pending([name], tmp_path))
    assert all(job.tunes for job in jobs)
    assert len(jobs) == sum(len(settings(task, method)) for method in study.methods_of(name))
    for job in jobs:
        score = 0.5 if job.radius == 0.1 and job.rate == 1e-3 else 0.7
        study.append(
            job,
            {"method": job.method, "rate": job.rate, "radius": job.radius, "seed": job.seed, "score": score},
            tmp_path,
        )
    later = list(study.pending([name], tmp_path))
    assert not any(job.tunes for job in later)
    assert len(later) == 4 * task.seeds
    assert {(job.rate, job.radius) for job in later if job.method == "SLGH"} == {(1e-3, 0.1)}


def test_a_run_that_diverges_has_no_score(tmp_path: Path) -> None:
    job = study.Job("sine", "Adam", 0.1, None, 0)
    study.append(job, {**job._asdict(), "score": None}, tmp_path)
    assert study.read("sine", tmp_path)[job] == math.inf


def test_a_small_run_has_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = torch.get_num_threads()
    small = dataclasses.replace(TASKS["phase"], budget=10)
    monkeypatch.setitem(TASKS, "phase", small)
    try:
        record = study.run(study.Job("phase", "SLGH", 0.1, 0.1, 3))
    finally:
        torch.set_num_threads(threads)
    assert json.loads(json.dumps(record))["score"] > 0


def test_the_page_follows_the_records() -> None:
    text = page.render()
    assert text == page.PAGE.read_text()
    assert "SLGH" in text


def test_an_interval_is_bold_without_zero() -> None:
    assert page.interval(np.array([1.0, 1.1, 0.9])).startswith("**+1.0000")
    assert not page.interval(np.array([1.0, -1.1, 0.9])).startswith("**")
