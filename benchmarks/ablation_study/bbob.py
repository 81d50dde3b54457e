"""First field: BBOB in 40 variables. Values are tuned on training functions and scored on the test functions."""

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
"""Dimension and budget of the comparison: 40 variables, 100 d evaluations."""

AUTO_CELLS = ((10, 20), (20, 1000), (40, 100), (40, 500))
"""Dimensions and budgets (in multiples of d) for the variants of "auto": its small, medium and large budgets."""

EVALUATIONS_PER_ITERATION = 26
"""Evaluations per iteration: the 2 + 3 log d pairs of "auto" in 40 variables."""

GRID = Grid(
    first=(0.25, 0.05, 0.01, 0.002),
    fall=(1e-1, 1e-2, 1e-3, 1e-4),
    eta=(1e-3, 1e-2, 1e-1),
    sharpness=(10.0, 100.0, 1000.0),
    step=(0.3, 0.1, 0.03, 0.01, 0.003),
)

TUNING_PROBLEMS = tuple(Place(suite="bbob", d=D, f=f, i=i) for f in (1, 3, 8, 10, 15, 20) for i in (1, 2))
"""Training problems: one or two functions of each of BBOB's five groups, with the budget of the comparison."""

TEST = tuple(f for f in functions("bbob") if not is_training(f))

VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "auto": {},
    "no landscape check": {"phases": ["homotopy", "local_search", "restarts", "covariance"]},
    "no local search": {"phases": ["landscape", "homotopy", "restarts", "covariance"]},
    "no restarts": {"phases": ["landscape", "homotopy", "local_search", "covariance"]},
    "no covariance": {"phases": ["landscape", "homotopy", "local_search", "restarts"]},
    "no widths": {"rate": 0.0},
    "one local search": {"phases": ["local_search"]},
    "local searches": {"phases": ["local_search", "restarts"]},
}
"""Additional arguments of `minimize`.

Without the landscape check, f is treated as smooth. Without the local search, there is one homotopy. The plan for small
budgets needs local searches and restarts. Without one of these, the plan for medium budgets replaces it.
"""


def name_of(variant: str) -> str:
    """Return the name of a variant in the records."""
    return variant if variant == "auto" else f"auto-{variant.replace(' ', '-')}"


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
    """Minimize with a composition. Every composition pays for the estimate of the variation of f, needed or not."""
    c = Composition(oracle=oracle, schedule=schedule, update=update)
    width = float(np.mean(upper - lower))
    spread = measure_spread(fun, x0, first_radius(values, width), Box(lower, upper), seed, points=each)
    left = budget - each
    field = Field(d=len(x0), width=width, evaluations=left - 1, each=each, spread=spread)  # the last evaluation is f(x)
    bounds = list(zip(lower, upper, strict=True))
    minimize(fun, x0, method=build(c, values, field), bounds=bounds, max_evals=left, seed=seed, history=0)


def measure_spread(fun: Watched, x0: Array, t: float, box: Box, seed: int, *, points: int) -> float:
    """Return the standard deviation of f(x0 + t u) over some points, or 1 on a plateau."""
    u = np.random.default_rng([seed, 3]).standard_normal((points, len(x0)))
    return float(np.std([fun(point) for point in box.inside(x0 + t * u, np)])) or 1.0


class Composed(Method):
    """A composition as a method of the COCO benchmark."""

    @property
    def depends_on_slgh(self) -> bool:
        """True: the results depend on the code of this repository."""
        return True

    def bound(self) -> Run:
        """Return the function to call."""
        return partial(run_composition, **self.settings)


def method_of(c: Composition, values: Values) -> Composed:
    """Return the method of a composition with its tuned values."""
    settings = {
        "oracle": c.oracle,
        "schedule": c.schedule,
        "update": c.update,
        "values": dict(values),
        "each": EVALUATIONS_PER_ITERATION,
    }
    return Composed(name=c.name, run="composition", planned=True, linear=True, settings=settings)


def variants() -> list[Method]:
    """Return "auto" and its variants without one of its phases."""
    return [
        Method(name=name_of(variant), run="slgh", planned=True, linear=True, settings=dict(keywords))
        for variant, keywords in VARIANTS.items()
    ]


def chosen(folder: Path) -> Chosen:
    """Return the tuned values of the compositions."""
    on = [[place.f, place.i] for place in TUNING_PROBLEMS]
    return Chosen(
        folder,
        "bbob",
        GRID,
        {"d": D, "evaluations": TIMES * D, "each": EVALUATIONS_PER_ITERATION, "on [function, instance]": on},
    )


def tuning_jobs(cells: Iterable[Composition]) -> list[Job]:
    """Return the runs of all candidates on all training problems."""
    return [
        Job(method=method_of(c, values), place=place, budgets=(TIMES * D,))
        for c in cells
        for values in GRID.candidates(c)
        for place in TUNING_PROBLEMS
    ]


def best_values(c: Composition, found: Iterable[Record]) -> dict[str, float] | None:
    """Return the candidate of a composition with the best mean rank, or None if some have not been run."""
    candidates = {method_of(c, values).digest: values for values in GRID.candidates(c)}
    runs = {(record.digest, record.place): record for record in found if record.digest in candidates}
    if any((of, place) not in runs for of in candidates for place in TUNING_PROBLEMS):
        return None
    ranks = rank(runs, list(candidates), TUNING_PROBLEMS, TIMES * D).ranks
    return candidates[min(candidates, key=ranks.__getitem__)]


def comparison_jobs(
    methods: Iterable[Composed], *, fs: Sequence[int] = TEST, instances: Sequence[int] = INSTANCES
) -> list[Job]:
    """Return the runs of tuned compositions on the test functions."""
    places = [Place(suite="bbob", d=D, f=f, i=i) for f in fs for i in instances]
    return [Job(method=method, place=place, budgets=(TIMES * D,)) for method in methods for place in places]


def auto_jobs(*, fs: Sequence[int] = TEST, instances: Sequence[int] = INSTANCES) -> list[Job]:
    """Return the runs of the variants of "auto" on the test functions."""
    cells = [Cell(suite="bbob", d=d, budgets=(times,)) for d, times in AUTO_CELLS]
    return [job for job in jobs_of(cells, variants(), instances) if job.place.f in fs]
