"""Local searches in a batch: L-BFGS from the lowest point of each problem, after the homotopies.

They are a method like any other, so the loops run them, and they end, resume and count evaluations as a homotopy does.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from slgh.engine.bounds import Box
from slgh.engine.step import StepConfig
from slgh.engine.termination import first_counters
from slgh.method import Method
from slgh.oracles import DiagonalScaling
from slgh.oracles.local import LocalDifferences, LocalGradient
from slgh.protocols import Oracle, StepState
from slgh.schedules import Constant
from slgh.updates.lbfgs import LBFGS

FIRST_REACH = 10.0
"""Maximum change of a variable in the first step, in units of t1, as in the local searches of a single problem."""


class SearchConfig(Protocol):
    """Part of a RunConfig that the searches depend on."""

    @property
    def step(self) -> StepConfig: ...
    @property
    def search(self) -> StepConfig | None: ...
    @property
    def t1(self) -> NDArray[Any]: ...
    @property
    def widths(self) -> NDArray[np.float64]: ...
    @property
    def box(self) -> Box | None: ...


def local_method(oracle: Oracle, d: int) -> Method:
    """Return the local search that uses gradients if the homotopy's `oracle` does, and differences otherwise."""
    local = LocalDifferences(samples=d) if oracle.asks == "values" else LocalGradient()
    # t stays that of the end of the homotopy, and has no effect.
    return Method(oracle=local, schedule=Constant(t1=0.0), update=LBFGS(), reports="best", name="auto")


@np.errstate(all="ignore")
def searching(state: StepState, running: NDArray[np.bool_], config: SearchConfig) -> StepState:
    """Return the state, in NumPy arrays, that begins local searches of the running problems (B,) after `state`."""
    assert config.search is not None
    method, dtype = config.search.method, state.x.dtype
    oracle, update = method.oracle, method.update
    assert isinstance(oracle, LocalDifferences | LocalGradient)
    assert isinstance(update, LBFGS)
    x = np.asarray(np.where(running[:, None], state.x_best, state.x))
    widths = np.broadcast_to(config.widths.astype(dtype), x.shape)
    if isinstance(config.step.method.oracle, DiagonalScaling):
        widths = np.asarray(np.exp(state.oracle[0]), dtype)  # those that the homotopy has learned
    low, high = np.full_like(x, -np.inf), np.full_like(x, np.inf)
    if config.box is not None:
        low[:], high[:] = config.box.low, config.box.high
    # Differences over h lose half of the digits to rounding, if f and x have the scale of t1.
    unit = np.maximum(config.t1[:, None] * widths, np.abs(x))
    h = np.asarray(np.finfo(dtype).eps ** 0.5 * unit, dtype)
    length = np.asarray(state.t * x.shape[1] ** 0.5, dtype)
    reach = np.asarray(FIRST_REACH * config.t1, dtype)
    return state._replace(
        x=x,
        oracle=oracle.starting(widths, h, high),
        schedule=method.schedule.init(state.t, state.floor, np),
        update=update.starting(x, length, reach, low, high, np),
        counters=first_counters(x, state.t, np, config.search.tolerances),
    )
