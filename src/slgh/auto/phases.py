"""The phases of "auto": each runs a homotopy or a search of one kind within the budget, logs it, and can be resumed.

The engine does the evaluations and the iterations. The plans in `plans/` decide which phase comes next.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Generator
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slgh import checks
from slgh.auto.agreement import MAX_VALUES, agreed_values, search_agreed
from slgh.auto.basin_hops import Hops
from slgh.auto.covariance import CovarianceEnd, Incumbent, SampleSpace, covariance_homotopy
from slgh.auto.defaults import choose_pace
from slgh.auto.evaluation import Evaluating, Evaluation
from slgh.auto.hop_search import hop_search
from slgh.auto.landscape import Landscape, check_landscape
from slgh.auto.local_search import UNIT, LocalMinimum, SearchRegion, local_search
from slgh.auto.mixed_search import enumerate_points, mixed_search
from slgh.auto.quadratic_fit import Samples, fit_quadratic
from slgh.auto.repeated_values import SIGNAL_VALUES, average_at, race, signal_share
from slgh.auto.replay_log import LOGGED, PhaseOutcome, ReplayLog
from slgh.auto.side_by_side import side_by_side
from slgh.auto.slowdown import end_if_slow
from slgh.auto.wide_search import FIRST_RADIUS, wide_search
from slgh.engine.checkpoint import Arrays
from slgh.engine.config import RunConfig
from slgh.engine.report import Solution
from slgh.engine.requests import Request
from slgh.engine.run import Run
from slgh.engine.termination import SETTLED_PHASES, Status, first_counters, has_settled
from slgh.result import Phase
from slgh.schedules import Budget
from slgh.updates import ScaleFree

logger = logging.getLogger(__name__)

MAX_RETREATS = 3
"""A homotopy that meets no finite value starts again from a tenth of its t, at most this often."""

REGION_RADIUS = 1.6
"""Standard deviation of random points per variable, in units of t1, if there are no bounds. They are then about as far
away as uniform points of a box, of which t1 is a quarter."""

PLAN_STREAM, COVARIANCE_STREAM, SEARCH_STREAM, START_STREAM = 1, 2, 3, 4
"""Numbers of the random streams of a phase. The random points of the region have none."""


SAME_MINIMUM = 0.05
"""Points that differ by no more than this in each variable, in units of a local search, are one minimum. It is wider
than ROUGH_RADIUS of `wide_search`, at which searches may stop."""

DESCENTS = ("homotopy", "local_search", "basin_hops", "covariance")
"""Phases that may lower f. The tolerances compare the points before and after them."""


class HomotopyEnd(IntEnum):
    """End of a homotopy, in the `note` of its outcome. A checkpoint holds these numbers."""

    NONFINITE = -1
    """It met no usable value, even from smaller t."""
    NO_ITERATION = 0
    """The budget allowed none."""
    COMPLETED = 1


class Phases:
    """The phases of one run of "auto", and what they have found so far. Their state is saved in checkpoints."""

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

    @property
    def x0(self) -> NDArray[Any]:
        """The start, (d,): the best one if there are several."""
        return next((o.x for o in self.log.outcomes if o.phase == "starts"), self.config.x0[0].astype(float))

    def choose_start(self, run: Run) -> None:
        """Log the best of several starts. A resumed run may know lower points."""
        if self._skip_phase(run, "starts") is None:
            # One value says nothing of its noise, so it is no incumbent.
            self._end_phase(run, PhaseOutcome("starts", run.state.full.x_best[0].astype(float), np.inf))

    @property
    def landscape(self) -> Landscape | None:
        """Landscape of f, if it was checked."""
        return next((Landscape(o.note) for o in self.log.outcomes if o.phase == "landscape"), None)

    @property
    def noisy(self) -> bool:
        """True if f has returned different values at the same point."""
        return self.landscape is Landscape.NOISY or self.has_outliers

    @property
    def has_outliers(self) -> bool:
        """True if most values of f have no noise, but not all. Searches then use values that agree."""
        return self.landscape is not None and self.landscape.has_outliers

    @property
    def asynchronous(self) -> bool:
        """True if an iteration may be closed before all values have arrived."""
        return self.config.step.asynchronous

    @property
    def rugged(self) -> bool:
        """True if f has looked rugged."""
        return self.landscape is not None and self.landscape.rugged

    def iterations(self, evals: int) -> int:
        """Return the number of iterations of a homotopy with `evals` evaluations."""
        return evals // self.config.step.method.oracle.cost(True, self.config.step.ctx)

    @property
    def has_own_fall(self) -> bool:
        """True if the user has said how far t falls."""
        schedule = self.config.step.method.schedule
        return "fall" in self.config.given or (isinstance(schedule, Budget) and schedule.t_end is not None)

    @property
    def solution(self) -> Solution | None:
        """Best point of a noisy f, or None if nothing is known of its value."""
        if not self.noisy:
            return None
        known = [o for o in self.log.outcomes if np.isfinite(o.fun)]
        if known and known[-1].phase == "average":
            best = known[-1]
        elif known and self.has_outliers:
            best = min(known, key=lambda o: o.fun)
        else:
            return None
        return Solution(best.x, best.fun, best.error if np.isfinite(best.error) else np.nan)

    @property
    def violation(self) -> float | None:
        """Largest violation at the solution, None if there are no constraints."""
        return None

    @property
    def minima(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Distinct local minima so far, points (k, d) and values (k,), the lowest first."""
        found = sorted(self.log.minima, key=lambda minimum: minimum[1])
        points, values = np.empty((len(found), self.config.x0.shape[1])), np.empty(len(found))
        k, apart = 0, SAME_MINIMUM * self.unit
        for x, fun in found:
            if (np.abs(points[:k] - x) > apart).any(axis=1).all():
                points[k], values[k] = x, fun
                k += 1
        return points[:k], values[:k]

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
        seen = "" if self.landscape is None else f"f looked {self.landscape.words}"
        words = {
            "homotopy": ("homotopy", "homotopies"),
            "local_search": ("local search", "local searches"),
            "basin_hops": ("basin hop", "basin hops"),
            "covariance": ("covariance homotopy", "covariance homotopies"),
            "quadratic_fit": ("quadratic fit", "quadratic fits"),
            "enumeration": ("enumeration of all points", "enumerations"),
        }
        counted = ((self._count(phase), names) for phase, names in words.items())
        done = ", ".join(f"{n} {names[n != 1]}" for n, names in counted if n)
        return ": ".join(filter(None, (seen, done)))

    @property
    def _eps(self) -> float:
        """Machine epsilon of x."""
        return float(np.finfo(self.config.dtype).eps)

    @property
    def unit(self) -> NDArray[Any]:
        """Unit of length of a local search, (d,)."""
        return UNIT * self.t1 * self.config.widths

    def region(self, x: NDArray[Any]) -> SearchRegion:
        """Return the region of a local search from x."""
        config = self.config
        low, high = np.full(x.size, -np.inf), np.full(x.size, np.inf)
        if config.box is not None:
            low, high = config.box.low.astype(float), config.box.high.astype(float)
        ftol = (config.tolerances.ftol if config.tolerances else None) or 0.0
        return SearchRegion(x=np.asarray(x, float), unit=self.unit, low=low, high=high, dtype=config.dtype, ftol=ftol)

    def use_reserve(self) -> None:
        """Let phases use the evaluations reserved for the final value, since they will know that value."""
        self.spare = self.config.reserve

    @property
    def width(self) -> int:
        """Number of points that a round of parallel evaluations should have."""
        return self.config.width

    def rng(self, *stream: int) -> np.random.Generator:
        """Return random numbers that differ from phase to phase, and from stream to stream."""
        return np.random.default_rng([*self.config.keys[0], len(self.log.outcomes), *stream])

    def random_points(self, n: int, *stream: int) -> NDArray[Any]:
        """Draw n points (n, d) around x0, uniformly between bounds.

        The points differ from phase to phase, and from stream to stream.
        """
        config, x0 = self.config, self.x0
        rng = self.rng(*stream)
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

    def lowest(self, run: Run) -> PhaseOutcome:
        """Return the lowest point so far. It is logged like a phase, since a resumed run may know lower ones."""
        if (skipped := self._skip_phase(run, "restarts")) is not None:
            return skipped
        if self.has_outliers:  # the lowest value is luck
            found = [o for o in self.log.outcomes if np.isfinite(o.fun)]
            best_x, best_fun = self.x0, np.inf
            if found:
                lowest = min(found, key=lambda o: o.fun)
                best_x, best_fun = lowest.x, lowest.fun
            return self._end_phase(run, PhaseOutcome("restarts", best_x, best_fun))
        best = run.state.full
        return self._end_phase(run, PhaseOutcome("restarts", best.x_best[0].astype(float), float(best.f_best[0])))

    def check_landscape(self, run: Run, lines: int) -> Generator[Request, Any, PhaseOutcome]:
        """Check along this many lines if f is smooth, rugged, singular or noisy."""

        def phase() -> Evaluating[PhaseOutcome]:
            gradients = run.has_gradients
            landscape = yield from check_landscape(self.x0, self.random_points(lines), self._eps, gradients=gradients)
            return PhaseOutcome("landscape", self.x0, np.inf, int(landscape))

        return (yield from self._run_phase(run, phase(), "landscape"))

    def homotopy(
        self, run: Run, x: NDArray[Any], t: float, evals: int, *, share: float | None = None
    ) -> Generator[Request, Any, PhaseOutcome]:
        """Shrink t while descending in x, with at most `evals` evaluations. Return the end point, and f there.

        `share`: share of the fastest possible fall of t that is used, by default that of `choose_pace`.
        """
        if (skipped := self._skip_phase(run, "homotopy")) is not None:
            return skipped
        evals = self._most_evals(evals) - self._value_evals
        kept = self.left - evals  # for later phases
        while True:
            # `until` is set if the run was resumed in the middle of this homotopy.
            if self.until is None and not self._begin_homotopy(run, x, t, evals, share):
                return self._end_phase(run, PhaseOutcome("homotopy", x, np.inf, HomotopyEnd.NO_ITERATION))
            logger.info("Begin homotopy: t = %.3g, up to iteration %s", t, self.until)
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
        # A single point would keep all other workers of an asynchronous run waiting.
        unknown = (self.noisy and not self.has_outliers) or self.asynchronous
        if unknown or run.left + self.config.reserve < 1:
            return self._end_phase(run, PhaseOutcome("homotopy", end, np.inf, HomotopyEnd.COMPLETED))
        found = PhaseOutcome("homotopy", end, np.inf, HomotopyEnd.COMPLETED)
        return (yield from self._run_phase(run, self._with_value(found), "homotopy"))

    def _most_evals(self, evals: int) -> int:
        """Return the maximum number of evaluations of a homotopy, which `evals` of the plan are not to exceed.

        With tolerances, max_evals is a limit that the run may never reach, and no measure of the effort. After a search
        has converged, a homotopy then gets as many evaluations as the run has used so far.
        """
        if self.config.tolerances is None or not any(map(_has_converged, self.log.outcomes)):
            return evals
        assert self.config.limits.max_evals is not None
        return min(evals, self.config.limits.max_evals - self.left)

    @property
    def _value_evals(self) -> int:
        """Evaluations that are kept for f at the end of a homotopy if it has outliers."""
        return MAX_VALUES if self.has_outliers else 0

    def _with_value(self, outcome: PhaseOutcome) -> Evaluating[PhaseOutcome]:
        """Evaluate f at the point of an outcome, with outliers until two values agree. Bad values count as infinite."""
        point = Evaluation(outcome.x[None])
        if self.has_outliers:
            value = float((yield from agreed_values(point, self._eps)).values[0])
        else:
            value = float((yield point)[0])
        return outcome._replace(fun=value if np.isfinite(value) else np.inf)

    def _begin_homotopy(self, run: Run, x: NDArray[Any], t: float, evals: int, share: float | None) -> bool:
        """Begin a homotopy from x and t with at most `evals` evaluations. Return False if they allow no iteration."""
        method, full = self.config.step.method, run.state.full
        T = self.iterations(evals)
        if T < 1:
            return False
        schedule, update = method.schedule, method.update
        # The parts of "auto", since phases are not for swapped ones.
        assert isinstance(schedule, Budget)
        assert isinstance(update, ScaleFree)
        fall = schedule.fall if "fall" in self.config.given else None
        if schedule.t_end is not None:
            fall = min(1.0, schedule.t_end / t)
        pace = choose_pace(method.oracle, x.size, T, fall, share)
        if "alpha" not in self.config.given:
            update = dataclasses.replace(update, alpha=pace.alpha)
        schedule = dataclasses.replace(schedule, fall=pace.fall, t_end=None, iterations=T)
        first, start = np.full_like(full.t, t), np.asarray(x, full.x.dtype)[None]
        run.restart(
            x=start,
            t=first,
            schedule=schedule.init(first, np.minimum(full.floor, first), np),
            update=update.init(start, np),
            counters=first_counters(start, first, np),
        )
        self.until = run.state.k + T
        return True

    def covariance(
        self, run: Run, x: NDArray[Any], t: float, samples: int, incumbent: Incumbent, evals: int | None = None
    ) -> Generator[Request, Any, PhaseOutcome]:
        """Run a homotopy that learns a full metric. It ends by itself, or after `evals` evaluations.

        There are more `samples` if that many do not fill a round.
        """
        self.phase, samples = "covariance", max(samples, self.width)
        config = self.config
        cells = config.space.cells if config.space is not None and config.space.discrete else None
        space = SampleSpace(
            x=x, t=t, widths=config.widths.astype(float), box=config.box, dtype=config.dtype, cells=cells
        )
        rng = self.rng(COVARIANCE_STREAM)
        budget = self.left if evals is None else min(evals, self.left)

        def search() -> Evaluating[PhaseOutcome]:
            most = budget - self._value_evals
            found = yield from covariance_homotopy(
                space, most, incumbent, samples=samples, t1=self.t1, rng=rng, asynchronous=self.asynchronous
            )
            if not self.has_outliers:
                if found.end.settled and np.isfinite(found.fun):
                    self.log.minima.append((found.x, found.fun))
                return PhaseOutcome("covariance", found.x, found.fun, int(found.end))
            last = PhaseOutcome("covariance", found.center, np.inf, int(found.end))
            return (yield from self._with_value(last)) if most >= samples else last

        return (yield from self._run_phase(run, search(), "covariance"))

    def check_signal(self, run: Run, x: NDArray[Any], t: float, least: float) -> Generator[Request, Any, PhaseOutcome]:
        """Measure the share of signal in the values around x at distance t. `note` is 1 if it is at least `least`."""
        z = self.rng(PLAN_STREAM).standard_normal((SIGNAL_VALUES, x.size))
        around = self.config.inside(np.asarray(x + t * self.config.widths * z, self.config.dtype)).astype(float)

        def search() -> Evaluating[PhaseOutcome]:
            share = yield from signal_share(x, around)
            return PhaseOutcome("noise_level", x, np.inf, int(share >= least))

        return (yield from self._run_phase(run, search(), "noise_level"))

    def quadratic_fit(
        self, run: Run, x: NDArray[Any], radius: float, samples: Samples
    ) -> Generator[Request, Any, PhaseOutcome]:
        """Fit a quadratic model to values around x, and return its minimum within about this radius."""
        region, scale = self.region(x), radius * self.config.widths.astype(float)
        half = self.rng(PLAN_STREAM).standard_normal(((samples.n + 1) // 2, x.size))
        points = region.nearest(
            x + scale * np.concatenate([half, -half])[: min(samples.n, self.left)]
        )  # pairs, as in a homotopy

        def search() -> Evaluating[PhaseOutcome]:
            values = yield Evaluation(points)
            z = fit_quadratic((points - x) / scale, values, full=samples.full)
            return PhaseOutcome("quadratic_fit", region.nearest(x + scale * z) if np.isfinite(z).all() else x, np.inf)

        return (yield from self._run_phase(run, search(), "quadratic_fit"))

    def race(self, run: Run, old: NDArray[Any], new: NDArray[Any], evals: int) -> Generator[Request, Any, PhaseOutcome]:
        """Return the better one of two points. `note` of the outcome is 1 if it is the new one."""
        budget = min(evals, self.left)

        def search() -> Evaluating[PhaseOutcome]:
            won = yield from race(old, new, budget)
            return PhaseOutcome("race", new if won else old, np.inf, int(won))

        return (yield from self._run_phase(run, search(), "race"))

    def average(self, run: Run, x: NDArray[Any]) -> Generator[Request, Any, PhaseOutcome]:
        """Spend all evaluations that are left on the average of f at x."""
        evals = self.left

        def search() -> Evaluating[PhaseOutcome]:
            value, error = yield from average_at(x, evals)
            return PhaseOutcome("average", x, value, error=error)

        return (yield from self._run_phase(run, search(), "average"))

    def local_search(
        self,
        run: Run,
        x: NDArray[Any],
        evals: int | None = None,
        *,
        ends_if_slow: bool = False,
        spread: float | None = None,
        endless: bool = False,
    ) -> Generator[Request, Any, PhaseOutcome]:
        """Search locally from x, with at most `evals` evaluations, or all that are left.

        Parameters
        ----------
        ends_if_slow
            True if the search ends once it has slowed down.
        spread
            If points are evaluated in parallel, further searches fill the rounds. They begin at normal points around x
            with this standard deviation, in units of t1, or by default at random points of the region.
        endless
            True if such searches begin until the budget is spent.
        """
        budget = self.left if evals is None else min(evals, self.left)
        incumbent = min((o.fun for o in self.log.outcomes), default=np.inf)
        gradients, policy = run.has_gradients, self.config.step.on_nonfinite
        left, width = self._values(budget), self.width

        def begin(n: int, lowest: float) -> Evaluating[LocalMinimum]:
            start = x if n == 0 else self._other_start(x, n, spread)
            search = local_search(
                self.region(start),
                left,
                min(incumbent, lowest),
                gradients=gradients,
                on_nonfinite=policy,
                width=width,
                rng=self.rng(SEARCH_STREAM, n) if width > 1 else None,
            )
            return end_if_slow(search, left) if ends_if_slow and n == 0 else search

        if width > 1 and not gradients:
            # A phase that only the budget ends would leave nothing to compare with the tolerances.
            endless = endless and self.config.tolerances is None
            search = side_by_side(x, begin, width, left, endless=endless)
        else:
            search = begin(0, np.inf)
        return (yield from self._run_search(run, self._exact(search, budget)))

    def _other_start(self, x: NDArray[Any], n: int, spread: float | None) -> NDArray[Any]:
        """Return where the n-th local search begins that fills the rounds of another one from x."""
        if spread is None:
            return np.asarray(self.random_points(1, START_STREAM, n)[0])
        step = spread * self.t1 * self.config.widths * self.rng(START_STREAM, n).standard_normal(x.size)
        return np.asarray(self.region(x).nearest(x + step))

    def _values(self, budget: int) -> int:
        """Return how many values a search may use. With outliers, two evaluations are the least that can agree."""
        return budget // 2 if self.has_outliers else budget

    def _exact(self, search: Evaluating[LocalMinimum], budget: int) -> Evaluating[LocalMinimum]:
        """Return the search, on values that agree if f has outliers."""
        return search_agreed(search, budget, self._eps) if self.has_outliers else search

    def wide_search(
        self,
        run: Run,
        x: NDArray[Any],
        lowest: PhaseOutcome | None,
        *,
        radius: float = FIRST_RADIUS,
        start_value: float | None = None,
        evals: int | None = None,
    ) -> Generator[Request, Any, PhaseOutcome]:
        """Search from x on quadratic models in a wide trust region, with at most `evals` evaluations, or all."""
        budget = self.left if evals is None else min(evals, self.left)
        incumbent = None if lowest is None else LocalMinimum(lowest.x, lowest.fun, converged=True)
        policy = self.config.step.on_nonfinite
        values, region = self._values(budget), self.region(x)
        search = wide_search(
            region,
            values,
            incumbent,
            radius=radius,
            start_value=start_value,
            on_nonfinite=policy,
            width=self.width,
            rng=self.rng(SEARCH_STREAM),
        )
        return (yield from self._run_search(run, self._exact(search, budget)))

    def mixed_search(
        self, run: Run, evals: int | None = None, *, surrogate: bool = False
    ) -> Generator[Request, Any, PhaseOutcome]:
        """Search from the lowest point, with discrete parameters, with at most `evals` evaluations, or all."""
        space, lowest = self.config.space, self.lowest(run)
        assert space is not None
        search = mixed_search(
            space,
            self.region(lowest.x),
            self.left if evals is None else min(evals, self.left),
            start_value=lowest.fun,
            on_nonfinite=self.config.step.on_nonfinite,
            width=self.width,
            surrogate=surrogate,
            rng=self.rng(SEARCH_STREAM),
        )
        return (yield from self._run_search(run, search))

    def enumeration(self, run: Run) -> Generator[Request, Any, PhaseOutcome]:
        """Evaluate f at all points of a finite search space."""
        space = self.config.space
        assert space is not None
        return (yield from self._run_search(run, enumerate_points(space, self.x0, self.width), "enumeration"))

    def hop_search(
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
        search = hop_search(self.region(x), self.left, on_nonfinite=policy, **limits)
        return (yield from self._run_search(run, search, name))

    def _run_search(
        self, run: Run, search: Evaluating[LocalMinimum], name: str = "local_search"
    ) -> Generator[Request, Any, PhaseOutcome]:
        """Run a local search as a phase of this name."""

        def phase() -> Evaluating[PhaseOutcome]:
            found = yield from search
            self.log.minima += [(minimum.x, minimum.fun) for minimum in found.minima]
            return PhaseOutcome(name, found.x, found.fun, int(found.converged))

        self.phase = name
        return (yield from self._run_phase(run, phase(), name))

    def _run_phase(self, run: Run, phase: Evaluating[PhaseOutcome], name: str) -> Generator[Request, Any, PhaseOutcome]:
        """Run a phase. Its evaluations are done by the engine, or repeated from a checkpoint."""
        if (skipped := self._skip_phase(run, name)) is not None:
            return skipped
        if name != "homotopy":  # of a homotopy, only the value at its end is a phase here
            logger.info("Begin %s: %d evaluations left", name, run.left)
        try:
            evaluation = next(phase)
            while True:
                answer = self.log.repeated()
                if answer is None:
                    answer = yield from run.evaluate(
                        evaluation.points, gradient=evaluation.gradient, samples=evaluation.samples
                    )
                    self.log.append(answer)  # before `record`, which calls the user's callback
                    self.record(run, evaluation, answer)
                evaluation = phase.send(answer)
        except StopIteration as end:
            return self._end_phase(run, end.value)
        finally:
            phase.close()

    def record(self, run: Run, evaluation: Evaluation, answer: NDArray[Any]) -> None:
        """Record the answer to an evaluation in the run."""
        points, _, is_step, t, center = evaluation
        run.record(points, answer, is_step=is_step, t=t, center=center)

    def _skip_phase(self, run: Run, name: str) -> PhaseOutcome | None:
        """Return the outcome of the next phase, which has this name, if it had ended in the checkpoint."""
        outcome = self.log.skipped()
        if outcome is not None and outcome.phase != name:
            raise checks.ArgumentValueError(
                f"`checkpoint` is of another version of slgh: its next phase is {outcome.phase!r}, not {name!r}. "
                "Continue it with that version, or start again with another file."
            )
        if outcome is not None:
            self.left, self.phase = outcome.left, ""
            self._note_end(outcome)
            self._stop_if_settled(run)
        return outcome

    def _end_phase(self, run: Run, outcome: PhaseOutcome) -> PhaseOutcome:
        """End a phase."""
        self.left, self.phase, self.until, self.retreats = run.left + self.spare, "", None, 0
        outcome = outcome._replace(left=self.left, nit=run.state.k)
        self._note_end(outcome)
        if outcome.phase != "restarts":  # only notes the lowest point
            value = f"f = {outcome.fun:.6g}, " if np.isfinite(outcome.fun) else ""
            logger.info("End %s: %s%d evaluations left", outcome.phase, value, self.left)
        self.log.end(outcome)
        self._stop_if_settled(run)
        return outcome

    def _stop_if_settled(self, run: Run) -> None:
        """End the run if the last phases have lowered f, or moved the lowest point, by no more than the tolerances."""
        tolerances, ended = self.config.tolerances, [o for o in self.log.outcomes if o.phase in DESCENTS]
        converged = next((i for i, o in enumerate(ended) if _has_converged(o)), len(ended))
        now = len(ended) - SETTLED_PHASES
        if tolerances is None or now <= converged:
            return
        before, best = (min(some, key=lambda o: o.fun) for some in (ended[:now], ended))
        if has_settled(tolerances, *((np.array([o.fun]), o.x[None]) for o in (before, best))).all():
            run.stop(Status.CONVERGED)

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
            if LOGGED[phase] == "landscape":
                Landscape(note)  # raises ValueError if the number is invalid
        until, self.retreats = arrays["now"].tolist()
        self.until = None if until < 0 else until


def _has_converged(outcome: PhaseOutcome) -> bool:
    """Return True if a phase has ended at a local minimum."""
    if outcome.phase == "covariance":
        return CovarianceEnd(outcome.note).settled
    return outcome.phase in ("local_search", "basin_hops") and outcome.note == 1
