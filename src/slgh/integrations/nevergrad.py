"""slgh as an optimizer of Nevergrad: importing this module adds "SLGH" to `nevergrad.optimizers.registry`."""

from __future__ import annotations

from collections import Counter
from typing import Any

from numpy.typing import NDArray

import slgh
from slgh.checks import MissingLibraryError

try:
    from nevergrad.optimization import base
except ImportError as missing:
    raise MissingLibraryError(
        '`slgh.integrations.nevergrad` needs Nevergrad: pip install "slgh[nevergrad]".'
    ) from missing

T1 = 1.0
"""First smoothing radius. Nevergrad scales its variables so that 1 is a typical distance from the start."""

FILLER_RADIUS = 0.1
"""Standard deviation of the points that fill the waiting time, around the best point."""


@base.registry.register
class SLGH(base.Optimizer):
    """Method "auto" of slgh in Nevergrad's standardized space.

    It plans for `budget` evaluations, of which `num_workers` run at the same time. If Nevergrad asks for more points
    than a round has, it returns points near the best one. Values at points that it did not suggest go to Nevergrad's
    archive and do not change the run. If the budget is exceeded, or the run ends early, a new run begins at the best
    point.
    """

    def __init__(self, parametrization: Any, budget: int | None = None, num_workers: int = 1) -> None:
        super().__init__(parametrization, budget=budget, num_workers=num_workers)
        self._run: slgh.Optimizer | None = None
        self._pending: dict[str, tuple[slgh.Optimizer, NDArray[Any]]] = {}
        """Points that are being evaluated, by the uid of their candidate, with their run."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Continue a pickled optimizer: only points that it has not returned yet are asked for again."""
        self.__dict__.update(state)
        if self._run is None or self._run.stop():
            return
        returned = Counter(points.tobytes() for run, points in self._pending.values() if run is self._run)
        for point in self._run.ask():
            if returned[point.tobytes()]:
                returned[point.tobytes()] -= 1
            else:
                self._run.abandon(point[None])

    def _begin(self) -> slgh.Optimizer:
        """Begin a run at the best point, or at the start if no value is known."""
        best = self.current_bests["minimum"].parameter
        left = None if self.budget is None else max(self.budget - self.num_ask, 10 * self.dimension)
        return slgh.Optimizer(
            best.get_standardized_data(reference=self.parametrization),
            t1=T1,
            max_evals=left,
            parallel=self.num_workers,
            seed=int(self._rng.randint(2**31)),
            history=0,
        )

    def _internal_ask_candidate(self) -> Any:
        if self._run is None or self._run.stop():
            self._run = self._begin()
        points = self._run.ask(1)
        if not len(points):  # all points of this round are being evaluated
            best = self.current_bests["minimum"].parameter.get_standardized_data(reference=self.parametrization)
            return self._candidate(best + FILLER_RADIUS * self._rng.normal(size=self.dimension))
        candidate = self._candidate(points[0])
        self._pending[candidate.uid] = (self._run, points)
        return candidate

    def _candidate(self, x: NDArray[Any]) -> Any:
        """Return the candidate at a point of the standardized space."""
        return self.parametrization.spawn_child().set_standardized_data(x)

    def _internal_tell_candidate(self, candidate: Any, loss: float) -> None:
        run, points = self._pending.pop(candidate.uid, (None, None))
        if run is not None and not run.stop():
            run.tell(points, [loss])

    def _internal_tell_not_asked(self, candidate: Any, loss: float) -> None:
        """Ignore the value: the base class keeps it in the archive."""
