"""A run: it yields requests to evaluate the user's function, receives values, and ends with a Result.

`minimize` answers the requests by calling the function. `Optimizer` passes them on through ask and tell.
"""

from __future__ import annotations

import copy
import dataclasses
import logging
import time
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, NoReturn, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from slgh.backends.protocols import NoiseSource
from slgh.checks import ArgumentTypeError, ArgumentValueError
from slgh.engine import snapshot
from slgh.engine.arguments import Known
from slgh.engine.arrivals import Arrivals, Place
from slgh.engine.batch_search import searching
from slgh.engine.checkpoint import Arrays, refuse_damaged
from slgh.engine.compiled_loop import BlockLoop, compile_loop
from slgh.engine.config import RunConfig
from slgh.engine.objective import Pointwise, Vectorized
from slgh.engine.python_loop import PythonLoop
from slgh.engine.recorder import Position, Recorder
from slgh.engine.report import Ending, Solution, report
from slgh.engine.requests import EXPIRED, INTERRUPTED, REACHED, Advance, Answers, Counter, Evaluate, Request
from slgh.engine.state import RunState, first_state, slices
from slgh.engine.step import map_leaves
from slgh.engine.termination import Status, status_after
from slgh.oracles import Antithetic
from slgh.protocols import Query, StepState
from slgh.result import Phase, Result

T = TypeVar("T")

logger = logging.getLogger(__name__)


SHOWN_LIMITS = ("max_iter", "max_evals", "max_seconds", "target")
"""Limits that are logged: those of the user."""


REASONS = ((INTERRUPTED, Status.INTERRUPTED), (REACHED, Status.TARGET), (EXPIRED, Status.MAX_SECONDS))
"""Answers that end a run in the middle of an iteration, and the status of the run."""


class Strategy(Protocol):
    """A client of the engine that decides what a single problem does with its budget: "auto"."""

    @property
    def noisy(self) -> bool:
        """True if f has returned different values at the same point. The lowest point is not the solution then."""

    @property
    def solution(self) -> Solution | None:
        """Best point of a noisy f. If it is None, the last iterate is the solution."""

    @property
    def minima(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Distinct local minima so far, points (k, d) and values (k,), the lowest first."""

    @property
    def story(self) -> str:
        """Observations and phases so far, for the message."""

    @property
    def homotopies(self) -> int:
        """Number of homotopies so far."""

    def phases(self, run: Run) -> Generator[Request, Any, None]:
        """Use the budget. The run ends when this generator does."""

    @property
    def violation(self) -> float | None:
        """Largest violation at the solution, None if there are no constraints."""

    def timeline(self, nit: int) -> tuple[Phase, ...]:
        """Return the phases so far, given the number of iterations."""

    def save(self) -> Arrays: ...
    def load(self, arrays: Arrays, d: int) -> None: ...


class Stop(Exception):
    """Raised to end all problems with a status."""

    def __init__(self, status: Status) -> None:
        self.status = status


class Run:
    """One call of `minimize`, or one `Optimizer`.

    `state` is the state after the last complete iteration. Only this class assigns to it. `found` is the checkpoint to
    continue.
    """

    def __init__(
        self,
        config: RunConfig,
        recorder: Recorder,
        strategy: Strategy | None = None,
        found: snapshot.Snapshot | None = None,
    ) -> None:
        backend, (B, d) = config.backend, config.x0.shape
        self.config, self.recorder, self.strategy = config, recorder, strategy
        self.noise = backend.noise(config.keys, d, config.sample_xi, samples=config.noise_samples)
        self.answers, self.counter = Answers(vectors=config.constraints is not None), Counter()
        self.arrivals = Arrivals(d, config.x0.dtype) if config.step.asynchronous else None
        """Log of an asynchronous run, None otherwise."""
        self._cut: tuple[NDArray[Any], NDArray[Any]] | None = None
        """Lowest points (B, d) and values (B,) of a request that max_seconds has cut, infinite where there are none."""
        self._reporting = False
        """True once the loop has ended."""
        self.loop: PythonLoop | BlockLoop = PythonLoop(config, self.noise, recorder, self.counter, config.step)
        self.loop_remark = ""
        """Sentence for the message that says why there is no compiled loop, if one was to be expected."""
        self._remarks: list[Callable[[], str]] = []
        self._search_loop: BlockLoop | None = None
        """Compiled loop of the local searches that follow the homotopies of a batch."""
        self._masked = False
        """True if a compiled loop must mask bad values: it has met one before the checkpoint."""
        self._seconds = 0.0
        """Time taken before the checkpoint that this run continues."""
        first = first_state(config.x0, config.t1, config.step, config.draw_picks(), config.widths)
        active = np.arange(B if config.batch_size is None else config.batch_size)
        self.state = RunState(
            current=first,
            full=first,
            members=active,
            active=active,
            status=np.full(B, Status.RUNNING.value),
            began=np.zeros((3, B), int),
            counts=np.zeros((3, B), int),
        )
        if not self._load_found(found) and config.batch_size is not None:
            self.noise.keep(active)
        full = self.state.full
        if self._searching:
            self.loop = self.loop.with_step(config.step_at(self.state.k))
        elif config.batch_size is not None:
            full = map_leaves(np.array, full)  # a copy, since `gather` overwrites it
        else:
            # Picks of a checkpoint may differ from those that this run would draw: max_iter may have changed.
            picks = frozenset(full.xhat_at.tolist())
            self.loop = self.loop.with_step(dataclasses.replace(config.step, picks=picks))
        self.state = self.loop.restart(self.state, full)
        self.noise.mark(self.state.k)
        self._clock = time.monotonic()
        if recorder.saver and not recorder.saver.found:
            self.save(first=True)

    # The main loop.

    def requests(self) -> Generator[Request, Any, Result]:
        """Iterate until all problems have ended, then request the final values. The driver answers the requests."""
        config = self.config
        self._clock = time.monotonic()  # again, since compiling the loop does not count
        self.recorder.open()
        self._log_begin()
        try:
            if config.known is not None:
                if self.state.evaluations == 0:
                    yield from self._evaluate_starts(config.known)
            elif config.start_evals and self.state.nfev == 0:
                yield from self._evaluate_start()
            if self.strategy is not None:
                yield from self.strategy.phases(self)
                raise Stop(Status.COMPLETED if self.state.k else Status.MAX_EVALS)
            yield from self._iterate(config.limits.max_iter if config.batch_size is None else None)
        except Stop as stop:
            status = yield from self._settle(stop.status)
            self.save()  # before problems end, so that the run can be resumed
            self._end_all(status)
        else:
            self.save()
        self._reporting = True
        self.recorder.close(self.state)
        self.answers = Answers()  # answers of an incomplete iteration are in the checkpoint
        result = yield from self._report()
        self._log_end(result)
        return result

    def _log_begin(self) -> None:
        """Log that the run begins, or continues a checkpoint."""
        config = self.config
        B, d = config.x0.shape
        limits = ", ".join(
            f"{n}={v}" for n, v in config.limits._asdict().items() if v is not None and n in SHOWN_LIMITS
        )
        logger.info(
            "%s: method %s, %s in %d variables, %s, seed %s",
            f"Continue after {self.state.k} iterations" if self.state.k else "Begin",
            config.step.method.name,
            f"{B} problems" if config.batched else "1 problem",
            d,
            limits or "no limits",
            f"{config.seed[0]}, ..." if isinstance(config.seed, list) else config.seed,
        )

    def _log_end(self, result: Result) -> None:
        """Log the outcome of the run."""
        if logger.isEnabledFor(logging.INFO):
            lowest = float(np.min(self.config.backend.host(result.fun))) if self.config.batched else result.fun
            logger.info("End: f = %.6g after %.3g s. %s", lowest, result.seconds, result.message)

    def _answered(
        self, queries: Generator[Query | Advance, Any, T], rows: NDArray[np.intp]
    ) -> Generator[Request, Any, T]:
        """Pass on queries as requests, or answer them from a checkpoint, and count evaluations.

        Ctrl-C raises Stop. Returns what the generator `queries` returns.
        """
        answer = None
        while True:
            try:
                query = queries.send(answer)
            except StopIteration as end:
                returned: T = end.value
                return returned
            if isinstance(query, Advance):
                answer = yield query
                if answer is INTERRUPTED:
                    self._interrupt()
                continue
            replayed = self.answers.replay(query)
            if replayed is not None:
                answer = replayed
            else:
                answer = yield Evaluate(query, rows, self.answers)
                reason = next((status for signal, status in REASONS if answer is signal), None)
                if reason is not None:
                    self.counter.add(query, self.answers.begun)
                    if reason is Status.MAX_SECONDS:
                        self._cut = self._lowest_received(query, rows)
                    self._interrupt(reason)
                self.answers.complete(answer)
            self.counter.add(query)

    def _interrupt(self, status: Status = Status.INTERRUPTED) -> NoReturn:
        """End the run after the last complete iteration."""
        self.noise.rewind()
        raise Stop(status)

    def _settle(self, status: Status) -> Generator[Request, Any, Status]:
        """Wait for the values that are late before a planned end, and return the status after that.

        The request has no points. The driver answers it when nothing is late anymore.
        """
        if self.arrivals is None or not self.arrivals.late or status not in (Status.COMPLETED, Status.MAX_EVALS):
            return status
        nothing = np.empty((1, 0, self.config.x0.shape[1]), self.config.dtype)
        try:
            yield from self._evaluate(Query("fun", self.config.backend.native(nothing)), np.arange(1))
        except Stop as stop:
            return stop.status
        return status

    def receive_late(self, place: Place, value: float) -> bool:
        """Keep the value at a point of a closed request. Return True if it ends the run."""
        assert self.arrivals is not None
        self.arrivals.add_late(place, value)
        reached = status_after(self.config.limits, value=np.asarray(self.arrivals.f_best)) == Status.TARGET
        return bool(reached) and not self._reporting

    def _with_all_values(self, full: StepState) -> StepState:
        """Return the state with the best points, also if they belong to no complete iteration."""
        late = self.arrivals
        if late is not None and late.f_best < full.f_best[0]:
            full = full._replace(x_best=late.x_best[None], f_best=np.full_like(full.f_best, late.f_best))
        if self._cut is not None:
            x, f = self._cut
            lower = f < full.f_best
            full = full._replace(
                x_best=np.where(lower[:, None], x, full.x_best), f_best=np.where(lower, f, full.f_best)
            )
        return full

    def _lowest_received(self, query: Query, rows: NDArray[np.intp]) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """Return the lowest values of f received for an incomplete request, and their points. See `_cut`."""
        if query.is_gradient or self.config.stochastic or self.config.constraints is not None:
            return None
        x, f = self.state.full.x_best.copy(), np.full_like(self.state.full.f_best, np.inf)
        points = self.config.backend.host(query.points)
        for at, value in self.answers.received.items():
            b, i = divmod(at, points.shape[1])
            if float(value) < f[rows[b]]:
                x[rows[b]], f[rows[b]] = points[b, i], float(value)
        return x, f

    def out_of_time(self) -> bool:
        """Return True if `max_seconds` have passed, so that no evaluation may begin.

        It is False before the first evaluation of a run, and for the final values, so that a result has a value.
        """
        limit, counter = self.config.limits.max_seconds, self.counter
        begun = counter.nfev + counter.njev + self.answers.begun
        return limit is not None and begun > 0 and not self._reporting and self.elapsed() >= limit

    def _commit(self, state: RunState) -> None:
        """Accept the state after a complete iteration. If the next one fails, it is repeated from here."""
        self.state = state
        self.counter.reset(state.nfev, state.njev)
        self.answers.clear()

    def _iterate(self, last: int | None) -> Generator[Request, Any, None]:
        """Iterate until all problems have ended. With a Strategy, return after iteration `last` as well.

        Without a Strategy `last` is `max_iter`, where `_check_limits` ends the run. A compiled loop needs it to choose
        the length of its blocks.
        """
        slotted = self.config.batch_size is not None
        while self.state.active.size or (slotted and self.state.waiting().size):
            if self.strategy is not None and last is not None and self.state.k >= last:
                return
            self._check_limits()
            if slotted:
                self._refill()
            end = last if self.config.search is None or self._searching else self.config.limits.iterations
            state, position = yield from self._answered(self.loop.advance(self.state, end), self.state.active)
            self._commit(state)
            if self.config.search is not None and self.state.k == self.config.limits.iterations:
                self._begin_local_searches()  # before anything is saved: k says which of the two a checkpoint is in
            self._after_commit(position)

    def _after_commit(self, position: Position | None, value: Any = None) -> None:
        """Call the user's callback, stop if it or the `value` of f says so, save if due, and show the progress."""
        recorder, stopped = self.recorder, False
        if position is not None:
            stopped = recorder.call_back(self.state, position)
        if (stopped or value is not None) and self.state.active.size:
            self._stop_if(stopped=stopped, value=value)
        if recorder.saver and self.state.active.size and recorder.saver.due(self.state.k):
            self.save()
        recorder.show(self.state)

    def _check_limits(self) -> None:
        """Stop if a limit is reached, or would be exceeded by another iteration."""
        config, state, limits = self.config, self.state, self.config.limits
        seen: dict[str, Any] = {} if limits.max_seconds is None else {"seconds": self.elapsed()}
        if config.batch_size is None:  # otherwise problems end one by one, in the loop
            if limits.max_evals is not None:
                oracle = self.loop.step_config.method.oracle
                cost = oracle.cost(state.k % oracle.period == 0, config.step.ctx)
                seen["evaluations"] = state.evaluations + config.reserve + cost
            if self.strategy is None and config.search is None:
                seen["iterations"] = state.k
        self._stop_if(**seen)

    @property
    def _searching(self) -> bool:
        """True in the local searches that follow the homotopies of a batch."""
        config = self.config
        return config.search is not None and self.state.k >= config.limits.iterations

    def _begin_local_searches(self) -> None:
        """Continue with a local search from the lowest point of each problem that runs."""
        self._gather()
        state = self.state._replace(members=self.state.active, carry=None)
        full = searching(state.full, state.status == Status.RUNNING, self.config)
        if self._search_loop is not None:
            state = state._replace(members=np.arange(state.status.size))
            self.loop = self._search_loop
        else:
            step_config = self.config.step_at(state.k)
            self.loop = PythonLoop(self.config, self.noise, self.recorder, self.counter, step_config)
        self.state = self.loop.restart(state, full)

    def _end_all(self, status: Status) -> None:
        """End all problems, including those that have not begun."""
        waiting = self.state.waiting()
        state = self.state._replace(nfev=self.counter.nfev, njev=self.counter.njev)
        state = self.loop.end_all(state, status)
        self.state = state.end(waiting, status, counts=np.array([[0], [self.config.start_evals], [0]]))

    def _refill(self) -> None:
        """Fill freed slots with waiting problems.

        They begin only in iterations that the history records, so that it records all problems at the same numbers of
        their own iterations.
        """
        state, size, stride = self.state, self.config.batch_size, self.recorder.history.stride
        if size is None or state.active.size == size:
            return
        new = state.waiting()[: size - state.active.size]
        # If no problem runs, skip to the next iteration that the history records.
        k = state.k if state.active.size else state.k + -state.k % stride
        if not new.size or k % stride:
            return
        began = state.began.copy()
        began[:, new] = np.array([[k], [state.nfev - self.config.start_evals], [state.njev]])
        self._commit(self.loop.add(state._replace(k=k, began=began), new))
        self.noise.mark(k)

    def _evaluate_start(self) -> Generator[Request, Any, None]:
        """Evaluate the start, so that the best point is never worse."""
        config, backend = self.config, self.config.backend
        for rows in slices(np.arange(len(config.x0)), config.batch_size):
            self.counter.reset(self.state.nfev, self.state.njev)  # counts are per problem, so each slice starts anew
            x = backend.native(config.inside(self.state.full.x[rows]))
            values = backend.host((yield from self._evaluate(Query("fun", x[:, None, :]), rows)))[:, 0]
            values = values if config.step.watch is None else values[:, 0]
            f_best = self.state.full.f_best.copy()
            f_best[rows] = np.where(np.isfinite(values), values, np.inf)
            self.state = self.loop.restart(self.state, self.state.full._replace(f_best=f_best))
        self._commit(self.state._replace(nfev=1))
        self.noise.mark(self.state.k)

    def _evaluate_starts(self, known: Known) -> Generator[Request, Any, None]:
        """Evaluate the starts, and begin at the best of them and of the known points. Without a finite value, at x0."""
        backend, full = self.config.backend, self.state.full
        points, values = known.points, known.values
        if len(known.starts):
            query = Query("fun", backend.native(known.starts[None]))
            found = backend.host((yield from self._evaluate(query, self.state.active)))[0]
            points, values = np.concatenate([known.starts, points]), np.concatenate([found, values])
        values = np.where(np.isfinite(values), values, np.inf)
        best = int(np.argmin(values))
        if np.isfinite(values[best]):
            x = points[best : best + 1]
            full = full._replace(x=x, x_best=x, f_best=values[best : best + 1], xhat=x)
        self.state = self.loop.restart(self.state, full)
        self._commit(self.state._replace(nfev=len(known.starts)))
        self.noise.mark(self.state.k)

    def _evaluate(self, query: Query, rows: NDArray[np.intp]) -> Generator[Request, Any, Any]:
        """Return the answer to one query."""

        def only() -> Generator[Query, Any, Any]:
            return (yield query)

        return self._answered(only(), rows)

    def _report(self) -> Generator[Request, Any, Result]:
        """Request the final values, and return the Result."""
        strategy = self.strategy
        result: Result = yield from report(
            Ending(
                config=self.config,
                state=self.state._replace(full=self._with_all_values(self.state.full)),
                method=self.config.step.method if self._searching else self.loop.step_config.method,
                history=self.recorder.history,
                noise=self.noise,
                engine=self.loop.engine,
                solution=None if strategy is None else strategy.solution,
                noisy=strategy is not None and strategy.noisy,
                story="" if strategy is None else strategy.story,
                homotopies=1 if strategy is None else strategy.homotopies,
                violation=None if strategy is None else strategy.violation,
                minima=None if strategy is None else strategy.minima,
                phases=() if strategy is None else strategy.timeline(self.state.k),
                remarks=(self.config.remark, self.loop_remark, *(remark() for remark in self._remarks)),
                elapsed=self.elapsed,
            )
        )
        result.update(nfev=result.nfev - self._unanswered)
        return result

    @property
    def _unanswered(self) -> int:
        """Number of points of closed requests without a value. `nfev` counts them until the run ends."""
        return 0 if self.arrivals is None else len(self.arrivals.late)

    # For the driver.

    @property
    def active(self) -> NDArray[np.intp]:
        """Problems that have begun and not ended."""
        return self.state.active

    def compile(
        self, functions: Vectorized | Pointwise, *, compiled: bool | None, needs_python: str
    ) -> Vectorized | Pointwise:
        """Use a compiled loop if possible, and return the functions as it calls them.

        Parameters
        ----------
        compiled
            True demands a compiled loop, False forbids it.
        needs_python
            Reason why only a Python loop can do this run, "" if there is none.
        """
        config, backend = self.config, self.config.backend
        if compiled is not None and not isinstance(compiled, bool):
            raise ArgumentTypeError(f"`compiled` must be True, False or None, got {compiled!r}.")
        if compiled is False or (compiled is None and not backend.compiles):
            return functions
        reason = needs_python or f"{backend.name} arrays have no compiled loop"
        if backend.compiles and not needs_python:
            mapped = functions
            if isinstance(mapped, Pointwise):
                mapped = mapped.mapped(data=len(config.data), xi=config.stochastic)
            with self.recorder.compiling():
                found = self._compile_stage(mapped, self.state)
                if not isinstance(found, str) and config.search is not None and not self._searching:
                    # The user's function is called to compile, so both stages are compiled before the run begins.
                    everyone = np.full(self.state.status.shape, True)
                    begun = self.state._replace(
                        k=config.limits.iterations, full=searching(self.state.full, everyone, config)
                    )
                    second = self._compile_stage(mapped, begun)
                    if isinstance(second, str):
                        found = second
                    else:
                        self._search_loop = second[0]
                if compiled and isinstance(found, str):
                    raise _not_compiled(found)
            if not isinstance(found, str):
                loop, self.state = found
                self.loop = loop
                return mapped if self.strategy is None else loop.compiled_functions(mapped)
            reason = found
        if compiled:
            raise _not_compiled(reason)
        self.loop_remark = f"In a Python loop: {reason}."
        return functions

    def _compile_stage(self, functions: Vectorized, state: RunState) -> tuple[BlockLoop, RunState] | str:
        """Compile the loop of the stage that `state` is in. Return it and its first state, or why there is none."""
        here = dataclasses.replace(self.config, step=self.config.step_at(state.k))
        return compile_loop(state, here, self.noise, self.recorder, functions, masked=self._masked)

    def add_remark(self, remark: Callable[[], str]) -> None:
        """Let the message end with this sentence, which is read at the end of the run. It may be empty."""
        self._remarks.append(remark)

    def advance_block(self, request: Advance) -> Any:
        """Answer the request of a compiled loop: run a block of iterations."""
        assert isinstance(self.loop, BlockLoop)
        return self.loop.run(request)

    def elapsed(self) -> float:
        """Return the duration of this run in seconds, including the time before a checkpoint."""
        return self._seconds + time.monotonic() - self._clock

    def close_after(self, error: BaseException) -> None:
        """End the run because of an exception: save the last complete iteration, and note it in the exception."""
        self.recorder.close(self.state)
        logger.info("End: %s after %d iterations", type(error).__name__, self.state.k)
        if self.state.active.size:
            self.noise.rewind()
            where, saver = "", self.recorder.saver
            if saver:
                try:
                    saved, reason = self.save(), saver.failure
                except Exception as failure:  # nothing may replace the user's exception
                    saved, reason = False, repr(failure)
                where = f", saved in {saver.name!r}"
                if not saved:
                    where = f", which could not be saved in {saver.name!r}: {reason}"
            error.add_note(f"slgh: raised after {self.state.k} complete iterations{where}.")

    def interim_result(self, status: Status) -> Result:
        """Return the best point so far, or the iterate if f is stochastic."""
        self._gather()
        full = self._with_all_values(self.state.full)
        arrays = {"x": full.x_best, "fun": full.f_best, "t": full.t}
        if self.config.stochastic:
            with np.errstate(all="ignore"):
                arrays |= {"x": self.config.inside(full.x), "fun": np.full_like(full.t, np.nan)}
        out = 0 if status is Status.RUNNING else self._unanswered
        counted = self.state._replace(nfev=self.counter.nfev - out, njev=self.counter.njev)
        return self.recorder.interim(counted, arrays, status, message=status.message)

    # For a Strategy, which runs a single problem.

    @property
    def left(self) -> int:
        """Evaluations that are left, except those reserved for the final value."""
        assert self.config.limits.max_evals is not None
        return self.config.limits.max_evals - self.state.evaluations - self.config.reserve

    def evaluate(
        self, points: NDArray[Any], *, gradient: bool, samples: int = 0
    ) -> Generator[Request, Any, NDArray[Any]]:
        """Evaluate f, or its gradient, at points (n, d). `record` must follow, once the answer is in the replay log.

        `samples` is that of the Query. With constraints, the answer is the one that `Constraints` reads.
        """
        self._stop_if(value=self.state.full.f_best[0], seconds=self.elapsed())
        dtype, native = self.config.dtype, self.config.backend.native
        closed_form = self.config.traits.closed_form
        what = "grad" if gradient else "fun"
        t = None
        if closed_form:
            what, t = "F.grad" if gradient else "F", native(np.zeros((1, 1), dtype))
        query = Query(what, native(points.astype(dtype)[None]), t=t, samples=samples)
        raw = yield from self._evaluate(query, self.state.active)
        return np.asarray(self.config.backend.host(raw)[0], float)

    @property
    def has_gradients(self) -> bool:
        """True if gradients of f can be evaluated."""
        return self.config.traits.closed_form or self.config.step.method.oracle.asks == "gradients"

    def record(
        self,
        points: NDArray[Any],
        values: NDArray[Any],
        *,
        is_step: bool,
        t: float = 0.0,
        center: NDArray[Any] | None = None,
        feasible: NDArray[np.bool_] | None = None,
    ) -> None:
        """Record values (n,) of f at points (n, d), or gradients (n, d): in the state, the history and the callback.

        `is_step`: this counts as an iteration with this `t`. Its iterate is the first point or, with a smoothing
        radius, the `center` (d,) of all points, and its f then the mean of the usable values. `feasible`: the points
        (n,) among which the best one is, by default all.
        """
        points, state = points.astype(self.config.dtype), self.state
        changed = self._changes(points, values, feasible) if values.ndim == 1 else {}
        counts: dict[str, Any] = {"k": state.k + int(is_step), "nfev": self.counter.nfev, "njev": self.counter.njev}
        state = self.loop.replace(state, changed, counts)
        self._commit(state)
        self.noise.mark(state.k)
        position = None
        if is_step:
            x, fun, radius = points[:1], values[:1].astype(self.config.dtype), np.full(1, t, self.config.dtype)
            if center is not None:
                mean = np.mean(values[finite]) if (finite := np.isfinite(values)).any() else np.nan
                x, fun = center[None].astype(self.config.dtype), np.full_like(radius, mean)
            self.recorder.record_step(state, x, fun, radius)
            if self.recorder.callback is not None:
                position = self.recorder.position_of_all(state, x, fun, radius)
        self._after_commit(position, value=state.full.f_best[0])

    def _changes(
        self, points: NDArray[Any], values: NDArray[Any], feasible: NDArray[np.bool_] | None
    ) -> dict[str, Any]:
        """Return the arrays of the state that values (n,) at points change."""
        finite, full, changed = np.isfinite(values), self.state.full, dict[str, Any]()
        eligible = finite if feasible is None else finite & feasible
        lowest = int(np.argmin(np.where(eligible, values, np.inf)))
        if eligible[lowest] and values[lowest] < full.f_best[0]:
            changed = {"x_best": points[lowest][None], "f_best": values[lowest : lowest + 1]}
        penalize = self.config.step.on_nonfinite == "penalize"
        if not (finite.all() or penalize):
            bad = ~np.isnan(values) & ~finite if self.config.step.asynchronous else ~finite  # NaN is a missing value
            changed["rejected"] = full.rejected + np.count_nonzero(bad)
        if penalize and finite.any():
            changed["worst"] = np.maximum(full.worst, np.max(values[finite]))
        return {name: np.asarray(a, self.config.dtype) for name, a in changed.items()}

    def restart(self, **arrays: Any) -> None:
        """Begin a homotopy with these arrays in the state."""
        self.state = self.loop.restart(self.state, self.state.full._replace(**arrays))

    def iterate_until(self, last: int) -> Generator[Request, Any, Status]:
        """Iterate up to iteration `last`, and return the status of the problem, RUNNING if it has not ended."""
        yield from self._iterate(last)
        self._gather()
        return Status(int(self.state.status[0]))

    def revive(self) -> None:
        """Continue the problem after it has ended."""
        only = np.arange(1)
        self.recorder.history.reopen()
        self.noise.assign(only, self.state.began[0, only])
        running = np.full_like(self.state.status, Status.RUNNING)
        state = self.state._replace(status=running, active=only, members=only)
        self.state = self.loop.restart(state, state.full)

    def use_ranks(self) -> None:
        """Let the homotopy use ranks of the values, if the oracle can. A compiled loop is not changed."""
        step_config = self.loop.step_config
        oracle = step_config.method.oracle
        if isinstance(self.loop, PythonLoop) and isinstance(oracle, Antithetic):
            method = dataclasses.replace(step_config.method, oracle=dataclasses.replace(oracle, values="ranks"))
            self.loop = self.loop.with_step(dataclasses.replace(step_config, method=method))

    def stop(self, status: Status) -> NoReturn:
        """End the run."""
        raise Stop(status)

    def _stop_if(self, **seen: Any) -> None:
        """End the run if a limit is reached. The arguments are those of `status_after`."""
        if (status := status_after(self.config.limits, **seen)) != Status.RUNNING:
            raise Stop(Status(int(status)))

    # Checkpoints.

    def _gather(self) -> None:
        """Bring the host's copy of the state up to date."""
        self.state = self.state.gather(self.config.backend.host, in_place=self.config.batch_size is not None)

    def save(self, *, first: bool = False) -> bool:
        """Save the last complete iteration, if the user wants checkpoints. Return True if it was written."""
        saver = self.recorder.saver
        if saver is None:
            return False
        self._gather()
        return saver.save(self._meta(), self._arrays(self.noise), first=first)

    def save_if_due(self) -> None:
        """Save in the middle of an iteration, with the values received so far, if it is time to."""
        saver = self.recorder.saver
        if saver is not None and saver.due(self.state.k):
            saver.save(*self.capture())

    def capture(self) -> tuple[snapshot.Meta, Arrays]:
        """Return what a checkpoint holds, also in the middle of an iteration."""
        self._gather()
        # A copy, since the iteration that runs goes on with the noise where it is. The user's sampler is not copied.
        sampler = self.config.sample_xi
        noise = copy.deepcopy(self.noise, {id(sampler): sampler})
        noise.rewind()
        return self._meta(), self._arrays(noise)

    def _meta(self) -> snapshot.Meta:
        """Return the header of a checkpoint."""
        return snapshot.Meta(
            identity=self.config.identity,
            seed=self.config.seed,
            k=self.state.k,
            nfev=self.state.nfev,
            njev=self.state.njev,
            seconds=self.elapsed(),
            stride=self.recorder.history.stride,
            masked=self.loop.masked if isinstance(self.loop, BlockLoop) else self._masked,
        )

    def _arrays(self, noise: NoiseSource) -> Arrays:
        """Return the arrays of a checkpoint. The `noise` is at the beginning of an iteration."""
        backend, history = self.config.backend, self.recorder.history
        groups: dict[str, Arrays] = {
            "noise": noise.save(),
            "history": history.save(),
            "ended": history.ended,
            "position": self.recorder.position._asdict(),
            "answers": self.answers.save(backend.stack, backend.host),
        }
        if self.strategy is not None:
            groups["auto"] = self.strategy.save()
        if self.arrivals is not None:
            groups["arrivals"] = self.arrivals.save()
        return snapshot.collect(self.state, groups)

    def _load_found(self, found: snapshot.Snapshot | None) -> bool:
        """Continue the checkpoint if there is one that has begun, and return True. Otherwise return False."""
        if found is None:
            return False
        name, meta, arrays = found
        with refuse_damaged(name):
            if not snapshot.is_begun(meta, self.config, name):
                return False
            if self.config.search is not None and meta.k >= self.config.limits.iterations:
                full = searching(self.state.full, self.state.status == Status.RUNNING, self.config)
                self.state = self.state._replace(full=full)
            snapshot.check_arrays(arrays, self._arrays(self.noise))
            self._load(meta, arrays)
        return True

    def _load(self, meta: snapshot.Meta, arrays: Arrays) -> None:
        """Distribute the content of a checkpoint to its owners."""
        config, watch, first = self.config, self.config.step.watch, self.state.full
        shapes = {} if watch is None else dict(zip(watch.names, (a.shape for a in first.watch), strict=True))
        shapes["x"] = first.x.shape
        self.state = state = snapshot.load_state(meta, arrays, self.state)
        self.counter.reset(meta.nfev, meta.njev)
        self._seconds, self._masked = meta.seconds, meta.masked
        group = partial(snapshot.group_of, arrays)
        self.recorder.load(
            Position(**group("position")), group("history"), group("ended"), meta.stride, shapes, state.status
        )
        self.noise.load(group("noise"), state.active, state.began[0, state.active])
        self.answers.load(group("answers"), config.backend.native)
        if self.strategy is not None:
            self.strategy.load(group("auto"), first.x.shape[1])
        if self.arrivals is not None:
            self.arrivals.load(group("arrivals"))


def _not_compiled(reason: str) -> ArgumentValueError:
    return ArgumentValueError(f"`compiled=True` is not possible here: {reason}.")
