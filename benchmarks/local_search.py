"""Compare the model-based local search of `auto` with SciPy's COBYQA, on training functions and small budgets.

    python benchmarks/local_search.py

Each line is the mean difference of log10(f - f_min), slgh minus COBYQA (negative: slgh ends lower), and how often slgh
ends lower and higher. The functions are not those of any benchmark that this project reports on.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import Bounds, minimize

from slgh.auto.model_search import search

Function = Callable[[Any], float]

DIMENSIONS, BUDGETS, INSTANCES = (2, 5, 10), (10, 20, 30), 5
"""Dimensions, budgets in evaluations per variable, and number of instances."""

SMALLEST_GAP = 1e-12
"""Smaller values count as this one."""


def functions(d: int, seed: int) -> dict[str, Function]:
    """Return training functions with a random center and rotation. Their minimum is 0."""
    rng = np.random.default_rng(seed)
    center = rng.uniform(-3, 3, d)
    rotation = np.linalg.qr(rng.normal(size=(d, d)))[0]
    two, six = 10.0 ** np.linspace(0, 2, d), 10.0 ** np.linspace(0, 6, d)

    def valley(z: Any) -> float:
        y = z - center + 1
        return float(np.sum(100 * (y[1:] - y[:-1] ** 2) ** 2 + (1 - y[:-1]) ** 2))

    def cone(z: Any) -> float:
        y = z - center
        return float(20 - 20 * np.exp(-0.2 * np.linalg.norm(y) / d**0.5) + 0.01 * np.sum(np.abs(y)))

    return {
        "ellipsoid, condition 1e2": lambda z: float(two @ (rotation @ (z - center)) ** 2),
        "ellipsoid, condition 1e6": lambda z: float(six @ (rotation @ (z - center)) ** 2),
        "Rosenbrock": valley,
        "quartic": lambda z: float(np.sum((rotation @ (z - center)) ** 4) + np.sum((z - center) ** 2)),
        "absolute values": lambda z: float(np.sum(np.abs(rotation @ (z - center)))),
        "cone": cone,
    }


def by_models(fun: Function, d: int, budget: int, box: Bounds) -> float:
    """Return the lowest value that the search of slgh finds."""
    solver, best = search(box.lb, box.ub), np.inf
    try:
        z = next(solver)
        for _ in range(budget):
            value = fun(z)
            best = min(best, value)
            z = solver.send(value)
    except StopIteration:
        pass
    return best


class Spent(Exception):
    """The budget is spent."""


def by_cobyqa(fun: Function, d: int, budget: int, box: Bounds) -> float:
    """Return the lowest value that SciPy's COBYQA finds."""
    values: list[float] = []

    def counted(z: Any) -> float:
        if len(values) == budget:
            raise Spent
        values.append(fun(z))
        return values[-1]

    options: Any = {"final_tr_radius": 1e-8}
    with contextlib.suppress(Spent):
        minimize(counted, np.zeros(d), method="COBYQA", bounds=box, options=options)
    return min(values)


def main() -> None:
    """Print one line per function, and the ratio of the times."""
    differences: dict[str, list[float]] = {}
    seconds = [0.0, 0.0]
    for d in DIMENSIONS:
        box = Bounds(np.full(d, -5.0), np.full(d, 5.0))
        for seed in range(INSTANCES):
            for name, fun in functions(d, seed).items():
                for budget in BUDGETS:
                    found = []
                    for i, solve in enumerate((by_models, by_cobyqa)):
                        began = time.perf_counter()
                        found.append(np.log10(max(solve(fun, d, budget * d, box), SMALLEST_GAP)))
                        seconds[i] += time.perf_counter() - began
                    differences.setdefault(name, []).append(float(found[0] - found[1]))
    print(f"{'function':28} {'decades':>8} {'lower':>7} {'higher':>7}")
    for name, each in [*differences.items(), ("all", [x for xs in differences.values() for x in xs])]:
        array = np.array(each)
        lower, higher = np.mean(array < -1e-3), np.mean(array > 1e-3)
        print(f"{name:28} {array.mean():+8.2f} {lower:7.0%} {higher:7.0%}")
    print(f"time: {seconds[0] / seconds[1]:.2f} of COBYQA's")


if __name__ == "__main__":
    main()
