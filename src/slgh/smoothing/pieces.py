"""Evaluating a smoothed formula: pieces, each a rule over runs of variables.

A piece such as sum(x[i]**2 * x[i+1] for i in range(d-1)) has a body in placeholders (z0 = x[i], z1 = x[i+1]), which
is smoothed once as a formula and evaluated for all i at once on slices of x. Without an index the run has length 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import sympy as sp
from array_api_compat import device

from slgh.smoothing import TooFewVariables
from slgh.smoothing.parse import DIMENSION
from slgh.smoothing.rules import Place, Rule, spread


def index_from(start: Any) -> sp.Symbol:
    """The index of a run, with what is known of its sign."""
    known = {"nonnegative": True} if sp.sympify(start).is_nonnegative else {}
    return sp.Symbol("i", integer=True, **known)


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """Where the placeholders of a body are: placeholder k at `slope` * i + `offsets`[k], for i in start..stop-1."""

    offsets: tuple[int, ...]
    slope: int = 1
    start: Any = 0
    stop: Any = 1

    @property
    def index(self) -> sp.Symbol:
        """The symbol of i in the body."""
        return index_from(self.start)


@lru_cache
def lay_out(runs: Runs, d: int) -> tuple[int, int, tuple[slice, ...]]:
    """For d variables: the first index, the one after the last, and the variables of each placeholder."""
    start, stop = (int(sp.sympify(end).subs(DIMENSION, d)) for end in (runs.start, runs.stop))
    if stop <= start:
        return start, start, (slice(0, 0),) * len(runs.offsets)
    found = []
    for offset in runs.offsets:
        first, last = sorted((runs.slope * start + offset, runs.slope * (stop - 1) + offset))
        if first < 0 or last >= d:
            reached = first if first < 0 else last
            raise TooFewVariables(reached, d)
        if runs.slope > 0:
            found.append(slice(first, last + 1, runs.slope))
        else:
            found.append(slice(last, first - 1 if first else None, runs.slope))
    return start, stop, tuple(found)


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A rule over runs of variables, summed over the index, or multiplied and times `factor`."""

    runs: Runs
    rule: Rule
    product: bool = False
    factor: Any = sp.S.One

    def at(self, x: Any, t: Any, xp: Any) -> Place:
        """The arrays for points x (..., d) and radii t (...)."""
        d = x.shape[-1]
        start, stop, slices = lay_out(self.runs, d)
        index = xp.arange(start, stop, dtype=x.dtype, device=device(x)) if self.rule.indexed else None
        return Place(xp=xp, z=[x[..., s] for s in slices], slices=slices, t=t[..., None], index=index, d=float(d))

    def value(self, x: Any, t: Any, xp: Any) -> Any:
        at = self.at(x, t, xp)
        values = spread(self.rule.value(at), at.z[0])
        return self._factor(at) * at.xp.prod(values, axis=-1) if self.product else at.xp.sum(values, axis=-1)

    def dt(self, x: Any, t: Any, xp: Any) -> Any:
        at = self.at(x, t, xp)
        return self._total(self.rule.dt(at), at)

    def trace(self, x: Any, t: Any, xp: Any) -> Any:
        at = self.at(x, t, xp)
        return self._total(self.rule.trace(at), at)

    def slopes(self, x: Any, t: Any, xp: Any) -> list[tuple[slice, Any]]:
        """The derivatives by the variables of each slice, (..., n)."""
        at = self.at(x, t, xp)
        derivatives = zip(at.slices, self.rule.grad(at), strict=True)
        found = [(where, spread(g, at.z[0])) for where, g in derivatives if g is not None]
        if self.product:
            others = self._others(at)
            found = [(where, g * others) for where, g in found]
        return found

    def _total(self, derivatives: Any, at: Place) -> Any:
        derivatives = spread(derivatives, at.z[0])
        return at.xp.sum(derivatives * self._others(at) if self.product else derivatives, axis=-1)

    def _factor(self, at: Place) -> float:
        return number(self.factor, int(at.d))

    def _others(self, at: Place) -> Any:
        """What a derivative of one factor is multiplied by."""
        return self._factor(at) * leave_one_out(spread(self.rule.value(at), at.z[0]), at.xp)


@lru_cache
def number(expression: Any, d: int) -> float:
    """An expression in d as a number."""
    return float(expression.subs(DIMENSION, d))


def leave_one_out(values: Any, xp: Any) -> Any:
    """For each index the product of all others, (..., n); zeros among them are no matter."""
    one = xp.ones_like(values[..., :1])
    before = xp.concat([one, xp.cumulative_prod(values[..., :-1], axis=-1)], axis=-1)
    after = xp.concat([one, xp.cumulative_prod(xp.flip(values, axis=-1)[..., :-1], axis=-1)], axis=-1)
    return before * xp.flip(after, axis=-1)
