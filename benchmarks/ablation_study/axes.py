"""The three axes, and which of their compositions make sense."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

ORACLES = ("forward", "antithetic", "ranks", "diagonal_scaling", "rademacher", "sphere", "exponential")
"""Oracles that ask for values. "ranks" is the antithetic one with values="ranks"."""

SCHEDULES = ("constant", "power_law", "ratio", "budget", "derivative")
UPDATES = ("descent", "momentum", "spsa_gain", "adam", "adamm", "normalized", "scale_free")

AXES = {"oracle": ORACLES, "schedule": SCHEDULES, "update": UPDATES}

WEIGHING = ("ranks", "exponential")
"""Oracles whose g is a mean of weights of the order of 1, divided by t."""

PLAIN = ("descent", "momentum", "spsa_gain")
"""Updates that multiply g by their step."""


@dataclass(frozen=True, kw_only=True, order=True)
class Composition:
    """A cell of the ablation: one of each axis."""

    oracle: str
    schedule: str
    update: str

    @property
    def name(self) -> str:
        """As records and tables call it."""
        return f"{self.oracle}.{self.schedule}.{self.update}"


OURS = Composition(oracle="diagonal_scaling", schedule="budget", update="scale_free")
"""What the homotopy of "auto" is made of."""


def why_not(c: Composition) -> str | None:
    """Why a composition makes no sense; None where it does."""
    if c.schedule == "derivative" and c.oracle == "ranks":
        return "ranks are for where the order of values alone is meaningful, and the trace is made of values"
    if c.schedule == "derivative" and c.oracle not in ("forward", "antithetic"):
        return "the oracle does not show the trace"
    if c.oracle in WEIGHING and c.schedule in ("ratio", "budget") and c.update in PLAIN:
        return "g grows as 1/t, whatever f does, so that plain steps would grow as t falls"
    return None


def compositions(
    oracles: Iterable[str] = ORACLES, schedules: Iterable[str] = SCHEDULES, updates: Iterable[str] = UPDATES
) -> list[Composition]:
    """All that make sense, in the order of the axes."""
    everything = (Composition(oracle=o, schedule=s, update=u) for o, s, u in product(oracles, schedules, updates))
    return [c for c in everything if why_not(c) is None]
