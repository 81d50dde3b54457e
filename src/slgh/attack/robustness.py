"""Success of an attack by the number of queries and by the distance: cumulative curves over the attacked images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slgh.attack.boundary.projection import Norm
from slgh.attack.result import AttackResult, Outcome

FIRST_BUDGET = 100
"""Least budget of a table. Further ones are 200, 500, 1,000, 2,000, and so on."""

NOT_ATTACKED = (Outcome.MISCLASSIFIED, Outcome.THERE)
"""Outcomes of images on which no attack was run."""


class BudgetRow(NamedTuple):
    """Results of the attack within a number of queries per image.

    Attributes
    ----------
    queries
        The number of queries.
    success
        Share of the attacked images with a success.
    median_distance
        Median distance of the nearest adversarial images. Images without one count as infinitely far, so it is infinite
        until more than half of the images have one.
    median_distortion
        The same for the distortion: the squared distance for "l2", the distance itself for "linf".
    """

    queries: int
    success: float
    median_distance: float
    median_distortion: float


@dataclass(frozen=True, kw_only=True, eq=False)
class SuccessCurves:
    """Distances of the nearest adversarial images over the queries, for the n images that were attacked.

    Attributes
    ----------
    queries
        (R,), queries per image at the recorded iterations, increasing.
    nearest
        (R, n), distance of the nearest adversarial image until then, with pixels in a range of width 1; infinite before
        the first.
    norm
        Norm of the distance.
    eps
        Largest distance of a success, with pixels in a range of width 1; None: no limit.
    """

    queries: NDArray[np.int64]
    nearest: NDArray[np.float64]
    norm: Norm
    eps: float | None

    def success_by_queries(self) -> NDArray[np.float64]:
        """Return the share of images with a success within `queries`, (R,)."""
        return np.asarray((self.nearest <= self._limit).mean(axis=1))

    def success_by_distance(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the final distances of the images with an adversarial image, increasing, and the share up to each."""
        last = self.nearest[-1]
        distances = np.sort(last[np.isfinite(last)])
        return distances, np.arange(1, distances.size + 1) / last.size

    def at(self, queries: int) -> BudgetRow:
        """Return what the attack has reached within a number of queries per image."""
        row = int(np.searchsorted(self.queries, queries, side="right")) - 1
        nearest = np.full(self.nearest.shape[1], np.inf) if row < 0 else self.nearest[row]
        distortion = nearest**2 if self.norm == "l2" else nearest
        success = float((nearest <= self._limit).mean())
        return BudgetRow(queries, success, float(np.median(nearest)), float(np.median(distortion)))

    @property
    def _limit(self) -> float:
        return np.finfo(float).max if self.eps is None else self.eps


def success_curves(found: AttackResult, *, eps: float | None = None) -> SuccessCurves | None:
    """Return the curves of an attack, or None if no image was attacked.

    Parameters
    ----------
    found
        The result of `slgh.attack.attack`.
    eps
        `eps` of `attack`, divided by the width of the range of the pixels.
    """
    attacked = np.array([outcome not in NOT_ATTACKED for outcome in found.outcome])
    if not attacked.any():
        return None
    recorded = found.history if "least" in found.history else {"queries": np.empty(0, int)}
    least = recorded.get("least", np.empty((0, attacked.size)))
    least = np.fmin.accumulate(np.where(np.isnan(least), np.inf, least), axis=0)
    # The last row is the result itself: without a history, there is no other.
    last = np.where(found.success, found.distortion, least[-1] if len(least) else np.inf)
    # A safe success may be farther away than an earlier one too near to the boundary. Only the safe one counts.
    distortion = np.vstack([np.maximum(least, last), last])[:, attacked]
    unconfirmed = np.array([outcome is Outcome.UNCONFIRMED for outcome in found.outcome])[attacked]
    distortion[:, unconfirmed] = np.inf
    return SuccessCurves(
        queries=np.append(recorded["queries"], found.queries.max()).astype(np.int64),
        nearest=np.sqrt(distortion) if found.norm == "l2" else distortion,
        norm=found.norm,
        eps=eps,
    )


def budgets(limit: int) -> list[int]:
    """Return the budgets of a table up to a limit: 100, 200, 500, 1,000, and so on, and the limit itself.

    >>> budgets(1500)
    [100, 200, 500, 1000, 1500]
    """
    found, decade = list[int](), FIRST_BUDGET
    while decade < limit:
        found += [n for n in (decade, 2 * decade, 5 * decade) if n < limit]
        decade *= 10
    return [*found, limit]
