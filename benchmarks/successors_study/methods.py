"""Methods: the settings that are tried for each, in units of the problem, and how a run is done."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import slgh
from successors_study.problems import REPORTED, Comparison, Instance

TRIALS = 12
"""Settings tried per method, for all methods that have settings."""

FALL = 1e-3
"""t falls by this factor over the run, under schedules with a ratio."""

UNTUNED = ("auto", "auto, values", "cma", "cpl")

Settings = dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Lowest value that a run has evaluated, above the minimum, and the error of that point."""

    f: float
    error: float
    values: int
    gradients: int
    seconds: float


RADIUS = ("radius", -1.0, 0.5)
STEP = ("step", -4.0, 0.0)

SPACES: dict[str, tuple[tuple[str, float, float], ...]] = {
    "gd": (STEP,),
    "zosgd": (RADIUS, STEP),
    "zoadamm": (RADIUS, ("length", -4.0, -1.0)),
    "zogradopt": (RADIUS, STEP),
    "zoslgh_r": (RADIUS, STEP),
    "zoslgh_d": (RADIUS, STEP, ("eta", -5.0, -1.0)),
    "slgh_r": (RADIUS, STEP),
    "slgh_d": (RADIUS, STEP, ("eta", -5.0, -1.0)),
    "power_gs": (RADIUS, ("sharpness", -1.0, 3.0), ("length", -3.0, -0.5)),
    "power_hp": (RADIUS, ("sharpness", -1.0, 3.0), STEP),
    "zopower_hp": (RADIUS, ("sharpness", -1.0, 3.0), ("alpha", -1.0, 0.0)),
    "dgs": (RADIUS, STEP),
    "adadgs": (("radius", -0.5, 1.0), ("length", -1.0, 1.0)),
}
"""Settings of each method, with the range of their decimal logarithm. They are drawn uniformly in it.

radius: t1 in units of r / sqrt(d), where r is the distance from the start to the solution. step: in units of
r^2 / (f(x0) - minimum). sharpness: N in units of 1 / (f(x0) - minimum). length: the length of the first step, or the
longest one of a line search, in units of r (of r / sqrt(d) per variable for zoadamm). eta: in units of
t1 r^2 / (d (f(x0) - minimum)). alpha: as it is.
"""


def trials(method: str, comparison: Comparison) -> list[Settings]:
    """Return the settings to try, the same number for every method that has any. None are drawn for the others."""
    if method in UNTUNED:
        return [{}]
    space = SPACES[method]
    rng = np.random.default_rng([ord(c) for c in f"{method} {comparison.name}"])
    # One draw per stratum of each setting, so that twelve settings cover the ranges.
    strata = [(rng.permutation(TRIALS) + rng.random(TRIALS)) / TRIALS for _ in space]
    return [
        {
            name: float(f"{10 ** (low + (high - low) * u[i]):.4g}")
            for (name, low, high), u in zip(space, strata, strict=True)
        }
        for i in range(TRIALS)
    ]


def options(method: str, settings: Settings, comparison: Comparison) -> dict[str, Any]:
    """Return the arguments of `slgh.minimize` for these settings."""
    d, (r, rise), closed = comparison.d, comparison.scale, comparison.make(0, REPORTED).smooth is not None
    chosen: dict[str, Any] = {}
    if "radius" in settings:
        chosen["t1"] = settings["radius"] * r / d**0.5
    if "step" in settings:
        chosen["step"] = settings["step"] * r * r / rise
    if "sharpness" in settings:
        chosen["sharpness"] = settings["sharpness"] / rise
    if "alpha" in settings:
        chosen["alpha"] = settings["alpha"]
    if "eta" in settings:
        chosen["eta"] = settings["eta"] * chosen["t1"] * r * r / (d * rise)
    if "length" in settings:
        length = settings["length"] * r
        name = {"adadgs": "longest"}.get(method, "step")
        chosen[name] = length / d**0.5 if method == "zoadamm" else length
    if method not in ("gd", "dgs", "adadgs"):
        chosen["samples"] = max(2, comparison.samples) if "sharpness" in settings else comparison.samples
    per_iteration = {
        "dgs": 4 * d,
        "power_hp": 2 * chosen.get("samples", 1),
        "power_gs": comparison.samples,
        "zopower_hp": chosen.get("samples", 1),
        "gd": 2,
    }.get(method, 1 + comparison.samples)
    if method in ("slgh_r", "slgh_d") and closed:
        per_iteration = 2
    if method in ("zoslgh_r", "zoslgh_d", "slgh_r", "slgh_d", "dgs", "power_hp", "zopower_hp"):
        chosen["gamma"] = FALL ** (1 / max(2, allowed(method, comparison) // per_iteration))
    if method == "zogradopt":
        # One tenth of the iterations per radius, whatever f does.
        inner = max(1, allowed(method, comparison) // per_iteration // 10)
        chosen |= {"eps0": math.inf, "n0": inner, "gamma": FALL**0.1}
    return chosen


FIRST_ORDER = ("gd", "slgh_r", "slgh_d", "power_hp", "auto")


def allowed(method: str, comparison: Comparison) -> int:
    """Return `max_evals`, which counts values and gradients together.

    Gradients alone must stay within the budget, so methods that evaluate values next to them may have more in all. The
    share of "auto" is not known before the run, so its values count too.
    """
    if method not in FIRST_ORDER or method == "auto" or not comparison.has_gradient:
        return comparison.budget
    sampled = method in ("slgh_r", "slgh_d") and comparison.make(0, REPORTED).smooth is None
    gradients = comparison.samples if sampled else 1
    return comparison.budget * (1 + gradients) // gradients


def run(method: str, settings: Settings, comparison: Comparison, role: int, seeds: list[int]) -> list[Outcome]:
    """Run a method on the instances with these seeds. Runs of slgh but "auto" are one batch, in which nothing depends
    on the other runs."""
    instances = [comparison.make(seed, role) for seed in seeds]
    start = time.process_time()
    if method == "cma":
        found = [_cma(comparison, instance, seed) for instance, seed in zip(instances, seeds, strict=True)]
    elif method == "cpl":
        found = [_path(comparison, instance, seed) for instance, seed in zip(instances, seeds, strict=True)]
    elif method.startswith("auto"):
        found = [_slgh(method, {}, comparison, [i], [seed])[0] for i, seed in zip(instances, seeds, strict=True)]
    else:
        found = _slgh(method, options(method, settings, comparison), comparison, instances, seeds)
    seconds = (time.process_time() - start) / len(seeds)
    return [
        Outcome(f=f - i.minimum, error=i.error(x), values=values, gradients=gradients, seconds=seconds)
        for (f, x, values, gradients), i in zip(found, instances, strict=True)
    ]


Found = tuple[float, Any, int, int]
"""f, x, and the numbers of values and gradients."""


def _slgh(
    method: str, given: dict[str, Any], comparison: Comparison, instances: list[Instance], seeds: list[int]
) -> list[Found]:
    first, alone = instances[0], len(instances) == 1
    fun: Callable[..., Any] = first.fun
    grad = first.grad
    options: dict[str, Any] = dict(given)
    if first.smooth is not None and method in ("slgh_r", "slgh_d", "auto"):
        fun, grad = first.smooth, None
        options.pop("samples", None)
    else:
        options["vectorized"] = True
        if comparison.with_data is not None and not alone:
            fun, grad = comparison.with_data
            options["data"] = tuple(np.stack(arrays) for arrays in zip(*(i.data for i in instances), strict=True))
        if grad is not None and method in FIRST_ORDER:
            options["grad"] = grad
    if not alone:
        options["batched"] = True
    with np.errstate(all="ignore"):
        result = slgh.minimize(
            fun,
            first.x0 if alone else np.stack([i.x0 for i in instances]),
            method=method.split(",")[0],  # type: ignore[arg-type]
            max_evals=allowed(method, comparison),
            seed=seeds[0] if alone else seeds,
            history=None,
            **options,
        )
        found = []
        for b, instance in enumerate(instances):
            row = [np.atleast_2d(x)[b] for x in (result.x, result.x_best)]
            values = [float(instance.fun(x)) for x in row]
            best = min((v if math.isfinite(v) else math.inf, k) for k, v in enumerate(values))[1]
            counts = int(np.atleast_1d(result.nfev)[b]), int(np.atleast_1d(result.njev)[b])
            found.append((values[best], row[best], *counts))
    return found


SIGMA = 1.0
"""First standard deviation of CMA-ES, the middle one of those that Xu tries."""

DIAGONAL_FROM = 100
"""Number of variables from which CMA-ES learns a diagonal covariance: a full one takes minutes."""


def _cma(comparison: Comparison, instance: Instance, seed: int) -> Found:
    import cma

    wide = comparison.d >= DIAGONAL_FROM
    es = cma.CMAEvolutionStrategy(
        instance.x0, SIGMA, {"seed": seed + 1, "verbose": -9, "CMA_diagonal": wide, "maxfevals": comparison.budget}
    )
    while not es.stop():
        points = es.ask()
        es.tell(points, instance.fun(np.array(points)).tolist())
    return float(es.result.fbest), np.array(es.result.xbest), int(es.result.evaluations), 0


def _path(comparison: Comparison, instance: Instance, seed: int) -> Found:
    from successors_study.path_learning import PLANS, learn_path

    found = learn_path(instance, PLANS[comparison.name], seed)
    values, gradients = (0, found.evaluations) if instance.smooth is not None else (found.evaluations, 0)
    return float(instance.fun(found.x)), found.x, values, gradients
