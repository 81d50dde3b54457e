"""The interface between the fuzzing runner and its targets.

A target is one family of random experiments. `generate` draws a case from a seed. `check` runs it, and raises
`Violation` if a contract in docs/reliability.md is broken. A case is a plain JSON object, so that it can be printed,
shrunk and run again.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Protocol

Case = dict[str, Any]
"""JSON object that fully describes one experiment."""


class Violation(AssertionError):
    """A contract of the library is broken."""


class Target(Protocol):
    """One family of random experiments."""

    name: str
    """Short name for --only and for the report."""

    weight: float
    """Share of the running time, relative to the other targets."""

    timeout: float
    """Seconds after which a case counts as hung."""

    def generate(self, rng: random.Random) -> Case:
        """Draw a case."""

    def check(self, case: Case) -> dict[str, int]:
        """Run the case.

        Raise Violation for a broken contract, and return what to count (configurations, kills, ...).
        """

    def simpler(self, case: Case) -> Iterator[Case]:
        """Yield simpler variants of a failing case, the largest simplifications first."""

    def script(self, case: Case) -> str:
        """Return a short Python script that shows the failure without the harness."""
