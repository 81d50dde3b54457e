"""Evaluate a smoothed formula: pieces, each a rule for one body on all values of its index."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any

from array_api_compat import is_jax_array

from slgh.protocols import device_of
from slgh.smoothing.bodies import Body, slices_of
from slgh.smoothing.parse import DIMENSION
from slgh.smoothing.rules import BodyInputs, Kind, Rule, broadcast_like


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A body and the rule that evaluates it."""

    body: Body
    rule: Rule

    def scalar(self, kind: Kind, x: Any, t: Any, xp: Any) -> Any:
        """Return the value, dF/dt or trace of the piece at points x (..., d) and radii t (...), (...)."""
        (found,) = self._evaluate(kind, x, t, xp)
        if self.body.product and kind == "value":
            return number(self.body.factor, x.shape[-1]) * xp.prod(found, axis=-1)
        return xp.sum(found, axis=-1)

    def slopes(self, x: Any, t: Any, xp: Any) -> list[tuple[slice, Any]]:
        """Return slices of the variables, and the derivatives by these, (..., n)."""
        _, _, slices = slices_of(self.body.indices, x.shape[-1])
        derivatives = zip(slices, self._evaluate("grad", x, t, xp), strict=True)
        return [(where, g) for where, g in derivatives if g is not None]

    def _evaluate(self, kind: Kind, x: Any, t: Any, xp: Any) -> list[Any]:
        """Return the arrays of the rule, (..., n). In a product, derivatives are multiplied by all other factors."""
        d = x.shape[-1]
        start, stop, slices = slices_of(self.body.indices, d)
        index = xp.arange(start, stop, dtype=x.dtype, device=device_of(x)) if self.rule.indexed else None
        at = BodyInputs(xp=xp, z=[x[..., s] for s in slices], t=t[..., None], index=index, d=float(d))
        found = [None if a is None else broadcast_like(a, at.z[0]) for a in self.rule.evaluate(kind, at)]
        if self.body.product and kind != "value":
            values = broadcast_like(self.rule.evaluate("value", at)[0], at.z[0])
            others = number(self.body.factor, d) * leave_one_out(values, xp)
            found = [None if a is None else a * others for a in found]
        return found


def total(pieces: Sequence[Piece], kind: Kind, x: Any, t: Any, xp: Any) -> Any:
    """Return the value, dF/dt or trace of a sum of pieces at points x (..., d) and radii t (...), (...)."""
    return reduce(operator.add, [piece.scalar(kind, x, t, xp) for piece in pieces])


def gradient(pieces: Sequence[Piece], x: Any, t: Any, xp: Any) -> Any:
    """Return the gradient of a sum of pieces at points x (..., d) and radii t (...), (..., d)."""
    d = x.shape[-1]
    slopes = [slope for piece in pieces for slope in piece.slopes(x, t, xp)]
    # Most formulas need no scatter: one piece over all variables, or one slope per variable in order.
    if len(slopes) == 1 and slopes[0][0] == slice(0, d, 1):
        return slopes[0][1]
    if len(slopes) == d and all(where == slice(i, i + 1, 1) for i, (where, _) in enumerate(slopes)):
        return xp.concat([g for _, g in slopes], axis=-1)
    found = xp.zeros_like(x)
    for where, g in slopes:
        if is_jax_array(found):
            found = found.at[..., where].add(g)
        else:
            found[..., where] += g
    return found


@lru_cache
def number(expression: Any, d: int) -> float:
    """Return an expression in d as a number."""
    return float(expression.subs(DIMENSION, d))


def leave_one_out(values: Any, xp: Any) -> Any:
    """Return the product of all other values for each index, (..., n). Zeros do no harm: nothing is divided."""
    one = xp.ones_like(values[..., :1])
    before = xp.concat([one, xp.cumulative_prod(values[..., :-1], axis=-1)], axis=-1)
    after = xp.concat([one, xp.cumulative_prod(xp.flip(values, axis=-1)[..., :-1], axis=-1)], axis=-1)
    return before * xp.flip(after, axis=-1)
