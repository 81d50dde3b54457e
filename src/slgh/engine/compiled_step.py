"""One iteration of a compiled loop: nothing here depends on values in Python.

Problems that end are frozen where they are. The host sees it when the block of iterations comes back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from slgh.backends.masking import AssumeFinite, Masked, where
from slgh.engine.bounds import Box
from slgh.engine.objective import Vectorized
from slgh.engine.static_args import combine
from slgh.engine.step import Info, StepConfig, StepState, map_leaves, step
from slgh.engine.termination import Limits, Seen, status_after
from slgh.protocols import Array, Context, Leaves, Noise, Watch
from slgh.result import Status


class Carry(NamedTuple):
    """The state of all problems in a compiled loop, and how far each has come."""

    state: StepState
    status: Array
    """(B,) a Status each."""
    nit: Array
    """(B,) iterations of each."""
    seen: Leaves
    """Columns of the history for the last iteration of each problem."""


class Inputs(NamedTuple):
    """Arrays and numbers that may change from run to run without another compilation."""

    numbers: tuple[Any, ...]
    """Hyperparameters of the method, then the numbers among the user's arguments."""
    data: tuple[Array, ...]
    box: Box | None
    target: Any
    tail_from: Any
    last: Any = None
    """Iterations of each problem, if the loop ends problems that have had them."""


class Advance(NamedTuple):
    """Request to the driver of the run: n iterations, starting with the k-th."""

    carry: Carry
    k: int
    n: int
    stride: int
    """Iterations that are multiples of this are recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledStep:
    """One iteration with everything around it, for a compiler. Equal steps are compiled once."""

    structure: Any
    """Structure of (method, args): see `static_args.partition`."""
    functions: Vectorized = field(compare=False)
    """The user's functions, without their args."""
    fingerprint: Hashable = None
    """What the functions compute, for a compiler that caches its code."""
    ctx: Context
    watch: Watch | None
    columns: tuple[str, ...]
    """Columns of `Carry.seen`."""
    penalize: bool
    period: int
    masked: bool
    """True if values may be other than finite. If False, an iteration that meets one is discarded."""
    ends: bool
    """True if a problem may end, so that it has to be frozen."""
    exhausted: Status | None = None
    """Status of a problem that has had its iterations. None: the host ends all problems together."""

    def iterate(
        self, carry: Carry, k: Any, first: bool, noise: Noise, inputs: Inputs
    ) -> tuple[Carry, Array | bool, tuple[int, int]]:
        """Return the next carry, whether all values were finite, and the values and gradients evaluated per problem."""
        xp = self.ctx.xp
        assumed = AssumeFinite(xp)
        method, functions = self.bind(inputs)
        config = StepConfig(
            method=method,
            ctx=self.ctx,
            ops=Masked(xp) if self.masked else assumed,
            box=inputs.box,
            penalize=self.penalize,
            tail_from=inputs.tail_from,
            watch=self.watch,
        )
        queries = step(carry.state, k, first, noise, config)
        values, evaluated = None, {True: 0, False: 0}
        while True:
            try:
                query = queries.send(values)
            except StopIteration as end:
                state, info = end.value
                break
            evaluated[query.what in ("fun", "F")] += query.points.shape[1]
            values = functions.answer(query, inputs.data)
        carry = self._freeze(carry, state, info, inputs)
        return carry, self.masked or assumed.holds(), (evaluated[True], evaluated[False])

    def bind(self, inputs: Inputs) -> tuple[Any, Vectorized]:
        """Return the method and the functions with their numbers."""
        method, args = combine(self.structure, iter(inputs.numbers))
        return method, dataclasses.replace(self.functions, args=args)

    def _freeze(self, carry: Carry, state: StepState, info: Info, inputs: Inputs) -> Carry:
        """End problems, and keep those as they are that had ended before."""
        xp, stochastic = self.ctx.xp, self.ctx.stochastic
        f = xp.full_like(info.t, xp.nan) if info.f is None else info.f
        f = f if info.ok is None else xp.where(info.ok, f, xp.nan)
        best = xp.full_like(f, xp.nan) if stochastic else state.f_best
        known = {"fun": f, "t": info.t, "fun_best": best, "x": info.x}
        if self.watch is not None:
            known |= dict(zip(self.watch.names, state.watch, strict=True))
        seen = tuple(known[name] for name in self.columns)
        if not (self.masked or self.ends):
            return Carry(state, carry.status, carry.nit + 1, seen)
        limits = Limits(target=inputs.target)
        if self.exhausted is not None:
            limits = limits._replace(iterations=inputs.last, exhausted=self.exhausted)
        status = status_after(
            Seen(
                watched=info.watched,
                value=f if stochastic else best,
                bad=state.bad,
                iterations=carry.nit + 1,
            ),
            limits,
            xp,
            carry.status,
        )
        # The solution is where the Watch, or the estimate of a stochastic f, was satisfied: before the step.
        stays = [Status.WATCHED] if info.watched is not None else []
        if stochastic and inputs.target is not None:
            stays.append(Status.TARGET)
        for reason in stays:
            state = state._replace(x=where(status == int(reason), info.x, state.x, xp))
        live = carry.status == int(Status.RUNNING)

        def hold(new: Array, old: Array) -> Array:
            return old if new is old else where(live, new, old, xp)

        return Carry(
            map_leaves(hold, state, carry.state),
            xp.where(live, status, carry.status),
            carry.nit + xp.astype(live, carry.nit.dtype),
            tuple(hold(new, old) for new, old in zip(seen, carry.seen, strict=True)),
        )
