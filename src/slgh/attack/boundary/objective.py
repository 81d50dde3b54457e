"""The margins of a model at points near an image, and the value by which points are compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray

from slgh.attack.boundary.projection import Norm, distortion
from slgh.attack.loss import LOG_OFFSET, SAFE_MARGIN
from slgh.attack.model import QueriedModel
from slgh.protocols import Array, Sight

MAX_RIVALS = 9
"""Maximum number of classes whose margins are followed one by one. The others are followed as one, by their maximum."""


def choose_rivals(scores: NDArray[Any], label: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the classes with the highest scores besides `label`, (B, k), for scores (B, K) of the originals."""
    others = scores.copy()
    others[np.arange(len(label)), label] = -np.inf
    return np.argsort(-others, axis=1, kind="stable")[:, : min(MAX_RIVALS, scores.shape[1] - 1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """The order of points: the value that `minimize` compares, and the way back from it to the distance.

    The value is the distance plus a multiple of `unit`, so that points come in this order: safe and within reach, too
    near to the boundary to survive rounding, beyond reach (safe, then not), and at last those that do not fool the
    model, by their margin.

    Parameters
    ----------
    unit
        Upper bound of all distances: d for the squared L2 norm, 1 for the maximum norm.
    reach
        Largest distance of a success; None: no limit.
    safe_margin
        Minimum margin of a success that survives rounding.
    """

    unit: float
    reach: float | None = None
    safe_margin: float = SAFE_MARGIN
    UNFOOLED: ClassVar[int] = 4

    @property
    def limit(self) -> float:
        """Values below it belong to points that fool the model."""
        return self.UNFOOLED * self.unit

    def value(self, far: Array, lead: Array, xp: Any) -> Array:
        """Return the value of points at a distance `far`, with the margin `lead` that decides."""
        rank = xp.where(lead >= self.safe_margin, 0.0 * far, 1.0)
        rank = rank if self.reach is None else xp.where(far <= self.reach, rank, rank + 2)
        below = xp.clip(far, max=0.999 * self.unit)  # the next multiple belongs to the next rank
        return xp.where(lead > 0, below + rank * self.unit, self.limit + self.unit - lead)

    def read(self, value: Array, xp: Any) -> tuple[Array, Array]:
        """Return the rank of values, and their distance: infinite where the model is not fooled."""
        rank = xp.clip(xp.floor(value / self.unit), max=self.UNFOOLED)
        return rank, xp.where(rank < self.UNFOOLED, value - rank * self.unit, xp.inf)


@dataclass(frozen=True)
class BoundaryObjective:
    r"""The function passed to `minimize`: maps points (B, n, d) to a value, the distance, and the margins, (B, n) each.

    y is the class of the original or, if `targeted`, the target class. The margins are
    :math:`m_j = z_j - z_y`, for the classes j that are followed, or :math:`m_j = z_y - z_j` if `targeted`. The model is
    fooled where the largest margin is positive, or if `targeted` where all are. z are the logits, or the logarithms of
    the probabilities. The distance is the squared L2 norm or the maximum norm. `ranking` orders the points.
    """

    model: QueriedModel
    targeted: bool
    norm: Norm
    ranking: Ranking

    def __call__(self, x: Array, a: Array, y: Array, rivals: Array) -> tuple[Array, ...]:
        (B, n, d), xp = x.shape, array_namespace(x)
        scores = xp.reshape(self.model.scores(xp.reshape(x, (B * n, d))), (B, n, -1))
        with np.errstate(all="ignore"):
            z = scores if self.model.outputs == "logits" else xp.log(scores + LOG_OFFSET)
            margins = self._margins(z, y, rivals, xp)
            lead = margins[0]
            for margin in margins[1:]:
                lead = xp.minimum(lead, margin) if self.targeted else xp.maximum(lead, margin)
            far = distortion(x - a, self.norm, xp)
            # A score that is NaN or infinite makes the value NaN, even if it belongs to a class that loses.
            return self.ranking.value(far, lead, xp) + 0.0 * sum(margins), far, *margins

    def _margins(self, z: Array, y: Array, rivals: Array, xp: Any) -> list[Array]:
        """Return the margins of the classes that are followed, and that of the best of the others, if there are any."""
        B, n, K = z.shape
        k = rivals.shape[-1]
        own = xp.take_along_axis(z, xp.broadcast_to(y[..., None], (B, n, 1)), axis=2)
        theirs = xp.take_along_axis(z, xp.broadcast_to(rivals, (B, n, k)), axis=2)
        if k + 1 < K:
            classes = xp.arange(K, device=device(z))
            followed = xp.any(rivals[..., None] == classes, axis=2) | (y[..., None] == classes)
            rest = xp.max(xp.where(followed, -xp.inf, z), axis=2, keepdims=True)
            theirs = xp.concat([theirs, rest], axis=2)
        margins = own - theirs if self.targeted else theirs - own
        return [margins[..., j] for j in range(margins.shape[2])]


@dataclass(frozen=True)
class LabelObjective:
    """The function of `BoundaryObjective` for a model that returns classes. Its margin is 1 or -1."""

    model: QueriedModel
    targeted: bool
    ranking: Ranking

    def __call__(self, x: Array, a: Array, y: Array) -> tuple[Array, ...]:
        (B, n, d), xp = x.shape, array_namespace(x)
        seen = xp.reshape(self.model.classes(xp.reshape(x, (B * n, d))), (B, n))
        fooled = (seen == y) if self.targeted else (seen != y)
        margin = 2.0 * xp.astype(fooled, x.dtype) - 1.0
        far = distortion(x - a, "l2", xp)
        return self.ranking.value(far, margin, xp), far, margin


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundaryWatch:
    """A `Watch` that records the first iteration with a success, and the nearest point that fools the model.

    Parameters
    ----------
    ends
        True if a problem ends at its first safe success.
    ranking, targeted
        As in `BoundaryObjective`.
    """

    ends: bool
    ranking: Ranking
    targeted: bool
    names: ClassVar[tuple[str, ...]] = ("first", "least", "x_least", "sure", "distortion", "margin")
    columns: ClassVar[tuple[str, ...]] = ("distortion", "margin", "least")

    def init(self, x: Array, xp: Any) -> tuple[Array, ...]:
        zero = xp.zeros_like(x[:, 0])
        # The walk starts at the original.
        return zero - 1, zero + xp.inf, xp.asarray(x, copy=True), zero, zero, zero

    def see(self, state: tuple[Array, ...], sight: Sight, xp: Any) -> tuple[Array, ...]:
        first = state[0]
        rank, least = self.ranking.read(sight.f_best, xp)
        far, margins = sight.more[:, 0], sight.more[:, 1:]
        lead = xp.min(margins, axis=1) if self.targeted else xp.max(margins, axis=1)
        return (
            xp.where((rank <= 1) & (first < 0), sight.k + xp.zeros_like(first), first),
            least,
            sight.x_best,
            xp.astype(rank == 0, first.dtype),
            far,
            -lead,
        )

    def done(self, state: tuple[Array, ...], xp: Any) -> Array:
        return state[3] > 0
