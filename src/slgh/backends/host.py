"""Operations that depend on values, for libraries whose arrays can be looked at: NumPy, and strict test arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from slgh.parts import Array, Leaves


class Host:
    """Choices by mask that skip the work where the mask is all or nothing.

    The results are those of `where` everywhere; a traced or captured loop uses plain `where` instead.
    """

    def __init__(self, xp: Any) -> None:
        self.xp = xp

    def all_finite(self, x: Array) -> bool:
        """Whether all entries are known to be finite; False also where a sum of large ones is not."""
        return math.isfinite(self.xp.sum(x))

    def choose(self, mask: Array, new: Callable[[], Leaves], old: Leaves) -> Leaves:
        """For each problem, the leaves of new() where mask (B,) holds and those of `old` elsewhere."""
        xp = self.xp
        chosen = int(xp.count_nonzero(mask))
        if chosen == mask.shape[0]:
            return new()
        if chosen == 0:
            return old
        return tuple(
            xp.where(xp.reshape(mask, (-1,) + (1,) * (a.ndim - 1)), a, b) for a, b in zip(new(), old, strict=True)
        )
