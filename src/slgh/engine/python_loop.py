"""The Python loop: one iteration at a time."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slgh.backends.protocols import NoiseSource
from slgh.engine.config import RunConfig
from slgh.engine.recorder import Position, Recorder
from slgh.engine.requests import Counter
from slgh.engine.state import RunState
from slgh.engine.step import Info, StepConfig, map_leaves, step
from slgh.engine.termination import Status, counted, status_after, undo_last_step
from slgh.protocols import Query, StepState


class Advanced(NamedTuple):
    """State after one or more iterations, and the position in the last one for the callback, if there is one."""

    state: RunState
    position: Position | None


class PythonLoop:
    """Iterations of the active problems, one at a time. Problems that end leave it."""

    def __init__(
        self, config: RunConfig, noise: NoiseSource, recorder: Recorder, counter: Counter, step_config: StepConfig
    ) -> None:
        self.config, self.noise, self.recorder, self.counter = config, noise, recorder, counter
        self.step_config = step_config
        self.engine = config.backend.engine
        self.limits = config.limits.per_problem(slotted=config.batch_size is not None)
        self._ends_problems = self.limits.end_problems or step_config.tolerances is not None
        self._counting = True
        """False if the counters are 0, and stay so while all values are usable, so that an iteration can skip them."""

    def with_step(self, step_config: StepConfig) -> PythonLoop:
        """Return a loop with another step."""
        return PythonLoop(self.config, self.noise, self.recorder, self.counter, step_config)

    def advance(self, state: RunState, last: int | None) -> Generator[Query, Any, Advanced]:
        """Do one iteration, record it, and end problems. `last` is for the loop that advances in blocks."""
        config, host, history = self.config, self.config.backend.host, self.recorder.history
        first = state.k % self.step_config.method.oracle.period == 0
        k: Any = state.k
        if config.batch_size is not None:  # every problem has its own iteration
            k = config.backend.native(state.k - state.began[0, state.members])
        current, info = yield from step(state.current, k, first, self.noise, self.step_config)
        if self._counting or info.ok is not None:
            current = counted(state.current, current, info, self.step_config)
            self._counting = info.ok is not None or self._ends_problems
        state = state.after_iteration(current, self.counter)
        self.noise.mark(state.k)
        if history.wants(state.k - 1):
            history.record(self.recorder.row(state, info))
        position = None
        if self.recorder.callback is not None:
            now = host(info.x), host(info.known_f(self.step_config.ctx.xp)), host(info.t)
            position = self.recorder.position_of_all(state, *now)
        status = self._status(state, info)
        if not isinstance(status, int) and (ended := status != Status.RUNNING).any():
            state = self._end(state, info, ended, status)
        return Advanced(state, position)

    def _status(self, state: RunState, info: Info) -> Any:
        """Return the status of the members after an iteration: one integer, or one per member."""
        config, host = self.config, self.config.backend.host
        if info.ok is None and info.watched is None and not self._ends_problems:
            return int(Status.RUNNING)  # nothing was observed that could end a problem
        return status_after(
            self.limits,
            watched=None if info.watched is None else host(info.watched),
            value=host(info.known_f(self.step_config.ctx.xp) if config.stochastic else state.current.f_best),
            ok=info.ok,
            counters=tuple(map(host, state.current.counters)),
            iterations=None if config.batch_size is None else state.k - state.began[0, state.members],
        )

    def _end(self, state: RunState, info: Info, ended: NDArray[np.bool_], status: NDArray[Any]) -> RunState:
        """End these members after the iteration `info`, and continue with the others."""
        config, host = self.config, self.config.backend.host
        if self.recorder.history.limit:
            row, history = self.recorder.row(state, info), self.recorder.history
            history.close(row.active[ended], {name: row.figures[name][ended] for name in history.columns})
        undone = np.isin(status, undo_last_step(stochastic=config.stochastic))
        if undone.any():
            x = np.where(undone[:, None], host(info.x), host(state.current.x))
            state = state._replace(current=state.current._replace(x=config.backend.native(x)))
        return self._remove(state, ended, status[ended])

    def end_all(self, state: RunState, status: Status) -> RunState:
        """End all active problems."""
        return self._remove(state, np.ones(state.active.size, bool), status)

    def _remove(self, state: RunState, ended: NDArray[np.bool_], status: Any) -> RunState:
        """End these members with one status, or one per problem, and remove them from the loop."""
        config, left = self.config, np.flatnonzero(~ended)
        state = state.gather(config.backend.host, in_place=config.batch_size is not None)
        state = state.end(state.members[ended], status)
        rows = config.backend.index(left)
        self.noise.keep(left)
        return state._replace(current=map_leaves(lambda leaf: leaf[rows], state.current), members=state.active)

    def add(self, state: RunState, new: NDArray[np.intp]) -> RunState:
        """Append waiting problems to the members."""
        config, concat = self.config, self.step_config.ctx.xp.concat
        rows = map_leaves(lambda leaf: config.backend.native(leaf[new]), state.full)
        self.noise.append(new, state.k)
        members = np.concatenate([state.members, new])
        return state._replace(
            current=map_leaves(lambda old, more: concat([old, more], axis=0), state.current, rows),
            members=members,
            active=members,
        )

    def restart(self, state: RunState, full: StepState) -> RunState:
        """Continue from this state of all problems."""
        current = map_leaves(lambda leaf: self.config.backend.native(leaf[state.members]), full)
        return state._replace(full=full, current=current)

    def replace(self, state: RunState, changed: dict[str, Any], counts: dict[str, Any]) -> RunState:
        """Replace some arrays of a single problem, and its counts."""
        if not changed:
            return state._replace(**counts)
        native: dict[str, Any] = {name: self.config.backend.native(a) for name, a in changed.items()}
        return state._replace(full=state.full._replace(**changed), current=state.current._replace(**native), **counts)
