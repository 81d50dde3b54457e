"""RunState: everything that changes during a run, and the state before its first iteration."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slgh.backends.numpy.noise import pick_index
from slgh.backends.protocols import Carry
from slgh.engine.requests import Counter
from slgh.engine.step import StepConfig, map_leaves
from slgh.engine.termination import Status, first_counters
from slgh.method import Method
from slgh.oracles import DiagonalScaling
from slgh.protocols import Array, StepState

LARGEST_INDEX = 2**31 - 1
"""Largest iteration that xhat is drawn from: JAX counts iterations in 32 bits."""


class RunState(NamedTuple):
    """Everything that changes during a run of B problems, except the position of the noise.

    The loop computes with `current`, in arrays of the backend. Everything else is in NumPy arrays on the host.
    """

    current: StepState
    """State of the problems `members`."""
    full: StepState
    """State of all problems. The rows of `members` are as of the last `gather`."""
    members: NDArray[np.intp]
    """Problems in `current`: the active ones, or in a compiled loop all of them, or one per slot."""
    active: NDArray[np.intp]
    """Problems that have begun and not ended."""
    status: NDArray[np.int64]
    """(B,) Status of each problem."""
    began: NDArray[np.int64]
    """(3, B) k, nfev and njev when each problem began."""
    counts: NDArray[np.int64]
    """(3, B) nit, nfev and njev of each problem at its end."""
    k: int = 0
    """Iterations completed."""
    nfev: int = 0
    """Evaluations of f per problem, up to the last completed iteration."""
    njev: int = 0
    carry: Carry | None = None
    """State of a compiled loop, None in a Python loop. `current` is part of it."""

    @property
    def evaluations(self) -> int:
        return self.nfev + self.njev

    def after_iteration(self, current: StepState, counter: Counter) -> RunState:
        """Return the state after another iteration. (`_replace` takes four times as long.)"""
        _, full, members, active, status, began, counts, k, _, _, carry = self
        return RunState(current, full, members, active, status, began, counts, k + 1, counter.nfev, counter.njev, carry)

    def spread(self, all_rows: NDArray[Any], rows: NDArray[Any], *, in_place: bool = False) -> NDArray[Any]:
        """Return `all_rows` (B, ...) with the rows of the members replaced."""
        if self.members.size == all_rows.shape[0]:
            return rows.copy() if in_place else rows  # a copy, since the next call in place overwrites it
        all_rows = all_rows if in_place else all_rows.copy()
        all_rows[self.members] = rows
        return all_rows

    def gather(self, host: Callable[[Array], NDArray[Any]], *, in_place: bool = False) -> RunState:
        """Bring `full` up to date. `in_place` overwrites its arrays, which saves copies of a large batch."""
        full = map_leaves(lambda old, new: self.spread(old, host(new), in_place=in_place), self.full, self.current)
        return self._replace(full=full)

    def end(self, ended: NDArray[np.intp], status: Any, counts: NDArray[np.int64] | None = None) -> RunState:
        """End these n problems, with one status or one per problem. They stay in `current`.

        `counts` are their nit, nfev and njev, (3, n) or (3, 1). None: they end after the current iteration.
        """
        if counts is None:
            counts = np.array([[self.k], [self.nfev], [self.njev]]) - self.began[:, ended]
        all_status, all_counts = self.status.copy(), self.counts.copy()
        all_status[ended], all_counts[:, ended] = status, counts
        active = self.active[all_status[self.active] == Status.RUNNING]
        return self._replace(status=all_status, counts=all_counts, active=active)

    def waiting(self) -> NDArray[np.intp]:
        """Return the problems that have not begun, in ascending order."""
        running = np.flatnonzero(self.status == Status.RUNNING)
        return running[~np.isin(running, self.active)]


def slices(rows: NDArray[np.intp], size: int | None) -> list[NDArray[np.intp]]:
    """Split problems into groups of at most `size`, which may run at the same time. None: one group."""
    n = max(1, size or rows.size)
    return [rows[i : i + n] for i in range(0, rows.size, n)]


def to_arrays(state: StepState) -> dict[str, Array]:
    """Return the arrays of a state by name, with those of tuples numbered."""
    named: dict[str, Array] = {}
    for name, field in state._asdict().items():
        if isinstance(field, tuple):
            named |= {f"{name}.{i}": leaf for i, leaf in enumerate(field)}
        else:
            named[name] = field
    return named


def from_arrays(named: dict[str, Array], like: StepState) -> StepState:
    """Invert `to_arrays` for a state of the same structure as `like`."""
    return StepState(
        *(
            tuple(named[f"{name}.{i}"] for i in range(len(field))) if isinstance(field, tuple) else named[name]
            for name, field in like._asdict().items()
        )
    )


@np.errstate(all="ignore")
def first_state(
    x: NDArray[Any], t: NDArray[Any], config: StepConfig, picks: list[int], widths: NDArray[np.float64] | None = None
) -> StepState:
    """Return the state before the first iteration, in NumPy arrays.

    Parameters
    ----------
    x, t
        (B, d) and (B,), the start and the first radii.
    picks
        Iteration of each problem whose iterate is xhat, -1 if the gradient norm decides.
    widths
        (d,) first widths of the samples, for an oracle that learns them.
    """
    method, B = config.method, x.shape[0]
    floor = first_floor(x, t, method)
    inf = np.full(B, np.inf, x.dtype)
    zero = np.zeros(B, x.dtype)
    if isinstance(method.oracle, DiagonalScaling) and widths is not None:
        memory = method.oracle.starting(np.broadcast_to(widths.astype(x.dtype), x.shape), np)
    else:
        memory = method.oracle.init(x, dataclasses.replace(config.ctx, xp=np))
    return StepState(
        x=x,
        t=t,
        oracle=memory,
        schedule=method.schedule.init(t, floor, np),
        update=method.update.init(x, np),
        floor=floor,
        x_best=x,
        f_best=inf,
        xhat=x,
        xhat_norm=inf,
        xhat_at=np.array(picks, np.int64),
        tail=() if config.tail_from is None else (np.zeros_like(x),),
        rejected=zero,
        worst=-inf,
        watch=() if config.watch is None else config.watch.init(x, np),
        counters=first_counters(x, t, np, config.tolerances),
    )


def draw_picks(keys: list[tuple[int, int]], T: int | None, burn_in: int, *, exact: bool) -> list[int]:
    """Draw the iteration of xhat for each problem, uniformly from the T planned ones after the burn-in."""
    if exact or not T:
        return [-1] * len(keys)
    return [min(burn_in + pick_index(key, T - burn_in), LARGEST_INDEX) for key in keys]


def first_floor(x: NDArray[Any], t: NDArray[Any], method: Method) -> NDArray[Any]:
    """Return the floor of t of each problem, (B,): the user's, or the t below which differences of f are rounding."""
    if method.floor is not None:
        floor = np.full_like(t, method.floor)
    elif method.oracle.rounding is None:
        floor = np.zeros_like(t)
    else:
        eps = np.finfo(x.dtype).eps
        floor = np.maximum(t * eps**method.oracle.rounding, eps * np.max(np.abs(x), axis=1)).astype(x.dtype)
    return np.asarray(np.minimum(floor, t))
