"""One iteration of a compiled loop. No branch in Python depends on values in arrays, so that it can be traced.

Problems that end are frozen where they are. The host learns of it after the block of iterations.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from slgh.backends.masking import AssumeFinite, Masked, where
from slgh.engine.bounds import Box
from slgh.engine.objective import Vectorized
from slgh.engine.requests import Counter
from slgh.engine.static_args import combine
from slgh.engine.step import Info, StepConfig, StepState, map_leaves, step
from slgh.engine.termination import Limits, status_after
from slgh.method import Method
from slgh.protocols import Array, Context, Leaves, Noise, Watch
from slgh.result import Status


class Carry(NamedTuple):
    """State of a compiled loop: the state of its problems, and the progress of each."""

    state: StepState
    status: Array
    """(B,) Status of each problem."""
    nit: Array
    """(B,) iterations that each problem has completed."""
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
    """Maximum number of iterations per problem, if the loop itself ends problems that have completed them."""


class Advance(NamedTuple):
    """Request to run n iterations of a compiled loop, starting with the k-th."""

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
    """Identifies what the functions compute, for a compiler that caches its code."""
    ctx: Context
    watch: Watch | None
    columns: tuple[str, ...]
    """Columns of `Carry.seen`."""
    on_nonfinite: str
    period: int
    masked: bool
    """True if values may be NaN or infinite. If False, a block that meets such a value is discarded."""
    ends: bool
    """True if a problem may end, so that it has to be frozen."""
    exhausted: Status | None = None
    """Status of a problem that has completed its iterations. None: the host ends all problems together."""

    def iterate(
        self, carry: Carry, k: Any, first: bool, noise: Noise, inputs: Inputs
    ) -> tuple[Carry, Array | bool, tuple[int, int]]:
        """Do iteration k of all problems.

        Returns
        -------
        tuple
            The next carry, True if all values were finite, and the numbers of values and gradients per problem.
        """
        xp = self.ctx.xp
        assumed = AssumeFinite(xp)
        method, functions = self.bind(inputs)
        config = StepConfig(
            method=method,
            ctx=self.ctx,
            ops=Masked(xp) if self.masked else assumed,
            box=inputs.box,
            on_nonfinite=self.on_nonfinite,
            tail_from=inputs.tail_from,
            watch=self.watch,
        )
        queries = step(carry.state, k, first, noise, config)
        values, counter = None, Counter()
        while True:
            try:
                query = queries.send(values)
            except StopIteration as end:
                state, info = end.value
                break
            counter.add(query)
            values = functions.answer(query, inputs.data)
        carry = self._freeze(carry, state, info, inputs)
        return carry, self.masked or assumed.holds(), (counter.nfev, counter.njev)

    def bind(self, inputs: Inputs) -> tuple[Method, Vectorized]:
        """Return the method and the functions with the numbers of `inputs`."""
        method, args = combine(self.structure, iter(inputs.numbers))
        return method, dataclasses.replace(self.functions, args=args)

    def _freeze(self, carry: Carry, state: StepState, info: Info, inputs: Inputs) -> Carry:
        """Return the carry after an iteration. Problems that had ended before it keep their old state."""
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
            limits,
            xp,
            carry.status,
            watched=info.watched,
            value=f if stochastic else best,
            bad=state.bad,
            iterations=carry.nit + 1,
        )
        # The solution is where the Watch, or the estimate of a stochastic f, was satisfied: before the step.
        without_step = [Status.WATCHED] if info.watched is not None else []
        if stochastic and inputs.target is not None:
            without_step.append(Status.TARGET)
        for reason in without_step:
            state = state._replace(x=where(status == int(reason), info.x, state.x, xp))
        live = carry.status == int(Status.RUNNING)

        def hold(new: Array, old: Array) -> Array:
            """Return the new rows of live problems, and the old rows of the others."""
            return old if new is old else where(live, new, old, xp)

        return Carry(
            map_leaves(hold, state, carry.state),
            xp.where(live, status, carry.status),
            carry.nit + xp.astype(live, carry.nit.dtype),
            tuple(hold(new, old) for new, old in zip(seen, carry.seen, strict=True)),
        )
