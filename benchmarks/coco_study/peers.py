"""The methods: each takes (fun, x0, lower, upper, budget, seed) and its settings, and calls fun until it raises.

A method imports the library that it needs. A method that ends before the budget is spent is restarted from a point
drawn uniformly in the box. To add a method, write a function here and a table in `settings.toml`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from coco_study.watched import Array, Watched

UNLIMITED = 10**9
"""More iterations, evaluations or restarts than any budget allows."""


def starts(x0: Array, lower: Array, upper: Array, seed: int) -> Iterator[tuple[Array, int]]:
    """Yield starts and seeds without end: first x0, then uniform points in the box."""
    rng = np.random.default_rng([seed, 2])
    for restart in range(UNLIMITED):
        yield x0 if restart == 0 else rng.uniform(lower, upper), seed + restart


def slgh(fun: Watched, x0: Array, lower: Array, upper: Array, budget: int, seed: int, **keywords: Any) -> None:
    """slgh with its defaults. Variants pass keywords of `minimize`."""
    from slgh import minimize

    minimize(fun, x0, bounds=list(zip(lower, upper, strict=True)), max_evals=budget, seed=seed, **keywords)


def paper(
    fun: Watched,
    x0: Array,
    lower: Array,
    upper: Array,
    budget: int,
    seed: int,
    *,
    samples: int,
    step: float,
    t1: float,
    t_end: float,
) -> None:
    """ZOSLGH_r of the paper: the forward oracle, t decaying by a constant ratio, gradient descent.

    `t1` and `t_end` are in units of the box's width. gamma is chosen such that t reaches `t_end` at the end of the
    budget. `step` is in units of width / (d + 4), like 1 / (2 (d + 4) L1) in the theorem, so that one value can serve
    all dimensions.
    """
    from slgh import minimize

    width = float(np.mean(upper - lower))
    iterations = max(1, (budget - 1) // (samples + 1))
    minimize(
        fun,
        x0,
        method="zoslgh_r",
        bounds=list(zip(lower, upper, strict=True)),
        t1=t1 * width,
        gamma=(t_end / t1) ** (1 / iterations),
        step=step * width / (len(x0) + 4),
        samples=samples,
        max_evals=budget,
        seed=seed,
    )


def cma(
    fun: Watched,
    x0: Array,
    lower: Array,
    upper: Array,
    budget: int,
    seed: int,
    *,
    sigma0: float,
    bounded: bool,
    diagonal: bool,
) -> None:
    """pycma with its default population, restarted when it stops."""
    from cma import CMAEvolutionStrategy

    for x, own_seed in starts(x0, lower, upper, seed):
        options = cma_options(lower, upper, own_seed, bounded=bounded, diagonal=diagonal)
        strategy = CMAEvolutionStrategy(x, sigma0, options)
        while not strategy.stop():
            points = strategy.ask()
            strategy.tell(points, [fun(point) for point in points])


def bipop(
    fun: Watched, x0: Array, lower: Array, upper: Array, budget: int, seed: int, *, sigma0: float, bounded: bool
) -> None:
    """pycma with its own BIPOP restarts."""
    from cma import fmin2

    begin = starts(x0, lower, upper, seed)
    while True:
        options = cma_options(lower, upper, seed, bounded=bounded, diagonal=False)
        fmin2(fun, lambda: next(begin)[0], sigma0, options, restarts=UNLIMITED, bipop=True)


def cma_options(lower: Array, upper: Array, seed: int, *, bounded: bool, diagonal: bool) -> dict[str, Any]:
    """Return pycma's options: silent, with a seed, bounded or not."""
    quiet = {"verbose": -9, "verb_log": 0, "seed": seed, "CMA_diagonal": diagonal}
    return quiet | ({"bounds": [list(lower), list(upper)]} if bounded else {})


def dual_annealing(fun: Watched, x0: Array, lower: Array, upper: Array, budget: int, seed: int) -> None:
    """SciPy's generalized simulated annealing with local searches by L-BFGS-B."""
    from scipy.optimize import dual_annealing

    box = list(zip(lower, upper, strict=True))
    for x, own_seed in starts(x0, lower, upper, seed):
        dual_annealing(fun, box, x0=x, rng=own_seed, maxiter=UNLIMITED, maxfun=UNLIMITED)


def differential_evolution(
    fun: Watched, x0: Array, lower: Array, upper: Array, budget: int, seed: int, *, popsize: int, polish: bool
) -> None:
    """SciPy's differential evolution. x0 is a member of the first population."""
    from scipy.optimize import differential_evolution

    box = list(zip(lower, upper, strict=True))
    for x, own_seed in starts(x0, lower, upper, seed):
        differential_evolution(fun, box, x0=x, rng=own_seed, popsize=popsize, polish=polish, maxiter=UNLIMITED)


def lbfgsb(fun: Watched, x0: Array, lower: Array, upper: Array, budget: int, seed: int) -> None:
    """SciPy's L-BFGS-B with forward differences, restarted when it stops."""
    from scipy.optimize import minimize

    box = list(zip(lower, upper, strict=True))
    for x, _ in starts(x0, lower, upper, seed):
        minimize(fun, x, method="L-BFGS-B", bounds=box, options={"maxfun": UNLIMITED, "maxiter": UNLIMITED})


def cobyqa(fun: Watched, x0: Array, lower: Array, upper: Array, budget: int, seed: int) -> None:
    """SciPy's COBYQA, a trust region on quadratic models, restarted when it stops."""
    from scipy.optimize import Bounds, minimize

    box = Bounds(lower, upper)
    options: Any = {"maxfev": UNLIMITED, "maxiter": UNLIMITED}
    for x, _ in starts(x0, lower, upper, seed):
        minimize(fun, x, method="COBYQA", bounds=box, options=options)


def random_search(fun: Watched, x0: Array, lower: Array, upper: Array, budget: int, seed: int) -> None:
    """x0, then uniform points in the box."""
    for x, _ in starts(x0, lower, upper, seed):
        fun(x)


def nevergrad(fun: Watched, x0: Array, lower: Array, upper: Array, budget: int, seed: int, *, optimizer: str) -> None:
    """An optimizer of nevergrad by name. It receives the budget.

    With few evaluations in 2 and 3 variables, NGOpt4 fits a model with code that raises a TypeError with NumPy 2.4.
    NGOptBase, its predecessor, runs there.
    """
    import nevergrad

    if optimizer == "NGOpt4" and len(x0) <= 3 and budget <= 200 * len(x0):
        optimizer = "NGOptBase"
    begin = starts(x0, lower, upper, seed)
    while (left := budget - fun.count) > 0:
        x, own_seed = next(begin)
        space = nevergrad.p.Array(init=x, lower=lower, upper=upper)
        space.random_state.seed(own_seed)
        nevergrad.optimizers.registry[optimizer](space, budget=left, num_workers=1).minimize(fun)


def open_es(
    fun: Watched,
    x0: Array,
    lower: Array,
    upper: Array,
    budget: int,
    seed: int,
    *,
    population: int,
    std: float,
    std_end: float,
    learning_rate: float,
    learning_rate_end: float,
) -> None:
    """evosax's Open_ES with Adam. std and learning rate, in units of the box, decay exponentially over the budget."""
    import jax

    width = float(np.mean(upper - lower))
    falls = (std * width, std_end * width, learning_rate * width, learning_rate_end * width)
    strategy = _open_es(len(x0), population, budget // population, *falls)
    for x, own_seed in starts(x0, lower, upper, seed):
        key, first = jax.random.split(jax.random.key(own_seed))
        state = strategy.init(first, x, strategy.default_params)
        for _ in range(budget // population + 1):
            key, asking, telling = jax.random.split(key, 3)
            points, state = strategy.ask(asking, state, strategy.default_params)
            values = np.array([fun(point) for point in np.asarray(points, float)])
            state, _ = strategy.tell(telling, points, values, state, strategy.default_params)


@lru_cache
def _open_es(
    d: int, population: int, generations: int, std: float, std_end: float, rate: float, rate_end: float
) -> Any:
    """Return the strategy, compiled once for each dimension and budget."""
    import jax
    import optax
    from evosax.algorithms import Open_ES

    jax.config.update("jax_enable_x64", True)
    return Open_ES(
        population_size=population,
        solution=np.zeros(d),
        optimizer=optax.adam(optax.exponential_decay(rate, generations, rate_end / rate)),
        std_schedule=optax.exponential_decay(std, generations, std_end / std),
    )
