"""The three axes, and the compositions that make sense."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

ORACLES = ("forward", "antithetic", "ranks", "diagonal_scaling", "rademacher", "sphere", "exponential")
"""Oracles that need values of f only. "ranks" is the antithetic oracle with values="ranks"."""

SCHEDULES = ("constant", "power_law", "ratio", "budget", "derivative")
UPDATES = ("descent", "momentum", "spsa_gain", "adam", "adamm", "normalized", "scale_free")

AXES = {"oracle": ORACLES, "schedule": SCHEDULES, "update": UPDATES}

WEIGHING = ("ranks", "exponential")
"""Oracles whose g is a mean of weights of order 1, divided by t."""

PLAIN = ("descent", "momentum", "spsa_gain")
"""Updates that multiply g by their step."""


@dataclass(frozen=True, kw_only=True, order=True)
class Composition:
    """A cell of the ablation: one level of each axis."""

    oracle: str
    schedule: str
    update: str

    @property
    def name(self) -> str:
        """Name in records and tables."""
        return f"{self.oracle}.{self.schedule}.{self.update}"


AUTO_COMPOSITION = Composition(oracle="diagonal_scaling", schedule="budget", update="scale_free")
"""Composition of the homotopy of "auto"."""


def why_not(c: Composition) -> str | None:
    """Return the reason why a composition makes no sense, or None."""
    if c.schedule == "derivative" and c.oracle == "ranks":
        return "ranks use only the order of the values, and the trace needs the values"
    if c.schedule == "derivative" and c.oracle not in ("forward", "antithetic"):
        return "the oracle does not return the trace"
    if c.oracle in WEIGHING and c.schedule in ("ratio", "budget") and c.update in PLAIN:
        return "g grows like 1/t for any f, so plain steps would grow as t decays"
    return None


def compositions(
    oracles: Iterable[str] = ORACLES, schedules: Iterable[str] = SCHEDULES, updates: Iterable[str] = UPDATES
) -> list[Composition]:
    """Return all compositions that make sense, in the order of the axes."""
    everything = (Composition(oracle=o, schedule=s, update=u) for o, s, u in product(oracles, schedules, updates))
    return [c for c in everything if why_not(c) is None]
