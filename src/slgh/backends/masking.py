"""Choices between arrays that depend on values.

The Python loop can read values and skips work that no problem needs (`EagerChoice`). A traced or captured loop cannot,
so it computes everything and selects by masks (`Masked`), or assumes that all values are finite and checks the
assumption afterwards (`AssumeFinite`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from slgh.protocols import Array, Leaves


def where(mask: Array, new: Array, old: Array, xp: Any) -> Array:
    """Return `new` for the problems where mask (B,) is True and `old` for the others; both (B, ...)."""
    return xp.where(xp.reshape(mask, (-1,) + (1,) * (new.ndim - 1)), new, old)


class Masked:
    """Choices by masks, for loops whose values cannot be read."""

    def __init__(self, xp: Any) -> None:
        self.xp = xp

    def all_finite(self, x: Array) -> bool:
        """Return True if all entries are known to be finite."""
        return False

    def choose(self, mask: Array, new: Callable[[], Leaves], old: Leaves) -> Leaves:
        """Return the leaves of new() for the problems where mask (B,) is True and those of `old` for the others."""
        return tuple(where(mask, a, b, self.xp) for a, b in zip(new(), old, strict=True))


class AssumeFinite(Masked):
    """Masks without the arithmetic for bad values: every value is assumed finite, and `holds` checks it afterwards.

    If the assumption fails, the iteration is repeated with `Masked`.
    """

    def __init__(self, xp: Any) -> None:
        super().__init__(xp)
        self.assumed: list[Array] = []

    def all_finite(self, x: Array) -> bool:
        self.assumed.append(x)
        return True

    def holds(self) -> Array:
        """Return True (a 0-d array) if every value assumed finite is finite, and no sum of them overflows."""
        return self.xp.isfinite(sum(self.xp.sum(x) for x in self.assumed))


class EagerChoice(Masked):
    """Choices by reading the mask: the same results, without the work where all problems or none are chosen."""

    def all_finite(self, x: Array) -> bool:
        # One sum is faster than a mask. It may overflow, and then False is the safe answer.
        return math.isfinite(self.xp.sum(x))

    def choose(self, mask: Array, new: Callable[[], Leaves], old: Leaves) -> Leaves:
        chosen = int(self.xp.count_nonzero(mask))
        if chosen == mask.shape[0]:
            return new()
        return super().choose(mask, new, old) if chosen else old
