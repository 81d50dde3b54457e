"""Contest of two phases for the budget: the one that lowers f faster gets more, and neither gets less than a share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

MIN_SHARE = 0.1
"""Minimum share of the evaluations for each."""


class Standing(NamedTuple):
    """Result of a phase so far."""

    spent: int = 0
    """Evaluations."""
    rate: float = 0.0
    """Decrease of the lowest value per evaluation, in the latest turn."""


NONE = Standing()
"""Standing before the first turn."""


@dataclass(frozen=True, kw_only=True)
class Contest:
    """State of the contest. The phases take turns of about equal length."""

    hops: Standing = NONE
    homotopy: Standing = NONE

    @property
    def hops_are_next(self) -> bool:
        """True if the next turn is for the hops. They begin, and win a tie."""
        least = MIN_SHARE * (self.hops.spent + self.homotopy.spent)
        if self.hops.spent <= least or self.homotopy.spent <= least:
            return self.hops.spent <= self.homotopy.spent
        return self.hops.rate >= self.homotopy.rate


def after_turn(standing: Standing, spent: int, decrease: float) -> Standing:
    """Return the standing after a turn that lowered the lowest value by `decrease`."""
    return Standing(standing.spent + spent, decrease / max(1, spent) if decrease > 0 else 0.0)
