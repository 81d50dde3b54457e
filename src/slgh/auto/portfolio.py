"""The portfolio of "auto" for a single problem: look, homotopy, polish, and again with what is left of the budget.

Which comes first is decided by the look. A smooth f is polished at once, and the homotopy follows where a local minimum
was found early; a rugged f is smoothed first, and polished at the end. A noisy f is not polished at all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slgh import checks
from slgh.auto.defaults import choose_pace, first_widths
from slgh.auto.landscape import Landscape, affordable_lines, look
from slgh.auto.local_search import UNIT, Place, polish
from slgh.auto.replay_log import PHASES, Outcome, ReplayLog
from slgh.auto.request import Request
from slgh.engine.compiled_loop import advance
from slgh.engine.history import Row
from slgh.engine.python_loop import iterate
from slgh.protocols import Query
from slgh.result import Status

if TYPE_CHECKING:
    from slgh.engine.run import Run

# The shares below are round numbers that did well on the training functions of benchmarks/coco.py; no search was made.

LEAST = 10
"""A polish pays from so many gradients on: with a smaller budget there is the homotopy alone."""

KEPT, ENOUGH, MOST = 0.12, 15, 0.3
"""Kept for the polish of a rugged f: 12 % of the budget, or if that is more 15 gradients, but not above 30 %."""

AGAIN, SECOND = 30, 0.4
"""After the first minimum of a smooth f 30 gradients must be left for a homotopy, which gets 40 % of what is left."""

WORTH, NEARER, MORE = 6, 0.2, 0.7
"""As long as 6 gradients are left after the polish of a rugged f, there is another homotopy from the best point: from a
fifth of t1, with 70 % of what is left."""

RETREATS = 3
"""A homotopy that meets no finite value is begun again from a tenth of its t, so many times."""

WIDE = 1.6
"""Without bounds lines and restarts reach so many t1 far in each variable, about as uniform points of a box do."""


class Portfolio:
    """The phases of a run of "auto", and how far it has come.

    Parameters
    ----------
    phases
        Which there are.
    gradients
        The query that is asked for gradients: "grad", "F.grad" of a closed form, or "" where there are only values.
    key
        What the random points of restarts follow from.
    given
        The names of the parameters that the user has set.
    """

    def __init__(self, phases: tuple[str, ...], *, gradients: str, key: list[int], given: frozenset[str]) -> None:
        self.phases, self.gradients, self.key, self.given = phases, gradients, key, given
        self.replay_log = ReplayLog()
        self.phase = ""
        """What goes on at present: a homotopy, a polish, or neither."""
        self.until: int | None = None
        """The iteration that ends the present homotopy."""
        self.retreats = 0
        """How often it has been begun again."""

    def conversation(self, run: Run) -> Generator[Any, Any, None]:
        """All phases, until the budget is spent or nothing is left to do."""
        x0, t1 = run.x0[0].astype(float), float(run.t1[0])
        assert run.limits.max_evals is not None
        budget = self.left = run.limits.max_evals - run.looked - run.reserve
        gradient = 2 if self.gradients else x0.size + 1
        smooths = "homotopy" in self.phases
        polishes = "local_search" in self.phases and (budget >= LEAST * gradient or not smooths)
        if smooths and polishes and "landscape" in self.phases and (lines := affordable_lines(budget)):
            eps = float(np.finfo(run.whole.x.dtype).eps)
            yield from self.asked(run, _looked(x0, self.anywhere(run, lines), eps))
        if self.noisy:
            self.rank(run)
        if not polishes or self.noisy:
            end = yield from self.homotopy(run, x0, t1, self.left)
            if end.note < 0:
                run.stop(Status.NONFINITE)
        elif not smooths:
            yield from self.polish(run, x0)
            yield from self.elsewhere(run, gradient)
        elif self.verdict is Landscape.RUGGED:
            kept = int(max(KEPT * budget, min(ENOUGH * gradient, MOST * budget)))
            yield from self.homotopy(run, x0, t1, self.left - kept)
            yield from self.polish(run, self.lowest(run).x)
            while "restarts" in self.phases and self.left > WORTH * gradient:
                before = self.lowest(run)
                end = yield from self.homotopy(run, before.x, NEARER * t1, int(MORE * self.left))
                if not end.note:
                    break
                if (lowest := self.lowest(run)).fun < before.fun:
                    yield from self.polish(run, lowest.x)
        else:
            yield from self.polish(run, x0)
            if self.left > AGAIN * gradient:
                share = SECOND if "restarts" in self.phases else 1 - KEPT
                end = yield from self.homotopy(run, x0, t1, int(share * self.left))
                yield from self.polish(run, end.x)
            yield from self.elsewhere(run, gradient)

    @property
    def verdict(self) -> Landscape | None:
        """Of the look, where there was one."""
        return next((Landscape(o.note) for o in self.replay_log.outcomes if o.phase == "landscape"), None)

    @property
    def noisy(self) -> bool:
        """Whether f has answered differently at the same point."""
        return self.verdict is Landscape.NOISY

    def rank(self, run: Run) -> None:
        """Have the homotopy go by ranks, which no outlier impresses; a compiled loop stays what it is."""
        method: Any = run.plan.method
        if run.loop is None and hasattr(method.oracle, "values"):
            oracle = dataclasses.replace(method.oracle, values="ranks")
            run.plan = dataclasses.replace(run.plan, method=dataclasses.replace(method, oracle=oracle))

    def count(self, phase: str) -> int:
        """How many homotopies, or local searches, there have been."""
        ended = sum(o.phase == phase and (phase != "homotopy" or o.note != 0) for o in self.replay_log.outcomes)
        return ended + (self.phase == phase)

    def lowest(self, run: Run) -> Outcome:
        """The lowest point so far, remembered like a phase, since the run goes on to lower ones."""
        if self.replay_log.skips:
            return self.skip()
        return self.done(run, Outcome("restarts", run.whole.x_best[0].astype(float), float(run.whole.f_best[0])))

    def elsewhere(self, run: Run, gradient: int) -> Generator[Any, Any, None]:
        """Polish from points anywhere, as long as the budget lasts and is used."""
        before = self.left + 1
        while "restarts" in self.phases and gradient < self.left < before:
            before = self.left
            yield from self.polish(run, self.anywhere(run, 1)[0])

    def anywhere(self, run: Run, n: int) -> NDArray[Any]:
        """n points of the region (n, d), others after each phase."""
        x0, source = run.x0[0].astype(float), np.random.default_rng([*self.key, len(self.replay_log.outcomes)])
        most = float(np.finfo(run.whole.x.dtype).max)
        far = np.clip(x0 + WIDE * float(run.t1[0]) * source.standard_normal((n, x0.size)), -most, most)
        if run.box is None:
            return np.asarray(far)
        low, high = run.box.low.astype(float), run.box.high.astype(float)
        bounded = np.isfinite(low) & np.isfinite(high)
        width = np.where(bounded, high, 0.0) - np.where(bounded, low, 0.0)
        share = source.random((n, x0.size))
        within = np.where(bounded, low, 0.0) + share * width
        within = np.where(np.isfinite(within), within, (1 - share) * low + share * high)  # the width may overflow
        return np.asarray(np.where(bounded, within, np.clip(far, low, high)))

    def homotopy(self, run: Run, x: NDArray[Any], t: float, evals: int) -> Generator[Any, Any, Outcome]:
        """Lower x and t together by so many evaluations; where it ends, and f there."""
        if self.replay_log.skips:
            return self.skip()
        kept = self.left - evals
        while True:
            if self.until is None and not self.begin(run, x, t, evals):
                return self.done(run, Outcome("homotopy", x, np.inf))
            self.phase = "homotopy"
            while run.active.size and run.k < (self.until or 0):
                run.check_limits()
                yield from run.unbroken(advance(run) if run.loop else iterate(run))
            run.gather()
            if run.active.size:
                break
            status, nothing = Status(int(run.status[0])), not np.isfinite(run.whole.f_best[0])
            if status != Status.NONFINITE or (self.retreats == RETREATS and nothing):
                run.stop(status)
            run.revive()
            if self.retreats == RETREATS:
                return self.done(run, Outcome("homotopy", x, np.inf, -1))
            self.retreats += 1
            self.until, t, evals = None, float(run.whole.t[0]) / 10, run.affordable - kept
        end = run.inside(run.whole.x)[0].astype(float)
        if self.noisy or run.affordable + run.reserve < 1:
            return self.done(run, Outcome("homotopy", end, np.inf, 1))
        return (yield from self.asked(run, _valued(end)))

    def begin(self, run: Run, x: NDArray[Any], t: float, evals: int) -> bool:
        """Put a new homotopy into the run's state; False where no iteration is affordable."""
        method, whole = run.plan.method, run.whole
        T = evals // method.oracle.cost(True, run.plan.ctx)
        if T < 1:
            return False
        schedule: Any = method.schedule
        update: Any = method.update
        fall = schedule.fall if "fall" in self.given else None
        if schedule.t_end is not None:
            fall = min(1.0, schedule.t_end / t)
        pace = choose_pace(method.oracle, x.size, T, fall)
        if "alpha" not in self.given:
            update = dataclasses.replace(update, alpha=pace.alpha)
        schedule = dataclasses.replace(schedule, fall=pace.fall, t_end=None, iterations=T)
        first, start = np.full_like(whole.t, t), np.asarray(x, whole.x.dtype)[None]
        run.go_on_from(
            whole._replace(
                x=start,
                t=first,
                schedule=schedule.init(first, np.minimum(whole.floor, first), np),
                update=update.init(start, np),
                bad=np.zeros_like(first),
            )
        )
        self.until = run.k + T
        return True

    def polish(self, run: Run, x: NDArray[Any]) -> Generator[Any, Any, Outcome]:
        """A local solver from x with all that is left."""
        self.phase = "local_search"
        dtype = run.whole.x.dtype
        low, high = np.full(x.size, -np.inf), np.full(x.size, np.inf)
        if run.box is not None:
            low, high = run.box.low.astype(float), run.box.high.astype(float)
        unit = UNIT * float(run.t1[0]) * first_widths(run.box, x.size)
        place = Place(x=np.asarray(x, float), unit=unit, low=low, high=high, dtype=dtype)
        incumbent = min((o.fun for o in self.replay_log.outcomes), default=np.inf)
        return (yield from self.asked(run, _polished(place, self.left, incumbent, gradients=bool(self.gradients))))

    def asked(self, run: Run, talk: Generator[Request, Any, Outcome]) -> Generator[Any, Any, Outcome]:
        """A phase on the host: its requests are put to the user's function, or answered from a checkpoint."""
        if self.replay_log.skips:
            return self.skip()
        answer = None
        try:
            while True:
                request = talk.send(answer)
                answer = self.replay_log.repeat() if self.replay_log.repeats else (yield from self.ask(run, request))
        except StopIteration as end:
            return self.done(run, end.value)
        finally:
            talk.close()

    def ask(self, run: Run, request: Request) -> Generator[Any, Any, NDArray[Any]]:
        """Put one request to the user's function, and do what follows from the answer."""
        seconds, dtype = run.limits.max_seconds, run.whole.x.dtype
        _stop_at_target(run)
        if seconds is not None and run.elapsed() >= seconds:
            run.stop(Status.MAX_SECONDS)
        points = request.points.astype(dtype)
        t = run.backend.native(np.zeros((1, 1), dtype)) if self.gradients == "F.grad" else None
        what = self.gradients if request.gradient else "fun" if t is None else "F"
        raw = yield from run.unbroken(_once(Query(what, run.backend.native(points[None]), t=t)))
        values = self.replay_log.heard(np.asarray(run.backend.host(raw)[0], float))
        run.mark()  # the replay_log has the answer now, also if the callback raises
        stopped = False
        if not request.gradient:
            run.evaluated(points, values)
            if request.stands:
                stopped = self.iterated(run, points[:1], values[:1].astype(dtype))
        run.mark()
        _stop_at_target(run)
        run.after_contact(stopped=stopped)
        return values

    def iterated(self, run: Run, x: NDArray[Any], fun: NDArray[Any]) -> bool:
        """Book a step of a local solver as an iteration at t = 0; whether the callback asks to stop."""
        run.k += 1
        zero = np.zeros_like(run.whole.t)
        if run.history.wants(run.k - 1):
            figures = {"fun": fun, "t": zero, "fun_best": run.whole.f_best} | ({"x": x} if run.history.with_x else {})
            run.history.record(Row(run.k - 1, run.nfev, run.active, figures))
        return run.called_back(x, fun, zero)

    def skip(self) -> Outcome:
        """What a phase found that had ended before the checkpoint."""
        outcome, self.phase = self.replay_log.skip(), ""
        self.left = outcome.left
        return outcome

    def done(self, run: Run, outcome: Outcome) -> Outcome:
        """Book the end of a phase."""
        self.left, self.phase, self.until, self.retreats = run.affordable, "", None, 0
        return self.replay_log.end(outcome._replace(left=self.left))

    def saved(self) -> dict[str, NDArray[Any]]:
        """What `load` goes on from."""
        return self.replay_log.saved() | {"now": np.array([-1 if self.until is None else self.until, self.retreats])}

    def load(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Go on from what was `saved`."""
        self.replay_log.load(arrays)
        until, self.retreats = arrays["now"].tolist()
        self.until = None if until < 0 else until

    def story(self) -> str:
        """What was seen and done, in words."""
        seen = "" if self.verdict is None else f"f looked {self.verdict.name.lower()}"
        names = {"homotopy": ("homotopy", "homotopies"), "local_search": ("local search", "local searches")}
        counted = ((self.count(phase), words) for phase, words in names.items())
        done = ", ".join(f"{n} {words[n != 1]}" for n, words in counted if n)
        return ": ".join(filter(None, (seen, done)))


def _stop_at_target(run: Run) -> None:
    if run.limits.target is not None and run.whole.f_best[0] <= run.limits.target:
        run.stop(Status.TARGET)


def _once(query: Query) -> Generator[Query, Any, Any]:
    return (yield query)


def _looked(x: NDArray[Any], ends: NDArray[Any], eps: float) -> Generator[Request, Any, Outcome]:
    """The look, as a phase."""
    verdict = yield from look(x, ends, eps)
    return Outcome("landscape", x, np.inf, int(verdict))


def _valued(x: NDArray[Any]) -> Generator[Request, Any, Outcome]:
    """f where a homotopy has ended."""
    value = float((yield Request(x[None]))[0])
    return Outcome("homotopy", x, value if np.isfinite(value) else np.inf, 1)


def _polished(place: Place, budget: int, incumbent: float, *, gradients: bool) -> Generator[Request, Any, Outcome]:
    """The polish, as a phase."""
    found = yield from polish(place, budget, incumbent, gradients=gradients)
    return Outcome("local_search", found.x, found.fun, int(found.converged))


def read_phases(phases: Any) -> tuple[str, ...]:
    """The names of the phases, in the order of PHASES."""
    named = (phases,) if isinstance(phases, str) else tuple(phases)
    for name in named:
        checks.choice("phases", name, list(PHASES))
    if not {"homotopy", "local_search"} & set(named):
        raise ValueError(f"`phases` must have 'homotopy' or 'polish' among them, got {named!r}.")
    return tuple(name for name in PHASES if name in named)
