r"""Bounds: the objective becomes f o P, P the reflection into the box."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import Bounds

from slgh.backends.numpy.backend import plain_array
from slgh.protocols import Array


class Box(NamedTuple):
    """Lower and upper bounds, (d,) each, infinite where there is none."""

    low: Array
    high: Array
    scale: Array | None = None
    """(d,) a quarter where twice the width overflows, else 1; None where it never does."""

    def clip(self, x: Array, xp: Any) -> Array:
        """The nearest point of the box."""
        return xp.minimum(xp.maximum(x, self.low), self.high)

    def reflect(self, x: Array, xp: Any) -> tuple[Array, Array]:
        r"""P(x), x mirrored at the faces until it lies inside, and the derivative of P: 1, -1, or 0 if fixed.

        Points inside are returned as they are, to the last bit. P(x) is finite, also where x is not.
        """
        low, high, scale = self.low, self.high, self.scale
        inside = (x >= low) & (x <= high)
        zero, one = xp.zeros_like(low), xp.ones_like(low)
        bounded_low, bounded_high = xp.isfinite(low), xp.isfinite(high)
        both = bounded_low & bounded_high
        base = xp.where(bounded_low, low, zero)
        at, start, end = (x, low, high) if scale is None else (x * scale, low * scale, high * scale)
        width = xp.where(both & (high > low), xp.where(both, end, zero) - xp.where(both, start, zero), one)
        origin = base if scale is None else base * scale
        phase = xp.remainder(at - origin, 2 * width)
        falling = phase > width
        folded = origin + xp.where(falling, 2 * width - phase, phase)
        folded = folded if scale is None else folded / scale
        mirrored = xp.where(x < low, 2 * base - x, 2 * xp.where(bounded_high, high, zero) - x)
        outside = xp.where(both, folded, mirrored)
        sign = xp.where(inside | (both & ~falling), one, -one)
        found = xp.where(inside, x, outside)
        # x may be infinite where t is huge, and then has no mirror image: any point of the box will do.
        return self.clip(xp.where(xp.isfinite(found), found, base), xp), xp.where(low == high, zero, sign)

    def inside(self, x: Array, xp: Any) -> Array:
        """P(x) alone."""
        return self.reflect(x, xp)[0]


@np.errstate(all="ignore")
def read_bounds(bounds: Any, d: int, dtype: Any) -> Box | None:
    """A Box from a scipy Bounds or from d pairs (low, high), None meaning no bound."""
    if bounds is None:
        return None
    if isinstance(bounds, Bounds):
        low, high = bounds.lb, bounds.ub
    else:
        try:
            pairs = [(-np.inf if a is None else a, np.inf if b is None else b) for a, b in bounds]
        except (TypeError, ValueError):
            raise ValueError(
                f"`bounds` must be a scipy.optimize.Bounds or one pair (low, high) a variable, got {bounds!r}."
            ) from None
        if len(pairs) != d:
            raise ValueError(f"`bounds` must have one pair a variable, {d}; got {len(pairs)}.")
        low, high = zip(*pairs, strict=True)
    try:
        low, high = (np.broadcast_to(np.array(plain_array(side), dtype), (d,)) for side in (low, high))
    except ValueError:
        raise ValueError(
            f"`bounds` must have one entry a variable, {d}; got shape {np.shape(low)} and {np.shape(high)}."
        ) from None
    wrong = ~(low <= high)
    if wrong.any():
        i = int(np.argmax(wrong))
        raise ValueError(f"`bounds` must have low <= high, got ({low[i]}, {high[i]}) for variable {i}.")
    if np.isneginf(low).all() and np.isposinf(high).all():
        return None
    wide = np.isfinite(low) & np.isfinite(high) & ~np.isfinite(2 * (high - low))
    return Box(low, high, np.where(wide, 0.25, 1.0).astype(dtype) if wide.any() else None)
