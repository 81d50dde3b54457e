"""One iteration of a compiled loop. No branch in Python depends on values in arrays, so that it can be traced.

Problems that end are frozen where they are. The host learns of it after the block of iterations.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from slgh.backends.masking import AssumeFinite, Masked, where
from slgh.backends.protocols import Carry, Inputs, LoopProgram
from slgh.engine.objective import Vectorized
from slgh.engine.requests import Counter
from slgh.engine.static_args import combine
from slgh.engine.step import Info, StepConfig, map_leaves, step
from slgh.engine.termination import Status, counted, status_after, undo_last_step
from slgh.method import Method
from slgh.protocols import Array, Noise, Query, StepState, Watch


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledStep(LoopProgram):
    """One iteration with everything around it, for a compiler."""

    structure: Any
    """Structure of (method, args): see `static_args.partition`."""
    watch: Watch | None
    columns: tuple[str, ...]
    """Columns of `Carry.seen`."""
    on_nonfinite: str

    def iterate(
        self, carry: Carry, k: Any, first: bool, noise: Noise, inputs: Inputs
    ) -> tuple[Carry, Array | bool, tuple[int, int]]:
        xp = self.ctx.xp
        assumed = AssumeFinite(xp)
        method, functions = self._bind(inputs)
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
        carry = self._freeze(carry, counted(carry.state, state, info, config), info, inputs)
        return carry, self.masked or assumed.holds(), (counter.nfev, counter.njev)

    def answer(self, query: Query, inputs: Inputs) -> Array:
        return self._bind(inputs)[1].answer(query, inputs.data)

    def running(self, carry: Carry) -> Array:
        return carry.status == int(Status.RUNNING)

    def _bind(self, inputs: Inputs) -> tuple[Method, Vectorized]:
        """Return the method and the functions with the numbers of `inputs`."""
        method, args = combine(self.structure, iter(inputs.numbers))
        return method, dataclasses.replace(self.functions, args=args)

    def _freeze(self, carry: Carry, state: StepState, info: Info, inputs: Inputs) -> Carry:
        """Return the carry after an iteration. Problems that had ended before it keep their old state."""
        xp, stochastic = self.ctx.xp, self.ctx.stochastic
        f = info.known_f(xp)
        best = xp.full_like(f, xp.nan) if stochastic else state.f_best
        known = {"fun": f, "t": info.t, "fun_best": best, "x": info.x}
        if self.watch is not None:
            known |= dict(zip(self.watch.names, state.watch, strict=True))
        seen = tuple(known[name] for name in self.columns)
        if not (self.masked or self.ends):
            return Carry(state, carry.status, carry.nit + 1, seen)
        status = status_after(
            inputs.limits,
            xp,
            carry.status,
            watched=info.watched,
            value=f if stochastic else best,
            ok=info.ok,
            counters=state.counters,
            iterations=carry.nit + 1,
        )
        possible = {Status.WATCHED: info.watched is not None, Status.TARGET: inputs.limits.target is not None}
        for reason in undo_last_step(stochastic=stochastic):
            if possible[reason]:  # do not compile a choice that no problem needs
                state = state._replace(x=where(status == int(reason), info.x, state.x, xp))
        live = self.running(carry)

        def hold(new: Array, old: Array) -> Array:
            """Return the new rows of live problems, and the old rows of the others."""
            return old if new is old else where(live, new, old, xp)

        return Carry(
            map_leaves(hold, state, carry.state),
            xp.where(live, status, carry.status),
            carry.nit + xp.astype(live, carry.nit.dtype),
            tuple(hold(new, old) for new, old in zip(seen, carry.seen, strict=True)),
        )
