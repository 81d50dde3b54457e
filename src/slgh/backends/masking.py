"""Choices that depend on values: for arrays that can be looked at, and for those that cannot."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from slgh.protocols import Array, Leaves


def where(mask: Array, new: Array, old: Array, xp: Any) -> Array:
    """For each problem, `new` where mask (B,) holds and `old` elsewhere; both (B, ...)."""
    return xp.where(xp.reshape(mask, (-1,) + (1,) * (new.ndim - 1)), new, old)


class Masked:
    """Choices in a loop that is traced or captured: nothing is known, everything is computed."""

    def __init__(self, xp: Any) -> None:
        self.xp = xp

    def all_finite(self, x: Array) -> bool:
        """Whether all entries are known to be finite."""
        return False

    def choose(self, mask: Array, new: Callable[[], Leaves], old: Leaves) -> Leaves:
        """For each problem, the leaves of new() where mask (B,) holds and those of `old` elsewhere."""
        return tuple(where(mask, a, b, self.xp) for a, b in zip(new(), old, strict=True))


class AssumeFinite(Masked):
    """Choices in a compiled loop that supposes every value to be finite, and tells what it has supposed.

    That spares the arithmetic on masks. Where it was wrong, the iteration is done again with `Masked`.
    """

    def __init__(self, xp: Any) -> None:
        super().__init__(xp)
        self.assumed: list[Array] = []

    def all_finite(self, x: Array) -> bool:
        self.assumed.append(x)
        return True

    def holds(self) -> Array:
        """True (a 0-d array) if every value assumed finite is finite, and no sum of them overflows."""
        return self.xp.isfinite(sum(self.xp.sum(x) for x in self.assumed))


class EagerChoice(Masked):
    """Choices by looking: the same results, without the work where the mask is all or nothing."""

    def all_finite(self, x: Array) -> bool:
        """Whether all entries are known to be finite; False also where a sum of large ones is not."""
        return math.isfinite(self.xp.sum(x))

    def choose(self, mask: Array, new: Callable[[], Leaves], old: Leaves) -> Leaves:
        chosen = int(self.xp.count_nonzero(mask))
        if chosen == mask.shape[0]:
            return new()
        return super().choose(mask, new, old) if chosen else old
