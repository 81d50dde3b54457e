"""The first field: BBOB in 40 variables. Open values are chosen on training functions, scores are of the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from coco_study.jobs import Job, jobs_of
from coco_study.records import Record
from coco_study.settings import Cell, Method
from coco_study.statistics import rank
from coco_study.suites import INSTANCES, Place, functions, is_training
from coco_study.watched import Array, Run, Watched

from ablation_study.axes import Composition
from ablation_study.building import Field, Values, build, first_radius
from ablation_study.grids import Chosen, Grid
from slgh import minimize
from slgh.engine.bounds import Box

D, TIMES = 40, 100
"""Where compositions are compared: 100 d evaluations in 40 variables."""

AUTO_TIMES = (100, 500)
"""Budgets of the variants of "auto", in multiples of d."""

EACH = 26
"""Evaluations of an iteration: the 2 + 3 log d pairs of "auto" in 40 variables."""

GRID = Grid(
    first=(0.25, 0.05, 0.01, 0.002),
    fall=(1e-1, 1e-2, 1e-3, 1e-4),
    eta=(1e-3, 1e-2, 1e-1),
    sharpness=(10.0, 100.0, 1000.0),
    step=(0.3, 0.1, 0.03, 0.01, 0.003),
)

TUNED_ON = tuple(Place(suite="bbob", d=D, f=f, i=i) for f in (1, 3, 8, 10, 15, 20) for i in (1, 2))
"""A training function or two of each of BBOB's five groups, with the budget of the comparison."""

TEST = tuple(f for f in functions("bbob") if not is_training(f))

VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "auto": {},
    "auto-no-look": {"phases": ["homotopy", "local_search", "restarts"]},
    "auto-no-polish": {"phases": ["landscape", "homotopy", "restarts"]},
    "auto-no-restarts": {"phases": ["landscape", "homotopy", "local_search"]},
    "auto-no-metric": {"rate": 0.0},
    "auto-polish-alone": {"phases": ["local_search"]},
    "auto-polish-restarted": {"phases": ["local_search", "restarts"]},
}
"""What `minimize` is given besides. Without a look f is taken for smooth, without a polish there is one homotopy."""


def run_composition(
    fun: Watched,
    x0: Array,
    lower: Array,
    upper: Array,
    budget: int,
    seed: int,
    *,
    oracle: str,
    schedule: str,
    update: str,
    values: Values,
    each: int,
) -> None:
    """Minimize by a composition. The look at how much f varies is part of the budget, for those too that need none."""
    c = Composition(oracle=oracle, schedule=schedule, update=update)
    width = float(np.mean(upper - lower))
    spread = look(fun, x0, first_radius(values, width), Box(lower, upper), seed, points=each)
    left = budget - each
    field = Field(d=len(x0), width=width, evaluations=left - 1, each=each, spread=spread)  # the last is f(x)
    bounds = list(zip(lower, upper, strict=True))
    minimize(fun, x0, method=build(c, values, field), bounds=bounds, max_evals=left, seed=seed, history=0)


def look(fun: Watched, x0: Array, t: float, box: Box, seed: int, *, points: int) -> float:
    """The standard deviation of f(x0 + t u) over some points; 1 on a plateau."""
    u = np.random.default_rng([seed, 3]).standard_normal((points, len(x0)))
    return float(np.std([fun(point) for point in box.inside(x0 + t * u, np)])) or 1.0


class Composed(Method):
    """A composition as a method of the benchmark on COCO."""

    @property
    def ours(self) -> bool:
        """Its results depend on this repository's code."""
        return True

    def bound(self) -> Run:
        """The function to call."""
        return partial(run_composition, **self.settings)


def method_of(c: Composition, values: Values) -> Composed:
    """The method of a composition with its open values."""
    settings = {"oracle": c.oracle, "schedule": c.schedule, "update": c.update, "values": dict(values), "each": EACH}
    return Composed(name=c.name, run="composition", planned=True, linear=True, settings=settings)


def variants() -> list[Method]:
    """ "auto" and what is left of it without each of its phases."""
    return [
        Method(name=name, run="slgh", planned=True, linear=True, settings=dict(keywords))
        for name, keywords in VARIANTS.items()
    ]


def chosen(folder: Path) -> Chosen:
    """What was chosen for the compositions."""
    on = [[place.f, place.i] for place in TUNED_ON]
    return Chosen(folder, "bbob", GRID, {"d": D, "evaluations": TIMES * D, "each": EACH, "on [function, instance]": on})


def tuning_jobs(cells: Iterable[Composition]) -> list[Job]:
    """All candidates on all problems of the choice."""
    return [
        Job(method=method_of(c, values), place=place, budgets=(TIMES * D,))
        for c in cells
        for values in GRID.candidates(c)
        for place in TUNED_ON
    ]


def best_values(c: Composition, found: Iterable[Record]) -> dict[str, float] | None:
    """Of a composition's candidates the one with the best mean rank among them; None unless all have been run."""
    candidates = {method_of(c, values).digest: values for values in GRID.candidates(c)}
    runs = {(record.digest, record.place): record for record in found if record.digest in candidates}
    if any((of, place) not in runs for of in candidates for place in TUNED_ON):
        return None
    ranks = rank(runs, list(candidates), TUNED_ON, TIMES * D).ranks
    return candidates[min(candidates, key=ranks.__getitem__)]


def comparison_jobs(
    methods: Iterable[Composed], *, fs: Sequence[int] = TEST, instances: Sequence[int] = INSTANCES
) -> list[Job]:
    """Compositions with their chosen values on the test functions."""
    places = [Place(suite="bbob", d=D, f=f, i=i) for f in fs for i in instances]
    return [Job(method=method, place=place, budgets=(TIMES * D,)) for method in methods for place in places]


def auto_jobs(*, fs: Sequence[int] = TEST, instances: Sequence[int] = INSTANCES) -> list[Job]:
    """The variants of "auto" on the test functions."""
    cell = Cell(suite="bbob", d=D, budgets=AUTO_TIMES)
    return [job for job in jobs_of([cell], variants(), instances) if job.place.f in fs]
