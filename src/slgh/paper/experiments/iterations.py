r"""Measure the number of iterations until the gradient is as small as a theorem says."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slgh.minimize import minimize
from slgh.paper.experiment import require_complete
from slgh.problems import Problem
from slgh.result import Result
from slgh.theory import Plan, Theorem, plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    r"""A function with the noise and the error that a theorem allows.

    .. math:: \bar f'(x; \xi) = f(x) + \xi \cdot x + \nu\, e(x), \qquad |\xi| = \sigma, \quad |e| \le 1
    """

    theorem: Theorem
    problem: Problem
    t1: float
    sigma: float = 0.0
    nu: float = 0.0
    seeds: int = 1

    def plan(self, **options: Any) -> Plan:
        """Return the theorem's parameters for it."""
        F: Any = self.problem.smooth
        return plan(
            method_of(self.theorem),
            L0=F.L0,
            L1=F.L1,
            d=self.problem.d,
            t1=self.t1,
            sigma=self.sigma,
            nu=self.nu,
            gap=float(self.problem.fun(self.problem.x0)) - self.problem.minimum,
            span=-self.problem.minimum or F.span,
            **options,
        )

    def squares(self, gamma: float, k0: int, n: int, done: Callable[[NDArray[Any]], bool]) -> NDArray[Any]:
        """Return |grad f(x_k)|^2, the mean over seeds, for k = 1..k0+n, or until `done` of them is true."""
        problem, T = self.problem, k0 + n
        it = dataclasses.replace(self.plan(gamma=gamma, T=T), k0=k0)
        found = np.empty(T)

        def follow(now: Any) -> bool:
            g = problem.grad(now.x)  # type: ignore[misc]
            found[now.nit - 1] = (g * g).sum() / self.seeds
            return now.nit % 64 == 0 and done(found[: now.nit])

        noisy = Tilted(problem.smooth, jagged(self.nu))
        result = run_seeds(
            noisy if self.theorem.order == "first" else noisy.values,
            problem.x0,
            self.seeds,
            follow,
            sample_xi=sphere(problem.d, self.sigma) if self.sigma else None,
            **it.parameters,
        )
        return found[: int(np.max(result.nit))]

    def least(self, gamma: float, eps: Sequence[float], max_length: int) -> dict[float, float | None]:
        """Return for each eps the least T, up to k0 + max_length, at which the theorem's criterion holds."""
        argmin = self.theorem.xhat == "argmin"
        k0s = [0 if argmin else self.theorem.burn_in(self.problem.d, e, gamma) for e in eps]

        if self.theorem.stochastic:
            # The step depends on T, so every length is a run of its own.
            lengths = [max_length // 64, max_length // 16, max_length // 4, max_length]
            runs = [self.squares(gamma, max(k0s), n, lambda seen: False) for n in lengths]
            means = [[float(run[k0 : k0 + n].mean()) for n, run in zip(lengths, runs, strict=True)] for k0 in k0s]
            return {e: length_below(m, lengths, k0, e) for e, k0, m in zip(eps, k0s, means, strict=True)}

        def read(seen: NDArray[Any]) -> dict[float, float | None]:
            return {e: first_below(seen, k0, e, argmin=argmin) for e, k0 in zip(eps, k0s, strict=True)}

        return read(self.squares(gamma, max(k0s), max_length, lambda seen: None not in read(seen).values()))


def method_of(theorem: Theorem) -> str:
    """Return the method that a theorem is about."""
    return "slgh_r" if theorem.order == "first" else "zoslgh_r"


def run_seeds(fun: Any, x0: NDArray[Any], seeds: int, follow: Callable[[Any], Any], **parameters: Any) -> Result:
    """Run all seeds in one batch, with `follow` as callback."""
    start = np.tile(x0, (seeds, 1))
    options: dict[str, Any] = {"batched": True, "vectorized": True, "seed": 0, "history": 0, "callback": follow}
    return require_complete(minimize(fun, start, **options, **parameters))


def first_below(squares: NDArray[Any], k0: int, eps: float, *, argmin: bool) -> float | None:
    """Return the first k with |grad f(x_k)| <= eps (`argmin`), or the least T whose mean over k0+1..T is <= eps^2."""
    after = squares[k0:]
    means = after if argmin else np.cumsum(after) / np.arange(1, len(after) + 1)
    small = np.flatnonzero(means <= eps**2)
    return float(k0 + small[0] + 1) if small.size else None


def length_below(means: Sequence[float], lengths: Sequence[int], k0: int, eps: float) -> float | None:
    """Return the T = k0 + n from which on the means of runs of length n are <= eps^2.

    A power law is assumed between lengths. None if unknown: the longest run does not reach eps, or the shortest does.
    """
    large = [i for i, mean in enumerate(means) if mean > eps**2]
    if not large or large[-1] + 1 == len(means):
        return None
    i = large[-1]
    share = math.log(means[i] / eps**2) / math.log(means[i] / means[i + 1])
    return float(k0 + lengths[i] * (lengths[i + 1] / lengths[i]) ** share)


class Tilted:
    r"""A closed form with noise, :math:`\bar f(x; \xi) = f(x) + \xi \cdot x`, as smooth as f; and an error on top."""

    def __init__(self, F: Any, error: Callable[[Any], Any]) -> None:
        self.F, self.error = F, error

    def value(self, x: Any, t: Any, xi: Any = 0.0) -> Any:
        return self.F.value(x, t) + (xi * x).sum(axis=-1)

    def grad(self, x: Any, t: Any, xi: Any = 0.0) -> Any:
        return self.F.grad(x, t) + xi

    def trace(self, x: Any, t: Any, xi: Any = 0.0) -> Any:
        return self.F.trace(x, t)

    def dt(self, x: Any, t: Any, xi: Any = 0.0) -> Any:
        return self.F.dt(x, t)

    def values(self, x: Any, xi: Any = 0.0) -> Any:
        """Return the values for zeroth-order methods: at t = 0, with the error added."""
        return self.value(x, 0 * x[..., 0], xi) + self.error(x)


def jagged(nu: float) -> Callable[[Any], Any]:
    """An error of size nu that changes its sign over distances too small to resolve."""
    return lambda x: nu * np.sign(np.sin(1e12 * x).sum(axis=-1))


def sphere(d: int, sigma: float) -> Callable[[np.random.Generator, int], NDArray[Any]]:
    """Sampler of xi, uniform on the sphere of radius sigma."""

    def draw(rng: np.random.Generator, n: int) -> NDArray[Any]:
        xi = rng.standard_normal((n, d))
        return np.asarray(sigma * xi / np.linalg.norm(xi, axis=1, keepdims=True))

    return draw
