"""Where a run starts: the state before the first iteration, and the least t."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slgh.auto.defaults import first_radius, first_widths
from slgh.backends.numpy.noise import pick_index
from slgh.backends.protocols import Keys
from slgh.engine.bounds import Box
from slgh.engine.state import State
from slgh.engine.step import Plan
from slgh.method import Method
from slgh.oracles import DiagonalScaling
from slgh.protocols import Context, Leaves

LAST = 2**31 - 1
"""The last iteration that xhat is drawn from: JAX counts iterations in 32 bits."""


@np.errstate(all="ignore")
def first_state(x: NDArray[Any], plan: Plan, box: Box | None, T: int | None, keys: Keys, burn_in: int = 0) -> State:
    """The state before the first iteration, in NumPy arrays; xhat is drawn from what comes after the burn-in."""
    method, B = plan.method, x.shape[0]
    ctx = dataclasses.replace(plan.ctx, xp=np)
    t = radii(x, method, box)
    floor = first_floor(x, t, method)
    inf = np.full(B, np.inf, x.dtype)
    zero = np.zeros(B, x.dtype)
    picks = [-1 if plan.exact or not T else burn_in + pick_index(key, T - burn_in) for key in keys]
    picks = [min(pick, LAST) for pick in picks]
    return State(
        x=x,
        t=t,
        oracle=_first_memory(x, method, box, ctx),
        schedule=method.schedule.init(t, floor, np),
        update=method.update.init(x, np),
        floor=floor,
        x_best=x,
        f_best=inf,
        xhat=x,
        xhat_norm=inf,
        xhat_at=np.array(picks, np.int64),
        tail=() if plan.tail_from is None else (np.zeros_like(x),),
        bad=zero,
        rejected=zero,
        worst=-inf,
        watch=() if plan.watch is None else plan.watch.init(x, np),
    )


def _first_memory(x: NDArray[Any], method: Method, box: Box | None, ctx: Context) -> Leaves:
    """What the oracle remembers at first: widths are learned from those of the box on."""
    if not isinstance(method.oracle, DiagonalScaling):
        return method.oracle.init(x, ctx)
    widths = np.broadcast_to(first_widths(box, x.shape[1]).astype(x.dtype), x.shape)
    return method.oracle.starting(widths, np)


@np.errstate(all="ignore")
def radii(x: NDArray[Any], method: Method, box: Box | None) -> NDArray[Any]:
    """The first t of each problem, (B,)."""
    t1 = method.schedule.t1
    return first_radius(x, box) if t1 is None else np.full(x.shape[0], t1, x.dtype)


def first_floor(x: NDArray[Any], t: NDArray[Any], method: Method) -> NDArray[Any]:
    """The least t of each problem: as asked for, or where a difference of f would be rounding."""
    if method.floor is not None:
        floor = np.full_like(t, method.floor)
    elif method.oracle.rounding is None:
        floor = np.zeros_like(t)
    else:
        eps = np.finfo(x.dtype).eps
        floor = np.maximum(t * eps**method.oracle.rounding, eps * np.max(np.abs(x), axis=1)).astype(x.dtype)
    return np.asarray(np.minimum(floor, t))
