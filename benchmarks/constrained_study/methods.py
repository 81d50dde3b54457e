"""The methods: each takes a watched problem, x0 and a seed, and evaluates until that raises `Spent`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from constrained_study.problems import Floats, Problem
from constrained_study.watched import FEASIBLE, Spent, Stalled, Watched

UNLIMITED = 10**6
"""More iterations, evaluations or restarts than any budget allows."""

BUDGETS = (1000, 5000)
"""Evaluations at which the methods are compared."""


def start(problem: Problem, seed: int) -> Floats:
    """Return the start of this seed: a uniform point in the box. All methods get the same one."""
    return np.random.default_rng([seed, 1]).uniform(problem.low, problem.high)


def _starts(problem: Problem, x0: Floats, seed: int) -> Iterator[Floats]:
    """Yield x0, then uniform points in the box without end."""
    rng = np.random.default_rng([seed, 2])
    yield x0
    while True:
        yield rng.uniform(problem.low, problem.high)


def slgh(watched: Watched, x0: Floats, seed: int) -> dict[str, Any]:
    """slgh with its defaults. Return what it claims."""
    from slgh import minimize

    problem = watched.problem
    watched.stops = False  # so that the result can be checked
    result = minimize(
        watched.f,
        x0,
        bounds=list(zip(problem.low, problem.high, strict=True)),
        constraints=watched.constraint,
        max_evals=watched.budgets[-1],
        seed=seed,
        history=0,
    )
    violation = problem.violation(result.x)
    return {
        "success": bool(result.success),
        "violation": violation,
        "wrong": bool(result.success) > (violation <= FEASIBLE),
    }


def cobyqa(watched: Watched, x0: Floats, seed: int) -> dict[str, Any]:
    """SciPy's COBYQA, restarted from uniform points when it stops."""
    from scipy.optimize import Bounds, minimize

    problem = watched.problem
    options: Any = {"maxfev": UNLIMITED, "maxiter": UNLIMITED}
    claims, wrong = 0, 0
    try:
        for x in _starts(problem, x0, seed):
            try:
                found = minimize(
                    watched.f,
                    x,
                    method="COBYQA",
                    bounds=Bounds(problem.low, problem.high),
                    constraints=watched.constraint,
                    options=options,
                )
            except Stalled:  # seen on g21
                continue
            claims += bool(found.success)
            wrong += bool(found.success) and problem.violation(found.x) > FEASIBLE
    except Spent:
        pass
    return {"claims": claims, "wrong": wrong}


def differential_evolution(watched: Watched, x0: Floats, seed: int) -> dict[str, Any]:
    """SciPy's differential evolution with its defaults, restarted when it stops. x0 is in the first population."""
    from scipy.optimize import Bounds, differential_evolution

    problem = watched.problem
    claims, wrong = 0, 0
    try:
        for restart, x in enumerate(_starts(problem, x0, seed)):
            found = differential_evolution(
                watched.f,
                Bounds(problem.low, problem.high),
                constraints=watched.constraint,
                x0=x,
                rng=np.random.default_rng([seed, 3, restart]),
                maxiter=UNLIMITED,
            )
            claims += bool(found.success)
            wrong += bool(found.success) and problem.violation(found.x) > FEASIBLE
    except Spent:
        pass
    return {"claims": claims, "wrong": wrong}


METHODS: dict[str, Callable[[Watched, Floats, int], dict[str, Any]]] = {
    "slgh": slgh,
    "COBYQA": cobyqa,
    "DE": differential_evolution,
}


def run(method: str, problem: Problem, seed: int) -> tuple[Watched, dict[str, Any]]:
    """Run a method on a problem."""
    watched = Watched(problem=problem, budgets=BUDGETS)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        claims = METHODS[method](watched, start(problem, seed), seed)
    return watched, claims
