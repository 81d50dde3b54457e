"""Tune the paper's method once, on the training functions: t1, step and number of samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from coco_study.jobs import Job
from coco_study.records import Record
from coco_study.settings import Method
from coco_study.statistics import rank
from coco_study.suites import TRAINING, Place

STEPS = tuple(10.0**-k for k in range(7))
"""Step sizes in units of the box's width / (d + 4). BBOB's gradients vary by a factor of 10^7."""

FIRST_RADII = (0.025, 0.1, 0.25, 0.5)
"""Values of t1 in units of the box's width."""

SAMPLES = (2, 5, 20)

D, TIMES, INSTANCES = 20, 500, (1, 2)
"""Dimension, budget and instances for tuning: the middle budget of the smallest cell."""


def grid(base: Method) -> list[Method]:
    """Return the candidates, each a method named after its settings."""
    return [
        replace(
            base,
            name=f"step={step:g}, t1={t1:g}, samples={samples}",
            settings=base.settings | {"step": step, "t1": t1, "samples": samples},
        )
        for step, t1, samples in product(STEPS, FIRST_RADII, SAMPLES)
    ]


def jobs(candidates: Sequence[Method]) -> list[Job]:
    """Return the runs of all candidates on all training problems."""
    places = [Place(suite="bbob", d=D, f=f, i=i) for f in TRAINING for i in INSTANCES]
    return [Job(method=method, place=place, budgets=(TIMES * D,)) for method in candidates for place in places]


def conclude(candidates: Sequence[Method], found: Sequence[Record]) -> tuple[list[str], dict[str, Any]]:
    """Return the mean ranks as lines, best first, and the best settings."""
    runs = {(record.method, record.place): record for record in found}
    places = sorted({record.place for record in found})
    ranking = rank(runs, [method.name for method in candidates], places, TIMES * D).ranks
    order = sorted(candidates, key=lambda method: ranking[method.name])
    lines = [f"{ranking[method.name]:6.2f}  {method.name}" for method in order]
    return lines, {key: order[0].settings[key] for key in ("step", "t1", "samples")}
