"""The compiled loop: blocks of iterations on the device. The host sees the state between two blocks."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Generator, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slgh.backends.protocols import Carry, CompiledLoop, Inputs, NoiseSource, Records
from slgh.engine.compiled_step import CompiledStep
from slgh.engine.config import RunConfig
from slgh.engine.history import HistoryRow
from slgh.engine.objective import Vectorized
from slgh.engine.python_loop import Advanced
from slgh.engine.recorder import Recorder
from slgh.engine.requests import Advance
from slgh.engine.state import RunState
from slgh.engine.static_args import partition
from slgh.engine.step import map_leaves
from slgh.engine.termination import Status
from slgh.protocols import StepState

BLOCK_SECONDS = 0.05
"""Intended duration of a block. Limits in seconds, Ctrl-C and the progress bar wait for its end."""


class BlockLoop:
    """Driver of a compiled loop. All problems, or one per slot, stay in it until all have ended.

    It has the same methods as PythonLoop.
    """

    def __init__(
        self, config: RunConfig, noise: NoiseSource, recorder: Recorder, loop: CompiledLoop, *, masked: bool
    ) -> None:
        self.config, self.noise, self.recorder = config, noise, recorder
        self.step_config = config.step
        self.engine = loop.engine
        self.masked = masked
        """True if the loop masks values that are not finite: it has met one."""
        self._loop = loop
        self._pace = 1
        """Maximum number of iterations of the next block."""

    def run(self, request: Advance) -> tuple[Carry, Records, int]:
        """Run a block on the device."""
        return self._loop.advance(*request)

    def compiled_functions(self, functions: Vectorized) -> Any:
        """Return the user's functions for queries outside the loop."""
        return self._loop.compiled_functions(functions)

    def advance(self, state: RunState, last: int | None) -> Generator[Advance, Any, Advanced]:
        """Do a block of iterations that ends at iteration `last` at the latest, record it, and end problems."""
        config, host, history = self.config, self.config.backend.host, self.recorder.history
        carry, k = state.carry, state.k
        assert carry is not None
        n, started = self._block_size(state, carry, last), time.monotonic()
        x_before = host(carry.state.x) if self.recorder.callback else None
        after, records, usable = yield Advance(carry, k, n, history.stride)
        if usable < n:
            # A value was not finite, so the block was discarded. Repeat the iterations before it, then mask values.
            n = usable
            if n:
                after, records, _ = yield Advance(carry, k, n, history.stride)
            self.masked, self._loop = True, self._loop.masked(after if n else carry)
        if not n:
            return Advanced(state, None)
        status, nit = host(after.status), host(after.nit)
        self._set_pace(n, time.monotonic() - started)
        used = self._evaluations(state, k + n)
        members, live = state.members, state.status[state.members] == Status.RUNNING
        stopped_at = nit + state.began[0, members]
        reached = int(stopped_at[live].max())  # less than k + n if all problems have ended before
        nfev, njev = (int(number) for number in used[reached - k - 1])
        self.noise.mark(reached)
        state = state._replace(carry=after, current=after.state, k=reached, nfev=nfev, njev=njev)
        self._record(state, k, used, records)
        ended = live & (status != Status.RUNNING)
        counts = np.vstack([nit[ended], used[stopped_at[ended] - k - 1].T - state.began[1:, members[ended]]])
        iterated = state.active
        state = state.end(members[ended], status[ended], counts)
        position = None
        if x_before is not None:
            x = self.recorder.position.x.copy()
            x[iterated] = x_before[iterated]
            # The first two columns are "fun" and "t": see `History.columns`.
            position = self.recorder.position_of_all(state, x, *(host(column) for column in after.seen[:2]))
        if not state.active.size:
            state = state.gather(host, in_place=config.batch_size is not None)
        return Advanced(state, position)

    def end_all(self, state: RunState, status: Status) -> RunState:
        """End all active problems. The loop is not used again."""
        state = state.gather(self.config.backend.host, in_place=self.config.batch_size is not None)
        return state.end(state.active, status)

    def add(self, state: RunState, new: NDArray[np.intp]) -> RunState:
        """Put waiting problems into the slots of those that have ended."""
        state = state.gather(self.config.backend.host, in_place=True)
        slots = np.flatnonzero(state.status[state.members] != Status.RUNNING)[: new.size]
        members = state.members.copy()
        members[slots] = new
        state = state._replace(members=members, active=np.sort(np.concatenate([state.active, new])))
        at = self.config.backend.index(new)
        rows, data = _carry_of(state, new, self.config, self.recorder), tuple(a[at] for a in self.config.data)
        carry = self._loop.refill(slots, rows, data, new, state.k)
        return state._replace(carry=carry, current=carry.state)

    def restart(self, state: RunState, full: StepState) -> RunState:
        """Continue from this state of all problems."""
        state = state._replace(full=full)
        carry = _carry_of(state, state.members, self.config, self.recorder)
        return state._replace(carry=carry, current=carry.state)

    def replace(self, state: RunState, changed: dict[str, Any], counts: dict[str, Any]) -> RunState:
        """Replace some arrays of a single problem, and its counts."""
        assert state.carry is not None
        library: dict[str, Any] = {name: self.config.backend.to_loop(a) for name, a in changed.items()}
        carry = state.carry._replace(state=state.carry.state._replace(**library))
        return state._replace(full=state.full._replace(**changed), carry=carry, current=carry.state, **counts)

    def _set_pace(self, n: int, seconds: float) -> None:
        """Choose the size of the next block from the duration of this one. It changes by a factor of 2 at most."""
        self._pace = int(min(max(BLOCK_SECONDS * n / max(seconds, 1e-9), self._pace / 2), 2 * self._pace)) or 1

    def _block_size(self, state: RunState, carry: Carry, last: int | None) -> int:
        """Return the number of iterations of the next block, at least 1: the caller knows that one is affordable."""
        config, stride, saver = self.config, self.recorder.history.stride, self.recorder.saver
        if self.recorder.callback is not None:
            return 1
        n = min(self._pace, self._loop.longest(carry, state.k, stride))
        if config.batch_size is not None:
            if state.active.size != config.batch_size and state.waiting().size:
                n = min(n, stride - state.k % stride)  # waiting problems begin at multiples of the stride
        elif config.limits.max_evals is not None:
            used = self._evaluations(state, state.k + n).sum(axis=1)
            n = int(np.searchsorted(used, config.limits.max_evals - config.reserve, side="right"))
        if last is not None:
            n = min(n, last - state.k)
        if saver and saver.settings.every_iterations is not None:
            n = min(n, saver.last_k + saver.settings.every_iterations - state.k)
        return max(n, 1)

    def _evaluations(self, state: RunState, stop: int) -> NDArray[np.int64]:
        """Return nfev and njev after each of the iterations state.k, ..., stop - 1, as (stop - state.k, 2)."""
        kinds = self._loop.evaluations
        first = np.arange(state.k, stop) % self.step_config.method.oracle.period == 0
        each = np.where(first[:, None], kinds[True], kinds.get(False, kinds[True]))
        return np.asarray(np.cumsum(each, axis=0) + np.array([state.nfev, state.njev]))

    def _record(self, state: RunState, k: int, used: NDArray[np.int64], records: Records) -> None:
        """Record a block that began with iteration k, and the last row of each problem."""
        history, members = self.recorder.history, state.members
        assert state.carry is not None
        wanted = list(range(-k % history.stride, state.k - k, history.stride))
        if wanted and history.limit:
            for i, *row in zip(wanted, *records(wanted), strict=True):
                if history.wants(k + i):  # checked again, since the stride doubles when the history is full
                    history.record(HistoryRow(k + i, int(used[i, 0]), members, self._figures(row)))
        history.close(members, self._figures(map(self.config.backend.host, state.carry.seen)))

    def _figures(self, columns: Iterable[NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return the columns of a row by name, with x inside the bounds."""
        figures = dict(zip(self.recorder.columns, columns, strict=True))
        if "x" in figures:
            figures["x"] = self.config.inside(figures["x"])
        return figures


def compile_loop(
    state: RunState,
    config: RunConfig,
    noise: NoiseSource,
    recorder: Recorder,
    functions: Vectorized,
    *,
    masked: bool,
) -> tuple[BlockLoop, RunState] | str:
    """Compile the loop. Return its driver and the state that it starts from, or the reason why there is none."""
    backend, members = config.backend, _slots(state, config)
    noise.assign(members, state.began[0, members])
    carry, data = _carry_of(state, members, config, recorder), config.data
    if config.batch_size is not None:
        at = backend.index(members)
        data = tuple(a[at] for a in data)
    found = backend.compile(*_program(state, config, recorder, functions, data, masked=masked), carry, noise)
    if isinstance(found, str):
        noise.assign(state.members, state.began[0, state.members])  # as it was, for the Python loop
        return found
    driver = BlockLoop(config, noise, recorder, found, masked=masked)
    return driver, state._replace(members=members, carry=carry, current=carry.state)


def _slots(state: RunState, config: RunConfig) -> NDArray[np.intp]:
    """Return the problems in the loop: all, or one per slot. Problems that have ended fill up the slots."""
    if config.batch_size is None:
        return np.arange(state.status.size)
    ended = np.flatnonzero(state.status != Status.RUNNING)
    return np.concatenate([state.active, ended[: config.batch_size - state.active.size]])


def _carry_of(state: RunState, rows: NDArray[np.intp], config: RunConfig, recorder: Recorder) -> Carry:
    """Return the carry of the problems `rows`, from the state of all problems on the host."""
    to_loop = config.backend.to_loop
    nit = np.where(state.status == Status.RUNNING, state.k - state.began[0], state.counts[0])
    return Carry(
        map_leaves(lambda leaf: to_loop(leaf[rows]), state.full),
        to_loop(state.status[rows].astype(np.int32)),
        to_loop(nit[rows].astype(np.int32)),
        tuple(to_loop(column[rows]) for column in recorder.seen_columns(state)),
    )


def _program(
    state: RunState,
    config: RunConfig,
    recorder: Recorder,
    functions: Vectorized,
    data: tuple[Any, ...],
    *,
    masked: bool,
) -> tuple[CompiledStep, Inputs]:
    """Return the step to compile, and its inputs."""
    step = config.step
    method = step.method
    if method.planned:
        # As a float, the number of iterations is an input, and another one needs no compilation of its own.
        method = method.over(float(config.limits.iterations))
    structure, numbers = partition((method, functions.args))
    slotted = config.batch_size is not None
    limits = config.limits.per_problem(slotted=slotted)
    program = CompiledStep(
        structure=structure,
        functions=dataclasses.replace(functions, args=()),
        ctx=step.ctx,
        watch=step.watch,
        columns=recorder.columns,
        on_nonfinite=step.on_nonfinite,
        period=method.oracle.period,
        masked=masked,
        slotted=slotted,
        ends=limits.end_problems
        or state.active.size < state.status.size
        or (step.watch is not None and step.watch.ends),
    )
    return program, Inputs(tuple(numbers), data, step.box, limits, step.tail_from)
