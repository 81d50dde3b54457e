"""Recorder: history, callback, progress bar and checkpoints of a run."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slgh.engine.checkpoint import Arrays
from slgh.engine.config import RunConfig
from slgh.engine.history import History, HistoryRow
from slgh.engine.search_space import with_trees
from slgh.engine.snapshot import Saver
from slgh.engine.state import RunState
from slgh.engine.step import Info
from slgh.engine.termination import Status
from slgh.result import Result

REDRAW_SECONDS = 0.1
"""Minimum time between two drawings of the progress bar."""


class Position(NamedTuple):
    """Iterates x (B, d), f there (B,) and t (B,), as the callback gets them, in NumPy arrays."""

    x: NDArray[Any]
    fun: NDArray[Any]
    t: NDArray[Any]


class Recorder:
    """Owner of everything that observes a run and does not change it.

    Parameters
    ----------
    history, progress
        As for `minimize`.
    callback
        Function of one Result, or None.
    saver
        Writer of the checkpoints, or None.
    """

    def __init__(
        self,
        config: RunConfig,
        *,
        history: int | str | None,
        callback: Callable[..., object] | None,
        saver: Saver | None,
        progress: bool,
    ) -> None:
        B, watch = len(config.x0), config.step.watch
        slotted = config.batch_size is not None
        self.config, self.callback, self.saver = config, callback, saver
        self.history = History(
            history,
            B,
            () if watch is None else watch.columns,
            d=config.x0.shape[1],
            iterations=config.limits.iterations if slotted else None,
        )
        self.position = Position(config.x0, np.full_like(config.t1, np.nan), config.t1)
        """Position that the callback got last or, before its first call, the start."""
        self._errstate: Any = np.geterr()
        """The user's handling of floating-point errors, for the callback."""
        self._bar: ProgressBar | None = None
        if progress:
            limits, phased = config.limits, config.phases or config.search
            total = limits.max_evals if phased else B if slotted else limits.iterations
            self._bar = ProgressBar(total)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that a compiled loop must record, for the history or the callback."""
        return self.history.columns if self.history.limit or self.callback else ()

    def load(
        self,
        position: Position,
        columns: Arrays,
        ended: Arrays,
        stride: int,
        shapes: dict[str, tuple[int, ...]],
        status: NDArray[np.int64],
    ) -> None:
        """Continue from a checkpoint. `shapes` are those of columns other than (B,)."""
        self.position = position
        self.history.load(columns, ended, stride, shapes, closed=status != Status.RUNNING)

    def open(self) -> None:
        """Show the progress bar."""
        if self._bar:
            self._bar.open()

    @contextmanager
    def compiling(self) -> Iterator[None]:
        """Show that the loop is compiled, which can take minutes on a GPU. The progress bar stays open."""
        if self._bar is None:
            yield
            return
        self._bar.open()
        self._bar.say("compiling the loop")
        try:
            yield
        except BaseException:
            self._bar.stop()
            raise

    def show(self, state: RunState) -> None:
        """Redraw the progress bar, if the last drawing is old enough."""
        if self._bar and state.active.size:
            self._bar.show(self._done(state), state.current.f_best, state.current.t, state.active.size)

    def close(self, state: RunState) -> None:
        """Draw the last state, and leave the progress bar on the screen."""
        if self._bar:
            self._bar.close(self._done(state), state.full.f_best, state.full.t)

    def _done(self, state: RunState) -> int:
        """Return the progress: iterations, evaluations of "auto", or problems that have ended."""
        if self.config.phases or self.config.search:
            return state.evaluations
        return state.k if self.config.batch_size is None else int((state.status != Status.RUNNING).sum())

    def row(self, state: RunState, info: Info) -> HistoryRow:
        """Return the row of the last iteration of the active problems."""
        host, watch = self.config.backend.host, self.config.step.watch
        t = host(info.t)
        best = np.full_like(t, np.nan) if self.config.stochastic else host(state.current.f_best)
        figures = {"fun": host(info.known_f(self.config.step.ctx.xp)), "t": t, "fun_best": best}
        if self.history.with_x:
            figures["x"] = self.config.inside(host(info.x))
        if watch is not None:
            figures |= {name: host(leaf) for name, leaf in zip(watch.names, state.current.watch, strict=True)}
        return HistoryRow(state.k - 1, state.nfev, state.members, figures)

    def record_step(self, state: RunState, x: NDArray[Any], fun: NDArray[Any], t: NDArray[Any]) -> None:
        """Record a step of a phase of "auto": its iterate x (1, d), f there (1,), and t (1,)."""
        if self.history.wants(state.k - 1):
            figures = {"fun": fun, "t": t, "fun_best": state.full.f_best}
            if self.history.with_x:
                figures["x"] = x
            self.history.record(HistoryRow(state.k - 1, state.nfev, state.active, figures))

    def position_of_all(self, state: RunState, x: NDArray[Any], fun: NDArray[Any], t: NDArray[Any]) -> Position:
        """Return the position of all problems, from that of the members."""
        now = Position(self.config.inside(x), fun, t)
        return Position(*(state.spread(old, new) for old, new in zip(self.position, now, strict=True)))

    def call_back(self, state: RunState, position: Position) -> bool:
        """Call the user's callback, and return True if it stops the run."""
        assert self.callback is not None
        self.position = position
        best_x, best = position.x, position.fun
        if not self.config.stochastic:
            host, current = self.config.backend.host, state.current
            best_x = state.spread(state.full.x_best, host(current.x_best))
            best = state.spread(state.full.f_best, host(current.f_best))
        result = self.interim(state, {**position._asdict(), "x_best": best_x, "fun_best": best}, Status.RUNNING)
        try:
            with np.errstate(**self._errstate):
                answer = self.callback(result)
        except StopIteration:
            return True
        return isinstance(answer, bool | np.bool_) and bool(answer)

    def interim(self, state: RunState, arrays: dict[str, NDArray[Any]], status: Status, **more: Any) -> Result:
        """Return a Result of a run that has not ended. Its arrays are copies."""
        to_library = self.config.backend.to_library
        if self.config.batched:
            shown: dict[str, Any] = {name: to_library(a) for name, a in arrays.items()}
        else:
            shown = {name: to_library(a[0]) if a.ndim > 1 else a[0] for name, a in arrays.items()}
        shown = with_trees(self.config.space, shown)
        return Result(nit=state.k, nfev=state.nfev, njev=state.njev, status=status, success=False, **shown, **more)

    def seen_columns(self, state: RunState) -> tuple[NDArray[Any], ...]:
        """Return the recorded columns of all problems, as of their last iteration."""
        last, watch = self.position, self.config.step.watch
        columns = {"fun": last.fun, "t": last.t, "fun_best": state.full.f_best, "x": last.x}
        if watch is not None:
            columns |= dict(zip(watch.names, state.full.watch, strict=True))
        return tuple(self.history.ended.get(name, columns[name]) for name in self.columns)


class ProgressBar:
    """Bar on standard error with the iterations, the best value and t.

    A notebook gets a line of text that is rewritten: rich draws there with ipywidgets only, and warns without them. A
    file gets the last state.
    """

    def __init__(self, total: int | None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self.in_notebook = Console().is_jupyter
        self.bar = Progress(
            TextColumn("slgh"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[state]}"),
            console=Console(stderr=True, force_jupyter=False),
            disable=self.in_notebook,
        )
        self.total = total
        self.task = self.bar.add_task("", total=total, state="")
        self.last = -1.0
        self.width = 0

    def open(self) -> None:
        self.bar.start()

    def show(self, k: int, f_best: Any, t: Any, running: int) -> None:
        if time.monotonic() - self.last >= REDRAW_SECONDS:
            self.last = time.monotonic()
            self._draw(k, f_best, t, f"  {running} running" if running > 1 else "")

    def close(self, k: int, f_best: Any, t: Any) -> None:
        self._draw(k, f_best, t, "")
        self.stop()

    def stop(self) -> None:
        """Leave the progress bar on the screen."""
        self.bar.stop()
        if self.in_notebook:
            print(file=sys.stderr)

    def say(self, state: str, k: int = 0) -> None:
        """Show a text behind the bar."""
        self.bar.update(self.task, completed=k, state=state)
        if self.in_notebook:
            line = f"slgh {k}/{'?' if self.total is None else self.total} {state}"
            # Spaces erase the end of a longer line: a notebook's output has no other way.
            print(f"\r{line:<{self.width}}", end="", file=sys.stderr, flush=True)
            self.width = len(line)

    def _draw(self, k: int, f_best: Any, t: Any, more: str) -> None:
        best = f"best {float(f_best.min()):.6g}  " if float(f_best.min()) < float("inf") else ""
        self.say(f"{best}t {float(t.max()):.3g}{more}", k)
