"""The phases of "auto" for a single problem: landscape, homotopy, local search, and restarts with what is left.

The landscape decides the order. A smooth f gets a local search first, and a homotopy if that ends early. A rugged f
gets a homotopy first, and a local search at the end. A noisy f gets no local search. A small budget in few variables
has neither landscape nor homotopy, but the searches of `wide_search.py`. With a large budget, each phase has a bounded
share, and restarts of several kinds compete for the rest. With gradients, basin hops and homotopies compete.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Generator
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slgh.auto import basin_hops, restarts
from slgh.auto.basin_hops import Hops
from slgh.auto.contest import Contest, after_turn
from slgh.auto.covariance import (
    CovarianceEnd,
    Incumbent,
    SampleSpace,
    covariance_homotopy,
    default_samples,
    learning_cost,
)
from slgh.auto.defaults import choose_pace
from slgh.auto.evaluation import Evaluating, Evaluation
from slgh.auto.hop_search import hop_search
from slgh.auto.landscape import Landscape, affordable_lines, check_landscape
from slgh.auto.local_search import UNIT, LocalMinimum, SearchRegion, local_search
from slgh.auto.replay_log import PhaseOutcome, ReplayLog
from slgh.auto.restarts import Kind
from slgh.auto.slowdown import end_if_slow
from slgh.auto.wide_search import FIRST_RADIUS, HOP, HOP_RADIUS, is_small, wide_search
from slgh.engine.arguments import PHASES
from slgh.engine.checkpoint import Arrays
from slgh.engine.config import RunConfig
from slgh.engine.requests import Request
from slgh.engine.run import Run
from slgh.engine.termination import Status, first_counters
from slgh.result import Phase
from slgh.schedules import Budget
from slgh.updates import ScaleFree

# The shares below are round numbers that did well on the training functions of benchmarks/coco.py. No search was made.

LOCAL_SEARCH_MIN_GRADIENTS = 10
"""Minimum budget for a local search, in gradient evaluations. With less there is the homotopy alone."""

RUGGED_LOCAL_SHARE = 0.12
"""Share of the budget kept for the local search of a rugged f."""

RUGGED_LOCAL_MIN_GRADIENTS = 15
"""Minimum budget for the local search of a rugged f, in gradient evaluations, up to RUGGED_LOCAL_MAX_SHARE."""

RUGGED_LOCAL_MAX_SHARE = 0.3
"""Maximum share of the budget that RUGGED_LOCAL_MIN_GRADIENTS may keep."""

SECOND_HOMOTOPY_MIN_GRADIENTS = 30
"""After the first minimum of a smooth f, a homotopy follows if this many gradient evaluations are left."""

SECOND_HOMOTOPY_SHARE = 0.4
"""Share of the evaluations left that this homotopy gets."""

RESTART_MIN_GRADIENTS = 6
"""After the local search of a rugged f, another homotopy follows if this many gradient evaluations are left."""

RESTART_RADIUS = 0.2
"""First t of this homotopy, which starts from the best point, as a share of t1."""

RESTART_SHARE = 0.7
"""Share of the evaluations left that this homotopy gets."""

RUGGED_HOMOTOPY_SHARE = 0.3
"""Share of the budget for the first homotopy of a rugged f if basin hops follow."""

TURNS = 10
"""Number of turns of the contest between basin hops and homotopies, if each has the same length."""

SLOWDOWN_MIN_VARIABLES = 100
"""Minimum number of variables for a local search that ends if it has slowed down. In 20 and 40 variables, the landscape
check sees the ripples, and ending the search made the smooth training functions worse."""

SLOWDOWN_MIN_GRADIENTS, SLOWDOWN_MAX_GRADIENTS = 40, 80
"""Budgets of such a local search, in gradient evaluations. With less it descends still, with more it converges."""

LARGE_BUDGET = 1.5
"""A budget is large from this many times the cost of learning a metric. Covariance homotopies then take part."""

LARGE_SMOOTH_SHARE = 0.35
"""Maximum share of a large budget for the first local search of a smooth f."""

LARGE_RUGGED_SHARE = 0.6
"""Maximum share of a large budget for the first homotopy of a rugged f."""

LARGE_RUGGED_EVALS_PER_SQUARE = 120
"""Maximum evaluations of this homotopy, times d^2. In 2 variables it is no better than restarts, in 20 it is."""

LARGE_RUGGED_EVALS_PER_VARIABLE = 1000
"""Another maximum, times d. Longer homotopies end hardly lower."""

REFINE_RADIUS_CONVERGED = 1e-5
"""First t of the covariance homotopy that follows the first local search, in units of t1, if f is smooth and the search
has converged. If it has reached the minimum, the homotopy ends soon. If it has not, t grows again."""

REFINE_RADIUS = 0.01
"""The same if f is rugged, or the search has not converged."""

GLOBAL_MAX_VARIABLES = 3
"""In up to this many variables the first t is t1 if f is rugged: a second look at the whole region pays more than the
last digits."""

REFINE_SHARE = 0.8
"""Maximum share of the evaluations left for this homotopy, but it gets at least the cost of learning a metric."""

RACE_SHARE = 0.25
"""Maximum share of the evaluations left for one restart of a local search, but it gets RACE_MIN_GRADIENTS."""

RACE_MIN_GRADIENTS = 30
"""Minimum budget of this local search, in gradient evaluations. Most end before."""

MIN_GAIN = 1e-9
"""A restart that lowers f by no more than this, relative to its size, has found nothing new."""

HOP_STREAM, RESTART_STREAM, COVARIANCE_STREAM = 1, 1, 2
"""Numbers of the random streams of a phase. The random points of the region have none."""

MAX_RETREATS = 3
"""A homotopy that meets no finite value starts again from a tenth of its t, at most this often."""

REGION_RADIUS = 1.6
"""Standard deviation of random points per variable, in units of t1, if there are no bounds. They are then about as far
away as uniform points of a box, of which t1 is a quarter."""


class HomotopyEnd(IntEnum):
    """End of a homotopy, in the `note` of its outcome. A checkpoint holds these numbers."""

    NONFINITE = -1
    """It met no usable value, even from smaller t."""
    NO_ITERATION = 0
    """The budget allowed none."""
    COMPLETED = 1


class Portfolio:
    """The Strategy of "auto". Its state is saved in checkpoints."""

    def __init__(self, config: RunConfig) -> None:
        assert config.phases is not None
        self.config = config
        self.enabled = config.phases
        """Phases that may run."""
        self.t1 = float(config.t1[0])
        self.log = ReplayLog()
        self.phase = ""
        """Current phase: a homotopy, a local search, or neither."""
        self.until: int | None = None
        """Last iteration of the current homotopy."""
        self.retreats = 0
        """Number of times that the current homotopy has started again, at a smaller t."""
        self.left = 0
        """Evaluations left after the last phase."""
        self.spare = 0
        """Evaluations reserved for the final value that phases may use, since they will know the value."""
        self.restarting = False
        """True after the phases from x0 and from the end of their homotopy."""
        self._ended: list[tuple[str, int]] = []
        """Name of each phase that has ended, and the iterations until then."""

    def phases(self, run: Run) -> Generator[Request, Any, None]:
        """Run all phases, until the budget is spent or nothing is left to do."""
        config = self.config
        x0, enabled = config.x0[0].astype(float), self.enabled
        max_evals = config.limits.max_evals or 0
        budget = self.left = max_evals - config.start_evals - config.reserve
        gradient_cost = 2 if run.has_gradients else x0.size + 1
        if not run.has_gradients and {"local_search", "restarts"} <= set(enabled) and is_small(max_evals, x0.size):
            yield from self._wide_searches(run)
            return
        use_homotopy = "homotopy" in enabled
        affordable = budget >= LOCAL_SEARCH_MIN_GRADIENTS * gradient_cost
        use_local_search = "local_search" in enabled and (affordable or not use_homotopy)
        if use_homotopy and use_local_search and "landscape" in enabled and (lines := affordable_lines(budget)):
            yield from self._run_phase(run, self._landscape(x0, lines))
        if self.noisy:
            run.use_ranks()
        if not use_local_search or self.noisy:
            end = yield from self._homotopy(run, x0, self.t1, self.left)
            if end.note == HomotopyEnd.NONFINITE:
                run.stop(Status.NONFINITE)
        elif run.has_gradients and "basin_hops" in enabled:
            yield from self._minimize_by_hops(run, x0, gradient_cost)
        elif self._is_large(run, budget):
            yield from self._minimize_at_length(run, x0, budget)
        elif self.landscape is Landscape.RUGGED:
            yield from self._minimize_rugged(run, x0, budget, gradient_cost)
        else:
            yield from self._first_local_search(run, x0, budget, gradient_cost)
            if use_homotopy and self.left > SECOND_HOMOTOPY_MIN_GRADIENTS * gradient_cost:
                share = SECOND_HOMOTOPY_SHARE if "restarts" in enabled else 1 - RUGGED_LOCAL_SHARE
                end = yield from self._homotopy(run, x0, self.t1, int(share * self.left))
                yield from self._local_search(run, end.x)
            yield from self._local_searches_elsewhere(run, gradient_cost)

    def _minimize_rugged(
        self, run: Run, x0: NDArray[Any], budget: int, gradient_cost: int
    ) -> Generator[Request, Any, None]:
        """Run a homotopy, a local search from the lowest point, and restarts there as long as the budget lasts."""
        least = min(RUGGED_LOCAL_MIN_GRADIENTS * gradient_cost, RUGGED_LOCAL_MAX_SHARE * budget)
        kept = max(RUGGED_LOCAL_SHARE * budget, least)
        yield from self._homotopy(run, x0, self.t1, self.left - int(kept))
        yield from self._local_search(run, self._lowest(run).x)
        self.restarting = True
        while "restarts" in self.enabled and self.left > RESTART_MIN_GRADIENTS * gradient_cost:
            before = self._lowest(run)
            end = yield from self._homotopy(run, before.x, RESTART_RADIUS * self.t1, int(RESTART_SHARE * self.left))
            if end.note == HomotopyEnd.NO_ITERATION:
                break
            if (lowest := self._lowest(run)).fun < before.fun:
                yield from self._local_search(run, lowest.x)

    def _wide_searches(self, run: Run) -> Generator[Request, Any, None]:
        """Search from x0, then in turn near the lowest point and from random points, until the budget is spent."""
        self.spare = self.config.reserve
        start = self._lowest(run)
        if self.left < 1:
            return
        yield from self._wide_search(run, start.x, None, start_value=start.fun)
        self.restarting = True
        before, n = self.left + 1, 0
        while 0 < self.left < before:
            before, n = self.left, n + 1
            lowest = min(self.log.outcomes, key=lambda o: o.fun)
            if n % 2:
                yield from self._wide_search(run, self._hop_from(lowest.x), lowest, radius=HOP_RADIUS)
            else:
                yield from self._wide_search(run, self._random_points(1)[0], lowest)

    def _minimize_by_hops(self, run: Run, x0: NDArray[Any], gradient_cost: int) -> Generator[Request, Any, None]:
        """Find a first minimum. Then let basin hops and homotopies compete for the budget."""
        use_homotopy, start = "homotopy" in self.enabled, x0
        if use_homotopy and self.landscape is Landscape.RUGGED:
            yield from self._homotopy(run, x0, self.t1, int(RUGGED_HOMOTOPY_SHARE * self.left))
            start = self._lowest(run).x
        found = yield from self._hop_search(run, start)
        hops, contest = basin_hops.first_hops(found.x, found.fun), Contest()
        self.restarting = True
        turn, before = self.left // TURNS, self.left + 1
        while gradient_cost <= self.left < before:  # each turn uses some of it
            before, best = self.left, hops.best.fun
            if not use_homotopy or contest.hops_are_next or self.left < SECOND_HOMOTOPY_MIN_GRADIENTS * gradient_cost:
                hops = yield from self._hops(run, hops, turn, gradient_cost)
                spent, decrease = before - self.left, _decrease(best, hops.best.fun)
                contest = dataclasses.replace(contest, hops=after_turn(contest.hops, spent, decrease))
            else:
                first = self.homotopies == 0
                x, t = (x0, self.t1) if first else (hops.best.x, RESTART_RADIUS * self.t1)
                end = yield from self._homotopy(run, x, t, min(turn, self.left))
                found = yield from self._hop_search(run, end.x, hops)
                hops = basin_hops.visit(hops, found.x, found.fun)
                spent, decrease = before - self.left, _decrease(best, hops.best.fun)
                contest = dataclasses.replace(contest, homotopy=after_turn(contest.homotopy, spent, decrease))

    def _hops(self, run: Run, hops: Hops, evals: int, gradient_cost: int) -> Generator[Request, Any, Hops]:
        """Hop until this many evaluations are spent."""
        config, end, before = self.config, self.left - evals, self.left + 1
        while max(gradient_cost, end) <= self.left < before:  # each hop uses some of it
            before = self.left
            rng = np.random.default_rng([*config.keys[0], len(self.log.outcomes), HOP_STREAM])
            hop = basin_hops.propose(hops, self._unit, self._random_points(1)[0], rng)
            start = np.where(np.isnan(hop.x), hops.current.x, hop.x)
            start = self._region(start).nearest(start)
            found = yield from self._hop_search(run, start, hops, hop.level, name="basin_hops")
            hops = basin_hops.after(hops, hop, found.x, found.fun, cost=before - self.left, converged=bool(found.note))
        return hops

    def _first_local_search(
        self, run: Run, x0: NDArray[Any], budget: int, gradient_cost: int
    ) -> Generator[Request, Any, None]:
        """Search from x0. If that slows down, let a homotopy from there have the rest of a small budget."""
        may_slow = (
            x0.size >= SLOWDOWN_MIN_VARIABLES
            and SLOWDOWN_MIN_GRADIENTS * gradient_cost <= budget < SLOWDOWN_MAX_GRADIENTS * gradient_cost
            and "homotopy" in self.enabled
            and not run.has_gradients
        )
        found = yield from self._local_search(run, x0, ends_if_slow=may_slow)
        if may_slow and not found.note and self.left > gradient_cost:
            evals = int((1 - RUGGED_LOCAL_SHARE) * self.left)
            yield from self._homotopy(run, found.x, RESTART_RADIUS * self.t1, evals)
            yield from self._local_search(run, self._lowest(run).x)

    def _is_large(self, run: Run, budget: int) -> bool:
        """Return True if covariance homotopies take part."""
        needed = LARGE_BUDGET * learning_cost(self.config.x0.shape[1])
        return budget >= needed and not run.has_gradients and {"covariance", "homotopy"} <= set(self.enabled)

    def _minimize_at_length(self, run: Run, x0: NDArray[Any], budget: int) -> Generator[Request, Any, None]:
        """Use a large budget. First comes what suits the landscape, with a bounded share. Then restarts compete."""
        d, rugged = x0.size, self.landscape is Landscape.RUGGED
        if rugged:
            most = min(LARGE_RUGGED_EVALS_PER_SQUARE * d, LARGE_RUGGED_EVALS_PER_VARIABLE) * d
            yield from self._homotopy(run, x0, self.t1, min(int(LARGE_RUGGED_SHARE * budget), most))
            yield from self._local_search(run, self._lowest(run).x, int(RUGGED_LOCAL_MAX_SHARE * budget))
            trusted, radius = False, REFINE_RADIUS if d > GLOBAL_MAX_VARIABLES else 1.0
        else:
            found = yield from self._local_search(run, x0, int(LARGE_SMOOTH_SHARE * budget))
            trusted = bool(found.note)
            radius = REFINE_RADIUS_CONVERGED if trusted else REFINE_RADIUS
        best = self._lowest(run)
        if not np.isfinite(best.fun):  # f may be finite nowhere, which a homotopy finds out
            yield from self._homotopy(run, x0, self.t1, int(LARGE_RUGGED_SHARE * self.left))
            best = self._lowest(run)
        # Without an incumbent, since near it the homotopy would soon be behind.
        nothing = Incumbent(best.x, np.inf, False)
        most = max(learning_cost(d), int(REFINE_SHARE * self.left))
        found = yield from self._covariance(run, best.x, radius * self.t1, default_samples(d), nothing, most)
        if "restarts" in self.enabled:
            yield from self._race(run, found, trusted=trusted)

    def _race(self, run: Run, found: PhaseOutcome, *, trusted: bool) -> Generator[Request, Any, None]:
        """Restart until the budget is spent. `found` is the outcome of the first covariance homotopy.

        `trusted`: local searches converge, so they get more at first.
        """
        self.restarting = True
        race, best, idle = restarts.begin(self.config.x0.shape[1], trusted=trusted), self._lowest(run), 0
        settled_at = np.inf  # lowest value at which a covariance homotopy has converged
        while self.left > 0 and idle < len(Kind):
            if found.phase == "covariance" and CovarianceEnd(found.note).settled:
                settled_at = min(settled_at, found.fun)
            kind, left = race.next(self.left), self.left
            incumbent = Incumbent(best.x, best.fun, settled_at <= best.fun)
            found = yield from self._restart(run, kind, race.count[Kind.GROWING], incumbent)
            now = self._lowest(run)
            race = race.after(kind, left - self.left, improved=best.fun - now.fun > MIN_GAIN * abs(best.fun))
            best, idle = now, idle + 1 if self.left == left else 0

    def _restart(self, run: Run, kind: Kind, growths: int, best: Incumbent) -> Generator[Request, Any, PhaseOutcome]:
        """Run one restart, after this number of restarts of the kind GROWING."""
        d = best.x.size
        if kind is Kind.HOMOTOPY:
            end = yield from self._homotopy(run, best.x, RESTART_RADIUS * self.t1, min(self.left, learning_cost(d)))
            if (lowest := self._lowest(run)).fun < best.fun:
                return (yield from self._local_search(run, lowest.x, self._race_share(d)))
            return end
        x = best.x if kind is Kind.NEAR else self._random_points(1)[0]
        if kind is Kind.LOCAL_SEARCH:
            return (yield from self._local_search(run, x, self._race_share(d)))
        rng = np.random.default_rng([*self.config.keys[0], len(self.log.outcomes), RESTART_STREAM])
        samples = restarts.choose_samples(kind, d, growths, self.left, rng)
        radius = restarts.choose_radius(kind, rng)
        return (yield from self._covariance(run, x, radius * self.t1, samples, best))

    def _race_share(self, d: int) -> int:
        """Return the maximum evaluations of a restart of a local search."""
        return min(self.left, max(int(RACE_SHARE * self.left), RACE_MIN_GRADIENTS * (d + 1)))

    @property
    def landscape(self) -> Landscape | None:
        """Landscape of f, if it was checked."""
        return next((Landscape(o.note) for o in self.log.outcomes if o.phase == "landscape"), None)

    @property
    def noisy(self) -> bool:
        """True if f has returned different values at the same point."""
        return self.landscape is Landscape.NOISY

    @property
    def homotopies(self) -> int:
        """Number of homotopies so far."""
        return self._count("homotopy")

    def _count(self, phase: str) -> int:
        """Count the phases of this name, including the current one, but no homotopies that did not fit."""
        ended = sum(
            o.phase == phase and (phase != "homotopy" or o.note != HomotopyEnd.NO_ITERATION) for o in self.log.outcomes
        )
        return ended + (self.phase == phase)

    @property
    def story(self) -> str:
        """Observations and phases so far, for the message."""
        seen = "" if self.landscape is None else f"f looked {self.landscape.name.lower()}"
        words = {
            "homotopy": ("homotopy", "homotopies"),
            "local_search": ("local search", "local searches"),
            "basin_hops": ("basin hop", "basin hops"),
            "covariance": ("covariance homotopy", "covariance homotopies"),
        }
        counted = ((self._count(phase), names) for phase, names in words.items())
        done = ", ".join(f"{n} {names[n != 1]}" for n, names in counted if n)
        return ": ".join(filter(None, (seen, done)))

    def _lowest(self, run: Run) -> PhaseOutcome:
        """Return the lowest point so far. It is logged like a phase, since a resumed run may know lower ones."""
        if (skipped := self._skip_phase()) is not None:
            return skipped
        best = run.state.full
        return self._end_phase(run, PhaseOutcome("restarts", best.x_best[0].astype(float), float(best.f_best[0])))

    def _local_searches_elsewhere(self, run: Run, gradient_cost: int) -> Generator[Request, Any, None]:
        """Search from random points, as long as the budget allows it and each search uses some of it."""
        self.restarting = True
        before = self.left + 1
        while "restarts" in self.enabled and gradient_cost < self.left < before:
            before = self.left
            yield from self._local_search(run, self._random_points(1)[0])

    def _random_points(self, n: int) -> NDArray[Any]:
        """Draw n points (n, d) around x0, uniformly between bounds. The points differ from phase to phase."""
        config, x0 = self.config, self.config.x0[0].astype(float)
        rng = np.random.default_rng([*config.keys[0], len(self.log.outcomes)])
        largest = float(np.finfo(config.dtype).max)
        far = np.clip(x0 + REGION_RADIUS * self.t1 * rng.standard_normal((n, x0.size)), -largest, largest)
        if config.box is None:
            return np.asarray(far)
        low, high = config.box.low.astype(float), config.box.high.astype(float)
        bounded = np.isfinite(low) & np.isfinite(high)
        width = np.where(bounded, high, 0.0) - np.where(bounded, low, 0.0)
        share = rng.random((n, x0.size))
        within = np.where(bounded, low, 0.0) + share * width
        within = np.where(np.isfinite(within), within, (1 - share) * low + share * high)  # the width may overflow
        return np.asarray(np.where(bounded, within, np.clip(far, low, high)))

    def _landscape(self, x0: NDArray[Any], lines: int) -> Evaluating[PhaseOutcome]:
        """Check the landscape along this many lines."""
        eps = float(np.finfo(self.config.dtype).eps)
        landscape = yield from check_landscape(x0, self._random_points(lines), eps)
        return PhaseOutcome("landscape", x0, np.inf, int(landscape))

    def _homotopy(self, run: Run, x: NDArray[Any], t: float, evals: int) -> Generator[Request, Any, PhaseOutcome]:
        """Shrink t while descending in x, with at most `evals` evaluations. Return the end point, and f there."""
        if (skipped := self._skip_phase()) is not None:
            return skipped
        kept = self.left - evals  # for later phases
        while True:
            # `until` is set if the run was resumed in the middle of this homotopy.
            if self.until is None and not self._begin_homotopy(run, x, t, evals):
                return self._end_phase(run, PhaseOutcome("homotopy", x, np.inf, HomotopyEnd.NO_ITERATION))
            self.phase = "homotopy"
            status = yield from run.iterate_until(self.until or 0)
            if status is Status.RUNNING:
                break
            found_nothing = not np.isfinite(run.state.full.f_best[0])
            if status is not Status.NONFINITE or (self.retreats == MAX_RETREATS and found_nothing):
                run.stop(status)
            run.revive()
            if self.retreats == MAX_RETREATS:
                return self._end_phase(run, PhaseOutcome("homotopy", x, np.inf, HomotopyEnd.NONFINITE))
            self.retreats += 1
            self.until, t, evals = None, float(run.state.full.t[0]) / 10, run.left - kept
        end = self.config.inside(run.state.full.x)[0].astype(float)
        if self.noisy or run.left + self.config.reserve < 1:
            return self._end_phase(run, PhaseOutcome("homotopy", end, np.inf, HomotopyEnd.COMPLETED))
        return (yield from self._run_phase(run, _value_at(end)))

    def _begin_homotopy(self, run: Run, x: NDArray[Any], t: float, evals: int) -> bool:
        """Begin a homotopy from x and t with at most `evals` evaluations. Return False if they allow no iteration."""
        method, full = self.config.step.method, run.state.full
        T = evals // method.oracle.cost(True, self.config.step.ctx)
        if T < 1:
            return False
        schedule, update = method.schedule, method.update
        # The parts of "auto", since phases are not for swapped ones.
        assert isinstance(schedule, Budget)
        assert isinstance(update, ScaleFree)
        fall = schedule.fall if "fall" in self.config.given else None
        if schedule.t_end is not None:
            fall = min(1.0, schedule.t_end / t)
        pace = choose_pace(method.oracle, x.size, T, fall)
        if "alpha" not in self.config.given:
            update = dataclasses.replace(update, alpha=pace.alpha)
        schedule = dataclasses.replace(schedule, fall=pace.fall, t_end=None, iterations=T)
        first, start = np.full_like(full.t, t), np.asarray(x, full.x.dtype)[None]
        run.restart(
            x=start,
            t=first,
            schedule=schedule.init(first, np.minimum(full.floor, first), np),
            update=update.init(start, np),
            counters=first_counters(first, np),
        )
        self.until = run.state.k + T
        return True

    def _covariance(
        self, run: Run, x: NDArray[Any], t: float, samples: int, incumbent: Incumbent, evals: int | None = None
    ) -> Generator[Request, Any, PhaseOutcome]:
        """Run a homotopy that learns a full metric. It ends by itself, or after `evals` evaluations."""
        self.phase = "covariance"
        config = self.config
        rng = np.random.default_rng([*config.keys[0], len(self.log.outcomes), COVARIANCE_STREAM])
        space = SampleSpace(x=x, t=t, widths=config.widths.astype(float), box=config.box, dtype=config.dtype)
        budget = self.left if evals is None else min(evals, self.left)

        def search() -> Evaluating[PhaseOutcome]:
            found = yield from covariance_homotopy(space, budget, incumbent, samples=samples, t1=self.t1, rng=rng)
            return PhaseOutcome("covariance", found.x, found.fun, int(found.end))

        return (yield from self._run_phase(run, search()))

    def _local_search(
        self, run: Run, x: NDArray[Any], evals: int | None = None, *, ends_if_slow: bool = False
    ) -> Generator[Request, Any, PhaseOutcome]:
        """Search locally from x, with at most `evals` evaluations, or all that are left.

        With `ends_if_slow` it ends once it has slowed down.
        """
        budget = self.left if evals is None else min(evals, self.left)
        region, incumbent = self._region(x), min((o.fun for o in self.log.outcomes), default=np.inf)
        gradients, policy = run.has_gradients, self.config.step.on_nonfinite
        search = local_search(region, budget, incumbent, gradients=gradients, on_nonfinite=policy)
        return (yield from self._run_search(run, end_if_slow(search, budget) if ends_if_slow else search))

    def _wide_search(
        self,
        run: Run,
        x: NDArray[Any],
        lowest: PhaseOutcome | None,
        *,
        radius: float = FIRST_RADIUS,
        start_value: float | None = None,
    ) -> Generator[Request, Any, PhaseOutcome]:
        """Search from x on quadratic models in a wide trust region, with at most all evaluations that are left."""
        incumbent = None if lowest is None else LocalMinimum(lowest.x, lowest.fun, converged=True)
        policy = self.config.step.on_nonfinite
        search = wide_search(
            self._region(x), self.left, incumbent, radius=radius, start_value=start_value, on_nonfinite=policy
        )
        return (yield from self._run_search(run, search))

    def _run_search(
        self, run: Run, search: Evaluating[LocalMinimum], name: str = "local_search"
    ) -> Generator[Request, Any, PhaseOutcome]:
        """Run a local search as a phase of this name."""

        def phase() -> Evaluating[PhaseOutcome]:
            found = yield from search
            return PhaseOutcome(name, found.x, found.fun, int(found.converged))

        self.phase = name
        return (yield from self._run_phase(run, phase()))

    def _hop_from(self, x: NDArray[Any]) -> NDArray[Any]:
        """Draw a point near x. It differs from phase to phase."""
        rng = np.random.default_rng([*self.config.keys[0], len(self.log.outcomes)])
        return np.asarray(self._region(x).nearest(x + HOP * self._unit * rng.standard_normal(x.size)))

    def _hop_search(
        self,
        run: Run,
        x: NDArray[Any],
        hops: Hops | None = None,
        level: float | None = None,
        name: str = "local_search",
    ) -> Generator[Request, Any, PhaseOutcome]:
        """Search locally from x with gradients. Given `hops`, stop early unless f gets below `level`."""
        policy = self.config.step.on_nonfinite
        limits: dict[str, float] = {}
        if hops is not None:
            limits = {"level": hops.current.fun if level is None else level, "best": hops.best.fun, "gap": hops.gap}
        search = hop_search(self._region(x), self.left, on_nonfinite=policy, **limits)
        return (yield from self._run_search(run, search, name))

    @property
    def _unit(self) -> NDArray[Any]:
        """Unit of length of a local search, (d,)."""
        return UNIT * self.t1 * self.config.widths

    def _region(self, x: NDArray[Any]) -> SearchRegion:
        """Return the region of a local search from x."""
        config = self.config
        low, high = np.full(x.size, -np.inf), np.full(x.size, np.inf)
        if config.box is not None:
            low, high = config.box.low.astype(float), config.box.high.astype(float)
        return SearchRegion(x=np.asarray(x, float), unit=self._unit, low=low, high=high, dtype=config.dtype)

    def _run_phase(self, run: Run, phase: Evaluating[PhaseOutcome]) -> Generator[Request, Any, PhaseOutcome]:
        """Run a phase. Its evaluations are done by the engine, or repeated from a checkpoint."""
        if (skipped := self._skip_phase()) is not None:
            return skipped
        try:
            evaluation = next(phase)
            while True:
                answer = self.log.repeated()
                if answer is None:
                    points, gradient, is_step, t, center = evaluation
                    answer = yield from run.evaluate(points, gradient=gradient)
                    self.log.append(answer)  # before `record`, which calls the user's callback
                    run.record(points, answer, is_step=is_step, t=t, center=center)
                evaluation = phase.send(answer)
        except StopIteration as end:
            return self._end_phase(run, end.value)
        finally:
            phase.close()

    def _skip_phase(self) -> PhaseOutcome | None:
        """Return the outcome of the next phase if it had ended in the checkpoint."""
        outcome = self.log.skipped()
        if outcome is not None:
            self.left, self.phase = outcome.left, ""
            self._note_end(outcome)
        return outcome

    def _end_phase(self, run: Run, outcome: PhaseOutcome) -> PhaseOutcome:
        """End a phase."""
        self.left, self.phase, self.until, self.retreats = run.left + self.spare, "", None, 0
        outcome = outcome._replace(left=self.left, nit=run.state.k)
        self._note_end(outcome)
        return self.log.end(outcome)

    def _note_end(self, outcome: PhaseOutcome) -> None:
        """Note for the timeline when a phase has ended."""
        self._ended.append(("restarts" if self.restarting else outcome.phase, outcome.nit))

    def timeline(self, nit: int) -> tuple[Phase, ...]:
        """Return the phases that have iterated, given the iterations so far; () if the ends of some are unknown."""
        current = "restarts" if self.restarting else self.phase
        ends = [*self._ended, (current, nit)]
        starts = [0, *(end for _, end in ends[:-1])]
        if min(starts) < 0:
            return ()
        return tuple(Phase(name, start, end) for start, (name, end) in zip(starts, ends, strict=True) if start < end)

    def save(self) -> Arrays:
        """Return the arrays that `load` continues from."""
        return self.log.save() | {"now": np.array([-1 if self.until is None else self.until, self.retreats])}

    def load(self, arrays: Arrays, d: int) -> None:
        """Continue from the arrays of `save`, for d variables."""
        self.log.load(arrays, d)
        for phase, note, *_ in arrays["numbers"].tolist():
            if PHASES[phase] == "landscape":
                Landscape(note)  # raises ValueError if the number is invalid
        until, self.retreats = arrays["now"].tolist()
        self.until = None if until < 0 else until


def _decrease(before: float, now: float) -> float:
    """Return the decrease of f, the largest number if there was no finite value before."""
    return min(before - now, float(np.finfo(float).max)) if now < before else 0.0


def _value_at(x: NDArray[Any]) -> Evaluating[PhaseOutcome]:
    """Evaluate f at the end of a homotopy."""
    value = float((yield Evaluation(x[None]))[0])
    return PhaseOutcome("homotopy", x, value if np.isfinite(value) else np.inf, HomotopyEnd.COMPLETED)
