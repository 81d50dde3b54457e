r"""Limited-memory BFGS for a batch of problems, one trial point per iteration.

The direction is :math:`p = -H g`, where H approximates the inverse Hessian from the last m pairs
:math:`s = x_{k+1} - x_k`, :math:`y = g_{k+1} - g_k` by the two-loop recursion (Nocedal and Wright, Numerical
Optimization, Algorithm 7.4). The trial point is :math:`P(x + \alpha p)` with the projection P to the bounds. It is
accepted if

.. math:: f(P(x + \alpha p)) \le f(x) + c_1 \, g^\top (P(x + \alpha p) - x).

Otherwise alpha shrinks. Each problem of the batch is at its own point of its line search. Masks select what happens, so
that a compiled loop needs no value on the host.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from slgh import checks
from slgh.protocols import Array, Estimate, Leaves

SUFFICIENT_DECREASE = 1e-4
"""c_1 of the line search."""

MIN_SHRINK, MAX_SHRINK = 0.1, 0.5
"""Limits of the factor by which a rejected trial shrinks alpha. Between them, it minimizes a parabola."""

MAX_TRIALS = 8
"""After this many rejected trials in a row, the pairs are forgotten and the search starts again downhill."""

MIN_CURVATURE = 1e-10
"""A pair is kept if the cosine between s and y is above this, so that H stays positive definite."""

NEAR_REACH = 0.9
"""The longest allowed step doubles after an accepted step of at least this share of it."""


class Search(NamedTuple):
    """Memory of the line search and of H. Lengths of steps are in units of the widths."""

    x: Array
    """(B, d) last accepted point."""
    f: Array
    """(B,) value there, infinite before the first iteration."""
    g: Array
    """(B, d) gradient there."""
    p: Array
    """(B, d) direction of the line search."""
    alpha: Array
    """(B,) step along it to the current trial."""
    rejected: Array
    """(B,) rejected trials in a row."""
    s: Array
    """(B, m, d) differences of accepted points, newest last, 0 where there is none."""
    y: Array
    """(B, m, d) differences of their gradients."""
    length: Array
    """(B,) length of a first step without pairs."""
    reach: Array
    """(B,) maximum change of a variable in one step."""
    low: Array
    """(B, d) lower bounds, -inf if there is none."""
    high: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class LBFGS:
    """Move to the next trial point of a line search along a quasi-Newton direction.

    The oracle must estimate f(x) and the gradient of f. A trial with f = inf is rejected.

    Parameters
    ----------
    memory
        m, the number of pairs that describe the curvature.
    """

    name: ClassVar[str] = "lbfgs"

    memory: int = 10

    def __post_init__(self) -> None:
        checks.count("memory", self.memory)

    def init(self, x: Array, xp: Any) -> Leaves:
        """Return the memory of an unbounded search whose first step has length 1."""
        far, one = xp.full_like(x, xp.inf), xp.ones_like(x[:, 0])
        return self.starting(x, one, xp.full_like(one, xp.inf), -far, far, xp)

    def starting(self, x: Array, length: Array, reach: Array, low: Array, high: Array, xp: Any) -> Leaves:
        """Return the memory of a search from x (B, d). The other arguments are those of `Search`."""
        zero, none = xp.zeros_like(length), xp.zeros_like(x)
        pairs = xp.stack([none] * self.memory, axis=1)
        return tuple(
            Search(
                x=x,
                f=xp.full_like(length, xp.inf),
                g=none,
                p=none,
                alpha=zero,
                rejected=zero,
                s=pairs,
                y=pairs,
                length=length,
                reach=reach,
                low=low,
                high=high,
            )
        )

    def apply(self, x: Array, estimate: Estimate, t: Array, state: Leaves, xp: Any) -> tuple[Array, Leaves]:
        old = Search(*state)
        widths = xp.ones_like(x) if estimate.widths is None else estimate.widths
        step = x - old.x
        expected = xp.minimum(xp.vecdot(old.g, step), xp.zeros_like(old.f))
        accepted = estimate.f <= old.f + SUFFICIENT_DECREASE * expected
        rejected = xp.where(accepted, 0.0, old.rejected + 1.0)
        restarted = rejected >= MAX_TRIALS
        long = xp.max(xp.abs(step) / widths, axis=1) >= NEAR_REACH * old.reach
        moved = _norm(step / widths, xp)
        s, y = _remember(old, step, estimate.g - old.g, accepted, restarted, xp)
        base = old._replace(
            x=_where(accepted, x, old.x, xp),
            f=xp.where(accepted, estimate.f, old.f),
            g=_where(accepted, estimate.g, old.g, xp),
            rejected=xp.where(restarted, 0.0, rejected),
            s=s,
            y=y,
            length=xp.where((accepted | restarted) & (moved > 0), moved, old.length),
            reach=xp.where(accepted & long, 2 * old.reach, old.reach),
        )
        begins = accepted | restarted
        new = base._replace(
            p=_where(begins, direction(base, widths, xp), old.p, xp),
            alpha=xp.where(begins, 1.0, old.alpha * _shrink(estimate.f - old.f, expected, xp)),
        )
        trial = new.x + new.alpha[:, None] * new.p
        return xp.minimum(xp.maximum(trial, new.low), new.high), tuple(new)


def direction(search: Search, widths: Array, xp: Any) -> Array:
    """Return -H g in the variables that are free to move, (B, d), or a step downhill if there is no H."""
    x, g = search.x, search.g
    held = ((x <= search.low) & (g > 0)) | ((x >= search.high) & (g < 0))
    free = xp.where(held, 0.0, xp.ones_like(x))
    g = g * free
    downhill = -widths * widths * g
    slope = _norm(widths * g, xp)
    downhill = downhill * (search.length / xp.where(slope > 0, slope, 1.0))[:, None]
    p, known = _two_loops(g, search.s * free[:, None, :], search.y * free[:, None, :], widths, xp)
    # A sum of bad numbers is not less than 0.
    p = _where(known & (xp.vecdot(g, p) < 0), p, downhill, xp)
    peak = xp.max(xp.abs(p) / widths, axis=1)
    return p * xp.where(peak > search.reach, search.reach / xp.where(peak > 0, peak, 1.0), 1.0)[:, None]


def _two_loops(g: Array, s: Array, y: Array, widths: Array, xp: Any) -> tuple[Array, Array]:
    """Return -H g (B, d), and True for problems that have a pair (B,). The first H is a multiple of widths squared."""
    m = s.shape[1]
    curvature = xp.vecdot(s, y)
    usable = curvature > MIN_CURVATURE * _norm(s, xp) * _norm(y, xp)
    weight = xp.where(usable, 1.0 / xp.where(usable, curvature, 1.0), 0.0)
    wy = widths[:, None, :] * y
    scales = curvature / xp.where(usable, xp.vecdot(wy, wy), 1.0)
    q, scale, a = g, xp.ones_like(g[:, 0]), [xp.zeros_like(g[:, 0])] * m
    for j in reversed(range(m)):
        a[j] = weight[:, j] * xp.vecdot(s[:, j, :], q)
        q = q - a[j][:, None] * y[:, j, :]
    for j in range(m):
        scale = xp.where(usable[:, j], scales[:, j], scale)
    q = scale[:, None] * (widths * widths * q)
    for j in range(m):
        b = weight[:, j] * xp.vecdot(y[:, j, :], q)
        q = q + (a[j] - b)[:, None] * s[:, j, :]
    return -q, xp.any(usable, axis=1)


def _remember(old: Search, step: Array, change: Array, accepted: Array, forget: Array, xp: Any) -> tuple[Array, Array]:
    """Return s and y with the new pair if it has positive curvature, or without any pair."""
    bend = MIN_CURVATURE * _norm(step, xp) * _norm(change, xp)
    kept = accepted & (xp.vecdot(step, change) > bend)

    def add(pairs: Array, new: Array) -> Array:
        pairs = _where(kept, xp.concat([pairs[:, 1:, :], new[:, None, :]], axis=1), pairs, xp)
        return _where(forget, xp.zeros_like(pairs), pairs, xp)

    return add(old.s, step), add(old.y, change)


def _shrink(rise: Array, expected: Array, xp: Any) -> Array:
    """Return the factor to the minimum of the parabola with this slope (B,) that rises by this much, within limits."""
    excess = rise - expected
    factor = -expected / (2 * xp.where(excess > 0, excess, 1.0))
    return xp.clip(xp.where(excess > 0, factor, MAX_SHRINK), MIN_SHRINK, MAX_SHRINK)


def _norm(v: Array, xp: Any) -> Array:
    return xp.sqrt(xp.vecdot(v, v))


def _where(mask: Array, new: Array, old: Array, xp: Any) -> Array:
    """Return `new` for the problems where mask (B,) is True and `old` for the others; both (B, ...)."""
    return xp.where(xp.reshape(mask, (-1,) + (1,) * (new.ndim - 1)), new, old)
