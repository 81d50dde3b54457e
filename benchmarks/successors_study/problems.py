"""Comparisons: a function, its starts, the budget, and how far a point is from the solution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import slgh
from slgh.problems import himmelblau, rosenbrock

Points = NDArray[np.float64]

REPORTED, TUNING = 0, 1
"""What an instance is for. Instances for tuning have other seeds and other starts than those that are reported."""

TUNING_SPREAD = 0.5
"""Standard deviation, in each variable, of the starts for tuning around a published start that is fixed."""


@dataclass(frozen=True, kw_only=True)
class Instance:
    """A function with a start and a solution."""

    fun: Callable[[Points], Any]
    """Values at points (..., d)."""
    x0: Points
    solution: Points
    """The nearest solution, or (d,) any of them, for the scale of lengths."""
    error: Callable[[Points], float]
    grad: Callable[[Points], Any] | None = None
    smooth: Any = None
    """The closed form of F, if it is known."""
    data: tuple[Points, ...] = ()
    """Arrays in which instances of a comparison differ, for `Comparison.with_data`."""
    minimum: float = 0.0

    @property
    def distance(self) -> float:
        """Distance from the start to the solution."""
        return float(np.linalg.norm(self.x0 - self.solution))

    @property
    def rise(self) -> float:
        """f at the start, above the minimum."""
        return float(self.fun(self.x0)) - self.minimum


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A row of problems with one budget.

    Parameters
    ----------
    make
        Returns an instance for (seed, REPORTED or TUNING).
    budget
        Evaluations per run. A gradient, which comes with a value, counts once.
    samples
        Random directions per iteration of the methods that sample.
    seeds, tuning
        Numbers of runs that are reported, and that each setting is tuned on.
    measure
        What `Instance.error` is.
    """

    name: str
    title: str
    source: str
    make: Callable[[int, int], Instance]
    d: int
    budget: int
    samples: int
    methods: tuple[str, ...]
    seeds: int
    tuning: int = 1
    measure: str = "mean squared error of x"
    solved: float | None = None
    """Error below which a run counts as a success. None: successes are not counted."""
    with_data: tuple[Callable[..., Any], Callable[..., Any]] | None = None
    """f and its gradient as functions of x and `Instance.data` of many instances. None: f is the same for all."""

    @property
    def has_gradient(self) -> bool:
        return self.make(0, REPORTED).grad is not None

    @property
    def scale(self) -> tuple[float, float]:
        """Median distance to the solution and median f at the start, over the instances for tuning."""
        instances = [self.make(seed, TUNING) for seed in range(self.tuning)]
        return float(np.median([i.distance for i in instances])), float(np.median([i.rise for i in instances]))


def ackley(x: Points) -> Any:
    root, waves = np.sqrt(np.mean(x * x, axis=-1)), np.mean(np.cos(2 * np.pi * x), axis=-1)
    return 20 + np.e - 20 * np.exp(-0.2 * root) - np.exp(waves)


def rosenbrock_chain(x: Points) -> Any:
    return np.sum(100 * (x[..., 1:] - x[..., :-1] ** 2) ** 2 + (1 - x[..., :-1]) ** 2, axis=-1)


def griewank(x: Points) -> Any:
    scale = np.sqrt(np.arange(1, x.shape[-1] + 1))
    return 1 + np.sum(x * x, axis=-1) / 4000 - np.prod(np.cos(x / scale), axis=-1)


def _started(
    fun: Callable[[Points], Any], start: Points, solution: Points, spread: float
) -> Callable[[int, int], Instance]:
    """Return instances whose starts have this standard deviation around `start`.

    If it is 0, those for tuning have another one, so that they are not the reported ones.
    """

    def make(seed: int, role: int) -> Instance:
        noise = np.random.default_rng((seed, role)).standard_normal(start.shape)
        x0 = start + (TUNING_SPREAD if role == TUNING and not spread else spread) * noise
        return Instance(fun=fun, x0=x0, solution=solution, error=lambda x: float(np.mean((x - solution) ** 2)))

    return make


def _with_closed_form(problem: slgh.problems.Problem, start: Points) -> Callable[[int, int], Instance]:
    """Return instances of a problem with gradients and closed form, whose reported start is always the same."""

    def make(seed: int, role: int) -> Instance:
        noise = np.random.default_rng((seed, role)).standard_normal(2)
        x0 = start + (TUNING_SPREAD * noise if role == TUNING else 0.0)
        nearest = problem.minimizers[np.argmin(np.linalg.norm(problem.minimizers - x0, axis=-1))]
        return Instance(
            fun=problem.fun,
            grad=problem.grad,
            smooth=problem.smooth,
            x0=x0,
            solution=nearest,
            error=lambda x: float(np.min(np.mean((x - problem.minimizers) ** 2, axis=-1))),
        )

    return make


def _seen(x: Points, A: Points) -> Points:
    """Return the products of the rows of A (m, d) with x (n, d), or of A (B, 1, m, d) with x (B, n, d)."""
    return x @ (A[:, 0] if A.ndim == 4 else A).swapaxes(-1, -2)


def intensity_loss(x: Points, A: Points, y: Points) -> Any:
    """Return the mean squared error of the values (a_i . x)^2, divided by 4."""
    return np.mean((_seen(x, A) ** 2 - y) ** 2, axis=-1) / 4


def intensity_gradient(x: Points, A: Points, y: Points) -> Any:
    seen = _seen(x, A)
    return ((seen * seen - y) * seen) @ (A[:, 0] if A.ndim == 4 else A) / seen.shape[-1]


def _phase_retrieval(d: int, ratio: float) -> Callable[[int, int], Instance]:
    """Return instances of real phase retrieval: find x, up to its sign, from m = ratio d values (a_i . x)^2."""

    def make(seed: int, role: int) -> Instance:
        rng = np.random.default_rng((seed, role, round(10 * ratio)))
        A = rng.standard_normal((round(ratio * d), d))
        signal = rng.standard_normal(d)
        signal /= np.linalg.norm(signal)
        y = (A @ signal) ** 2
        x0 = rng.standard_normal(d) / d**0.5
        return Instance(
            fun=lambda x: intensity_loss(x, A, y),
            grad=lambda x: intensity_gradient(x, A, y),
            x0=x0,
            solution=signal if x0 @ signal > 0 else -signal,
            error=lambda x: float(min(np.linalg.norm(x - signal), np.linalg.norm(x + signal))),
            data=(A, y),
        )

    return make


BY_VALUES = ("zosgd", "zoadamm", "zogradopt", "zoslgh_r", "zoslgh_d", "power_gs", "zopower_hp", "dgs", "adadgs")
IN_FULL = (*BY_VALUES, "cma", "auto")
WITH_FORM = ("slgh_r", "slgh_d", "zoslgh_r", "zoslgh_d", "cpl", "power_hp", "zopower_hp", "dgs", "adadgs", "auto")
WITH_GRADIENT = (
    *("gd", "slgh_r", "slgh_d", "zoslgh_r", "zoslgh_d", "power_hp", "zopower_hp", "dgs", "adadgs"),
    *("auto, values", "auto"),
)

D = 500

XU = "Xu, ICML 2025"
CPL = "Lin et al., ICML 2023"


def _xu() -> list[Comparison]:
    ones = np.ones(D)
    large = {"d": D, "budget": 100_000, "samples": 100, "methods": IN_FULL, "seeds": 3, "source": XU}
    small = {"d": 2, "methods": IN_FULL, "seeds": 20, "tuning": 3, "source": XU}
    return [
        Comparison(
            name="ackley-2",
            title="Ackley, 2 variables",
            make=_started(ackley, np.full(2, 5.0), np.zeros(2), 0.01),
            budget=2000,
            samples=10,
            **small,
        ),
        Comparison(
            name="rosenbrock-2",
            title="Rosenbrock, 2 variables",
            make=_started(rosenbrock_chain, np.array([-3.0, 2.0]), np.ones(2), 0.1),
            budget=100_000,
            samples=100,
            **small,
        ),
        Comparison(
            name="ackley-500",
            title="Ackley, 500 variables",
            make=_started(ackley, 5 * ones, 0 * ones, 0.01),
            **large,
        ),
        Comparison(
            name="rosenbrock-500",
            title="Rosenbrock, 500 variables",
            make=_started(rosenbrock_chain, np.tile([-3.0, 2.0], D // 2), ones, 0.1),
            **large,
        ),
        Comparison(
            name="griewank-500",
            title="Griewank, 500 variables",
            make=_started(griewank, 10 * ones, 0 * ones, 0.01),
            **large,
        ),
    ]


def _paths() -> list[Comparison]:
    common: dict[str, Any] = {"d": 2, "samples": 1, "seeds": 5, "tuning": 2, "source": CPL}
    return [
        Comparison(
            name="cpl-ackley",
            title="Ackley from (5, 5), values",
            make=_started(ackley, np.full(2, 5.0), np.zeros(2), 0.0),
            budget=2000,
            methods=("zoslgh_r", "zoslgh_d", "cpl", "zopower_hp", "dgs", "adadgs", "auto"),
            **common,
        ),
        Comparison(
            name="cpl-himmelblau",
            title="Himmelblau from (-3, -2)",
            make=_with_closed_form(himmelblau(), np.array([-3.0, -2.0])),
            budget=2000,
            methods=WITH_FORM,
            **common,
        ),
        Comparison(
            name="cpl-rosenbrock",
            title="Rosenbrock from (-3, 2)",
            make=_with_closed_form(rosenbrock(), np.array([-3.0, 2.0])),
            budget=20_000,
            methods=WITH_FORM,
            **common,
        ),
    ]


RATIOS = (1.5, 2.0, 2.5)
SIGNAL = 20


def _retrieval() -> list[Comparison]:
    return [
        Comparison(
            name=f"phase-{ratio:g}",
            title=f"m = {ratio:g} d",
            source="Xu, 2026",
            make=_phase_retrieval(SIGNAL, ratio),
            d=SIGNAL,
            budget=20_000,
            samples=10,
            methods=WITH_GRADIENT,
            seeds=20,
            tuning=4,
            measure="distance to the signal, up to its sign",
            solved=1e-3,
            with_data=(intensity_loss, intensity_gradient),
        )
        for ratio in RATIOS
    ]


COMPARISONS: dict[str, Comparison] = {c.name: c for c in (*_xu(), *_paths(), *_retrieval())}
