"""The methods: each takes (fun, problem, budget) and evaluates points, W per call, until `fun` raises `Spent`.

All have the same starts and boxes. A method that stops early restarts from a uniform point in the box.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from coco_study import peers
from coco_study.settings import read_methods

from parallel_study.problems import BUDGETS, Problem
from parallel_study.rounds import Rounds


def slgh(fun: Rounds, problem: Problem, budget: int) -> None:
    """slgh with its defaults and `parallel=W`."""
    keywords: dict[str, Any] = {"parallel": fun.workers, "vectorized": True}
    peers.slgh(fun, problem.x0, problem.lower, problem.upper, budget, problem.seed, **keywords)


def cma(fun: Rounds, problem: Problem, budget: int, *, population: bool) -> None:
    """pycma, restarted when it stops, with a population of W or its default population."""
    from cma import CMAEvolutionStrategy

    settings = {key: read_methods()["cma"].settings[key] for key in ("bounded", "diagonal")}
    for x, seed in peers.starts(problem.x0, problem.lower, problem.upper, problem.seed):
        options = peers.cma_options(problem.lower, problem.upper, seed, **settings)
        strategy = CMAEvolutionStrategy(x, problem.sigma0, options | ({"popsize": fun.workers} if population else {}))
        while not strategy.stop():
            points = strategy.ask()
            strategy.tell(points, list(fun(np.array(points))))


def nevergrad(fun: Rounds, problem: Problem, budget: int, *, optimizer: str) -> None:
    """An optimizer of nevergrad by name, with num_workers=W and the budget."""
    import nevergrad

    space = nevergrad.p.Array(init=problem.x0, lower=problem.lower, upper=problem.upper)
    space.random_state.seed(problem.seed)
    strategy = nevergrad.optimizers.registry[optimizer](space, budget=budget, num_workers=fun.workers)
    while True:
        candidates = [strategy.ask() for _ in range(fun.workers)]
        values = fun(np.array([candidate.value for candidate in candidates]))
        for candidate, value in zip(candidates, values, strict=True):
            strategy.tell(candidate, float(value))


def optuna(fun: Rounds, problem: Problem, budget: int, *, sampler: Callable[..., Any]) -> None:
    """A sampler of Optuna, asked W times before it is told W values. Its first trial is x0."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    names = [f"x{j}" for j in range(len(problem.x0))]
    box = [optuna.distributions.FloatDistribution(*ends) for ends in zip(problem.lower, problem.upper, strict=True)]
    study = optuna.create_study(sampler=sampler(problem, names, fun.workers))
    study.enqueue_trial(dict(zip(names, problem.x0, strict=True)))
    space = dict(zip(names, box, strict=True))
    while True:
        trials = [study.ask(space) for _ in range(fun.workers)]
        values = fun(np.array([[trial.params[name] for name in names] for trial in trials]))
        for trial, value in zip(trials, values, strict=True):
            study.tell(trial, float(value))


def cma_sampler(problem: Problem, names: list[str], workers: int) -> Any:
    """CMA-ES with a population of W, from x0."""
    from optuna.samplers import CmaEsSampler

    x0 = dict(zip(names, problem.x0, strict=True))
    return CmaEsSampler(x0=x0, sigma0=problem.sigma0, popsize=workers, seed=problem.seed)


def tpe_sampler(problem: Problem, names: list[str], workers: int) -> Any:
    """TPE, where points that are being evaluated count as bad."""
    from optuna.samplers import TPESampler

    return TPESampler(constant_liar=True, seed=problem.seed)


def random_search(fun: Rounds, problem: Problem, budget: int) -> None:
    """x0, then uniform points in the box."""
    points = peers.starts(problem.x0, problem.lower, problem.upper, problem.seed)
    while True:
        fun(np.array([x for x, _ in islice(points, fun.workers)]))


@dataclass(frozen=True, kw_only=True)
class Method:
    """A function of this file.

    Parameters
    ----------
    planned
        The method behaves differently with another budget, and limits itself. If False, one run covers all budgets.
    max_d, max_budget
        Largest dimension, and largest budget in multiples of d. Slow methods run in small cells only.
    """

    name: str
    run: Callable[[Rounds, Problem, int], None]
    planned: bool = False
    max_d: int = 10**9
    max_budget: int = BUDGETS[-1]

    @property
    def is_slgh(self) -> bool:
        """True if the results depend on the version of slgh."""
        return self.run is slgh


METHODS = {
    method.name: method
    for method in (
        Method(name="slgh", run=slgh, planned=True),
        Method(name="cma", run=partial(cma, population=False)),
        Method(name="cma-W", run=partial(cma, population=True)),
        Method(name="ng-cma", run=partial(nevergrad, optimizer="CMA")),
        Method(name="ng-de", run=partial(nevergrad, optimizer="DE")),
        Method(name="ng-tbpsa", run=partial(nevergrad, optimizer="TBPSA")),
        # 1 to 3 ms per evaluation in 10 variables, 30 ms in 40
        Method(name="optuna-cma", run=partial(optuna, sampler=cma_sampler), max_d=21, max_budget=100),
        # The time of an evaluation grows with the number of trials
        Method(name="optuna-tpe", run=partial(optuna, sampler=tpe_sampler), max_d=10, max_budget=50),
        Method(name="random", run=random_search),
    )
}
PEERS = [name for name in METHODS if name != "slgh"]


def pick(names: list[str], label: str) -> list[Method]:
    """Return the methods with these names, by default all. The label is added to the name of slgh."""
    for name in names:
        if name not in METHODS:
            raise ValueError(f"`methods` has no {name!r}. Choose from {', '.join(METHODS)}.")
    found = [METHODS[name] for name in names or METHODS]
    return [replace(method, name=f"slgh@{label}") if label and method.is_slgh else method for method in found]
