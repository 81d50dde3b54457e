"""Compare how busy ask/tell optimizers keep 8 workers if 10 % of the evaluations take 10 times as long.

    python benchmarks/stragglers.py [--seeds 5]     write benchmarks/stragglers.md (needs nevergrad, cma, optuna, cmaes)

The clock is virtual: an event queue says which evaluation ends next, and nothing sleeps. An evaluation takes 1 unit of
time, or 10 units with probability 0.1. Its time is a function of the seed and of the point. In the second setting, all
times also vary uniformly by 30 %, so that workers do not end at the same moments.
"""

from __future__ import annotations

import argparse
import heapq
import warnings
import zlib
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

import slgh

PAGE = Path(__file__).resolve().with_suffix(".md")

WORKERS, D = 8, 10
STRAGGLERS, SLOW = 0.1, 10.0
"""Share of the evaluations that are slow, and how long they take."""

JITTER = 0.3
"""Relative variation of all times in the second setting."""

BUDGET = 1500
"""Evaluations of a run. 8 workers that are always busy take about 356 units for them."""

HORIZON = 300.0
"""Time at which shares and values are compared. The best value is also given at a third of it."""

START = 2.0
"""First value of every variable."""

RADIUS = 2.0
"""First radius, standard deviation or t1, of every optimizer."""


def sphere(x: Any) -> float:
    return float(np.sum((x - 0.7) ** 2))


def rastrigin(x: Any) -> float:
    y = x - 0.7
    return float(np.sum(y**2 - 10 * np.cos(2 * np.pi * y) + 10))


def rosenbrock(x: Any) -> float:
    return float(np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2))


FUNCTIONS = {"sphere": sphere, "Rastrigin": rastrigin, "Rosenbrock": rosenbrock}


class Point(NamedTuple):
    """A point to evaluate, and what the optimizer needs to know it again."""

    x: Any
    token: Any


class Peer(Protocol):
    """An optimizer."""

    def ask(self, n: int) -> list[Point]:
        """Return at most n points for idle workers, none if they must wait."""

    def tell(self, point: Point, value: float) -> bool:
        """Pass a value. Return True if it can still change the iterates."""


class Slgh:
    """An `Optimizer` of slgh."""

    def __init__(self, seed: int, **options: Any) -> None:
        self.opt = slgh.Optimizer(np.full(D, START), max_evals=BUDGET, seed=seed, t1=RADIUS, **options)
        self.asynchronous = "asynchronous" in options

    def ask(self, n: int) -> list[Point]:
        return [] if self.opt.stop() else [Point(x, None) for x in self.opt.ask(n)]

    def tell(self, point: Point, value: float) -> bool:
        if self.opt.stop():
            return False
        self.opt.tell(point.x[None], [value])
        if not self.asynchronous:
            return True
        request = self.opt.arrivals[-1, 0]
        closed = self.opt.arrivals[:, 1] == -1
        return request not in self.opt.arrivals[closed, 0]


class Nevergrad:
    """An optimizer of nevergrad."""

    def __init__(self, seed: int, name: str) -> None:
        import nevergrad as ng

        parameter = ng.p.Array(init=np.full(D, START)).set_mutation(sigma=RADIUS)
        parameter.random_state.seed(seed)
        self.opt = ng.optimizers.registry[name](parameter, budget=BUDGET, num_workers=WORKERS)
        self.left = BUDGET

    def ask(self, n: int) -> list[Point]:
        n = min(n, self.left)
        self.left -= n
        candidates = [self.opt.ask() for _ in range(n)]
        return [Point(candidate.value, candidate) for candidate in candidates]

    def tell(self, point: Point, value: float) -> bool:
        self.opt.tell(point.token, value)
        return True


class Pycma:
    """CMAEvolutionStrategy, which takes the values of a whole population."""

    def __init__(self, seed: int, popsize: int | None) -> None:
        import cma

        options: dict[str, Any] = {"seed": seed + 1, "verbose": -9}
        if popsize is not None:
            options["popsize"] = popsize
        self.opt = cma.CMAEvolutionStrategy(np.full(D, START), RADIUS, options)
        self.left = BUDGET
        self.population: list[Any] = []
        self.values: dict[int, float] = {}
        self.asked = 0

    def ask(self, n: int) -> list[Point]:
        if self.asked == len(self.population):
            if len(self.values) < len(self.population) or self.left < self.opt.popsize:
                return []
            self.population, self.values, self.asked = self.opt.ask(), {}, 0
            self.left -= len(self.population)
        first, self.asked = self.asked, min(len(self.population), self.asked + n)
        return [Point(self.population[i], i) for i in range(first, self.asked)]

    def tell(self, point: Point, value: float) -> bool:
        self.values[point.token] = value
        if len(self.values) == len(self.population):
            self.opt.tell(self.population, [self.values[i] for i in range(len(self.population))])
        return True


class Optuna:
    """The CMA-ES of Optuna, which asks for independent trials."""

    def __init__(self, seed: int) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        sampler = optuna.samplers.CmaEsSampler(
            seed=seed, sigma0=RADIUS, x0={f"x{i}": START for i in range(D)}, warn_independent_sampling=False
        )
        self.study = optuna.create_study(sampler=sampler)
        self.space: Any = {f"x{i}": optuna.distributions.FloatDistribution(-10, 10) for i in range(D)}
        self.left = BUDGET
        self.newest = -1

    def ask(self, n: int) -> list[Point]:
        n = min(n, self.left)
        self.left -= n
        trials = [self.study.ask(self.space) for _ in range(n)]
        self.newest = max([self.newest, *map(self._generation, trials)])
        return [Point(np.array([trial.params[f"x{i}"] for i in range(D)]), trial) for trial in trials]

    def tell(self, point: Point, value: float) -> bool:
        self.study.tell(point.token, value)
        return self._generation(point.token) == self.newest

    def _generation(self, trial: Any) -> int:
        """Return the generation of a trial. Those of older generations are not used anymore."""
        return int(self.study.get_trials(deepcopy=False)[trial.number].system_attrs.get("cma:generation", -1))


class Use(NamedTuple):
    """Observations of one run."""

    busy: float
    """Share of the workers' time in which they evaluate, until the horizon."""
    used: float
    """Share of their time in which they evaluate points whose value can change the iterates."""
    used_values: float
    """Share of the evaluations whose value can change the iterates."""
    early: float
    """Lowest value at a third of the horizon."""
    best: float
    """Lowest value at the horizon."""
    final: float
    """Lowest value at the end of the budget."""
    end: float
    """Time at the end of the budget."""


def simulate(peer: Peer, fun: Callable[[Any], float], seed: int, jitter: float) -> Use:
    """Let the workers evaluate until the optimizer has no more points."""
    clock, idle, count = 0.0, WORKERS, 0
    running: list[tuple[float, int, float, Point]] = []
    ended: list[tuple[float, float, float, bool]] = []
    while True:
        while idle and (asked := peer.ask(idle)):
            for point in asked:
                slow, vary = np.random.default_rng([seed, zlib.crc32(np.asarray(point.x).tobytes())]).random(2)
                time = (SLOW if slow < STRAGGLERS else 1.0) * (1 + jitter * (2 * vary - 1))
                heapq.heappush(running, (clock + time, count, clock, point))
                idle, count = idle - 1, count + 1
        if not running:
            break
        clock = running[0][0]
        while running and running[0][0] == clock:
            end, _, began, point = heapq.heappop(running)
            value = fun(point.x)
            ended.append((began, end, value, peer.tell(point, value)))
            idle += 1
    began_at, ended_at, values, used = map(np.array, zip(*ended, strict=True))
    total = WORKERS * min(HORIZON, clock)
    spent = np.clip(np.minimum(ended_at, HORIZON) - began_at, 0, None)

    def lowest(time: float) -> float:
        return float(np.min(values[ended_at <= time], initial=np.inf))

    return Use(
        busy=float(spent.sum() / total),
        used=float(spent[used].sum() / total),
        used_values=float(used.mean()),
        early=lowest(HORIZON / 3),
        best=lowest(HORIZON),
        final=lowest(np.inf),
        end=clock,
    )


PEERS: dict[str, Callable[[int], Peer]] = {
    "slgh, asynchronous": lambda seed: Slgh(seed, parallel=WORKERS, asynchronous=True),
    "slgh, asynchronous, homotopy alone": lambda seed: Slgh(
        seed, parallel=WORKERS, asynchronous=True, phases=("homotopy",)
    ),
    "slgh, synchronous": lambda seed: Slgh(seed, parallel=WORKERS),
    "slgh, synchronous, homotopy alone": lambda seed: Slgh(seed, parallel=WORKERS, phases=("homotopy",)),
    "nevergrad CMA": lambda seed: Nevergrad(seed, "CMA"),
    "nevergrad TBPSA": lambda seed: Nevergrad(seed, "TBPSA"),
    "Optuna CMA-ES": Optuna,
    "pycma, default popsize (10)": lambda seed: Pycma(seed, None),
    "pycma, popsize 8": lambda seed: Pycma(seed, 8),
}

INTRODUCTION = """# Stragglers

`python benchmarks/stragglers.py` wrote this page. {workers} workers evaluate functions in {d} variables, with {budget}
evaluations per run. An evaluation takes 1 unit of time, and {share:.0%} of them take {slow:g} units. The clock is
virtual. Numbers are means (shares, times) and medians (values) of {seeds} seeds.

- **Busy**: share of the workers' time in which they evaluate, until time {horizon:g}.
- **Used**: the same, but only for values that can still change the iterates when they arrive. Stragglers take
  {time:.0%} of the time of all evaluations. So if their values are late, this share is at most about {rest:.0%}.
- **Used values**: share of the evaluations whose value can still change the iterates.
- **f at ...**: lowest value at that time, in the order {functions}.

slgh counts late values as evaluations, and takes the best of them, but they do not change the iterates. nevergrad uses
late values. Optuna ignores those of older generations. The other optimizers wait.
"""


def table(uses: dict[str, dict[str, list[Use]]]) -> str:
    """Return one setting as a table."""
    early, late = HORIZON / 3, HORIZON
    heads = ["", "busy", "used", "used values", f"f at {early:g}", f"f at {late:g}", "f at the end", "end"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for name, found in uses.items():
        every = [use for runs in found.values() for use in runs]
        shares = [f"{np.mean([getattr(use, key) for use in every]):.0%}" for key in ("busy", "used", "used_values")]
        values = [
            ", ".join(f"{np.median([getattr(use, key) for use in runs]):.1e}" for runs in found.values())
            for key in ("early", "best", "final")
        ]
        lines.append("| " + " | ".join([name, *shares, *values, f"{np.mean([use.end for use in every]):.0f}"]) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    seeds = parser.parse_args().seeds
    warnings.simplefilter("ignore")  # of the libraries
    slow = STRAGGLERS * SLOW / (STRAGGLERS * SLOW + 1 - STRAGGLERS)
    text = INTRODUCTION.format(
        workers=WORKERS,
        d=D,
        budget=BUDGET,
        share=STRAGGLERS,
        slow=SLOW,
        seeds=seeds,
        horizon=HORIZON,
        time=slow,
        rest=1 - slow,
        functions=", ".join(FUNCTIONS),
    )
    for jitter, title in ((0.0, "Equal times"), (JITTER, f"Times that vary by {JITTER:.0%}")):
        uses: dict[str, dict[str, list[Use]]] = {}
        for name, make in PEERS.items():
            uses[name] = {
                key: [simulate(make(seed), fun, seed, jitter) for seed in range(seeds)]
                for key, fun in FUNCTIONS.items()
            }
            print(title, name, flush=True)
        text += f"\n## {title}\n\n{table(uses)}\n"
    packages = ", ".join(f"{name} {version(name)}" for name in ("nevergrad", "optuna", "cmaes", "cma", "numpy"))
    PAGE.write_text(f"{text}\nVersions: {packages}.\n")


if __name__ == "__main__":
    main()
