"""When a run ends: hard caps, and the number of iterations that they allow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slgh import checks
from slgh.protocols import Context, Oracle

DEFAULT_ITERATIONS = 10_000
"""`max_iter` where no limit at all is given."""


NEVER = 2**62
"""Larger limits are this one: no run reaches it, and 64-bit integers hold it."""


def default_evals(d: int) -> int:
    """`max_evals` where no limit is given to a method that plans by its budget."""
    return 1000 + 200 * d


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The user's limits, per problem; None is no limit."""

    max_iter: int | None = None
    max_evals: int | None = None
    max_seconds: float | None = None
    target: float | None = None

    def __post_init__(self) -> None:
        if self.max_iter is not None:
            checks.count("max_iter", self.max_iter, 0)
        if self.max_evals is not None:
            checks.count("max_evals", self.max_evals)
        if self.max_seconds is not None:
            checks.at_least("max_seconds", self.max_seconds, 0)
        if self.target is not None:
            checks.real("target", self.target)

    def iterations(self, oracle: Oracle, ctx: Context, reserve: int) -> int | None:
        """How many iterations max_iter and max_evals allow, `reserve` evaluations being kept for the end."""
        if self.max_evals is None:
            return self.max_iter
        left = self.max_evals - reserve
        period = oracle.period
        costs = [oracle.cost(k == 0, ctx) for k in range(period)]
        rounds = max(0, left // sum(costs))
        left -= rounds * sum(costs)
        n = rounds * period
        for cost in costs:
            left -= cost
            if left < 0:
                break
            n += 1
        return n if self.max_iter is None else min(n, self.max_iter)


def read_limits(d: int, *, planned: bool, **given: Any) -> Limits:
    """The limits, with the default where none was given. `planned`: the method needs a number of iterations."""
    given = {name: checks.plain(value) for name, value in given.items()}
    for name in ("max_iter", "max_evals"):
        if isinstance(given[name], int) and given[name] > NEVER:
            given[name] = NEVER
    if planned and given["max_iter"] is None and given["max_evals"] is None:
        given["max_evals"] = default_evals(d)
    elif given["max_iter"] is None and given["max_evals"] is None and given["max_seconds"] is None:
        given["max_iter"] = DEFAULT_ITERATIONS
    return Limits(**given)
