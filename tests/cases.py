"""One case for every method of the registry, and for swapped updates, on a small rugged function."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from array_api_compat import array_namespace

import slgh
from slgh.problems.problem import Problem, SmoothedFunction

D = 4
STEP, T1, SAMPLES, TERMS = 0.02, 0.5, 3, 7


def fun(x: Any, *extra: Any) -> Any:
    """A rugged bowl, elementwise before one sum. `extra` is xi, an index that shifts it."""
    xp = array_namespace(x)
    shift = 0.1 * xp.astype(extra[0] - 3, x.dtype) if extra else 0.0
    return xp.sum(x**2 + 0.3 * xp.sin(3 * x), axis=-1) * (1 + 0.1 * shift) + shift


def grad(x: Any, *extra: Any) -> Any:
    """The gradient of `fun`."""
    xp = array_namespace(x)
    slope = 2 * x + 0.9 * xp.cos(3 * x)
    return slope * (1 + 0.01 * xp.astype(extra[0] - 3, x.dtype))[..., None] if extra else slope


def with_data(x: Any, a: Any, xi: Any, scale: float) -> float:
    """Function of a point with data, xi and args. It is defined here so that worker processes can import it."""
    return float(scale * ((x - a) ** 2).sum() + 0.1 * xi)


def boom(x: Any) -> float:
    """Function that raises."""
    raise ZeroDivisionError("in a worker")


@dataclasses.dataclass(frozen=True)
class Case:
    """Arguments of `minimize` for one method, and the number of evaluations per iteration."""

    params: dict[str, Any]
    cost: Callable[[int], int]
    method: str
    stochastic: bool = False
    first_order: bool = False

    def run(self, x0: Any, fun: Callable[..., Any] = fun, **options: Any) -> slgh.Result:
        """Call minimize(fun, x0, ...) with the method of this case."""
        given = {"max_iter": 30, "seed": 5, "vectorized": True, **self.params}
        if self.stochastic:
            given["sample_xi"] = TERMS
        if self.first_order and isinstance(x0, np.ndarray):
            given["grad"] = grad
        return slgh.minimize(fun, x0, method=self.method, **{**given, **options})


def _case(
    method: str, cost: Callable[[int], int], *, first_order: bool = False, stochastic: bool = False, **params: Any
) -> Case:
    return Case(params, cost, method, stochastic, first_order)


ZEROTH: dict[str, Any] = {"t1": T1, "step": STEP, "samples": SAMPLES}

DEEP: dict[str, Any] = {"shape": 1.0, "alpha": 0.5, "fall": 6e-6}
"""Options with which t reaches its floor in the few iterations of a test."""

TRIALS = 8

LINE: dict[str, Any] = {"longest": 0.5, "contraction": 0.6, "trials": TRIALS}
"""Options of a short line search."""

CASES: dict[str, Case] = {
    "scale_free": _case("scale_free", lambda k: 2 * SAMPLES, t1=T1, samples=SAMPLES, **DEEP),
    "gd": _case("gd", lambda k: 2, first_order=True, step=STEP),
    "sgd": _case("sgd", lambda k: 1 + SAMPLES, first_order=True, stochastic=True, step=STEP, samples=SAMPLES),
    "zosgd": _case("zosgd", lambda k: 1 + SAMPLES, **ZEROTH),
    "zoadamm": _case("zoadamm", lambda k: 1 + SAMPLES, **ZEROTH),
    "zosvrg": _case(
        "zosvrg", lambda k: 4 * SAMPLES + (2 * TERMS if k % 5 == 0 else 0), stochastic=True, period=5, **ZEROTH
    ),
    "spsa": _case("spsa", lambda k: 2 * SAMPLES, **ZEROTH | {"step": 0.2}),
    "openai_es": _case("openai_es", lambda k: 2 * SAMPLES, **ZEROTH | {"step": 0.1}),
    "power_gs": _case("power_gs", lambda k: 10, t1=T1, step=0.05, sharpness=1.0),
    "power_hp": _case("power_hp", lambda k: 2 * SAMPLES, first_order=True, gamma=0.95, sharpness=0.5, **ZEROTH),
    "zopower_hp": _case("zopower_hp", lambda k: 10, t1=T1, gamma=0.98, sharpness=1.0),
    "dgs": _case("dgs", lambda k: 4 * SAMPLES, gamma=0.9, **ZEROTH),
    "adadgs": _case("adadgs", lambda k: 4 * SAMPLES + 1 + TRIALS, t1=T1, samples=SAMPLES, **LINE),
    "gradopt": _case("gradopt", lambda k: 1 + SAMPLES, first_order=True, eps0=0.1, n0=3, **ZEROTH),
    "zogradopt": _case("zogradopt", lambda k: 1 + SAMPLES, eps0=0.1, n0=3, **ZEROTH),
    "gradopt_hazan": _case("gradopt_hazan", lambda k: 1 + SAMPLES, **ZEROTH | {"n0": 4}),
    "slgh_r": _case("slgh_r", lambda k: 1 + SAMPLES, first_order=True, gamma=0.9, **ZEROTH),
    "slgh_d": _case("slgh_d", lambda k: 1 + SAMPLES, first_order=True, gamma=0.9, eta=0.01, **ZEROTH),
    "zoslgh_r": _case("zoslgh_r", lambda k: 1 + SAMPLES, gamma=0.9, **ZEROTH),
    "zoslgh_d": _case("zoslgh_d", lambda k: 1 + SAMPLES, gamma=0.9, eta=0.01, **ZEROTH),
    "slgh_r+momentum": _case("slgh_r", lambda k: 1 + SAMPLES, first_order=True, update="momentum", **ZEROTH),
    "slgh_r+adam": _case("slgh_r", lambda k: 1 + SAMPLES, first_order=True, update="adam", **ZEROTH),
    "zoslgh_r+momentum": _case("zoslgh_r", lambda k: 1 + SAMPLES, update="momentum", **ZEROTH),
    "zoslgh_r+adam": _case("zoslgh_r", lambda k: 1 + SAMPLES, update="adam", **ZEROTH),
    "zoslgh_d+v": _case("zoslgh_d", lambda k: 1 + 2 * SAMPLES, slope_from="v", eta=0.01, **ZEROTH),
    "zoslgh_r stochastic": _case("zoslgh_r", lambda k: 2 * SAMPLES, stochastic=True, **ZEROTH),
    "zoslgh_d stochastic+v": _case(
        "zoslgh_d", lambda k: 3 * SAMPLES, stochastic=True, slope_from="v", eta=0.01, **ZEROTH
    ),
    "zoslgh_r shared xi": _case("zoslgh_r", lambda k: 1 + SAMPLES, stochastic=True, xi="shared", **ZEROTH),
    "slgh_d stochastic": _case("slgh_d", lambda k: 1 + SAMPLES, first_order=True, stochastic=True, eta=0.01, **ZEROTH),
    "scale_free stochastic": _case(
        "scale_free", lambda k: 2 * SAMPLES, stochastic=True, t1=T1, samples=SAMPLES, **DEEP
    ),
    "zoslgh_r by theory": _case("zoslgh_r", lambda k: 1 + SAMPLES, t1=T1, samples=SAMPLES, step="theory", L1=5.0),
    "zoslgh_d with error": _case(
        "zoslgh_d", lambda k: 1 + SAMPLES, t1=T1, samples=SAMPLES, eta=0.01, L1=5.0, noise=1e-3
    ),
    "zoslgh_r with error, stochastic": _case(
        "zoslgh_r", lambda k: 2 * SAMPLES, stochastic=True, t1=T1, samples=SAMPLES, L1=5.0, noise=1e-3
    ),
    "spsa stochastic": _case("spsa", lambda k: 2 * SAMPLES, stochastic=True, **ZEROTH | {"step": 0.2}),
    "openai_es stochastic": _case("openai_es", lambda k: 2 * SAMPLES, stochastic=True, **ZEROTH | {"step": 0.1}),
    "power_gs stochastic": _case("power_gs", lambda k: SAMPLES, stochastic=True, sharpness=1.0, **ZEROTH),
    "power_gs+double loop": _case(
        "power_gs", lambda k: 11, schedule="double_loop", eps0=0.1, n0=3, t1=T1, step=0.05, sharpness=1.0
    ),
    "power_hp stochastic": _case(
        "power_hp", lambda k: 2 * SAMPLES, first_order=True, stochastic=True, gamma=0.95, sharpness=0.5, **ZEROTH
    ),
    "dgs, axes and f": _case(
        "dgs", lambda k: 1 + 2 * SAMPLES, basis="axes", nodes=3, schedule="double_loop", eps0=0.1, n0=3, **ZEROTH
    ),
    "dgs stochastic": _case("dgs", lambda k: 4 * SAMPLES, stochastic=True, gamma=0.9, **ZEROTH),
    "adadgs stochastic": _case(
        "adadgs", lambda k: 4 * SAMPLES + 1 + TRIALS, stochastic=True, t1=T1, samples=SAMPLES, **LINE
    ),
    "scale_free by ranks": _case("scale_free", lambda k: 2 * SAMPLES, values="ranks", t1=T1, samples=SAMPLES, **DEEP),
    "antithetic+derivative": _case("zoslgh_d", lambda k: 1 + 2 * SAMPLES, oracle="antithetic", eta=0.01, **ZEROTH),
}


def starts(B: int, dtype: Any = np.float64) -> Any:
    """Return B starts in D variables."""
    return np.random.default_rng(0).uniform(-2, 2, (B, D)).astype(dtype)


every_method = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def assert_same(a: slgh.Result, b: slgh.Result) -> None:
    """Assert that two results are equal bit for bit."""
    for name in ("x", "fun", "x_best", "fun_best", "xhat", "t", "nit", "nfev", "njev", "status", "nrejected"):
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)
    for name, column in a.history.items():
        np.testing.assert_array_equal(column, b.history[name], err_msg=f"history {name}")


def noting(note: Callable[..., object], fun: Callable[..., Any]) -> Callable[..., Any]:
    """Return `fun` that passes its arguments to `note` first."""

    def call(*args: Any) -> Any:
        note(*args)
        return fun(*args)

    return call


def smooth_of(problem: Problem) -> SmoothedFunction:
    """Return the closed form of a problem that has one."""
    assert problem.smooth is not None
    return problem.smooth


def find(pattern: str, text: str, flags: int = 0) -> re.Match[str]:
    """Return the first match of a pattern, which must exist."""
    found = re.search(pattern, text, flags)
    assert found is not None, pattern
    return found


class Stopper(Exception):
    """Raised by a test's function to end a run."""


def fails_after(n: int) -> Callable[..., Any]:
    """Return `fun` that raises at its n-th call."""
    calls = []

    def failing(x: Any, *extra: Any) -> Any:
        calls.append(1)
        if len(calls) == n:
            raise Stopper
        return fun(x, *extra)

    return failing


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entered:
    """Watch that stores when and where x first enters a ball of this squared radius, and the current distance."""

    radius: float
    ends: bool = False

    names = ("first", "where", "now")
    columns = ("now",)

    def init(self, x: Any, xp: Any) -> Any:
        none = xp.zeros_like(x[:, 0])
        return none - 1, xp.zeros_like(x), none

    def see(self, state: Any, sight: Any, xp: Any) -> Any:
        first, where, _ = state
        r = sight.more[:, 0]
        new = (r <= self.radius) & (first < 0)
        return (
            xp.where(new, sight.k + xp.zeros_like(first), first),
            xp.where(new[:, None], sight.x, where),
            r,
        )

    def done(self, state: Any, xp: Any) -> Any:
        return state[0] >= 0


def watched_bowl(x: Any) -> Any:
    """Return a bowl with its minimum at 0.5, and the squared distance from 0."""
    xp = array_namespace(x)
    return xp.sum((x - 0.5) ** 2, axis=-1), xp.sum(x * x, axis=-1)


WATCHED_STARTS = np.array([[3.0, -2.0, 1.0], [1.0, 1.5, -0.5], [-4.0, 2.0, 2.0]])
