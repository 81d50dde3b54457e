"""Bounds: the run minimizes f(P(x)), where P reflects x into the box."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import Bounds

from slgh.backends.numpy.backend import plain_array
from slgh.checks import ArgumentValueError
from slgh.protocols import Array


class Box(NamedTuple):
    """Lower and upper bounds, (d,) each, infinite if there is none."""

    low: Array
    high: Array
    scale: Array | None = None
    """(d,) 1/4 for variables whose doubled width overflows, else 1. `reflect` computes in these
    units. None: all are 1."""

    def converted(self, convert: Callable[[Any], Array]) -> Box:
        """Return the same bounds in other arrays."""
        return Box(convert(self.low), convert(self.high), None if self.scale is None else convert(self.scale))

    def clip(self, x: Array, xp: Any) -> Array:
        """Return the nearest point of the box."""
        return xp.minimum(xp.maximum(x, self.low), self.high)

    def reflect(self, x: Array, xp: Any) -> tuple[Array, Array]:
        """Return P(x), which mirrors x at the faces until it lies inside, and the derivative of P.

        The derivative is 1, -1, or 0 for a fixed variable. Points inside are returned bit for bit. P(x) is always
        finite, even if x is not.
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
        # Between two bounds P is a triangle wave of period 2 * width.
        phase = xp.remainder(at - origin, 2 * width)
        falling = phase > width
        folded = origin + xp.where(falling, 2 * width - phase, phase)
        folded = folded if scale is None else folded / scale
        # At a single bound there is one mirror.
        mirrored = xp.where(x < low, 2 * base - x, 2 * xp.where(bounded_high, high, zero) - x)
        outside = xp.where(both, folded, mirrored)
        sign = xp.where(inside | (both & ~falling), one, -one)
        found = xp.where(inside, x, outside)
        # If t is huge, x may be infinite. It then has no mirror image, and any point of the box will do.
        return self.clip(xp.where(xp.isfinite(found), found, base), xp), xp.where(low == high, zero, sign)

    def inside(self, x: Array, xp: Any) -> Array:
        """Return P(x)."""
        return self.reflect(x, xp)[0]


@np.errstate(all="ignore")
def read_bounds(bounds: Any, d: int, dtype: Any) -> Box | None:
    """Return a Box from a scipy Bounds or d pairs (low, high), in which None is no bound. None: nothing is bounded."""
    if bounds is None:
        return None
    if isinstance(bounds, Bounds):
        low, high = bounds.lb, bounds.ub
    else:
        try:
            pairs = [(-np.inf if a is None else a, np.inf if b is None else b) for a, b in bounds]
        except (TypeError, ValueError):
            raise ArgumentValueError(
                f"`bounds` must be a scipy.optimize.Bounds or one pair (low, high) per variable, got {bounds!r}."
            ) from None
        if len(pairs) != d:
            raise ArgumentValueError(f"`bounds` must have one pair per variable (expected {d}); got {len(pairs)}.")
        low, high = zip(*pairs, strict=True)
    try:
        low, high = (np.broadcast_to(np.array(plain_array(side), dtype), (d,)) for side in (low, high))
    except ValueError:
        raise ArgumentValueError(
            f"`bounds` must have one entry per variable (expected {d}); got shape {np.shape(low)} and {np.shape(high)}."
        ) from None
    wrong = ~(low <= high)
    if wrong.any():
        i = int(np.argmax(wrong))
        raise ArgumentValueError(f"`bounds` must have low <= high, got ({low[i]}, {high[i]}) for variable {i}.")
    if np.isneginf(low).all() and np.isposinf(high).all():
        return None
    wide = np.isfinite(low) & np.isfinite(high) & ~np.isfinite(2 * (high - low))
    return Box(low, high, np.where(wide, 0.25, 1.0).astype(dtype) if wide.any() else None)
