"""Iterations without host contact: what the loop does around a step, as arithmetic.

A `Program` is pure and looks at no value, so that JAX can trace it and CUDA can capture it. Problems that end are
frozen where they are; the host sees it when the block comes back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from slgh.backends.masking import Optimistic, Traced, where
from slgh.engine.bounds import Box
from slgh.engine.objective import Vectorized
from slgh.engine.state import State, map_leaves
from slgh.engine.static_args import join
from slgh.engine.step import PATIENCE, Info, Plan, step
from slgh.protocols import Array, Context, Leaves, Noise, Watch
from slgh.result import Status


class Carry(NamedTuple):
    """The state of all problems, and how far each has come."""

    state: State
    status: Array
    """(B,) a Status."""
    nit: Array
    """(B,) iterations of each."""
    seen: Leaves
    """What each problem's last iteration saw, as a row of the history."""


class Inputs(NamedTuple):
    """Everything that may change from run to run without another program: arrays and numbers."""

    numbers: tuple[Any, ...]
    """The hyperparameters of the method, then the numbers among the user's arguments."""
    data: tuple[Array, ...]
    box: Box | None
    target: Any
    tail_from: Any
    last: Any = None
    """The number of iterations after which a problem ends, where the program looks after that."""


class Advance(NamedTuple):
    """A request to the driver of the run: n iterations from the k-th on."""

    carry: Carry
    k: int
    n: int
    stride: int
    """Every so many iterations are recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One iteration with everything around it, for a compiler. Equal programs need to be compiled once."""

    structure: Any
    """Of (method, args): see `numbers.split`."""
    functions: Vectorized = field(compare=False)
    """The user's functions, without their args."""
    fingerprint: Hashable = None
    """What the functions do, for a compiler that keeps its code."""
    ctx: Context
    watch: Watch | None
    columns: tuple[str, ...]
    """What an iteration leaves of each problem, in `Carry.seen`."""
    penalize: bool
    period: int
    careful: bool
    """Whether values may be other than finite; if not, an iteration that meets one is unsound, and worth nothing."""
    ends: bool
    """Whether a problem may have ended, so that it has to be frozen."""
    limit: Status | None = None
    """How a problem ends that has had its iterations; None: all have them together, and the host looks after it."""

    def iterate(
        self, carry: Carry, k: Any, first: bool, noise: Noise, inputs: Inputs
    ) -> tuple[Carry, Array | bool, tuple[int, int]]:
        """The next carry, whether it is sound, and how many values and gradients every problem was asked for."""
        xp = self.ctx.xp
        optimistic = Optimistic(xp)
        method, functions = self.bind(inputs)
        plan = Plan(
            method=method,
            ctx=self.ctx,
            ops=Traced(xp) if self.careful else optimistic,
            box=inputs.box,
            penalize=self.penalize,
            tail_from=inputs.tail_from,
            watch=self.watch,
        )
        talk = step(carry.state, k, first, noise, plan)
        values, asked = None, {True: 0, False: 0}
        while True:
            try:
                query = talk.send(values)
            except StopIteration as end:
                state, info = end.value
                break
            asked[query.what in ("fun", "F")] += query.points.shape[1]
            values = functions.answer(query, inputs.data)
        carry = self._freeze(carry, state, info, inputs)
        return carry, self.careful or optimistic.sound(), (asked[True], asked[False])

    def bind(self, inputs: Inputs) -> tuple[Any, Vectorized]:
        """The method and the functions with their numbers."""
        method, args = join(self.structure, iter(inputs.numbers))
        return method, dataclasses.replace(self.functions, args=args)

    def _freeze(self, carry: Carry, state: State, info: Info, inputs: Inputs) -> Carry:
        """End the problems that have reached the target or are given up; leave those alone that had ended before."""
        target = inputs.target
        xp = self.ctx.xp
        f = xp.full_like(info.t, xp.nan) if info.f is None else info.f
        f = f if info.ok is None else xp.where(info.ok, f, xp.nan)
        best = xp.full_like(f, xp.nan) if self.ctx.stochastic else state.f_best
        known = {"fun": f, "t": info.t, "fun_best": best, "x": info.x}
        if self.watch is not None:
            known |= dict(zip(self.watch.names, state.watch, strict=True))
        seen = tuple(known[name] for name in self.columns)
        if not (self.careful or self.ends):
            return Carry(state, carry.status, carry.nit + 1, seen)
        status = xp.where(state.bad >= PATIENCE, int(Status.NONFINITE), carry.status)
        if target is not None:
            reached = (f if self.ctx.stochastic else best) <= target
            status = xp.where(reached, int(Status.TARGET), status)
            if self.ctx.stochastic:
                state = state._replace(x=where(reached, info.x, state.x, xp))
        if info.done is not None:
            status = xp.where(info.done, int(Status.WATCHED), status)
            state = state._replace(x=where(info.done, info.x, state.x, xp))
        if self.limit is not None:
            spent = (carry.nit + 1 >= inputs.last) & (status == int(Status.RUNNING))
            status = xp.where(spent, int(self.limit), status)
        live = carry.status == int(Status.RUNNING)

        def hold(new: Array, old: Array) -> Array:
            return old if new is old else where(live, new, old, xp)

        return Carry(
            map_leaves(hold, state, carry.state),
            xp.where(live, status, carry.status),
            carry.nit + xp.astype(live, carry.nit.dtype),
            tuple(hold(new, old) for new, old in zip(seen, carry.seen, strict=True)),
        )
