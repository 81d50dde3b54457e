"""The methods: each takes a watched problem, a seed and a budget, and evaluates until the problem raises `Spent`.

All have their defaults, and get the space in their own types of parameters.
"""

from __future__ import annotations

import contextlib
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from slgh.space import Boolean, Categorical, Float, Integer, Parameter
from tuning_study.problems import Problem, Values


class Spent(Exception):
    """The budget is spent."""


@dataclass(kw_only=True)
class Watched:
    """A problem that counts its evaluations, at most `budget`, and the CPU time that they take."""

    problem: Problem
    budget: int
    count: int = 0
    best: float = math.inf
    seconds: float = field(default=0.0)

    def __call__(self, values: Values) -> float:
        if self.count == self.budget:
            raise Spent
        begin = time.process_time()
        value = self.problem(values)
        self.seconds += time.process_time() - begin
        self.count += 1
        self.best = min(self.best, value)
        return value


Method = Callable[[Watched, int], None]


def slgh(fun: Watched, seed: int) -> None:
    """slgh with its defaults."""
    from slgh import minimize

    minimize(fun, fun.problem.space, max_evals=fun.budget, seed=seed)


def optuna(fun: Watched, seed: int, *, sampler: str, **settings: Any) -> None:
    """A sampler of Optuna. Its TPE is multivariate by default. Its CMA-ES draws categories and booleans at random."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=getattr(optuna.samplers, sampler)(seed=seed, **settings))
    space = {name: _optuna_distribution(parameter) for name, parameter in fun.problem.space.items()}
    while True:
        trial = study.ask(space)
        study.tell(trial, fun(trial.params))


def _optuna_distribution(parameter: Parameter) -> Any:
    from optuna import distributions as d

    if isinstance(parameter, Float):
        return d.FloatDistribution(parameter.low, parameter.high, log=parameter.log)
    if isinstance(parameter, Integer):
        return d.IntDistribution(parameter.low, parameter.high, log=parameter.log)
    return d.CategoricalDistribution(_choices(parameter))


def _choices(parameter: Parameter) -> list[Any]:
    """Return the choices of a category or boolean."""
    if isinstance(parameter, Categorical):
        return list(parameter.choices)
    assert isinstance(parameter, Boolean)
    return [False, True]


def random_search(fun: Watched, seed: int) -> None:
    """Uniform random points, in the logarithm where the parameter has one."""
    from slgh.space import Space

    space, rng = Space(fun.problem.space), np.random.default_rng([seed, 1])
    while True:
        fun(space.sample(rng))


def nevergrad(fun: Watched, seed: int, *, optimizer: str) -> None:
    """An optimizer of nevergrad by name, with the budget."""
    import nevergrad as ng

    space = ng.p.Dict(**{name: _nevergrad_parameter(p) for name, p in fun.problem.space.items()})
    space.random_state.seed(seed)
    strategy = ng.optimizers.registry[optimizer](space, budget=fun.budget)
    while True:
        candidate = strategy.ask()
        strategy.tell(candidate, fun(candidate.value))


def _nevergrad_parameter(parameter: Parameter) -> Any:
    import nevergrad as ng

    if isinstance(parameter, Float | Integer):
        kind = ng.p.Log if parameter.log else ng.p.Scalar
        made = kind(lower=parameter.low, upper=parameter.high)
        return made.set_integer_casting() if isinstance(parameter, Integer) else made
    return ng.p.Choice(_choices(parameter))


def scikit_optimize(fun: Watched, seed: int) -> None:
    """`gp_minimize` of scikit-optimize: Gaussian processes."""
    from skopt import gp_minimize
    from skopt.utils import use_named_args

    dimensions = [_skopt_dimension(name, parameter) for name, parameter in fun.problem.space.items()]
    f = use_named_args(dimensions)(lambda **values: fun(values))
    gp_minimize(f, dimensions, n_calls=fun.budget, random_state=seed)


def _skopt_dimension(name: str, parameter: Parameter) -> Any:
    from skopt import space

    if isinstance(parameter, Float | Integer):
        kind = space.Real if isinstance(parameter, Float) else space.Integer
        prior = "log-uniform" if parameter.log else "uniform"
        return kind(parameter.low, parameter.high, prior=prior, name=name)
    return space.Categorical(_choices(parameter), name=name)


METHODS: dict[str, Method] = {
    "slgh": slgh,
    "TPE": partial(optuna, sampler="TPESampler"),
    "TPE-univariate": partial(optuna, sampler="TPESampler", multivariate=False),
    "optuna-CMA-ES": partial(optuna, sampler="CmaEsSampler"),
    "random": random_search,
    "nevergrad-CMA": partial(nevergrad, optimizer="CMA"),
    "nevergrad-DE": partial(nevergrad, optimizer="DE"),
    "scikit-optimize": scikit_optimize,
}


def run(method: str, problem: Problem, seed: int, budget: int) -> tuple[Watched, float]:
    """Run a method. Return what it evaluated, and the CPU seconds that it took itself."""
    import sklearn

    watched = Watched(problem=problem, budget=budget)
    with (
        warnings.catch_warnings(),
        np.errstate(all="ignore"),
        sklearn.config_context(assume_finite=True, skip_parameter_validation=True),
    ):
        warnings.simplefilter("ignore")
        # Import everything before the time counts, with a run that ends at once.
        with contextlib.suppress(Spent, ValueError):  # scikit-optimize needs 10 evaluations
            METHODS[method](Watched(problem=problem, budget=1), seed)
        begin = time.process_time()
        with contextlib.suppress(Spent):
            METHODS[method](watched, seed)
        seconds = time.process_time() - begin - watched.seconds
    return watched, seconds
