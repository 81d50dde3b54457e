"""Evaluate a smoothed formula: pieces, each a rule for one body on all values of its index."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from array_api_compat import device

from slgh.smoothing.bodies import Body, slices_of
from slgh.smoothing.parse import DIMENSION
from slgh.smoothing.rules import BodyInputs, Rule, Scalar, broadcast_like


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A body and the rule that evaluates it."""

    body: Body
    rule: Rule

    def scalar(self, kind: Scalar, x: Any, t: Any, xp: Any) -> Any:
        """Return the value, dF/dt or trace of the piece at points x (..., d) and radii t (...), (...)."""
        at = self._inputs(x, t, xp)
        found = broadcast_like(self.rule.scalar(kind, at), at.z[0])
        if not self.body.product:
            return xp.sum(found, axis=-1)
        if kind == "value":
            return number(self.body.factor, x.shape[-1]) * xp.prod(found, axis=-1)
        return xp.sum(found * self._other_factors(at), axis=-1)

    def slopes(self, x: Any, t: Any, xp: Any) -> list[tuple[slice, Any]]:
        """Return slices of the variables, and the derivatives by these, (..., n)."""
        at = self._inputs(x, t, xp)
        _, _, slices = slices_of(self.body.indices, x.shape[-1])
        derivatives = zip(slices, self.rule.grad(at), strict=True)
        found = [(where, broadcast_like(g, at.z[0])) for where, g in derivatives if g is not None]
        if self.body.product:
            others = self._other_factors(at)
            found = [(where, g * others) for where, g in found]
        return found

    def _inputs(self, x: Any, t: Any, xp: Any) -> BodyInputs:
        d = x.shape[-1]
        start, stop, slices = slices_of(self.body.indices, d)
        index = xp.arange(start, stop, dtype=x.dtype, device=device(x)) if self.rule.indexed else None
        return BodyInputs(xp=xp, z=[x[..., s] for s in slices], t=t[..., None], index=index, d=float(d))

    def _other_factors(self, at: BodyInputs) -> Any:
        """Return what the derivative of each factor of a product is multiplied by, (..., n)."""
        values = broadcast_like(self.rule.scalar("value", at), at.z[0])
        return number(self.body.factor, int(at.d)) * leave_one_out(values, at.xp)


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
