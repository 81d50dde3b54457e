"""Which runs the benchmark needs: tuning first, then the reported seeds with the best setting. Records of both."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

from training_study import tasks
from training_study.methods import FORWARD_METHODS, GRADIENT_METHODS, settings, train
from training_study.tasks import TASKS

FOLDER = Path(__file__).parent.parent / "training_records"

FIRST_TUNING_SEED = 1000


class Job(NamedTuple):
    """One run: a task, a method, a setting and a seed."""

    task: str
    method: str
    rate: float
    radius: float | None
    seed: int

    @property
    def tunes(self) -> bool:
        return self.seed >= FIRST_TUNING_SEED


def methods_of(task: str) -> list[str]:
    return list(GRADIENT_METHODS if TASKS[task].gradients else FORWARD_METHODS)


def read(task: str, folder: Path | None = None) -> dict[Job, float]:
    """Return the scores of the recorded runs of a task. A run that diverged has infinity."""
    path = (folder or FOLDER) / f"{task}.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return {
        Job(task, line["method"], line["rate"], line["radius"], line["seed"]): math.inf
        if line["score"] is None
        else line["score"]
        for line in lines
    }


def best_setting(task: str, method: str, scores: dict[Job, float]) -> tuple[float, float | None] | None:
    """Return the setting with the lowest mean score over the tuning seeds, or None if some runs are missing."""
    seeds = range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + TASKS[task].tuning_seeds)
    means = []
    for rate, radius in settings(TASKS[task], method):
        jobs = [Job(task, method, rate, radius, seed) for seed in seeds]
        if any(job not in scores for job in jobs):
            return None
        means.append((sum(scores[job] for job in jobs) / len(jobs), (rate, radius)))
    return min(means, key=lambda pair: pair[0])[1]


def pending(names: list[str], folder: Path | None = None) -> Iterator[Job]:
    """Yield the runs that can be done now: tuning, and the reported seeds of methods that are tuned."""
    for name in names:
        scores, task = read(name, folder), TASKS[name]
        for method in methods_of(name):
            best = best_setting(name, method, scores)
            if best is None:
                seeds = range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + task.tuning_seeds)
                jobs = [Job(name, method, *setting, seed) for setting in settings(task, method) for seed in seeds]
            else:
                jobs = [Job(name, method, *best, seed) for seed in range(task.seeds)]
            yield from (job for job in jobs if job not in scores)


def run(job: Job) -> dict[str, Any]:
    """Do a run, and return its record. Tuning sees validation data, reported runs test data."""
    torch.set_num_threads(1)
    task = TASKS[job.task]
    begin = time.perf_counter()
    problem = train(task, job.method, job.rate, job.radius, job.seed)
    score = problem.score("validation" if job.tunes else "test")
    return {
        "method": job.method,
        "rate": job.rate,
        "radius": job.radius,
        "seed": job.seed,
        "score": score if math.isfinite(score) else None,
        "seconds": round(time.perf_counter() - begin, 2),
        "device": tasks.DEVICE,
    }


def append(job: Job, record: dict[str, Any], folder: Path | None = None) -> None:
    """Add a record to the file of its task."""
    folder = folder or FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{job.task}.jsonl").open("a") as file:
        file.write(json.dumps(record) + "\n")
