"""Test problems: a function with its start, its minimizers, and the closed form of its smoothing if there is one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


class SmoothedFunction(Protocol):
    """Exact F(x, t) = E f(x + t u) and its derivatives, for x (..., d) and t (...)."""

    def value(self, x: Any, t: Any) -> Any: ...
    def grad(self, x: Any, t: Any) -> Any: ...
    def trace(self, x: Any, t: Any) -> Any: ...
    def dt(self, x: Any, t: Any) -> Any:
        # By the heat equation. Classes that derive from this protocol inherit this method.
        return t * self.trace(x, t)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A function to minimize, with its start and known properties.

    Parameters
    ----------
    name
        Name in `slgh.problems.PROBLEMS`.
    fun, grad
        The function and its gradient, vectorized over points (..., d). A `grad` of None is unknown.
    x0
        Start (d,).
    minimizers, minimum
        Global minimizers (n, d), and f there.
    smooth
        Closed form of F. None: there is none.
    parameters
        Hyperparameters of the paper's runs.
    """

    name: str
    fun: Callable[[Any], Any]
    x0: NDArray[np.float64]
    minimizers: NDArray[np.float64]
    minimum: float
    grad: Callable[[Any], Any] | None = None
    smooth: SmoothedFunction | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def d(self) -> int:
        """Number of variables."""
        return len(self.x0)


def smoothed_problem(smooth: SmoothedFunction, **known: Any) -> Problem:
    """Return the problem of minimizing f = F(., 0) for a closed form F. `known` are the other fields of `Problem`."""
    return Problem(
        fun=lambda x: smooth.value(x, 0 * x[..., 0]),
        grad=lambda x: smooth.grad(x, 0 * x[..., 0]),
        smooth=smooth,
        **known,
    )
