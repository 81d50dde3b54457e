"""The loop, as a conversation: it yields queries, is sent values, and ends with a Result.

`minimize` answers the queries by calling the user's function, `Optimizer` hands them out through ask and tell.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from slgh.auto.portfolio import Portfolio
from slgh.backends import Backend
from slgh.backends.protocols import Loop, Source
from slgh.engine import checkpoint
from slgh.engine.answers import Answers
from slgh.engine.bounds import Box
from slgh.engine.compiled_loop import advance
from slgh.engine.compiled_step import Advance, Carry
from slgh.engine.history import History
from slgh.engine.limits import Limits
from slgh.engine.progress import Progress
from slgh.engine.python_loop import iterate
from slgh.engine.report import report
from slgh.engine.slots import refill, rows_of, waiting
from slgh.engine.state import State, from_arrays, map_leaves, to_arrays
from slgh.engine.step import Plan
from slgh.protocols import Query, Sight, Watch
from slgh.result import Result, Status

BROKEN_OFF: Any = object()
"""The answer to a query that Ctrl-C broke off."""


class Stop(Exception):
    """Raised in the loop to end all problems with this status."""

    def __init__(self, status: Status) -> None:
        self.status = status


@dataclass(kw_only=True)
class Run:
    """One call of `minimize`, or one `Optimizer`: what it is made of, and how far it has come.

    What the iterations compute with (`state`, `plan`, `noise`) is of the backend; the host's books (`whole`, `seen`,
    `status`, `counts`, `history`) are NumPy arrays over all problems.
    """

    plan: Plan
    state: State
    """Of the problems `members`, in arrays of the backend."""
    backend: Backend
    noise: Source
    box: Box | None
    """The bounds as NumPy arrays."""
    limits: Limits
    reserve: int
    """Evaluations of each problem that are kept for its final value."""
    identity: dict[str, Any]
    """What a checkpoint must agree with to be of this run."""
    seed: Any
    batched: bool
    history: History
    callback: Callable[..., object] | None = None
    saver: checkpoint.Saver | None = None
    progress: Progress | None = None
    remark: str = ""
    """What the message says of how the method was chosen."""
    batch_size: int | None = None
    """How many problems are computed at a time, where others wait for their places; None: all."""
    iterations: int | None = None
    """How many iterations the limits allow each problem."""
    portfolio: Portfolio | None = None
    """What is done besides iterations, for a single problem of "auto"."""

    def __post_init__(self) -> None:
        B = self.state.x.shape[0]
        self.k = self.nfev = self.njev = 0
        self.answers = Answers()
        self.errstate: Any = np.geterr()
        """The user's handling of floating-point errors, for the callback."""
        self.x0, self.t1 = self.state.x, self.state.t
        self.seconds = 0.0
        self.careful = False
        """Whether a compiled loop must reckon with values that are not finite: it has met one."""
        self.active: NDArray[np.intp] = np.arange(B if self.batch_size is None else self.batch_size)
        """The problems that have begun and not ended."""
        self.began = np.zeros((3, B), int)
        """k, nfev, njev when each problem began."""
        self.data: tuple[Any, ...] = ()
        """The user's data of all problems, where those that wait will need them."""
        self.members = self.active
        """The problems that `state` is of: the active ones, or in a compiled loop all, or one for each place."""
        self.rows = self.active
        """The problems that the current query is about."""
        self.whole = self.state
        """The state of all problems; that of the active ones is as of the last `gather`."""
        self.status = np.full(B, Status.RUNNING.value)
        self.counts = np.zeros((3, B), int)
        """nit, nfev, njev of each problem at its end."""
        self.seen = {"x": self.state.x, "fun": np.full_like(self.state.t, np.nan), "t": self.state.t}
        """Where each problem last stood and f there, for the callback."""
        if not self._load_found() and self.batch_size is not None:
            self.noise.keep(self.members)
        if self.batch_size is not None:
            self.whole = map_leaves(np.array, self.whole)
        self.state = map_leaves(lambda leaf: self.backend.native(leaf[self.members]), self.whole)
        picks = None if self.batch_size is not None else frozenset(self.whole.xhat_at.tolist())
        self.plan = dataclasses.replace(self.plan, picks=picks)
        self.engine = self.backend.engine
        self.why = ""
        """Why the loop is not a compiled one, where that may surprise."""
        self.loop: Loop | None = None
        self.carry: Carry | None = None
        self.pace = 1
        """How many iterations the next block of a compiled loop may have."""
        self.noise.mark(self.k)
        self._marked = self.nfev, self.njev
        self._clock = time.monotonic()

    def mark(self) -> None:
        """Remember the beginning of an iteration: should it not be completed, it is done again from here."""
        self.noise.mark(self.k)
        self.answers.clear()
        self._marked = self.nfev, self.njev

    def conversation(self) -> Generator[Query | Advance, Any, Result]:
        """Iterate until every problem has ended, then ask for the final values."""
        self._clock = time.monotonic()
        if self.progress:
            self.progress.open()
        try:
            if self.looked and self.nfev == 0:
                yield from self.unbroken(self._look_at_start())
            if self.portfolio is not None:
                yield from self.portfolio.conversation(self)
                raise Stop(Status.COMPLETED if self.k else Status.MAX_EVALS)
            while self.active.size or waiting(self).size:
                self.check_limits()
                refill(self)
                yield from self.unbroken(advance(self) if self.loop else iterate(self))
        except Stop as stop:
            self.save()
            never = waiting(self)
            self.end(np.ones(self.active.size, bool), stop.status.value)
            self.status[never], self.counts[1, never] = stop.status, self.looked
        else:
            self.save()
        if self.progress:
            self.progress.close(self.done, self.whole.f_best, self.whole.t)
        self.answers = Answers()  # those of an iteration that did not complete are in the checkpoint
        return (yield from report(self))

    def unbroken(self, talk: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """Pass on the queries of an iteration, or answer them from a checkpoint. The answer BROKEN_OFF ends the run."""
        answer = None
        while True:
            try:
                query = talk.send(answer)
            except StopIteration as end:
                return end.value
            if isinstance(query, Query) and (replayed := self.answers.replay(query)) is not None:
                self.count(query)
                answer = replayed
                continue
            answer = yield query
            if answer is BROKEN_OFF:
                raise Stop(Status.INTERRUPTED)
            if isinstance(query, Query):
                self.answers.complete(answer)

    def stop(self, status: Status) -> NoReturn:
        """End all problems with this status."""
        raise Stop(status)

    @property
    def affordable(self) -> int:
        """Evaluations that are left, without what is kept for the end."""
        assert self.limits.max_evals is not None
        return self.limits.max_evals - self.nfev - self.njev - self.reserve

    def revive(self) -> None:
        """A single problem that was given up goes on, from where it was."""
        self.status[:] = Status.RUNNING
        self.active = self.rows = self.members = np.arange(1)
        self.history.closed[:] = False
        noise: Any = self.noise
        if hasattr(noise, "seat"):
            noise.seat(self.active, self.began[0, self.active])
        else:
            noise.join(self.active, self.k)
        self.go_on_from(self.whole)

    def go_on_from(self, whole: State) -> None:
        """Iterate from this state of all problems."""
        self.whole = whole
        self.state = map_leaves(lambda leaf: self.backend.native(leaf[self.members]), whole)
        if self.loop is not None:
            self.carry = rows_of(self, self.members)
            self.state = self.carry.state

    def evaluated(self, points: NDArray[Any], values: NDArray[Any]) -> None:
        """Keep what a single problem learned outside of its iterations: the best of n points (n, d), and bad values."""
        finite = np.isfinite(values)
        lowest = int(np.argmin(np.where(finite, values, np.inf)))
        if finite[lowest] and values[lowest] < self.whole.f_best[0]:
            self._update_state(x_best=points[lowest][None], f_best=values[lowest : lowest + 1])
        if not (finite.all() or self.plan.penalize):
            self._update_state(rejected=self.whole.rejected + np.count_nonzero(~finite))

    def _update_state(self, **changed: Any) -> None:
        """Replace these arrays of a single problem, on the host and in the loop."""
        arrays: dict[str, Any] = {name: np.asarray(a, self.whole.x.dtype) for name, a in changed.items()}
        self.whole = self.whole._replace(**arrays)
        if self.carry is None:
            self.state = self.state._replace(**{name: self.backend.native(a) for name, a in arrays.items()})
        else:
            self.state = self.carry.state._replace(**{name: self.backend.give(a) for name, a in arrays.items()})
            self.carry = self.carry._replace(state=self.state)

    @property
    def looked(self) -> int:
        """How many evaluations a problem has before its first iteration."""
        return int(self.plan.method.reports == "best" and not self.plan.ctx.stochastic)

    def slices(self, rows: NDArray[np.intp]) -> list[NDArray[np.intp]]:
        """The problems `rows`, so many at a time as may be computed at once."""
        n = max(1, self.batch_size or rows.size)
        return [rows[i : i + n] for i in range(0, rows.size, n)]

    def _look_at_start(self) -> Generator[Query, Any, None]:
        """Evaluate the start, so that the best point is never worse."""
        f_best = self.whole.f_best.copy()
        for rows in self.slices(np.arange(self.status.size)):
            self.rows, self.nfev = rows, 0
            x = self.backend.native(self.inside(self.whole.x[rows]))
            values = self.backend.host((yield Query("fun", x[:, None, :])))[:, 0]
            values = values if self.plan.watch is None else values[:, 0]
            f_best[rows] = np.where(np.isfinite(values), values, np.inf)
            self.whole = self.whole._replace(f_best=f_best)
            self.state = self.state._replace(f_best=self.backend.native(f_best[self.members]))
            if self.carry:
                given = self.backend.give(f_best[self.members])
                self.carry = self.carry._replace(state=self.carry.state._replace(f_best=given))
        self.nfev, self.rows = 1, self.active
        self.mark()

    @property
    def recorded(self) -> tuple[str, ...]:
        """The columns that iterations of a compiled loop leave, for the history or the callback."""
        return self.history.columns if self.history.limit or self.callback else ()

    def interrupt(self, query: Query | Advance) -> Any:
        """Break off the run while `query` is asked: what to answer it with, so that the run ends in good order."""
        if not isinstance(query, Advance):
            self.count(query, self.answers.begun)
        if isinstance(query, Advance) or self.active.size:
            self.noise.rewind()
            return BROKEN_OFF
        self.status[self.rows] = Status.INTERRUPTED
        return self.plan.ctx.xp.full_like(query.points[..., 0], np.nan)

    def close_after(self, error: BaseException) -> None:
        """An exception ends the run: save the last complete iteration, and say so in the exception."""
        if self.progress:
            self.progress.close(self.done, self.whole.f_best, self.whole.t)
        if self.active.size:
            self.noise.rewind()
            where = ""
            if self.saver:
                try:
                    saved, reason = self.save(), self.saver.failure
                except Exception as failure:  # nothing may replace the user's exception
                    saved, reason = False, repr(failure)
                name = repr(self.saver.name)
                where = f", saved in {name}" if saved else f", which could not be saved in {name}: {reason}"
            error.add_note(f"slgh: raised after {self.k} complete iterations{where}.")

    def count(self, query: Query, points: int | None = None) -> None:
        """Count the evaluations of a query, all of them or those of `points` points of all problems."""
        n = query.points.shape[1] if points is None else -(-points // max(1, query.points.shape[0]))
        if query.what == "fun" or query.what == "F":
            self.nfev += n
        else:
            self.njev += n

    def after_contact(self, *, stopped: bool) -> None:
        """What the host does after it has seen the iterations: stop, save, show."""
        if stopped and self.active.size:
            raise Stop(Status.CALLBACK)
        if self.saver and self.active.size and self.saver.due(self.k):
            self.save()
        if self.progress and self.active.size:
            self.progress.show(self.done, self.state.f_best, self.state.t, self.active.size)

    def check_limits(self) -> None:
        """Stop if a limit is reached, or would be exceeded by another iteration."""
        limits, plan = self.limits, self.plan
        if limits.max_seconds is not None and self.elapsed() >= limits.max_seconds:
            raise Stop(Status.MAX_SECONDS)
        if self.batch_size is not None:
            return
        if limits.max_iter is not None and self.k >= limits.max_iter:
            raise Stop(Status.COMPLETED)
        if limits.max_evals is not None:
            oracle = plan.method.oracle
            needed = oracle.cost(self.k % oracle.period == 0, plan.ctx) + self.reserve
            if self.nfev + self.njev + needed > limits.max_evals:
                planned = plan.method.planned and self.k > 0
                raise Stop(Status.COMPLETED if planned else Status.MAX_EVALS)

    @property
    def limit(self) -> Status:
        """How a problem ends that has had the iterations that the limits allow."""
        cut = self.limits.max_iter is None or self.limits.max_iter > (self.iterations or 0)
        return Status.MAX_EVALS if cut and not self.plan.method.planned else Status.COMPLETED

    def elapsed(self) -> float:
        """Seconds this run has taken, earlier sittings included."""
        return self.seconds + time.monotonic() - self._clock

    def end(self, which: NDArray[np.bool_], status: Any) -> None:
        """End those of the active problems, and go on with the others."""
        ended, left = self.active[which], np.flatnonzero(~which)
        self.status[ended] = np.broadcast_to(status, which.shape)[which]
        self.counts[:, ended] = np.array([[self.k], [self.nfev], [self.njev]]) - self.began[:, ended]
        self.gather()
        self.active = self.rows = self.active[left]
        if self.loop is None:
            self.members = self.active
            rows = self.backend.index(left)
            self.state = map_leaves(lambda leaf: leaf[rows], self.state)
            self.noise.keep(left)

    @property
    def done(self) -> int:
        """What the progress bar counts: iterations, evaluations of a portfolio, or problems that begin one by one."""
        if self.portfolio is not None:
            return self.nfev + self.njev
        return self.k if self.batch_size is None else int((self.status != Status.RUNNING).sum())

    def gather(self) -> None:
        """Bring `whole` up to date."""
        self.whole = map_leaves(lambda whole, part: self.spread(whole, self.backend.host(part)), self.whole, self.state)

    def spread(self, whole: NDArray[Any], part: NDArray[Any]) -> NDArray[Any]:
        """`whole` (all problems) with the rows of the members replaced by `part`."""
        if self.members.size == whole.shape[0]:
            return part
        whole = whole.copy() if self.batch_size is None else whole
        whole[self.members] = part
        return whole

    def watch_end(self, watch: Watch, rows: NDArray[np.intp], sight: Sight) -> None:
        """Show the final points of these problems to the Watch."""
        after = watch.see(tuple(leaf[rows] for leaf in self.whole.watch), sight, np)
        whole = tuple(leaf.copy() for leaf in self.whole.watch)
        for leaf, part in zip(whole, after, strict=True):
            leaf[rows] = part
        self.whole = self.whole._replace(watch=whole)

    def inside(self, x: NDArray[Any]) -> NDArray[Any]:
        """x mirrored into the box."""
        return x if self.box is None else np.asarray(self.box.inside(x, np))

    def called_back(self, x: NDArray[Any], fun: NDArray[Any], t: NDArray[Any]) -> bool:
        """Call the user's callback with where the members stood; whether it asks to stop."""
        if self.callback is None:
            return False
        self.gather()
        now = {"x": self.inside(x), "fun": fun, "t": t}
        self.seen = {name: self.spread(self.seen[name], part) for name, part in now.items()}
        stochastic = self.plan.ctx.stochastic
        best_x, best = (self.seen["x"], self.seen["fun"]) if stochastic else (self.whole.x_best, self.whole.f_best)
        found = {**self.seen, "x_best": best_x, "fun_best": best}
        give = self.backend.give
        shown = {name: give(a) if self.batched else give(a[0]) if a.ndim > 1 else a[0] for name, a in found.items()}
        result = Result(nit=self.k, nfev=self.nfev, njev=self.njev, status=Status.RUNNING, success=False, **shown)
        try:
            with np.errstate(**self.errstate):
                answer = self.callback(result)
        except StopIteration:
            return True
        return isinstance(answer, bool | np.bool_) and bool(answer)

    def save(self, *, first: bool = False) -> bool:
        """Save the last complete iteration, if there is a file for it; return True if it was written."""
        if self.saver is None:
            return False
        self.gather()
        meta = {
            "identity": self.identity,
            "seed": self.seed,
            "k": self.k,
            "marked": self._marked,
            "seconds": self.elapsed(),
            "stride": self.history.stride,
            "careful": self.careful,
        }
        return self.saver.save(self.k, meta, self._saved_arrays(), first=first)

    def _saved_arrays(self) -> dict[str, NDArray[Any]]:
        return {
            **{f"state.{n}": a for n, a in to_arrays(self.whole).items()},
            **{f"noise.{n}": a for n, a in self.noise.save().items()},
            **{f"history.{n}": a for n, a in self.history.saved().items()},
            **{f"ended.{n}": a for n, a in self.history.ended.items()},
            **{f"seen.{n}": a for n, a in self.seen.items()},
            "active": self.active,
            "status": self.status,
            "counts": self.counts,
            "began": self.began,
            **({f"portfolio.{n}": a for n, a in self.portfolio.saved().items()} if self.portfolio else {}),
            **{f"answers.{n}": a for n, a in self.answers.saved(self.backend.stack, self.backend.host).items()},
        }

    def _load_found(self) -> bool:
        """Go on from the checkpoint that was found, if there is one that has begun; return True if so."""
        if not (self.saver and self.saver.found):
            return False
        with checkpoint.refuse_damaged(self.saver.name):
            begun = self._is_begun(self.saver.found[0])
            if begun:
                self._load(*self.saver.found)
        return begun

    def _is_begun(self, meta: dict[str, Any]) -> bool:
        """Return True to continue a checkpoint of this run. A mere start with another batch_size is not continued."""
        assert self.saver is not None
        before = meta["identity"].get("batch_size")
        begun = meta["k"] > 0 or before == self.identity["batch_size"]
        given = self.identity if begun else self.identity | {"batch_size": before}
        checkpoint.refuse_other_run(self.saver.name, meta["identity"], given)
        return bool(begun)

    def _load(self, meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Go on from a checkpoint."""
        self._check_arrays(arrays)

        def group(prefix: str) -> dict[str, NDArray[Any]]:
            return {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}

        self.k, (self.nfev, self.njev) = meta["k"], meta["marked"]
        self.seconds, self.careful = meta["seconds"], meta["careful"]
        self.active = self.members = self.rows = arrays["active"]
        self.status, self.counts, self.began = arrays["status"], arrays["counts"], arrays["began"]
        self.seen = group("seen.")
        self.whole = from_arrays(group("state."), like=self.state)
        watch = self.plan.watch
        shapes = {} if watch is None else dict(zip(watch.names, (a.shape for a in self.state.watch), strict=True))
        shapes["x"] = self.state.x.shape
        self.history.load(group("history."), group("ended."), meta["stride"], shapes)
        self.history.closed = self.status != Status.RUNNING
        self.noise.load(group("noise."), self.active, self.began[0, self.active])
        self.answers.load(group("answers."), self.backend.native)
        if self.portfolio is not None:
            self.portfolio.load(group("portfolio."))

    def _check_arrays(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Raise unless the arrays of a checkpoint are named and shaped as those that this run would write."""
        fresh = self._saved_arrays()
        if odd := {n for n in fresh.keys() ^ arrays.keys() if not n.startswith(("ended.", "answers."))}:
            raise ValueError(f"its arrays are not those of this run: {', '.join(sorted(odd))}")
        for name, like in fresh.items():
            if name.startswith(("state.", "seen.")) or name in ("status", "counts", "began"):
                # A part of the user's own may change the dtype of its memory.
                own = name.startswith("state.") and name.count(".") > 1
                checkpoint.expect(arrays, name, like.shape, "biuf" if own else like.dtype.kind)
        active, status = checkpoint.expect(arrays, "active", (None,), "i"), arrays["status"]
        if not np.isin(status, list(Status)).all() or (arrays["counts"] < 0).any() or (arrays["began"] < 0).any():
            raise ValueError("its status or counts of the problems are invalid")
        running = np.flatnonzero(status == Status.RUNNING)
        if np.unique(active).size < active.size or not np.isin(active, running).all():
            raise ValueError("its active problems are not those that run")
        if self.portfolio is not None and len(outcomes := arrays["portfolio.fun"]):
            checkpoint.expect(arrays, "portfolio.x", (len(outcomes), self.state.x.shape[1]), "f")
