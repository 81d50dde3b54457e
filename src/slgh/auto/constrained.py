"""The Strategy of "auto" under constraints: local searches, covariance homotopies and hops compete for the budget.

The best point is kept here, since the engine knows no violations: it gets feasible points only.
"""

from __future__ import annotations

from collections.abc import Generator
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slgh import checks
from slgh.auto.constrained_search import ConstrainedObjective, Target, constrained_search
from slgh.auto.covariance import Incumbent, SampleSpace, covariance_homotopy, default_samples
from slgh.auto.evaluation import Evaluating, Evaluation, Floats
from slgh.auto.penalty import PRICE, penalized
from slgh.auto.phases import COVARIANCE_STREAM, PLAN_STREAM, Phases
from slgh.auto.replay_log import PhaseOutcome
from slgh.engine.checkpoint import Arrays, expect
from slgh.engine.config import RunConfig
from slgh.engine.report import Solution
from slgh.engine.requests import Request
from slgh.engine.run import Run

CREDIT_GROWTH, CREDIT_DECAY = 2.0, 0.7
"""Factors of the credit of a kind that has found a better point, or has not, as in `restarts`."""

MAX_CREDIT = 2.0
"""Maximum credit of a kind, relative to one that has found nothing."""

MIN_GAIN = 1e-7
"""A restart that lowers f by no more than this, relative to its size, has found nothing new."""

SMALLEST_HOP, LARGEST_HOP = 0.02, 1.0
"""Bounds of the distance of a hop, log-uniform, in units of t1. With bounds, t1 is a quarter of the box."""

HOMOTOPY_SHARE = 0.4
"""Maximum share of the evaluations left for a covariance homotopy and the search that follows it."""

EXPECTED_ITERATIONS = 20
"""The first covariance homotopy counts as this many iterations more, so that local searches come before it."""

MAX_DOUBLINGS = 3
"""Maximum number of times that the samples of the covariance homotopies double."""


class Kind(IntEnum):
    """Kind of a restart."""

    ELSEWHERE = 0
    """A local search from a random point."""
    HOP = 1
    """A local search from near the best point."""
    HOMOTOPY = 2
    """A covariance homotopy on an exact penalty from a random point, and a local search from its end."""


class Best(NamedTuple):
    """Best point so far: the feasible one with the lowest f, or the least infeasible one."""

    x: Floats
    fun: float
    violation: float


class ConstrainedPortfolio(Phases):
    """The Strategy of "auto" for a problem with constraints."""

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        assert config.constraints is not None
        self.constraints = config.constraints
        self.best = Best(self.x0, np.nan, np.inf)
        self._count_of_constraints: int | None = None

    @property
    def feasible(self) -> bool:
        """True if a feasible point is known."""
        return self.best.violation <= self.constraints.tolerance

    @property
    def violation(self) -> float:
        """Largest violation at the solution."""
        return self.best.violation

    @property
    def minima(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Nothing: the phases find minima of a penalty, which are not those of f."""
        return np.empty((0, self.config.x0.shape[1])), np.empty(0)

    @property
    def solution(self) -> Solution | None:
        """The least infeasible point. None if there are feasible ones, of which the engine knows the best."""
        return None if self.feasible else Solution(self.best.x, self.best.fun, 0.0)

    def phases(self, run: Run) -> Generator[Request, Any, None]:
        """Search from x0, then let restarts compete until the budget is spent."""
        limits = self.config.limits
        # Not run.left, which a resumed run has without the evaluations that the first search repeats.
        self.left = (limits.max_evals or 0) - self.config.start_evals - self.config.reserve
        searches = "local_search" in self.enabled
        if searches:
            yield from self.search(run, self.x0)
        kinds = [kind for kind in Kind if ("covariance" in self.enabled if kind is Kind.HOMOTOPY else searches)]
        if "restarts" not in self.enabled:
            kinds = [Kind.HOMOTOPY] if "covariance" in self.enabled else []
        used, credit, count = dict.fromkeys(kinds, 1.0), dict.fromkeys(kinds, 1.0), dict.fromkeys(kinds, 0)
        if Kind.HOMOTOPY in kinds:
            used[Kind.HOMOTOPY] = float(EXPECTED_ITERATIONS * self._samples(0))
        self.restarting = True
        before, idle = self.incumbent(run), 0
        while kinds and self.left > 0 and idle < len(kinds):
            kind, left = min(kinds, key=lambda one: used[one] / credit[one]), self.left
            yield from self._restart(run, kind, count[kind], before)
            now = self.incumbent(run)
            better = self._is_better(now, before)
            used[kind] += left - self.left
            count[kind] += 1
            factor = CREDIT_GROWTH if better else CREDIT_DECAY
            credit[kind] = min(max(credit[kind] * factor, 1.0), MAX_CREDIT)
            before, idle = now, idle + 1 if left == self.left else 0
            if left == self.left:
                used[kind] += 1.0 + max(used.values())

    def _restart(self, run: Run, kind: Kind, n: int, best: PhaseOutcome) -> Generator[Request, Any, None]:
        """Run the n-th restart of this kind."""
        rng = self.rng(PLAN_STREAM)
        if kind is Kind.HOMOTOPY:
            end = yield from self.homotopy_on_penalty(run, self.random_points(1)[0], n)
            if "local_search" in self.enabled:
                yield from self.search(run, end.x, radius=0.1)
        elif kind is Kind.HOP:
            radius = SMALLEST_HOP * (LARGEST_HOP / SMALLEST_HOP) ** rng.random()
            step = radius * self.t1 * self.config.widths * rng.standard_normal(best.x.size)
            yield from self.search(run, self.region(best.x).nearest(best.x + step))
        else:
            yield from self.search(run, self.random_points(1)[0])

    def _is_better(self, now: PhaseOutcome, before: PhaseOutcome) -> bool:
        """Return True if a restart has found something new. `error` of these outcomes is the violation."""
        tolerance = self.constraints.tolerance
        if now.error <= tolerance and before.error <= tolerance:
            return now.fun < before.fun - MIN_GAIN * max(1.0, abs(before.fun))
        return now.error < before.error

    def incumbent(self, run: Run) -> PhaseOutcome:
        """Return the best point so far. It is logged like a phase, since a resumed run may know better ones."""
        if (skipped := self._skip_phase(run, "restarts")) is not None:
            return skipped
        x, fun, violation = self.best
        return self._end_phase(run, PhaseOutcome("restarts", x, fun, error=violation))

    def search(
        self, run: Run, x: NDArray[Any], *, radius: float | None = None
    ) -> Generator[Request, Any, PhaseOutcome]:
        """Search locally from x."""
        target = self._target()
        objective = ConstrainedObjective(self.region(x), self.left, self.constraints, gradients=run.has_gradients)
        limits = {} if radius is None else {"radius": radius}

        def phase() -> Evaluating[PhaseOutcome]:
            found = yield from constrained_search(objective, target, **limits)
            return PhaseOutcome("local_search", found.x, found.fun, int(found.converged), error=found.violation)

        self.phase = "local_search"
        return (yield from self._run_phase(run, phase(), "local_search"))

    def _target(self) -> Target:
        """Return the value that a search must get below: the lowest feasible one at the end of a phase."""
        tolerance = self.constraints.tolerance
        known = (o.fun for o in self.log.outcomes if o.error <= tolerance and np.isfinite(o.fun))
        return Target(fun=min(known, default=np.inf), tolerance=tolerance)

    def homotopy_on_penalty(self, run: Run, x: NDArray[Any], n: int) -> Generator[Request, Any, PhaseOutcome]:
        """Run the n-th covariance homotopy on an exact penalty, from x and t1."""
        config = self.config
        space = SampleSpace(x=x, t=self.t1, widths=config.widths.astype(float), box=config.box, dtype=config.dtype)
        samples = self._samples(n)
        evals = max(int(HOMOTOPY_SHARE * self.left), min(self.left, 10 * samples))
        nothing = Incumbent(x, np.inf, False)
        rng = self.rng(COVARIANCE_STREAM)
        homotopy = covariance_homotopy(space, evals, nothing, samples=samples, t1=self.t1, rng=rng)

        def phase() -> Evaluating[PhaseOutcome]:
            found = yield from penalized(homotopy, self.constraints, PRICE)
            # The penalty is no value of f, so this outcome is never taken for one.
            return PhaseOutcome("covariance", found.x, np.inf, int(found.end), error=np.inf)

        self.phase = "covariance"
        return (yield from self._run_phase(run, phase(), "covariance"))

    def _samples(self, n: int) -> int:
        """Return the number of samples of the n-th covariance homotopy."""
        return max(default_samples(self.x0.size), self.width) * int(2 ** min(1 + n, MAX_DOUBLINGS))

    def record(self, run: Run, evaluation: Evaluation, answer: NDArray[Any]) -> None:
        """Record the answer to an evaluation, and keep the best point."""
        points, gradient, is_step, t, center = evaluation
        if gradient:
            run.record(points, answer, is_step=is_step)
            return
        rows = self.constraints.rows(answer, points)
        known, self._count_of_constraints = self._count_of_constraints, len(rows.low)
        if known not in (None, len(rows.low)):
            raise checks.ArgumentValueError(
                f"`constraints` must return the same number of values at all points, got {[known, len(rows.low)]}."
            )
        violations = rows.violations
        feasible = violations <= self.constraints.tolerance
        usable = np.isfinite(rows.f) & np.isfinite(violations)
        if usable.any():
            order = np.lexsort((rows.f, np.where(feasible, 0.0, violations), ~usable))
            i = int(order[0])
            found = Best(points[i], float(rows.f[i]), float(violations[i]))
            if self._precedes(found):
                self.best = found
        run.record(points, rows.f, is_step=is_step, t=t, center=center, feasible=feasible)

    def _precedes(self, found: Best) -> bool:
        """Return True if a point is better than the best one."""
        tolerance = self.constraints.tolerance
        if found.violation <= tolerance and self.feasible:
            return found.fun < self.best.fun
        return found.violation < self.best.violation

    def save(self) -> Arrays:
        """Return the arrays that `load` continues from."""
        return super().save() | {"best_x": self.best.x, "best": np.array([self.best.fun, self.best.violation])}

    def load(self, arrays: Arrays, d: int) -> None:
        """Continue from the arrays of `save`, for d variables."""
        super().load(arrays, d)
        fun, violation = expect(arrays, "best", (2,), "f").tolist()
        self.best = Best(expect(arrays, "best_x", (d,), "f"), fun, violation)
