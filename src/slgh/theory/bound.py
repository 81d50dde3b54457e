r"""The right-hand sides of the theorems with all constants, and the smallest T for which they are small enough.

Notes
-----
Differences from the paper:

- The proofs start after the burn-in and treat :math:`f(x_{k_0+1}) - f^*` as a constant. Here it is bounded by the
  smaller of two values: `span`, the range of f, which Assumption A1 (i) makes finite, and the same inequality summed
  over the first :math:`k_0` iterations, :math:`f(x_1) - f^* + L_0 \sqrt d (2 t_1 - t_{k_0+1})` and their growth.
- The proofs of C.1 and C.2 add 2 nu in every iteration for the change of t. Nothing needs to be added while t stays at
  its floor. This matters in C.2: divided by :math:`\beta \sim 1/\sqrt{T - k_0}`, their :math:`2 \nu (T - k_0)` becomes
  :math:`16 \nu \sqrt{(T - k_0)(d + 4)}`, which grows with T, and :math:`\nu = O(\epsilon^2 / d^3)` would not suffice.
- :math:`|F' - F| \le \nu` at both ends gives 2 nu where the proofs have 4 nu.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slgh.checks import ArgumentValueError
from slgh.theory.theorems import Constants, Powers, Theorem

MAX_T = 2**100
"""Largest T that `least_T` considers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Radii:
    r"""Radii of SLGH_r, :math:`t_k = \max(\gamma^{k-1} t_1, \epsilon')`, which bound those of SLGH_d."""

    t1: float
    gamma: float
    floor: float = 0.0

    @property
    def falls(self) -> float:
        """Number of iterations until t reaches its floor."""
        if self.floor == 0:
            return math.inf
        return max(0, math.ceil(math.log(self.floor / self.t1) / math.log(self.gamma)))

    def at(self, k: int) -> float:
        """Return t_k."""
        return max(self.t1 * math.exp((k - 1) * math.log(self.gamma)), self.floor)

    def moment(self, p: int, start: float, stop: float) -> float:
        """Return the sum of t_k^p over k = start+1..stop, all above the floor: a geometric sum."""
        rate = p * math.log(self.gamma)
        return self.t1**p * math.exp(start * rate) * math.expm1((stop - start) * rate) / math.expm1(rate)

    def total(self, falling: Powers, resting: float, start: int, stop: int) -> float:
        """Return the sum over k = start+1..stop of `falling` while t falls, and of `resting` at the floor."""
        last = min(max(self.falls, start), stop)
        ones = falling.one * (last - start)
        moments = falling.t * self.moment(1, start, last) + falling.t2 * self.moment(2, start, last)
        return float(ones + moments + resting * (stop - last))

    def changes(self, start: int, stop: int) -> float:
        """Return the number of iterations start+1..stop that change t."""
        return min(stop, self.falls) - min(start, self.falls)


class RadiusSums(NamedTuple):
    """Sums over the radii that a bound needs, `before` over iterations 1..k0 and `after` over k0+1..T."""

    growth: float
    """Sum of the growth of F before."""
    surplus: float
    """Sum of the surplus after."""
    fall_before: float
    fall_after: float
    """Total decrease of t."""
    changes_before: float
    changes_after: float
    """Number of iterations that change t."""
    weight: float
    """Smallest weight after the burn-in, or the mean weight."""


def right_side(theorem: Theorem, c: Constants, k0: int, T: int, s: RadiusSums) -> float:
    """Return the bound on the mean of E|grad f(x_k)|^2 over k = k0+1..T."""
    A, per_t = theorem.factor, c.L0 * math.sqrt(c.d)
    summed = c.gap + per_t * (c.t1 + s.fall_before) + c.nu * (1 + 2 * s.changes_before) + s.growth / A
    begun = min(c.span + c.nu, summed)
    descent = begun + per_t * s.fall_after + c.nu * (1 + 2 * s.changes_after)
    return float((A * descent + s.surplus) / ((T - k0) * s.weight))


def planned_bound(theorem: Theorem, c: Constants, gamma: float, k0: int, T: int) -> float:
    """Return the bound for all radii not above those of SLGH_r, hence also for SLGH_d.

    While t falls, steps and errors that depend on it are taken at their worst over t >= floor.
    """
    n, radii = T - k0, Radii(t1=c.t1, gamma=gamma, floor=c.floor)
    most, least = theorem.step(c, n, math.inf), theorem.step(c, n, c.floor)
    L, error = c.smoothness(c.floor), c.error(c.floor)
    growth, surplus = (
        radii.total(term(c, most, L, error), term(c, least, L, error).at(c.floor), start, stop)
        for term, start, stop in ((theorem.growth, 0, k0), (theorem.surplus, k0, T))
    )
    t = radii.at(k0 + 1)
    sums = RadiusSums(
        growth=growth,
        surplus=surplus,
        fall_before=c.t1 - t,
        fall_after=t - c.floor,
        changes_before=radii.changes(0, k0),
        changes_after=radii.changes(k0, T),
        weight=theorem.weight(c, least, L),
    )
    return right_side(theorem, c, k0, T, sums)


def run_bound(
    theorem: Theorem, c: Constants, n: int, k0: int, t: NDArray[Any], *, weighted: bool, printed: bool
) -> float:
    """Return the bound for the radii t (T + 1, B) of a run, whose step is that for n iterations after k0.

    It is averaged over the B problems. `weighted` and `printed` are as in `Plan.bound`.
    """
    now, fall = t[:-1], np.abs(np.diff(t, axis=0))
    beta, L, error = theorem.step(c, n, now), c.smoothness(now), c.error(now)
    growth, surplus = (s(c, beta, L, error).at(now) for s in (theorem.growth, theorem.surplus))
    weight = np.broadcast_to(theorem.weight(c, beta, L), now.shape)[k0:]
    changed = np.ones_like(fall) if printed else fall > 0

    def total(each: Any, which: slice) -> float:
        return float(np.broadcast_to(each, now.shape)[which].sum(axis=0).mean())

    before, after = slice(None, k0), slice(k0, None)
    sums = RadiusSums(
        growth=total(growth, before),
        surplus=total(surplus, after),
        fall_before=total(fall, before),
        fall_after=total(fall, after),
        changes_before=total(changed, before),
        changes_after=total(changed, after),
        weight=float(weight.mean() if weighted else weight.min()),
    )
    return right_side(theorem, c, k0, len(now), sums)


def least_T(theorem: Theorem, c: Constants, gamma: float, k0: int, eps: float) -> int:
    """Return the smallest T whose bound is at most eps^2: by doubling, then bisection (the bound decreases with T)."""
    if (rest := theorem.residue(c)) >= eps**2:
        most = largest_nu(theorem, L1=c.L1, d=c.d, eps=eps) if c.nu else math.inf
        if c.nu >= most:
            raise ArgumentValueError(
                f"`nu` must be below {most:.3g} for eps={eps:g}: its error "
                f"alone may leave a mean |grad f|^2 of {rest:.3g} for any T, got nu={c.nu:g}."
            )
        # Values with an error nu leave (nu / floor)^2, so a floor may also be too low.
        higher = theorem.residue(dataclasses.replace(c, floor=1.1 * c.floor)) < rest
        raise ArgumentValueError(
            f"`floor` must be {'higher' if higher else 'lower'} for eps={eps:g}: it alone may leave a mean "
            f"|grad f|^2 of {rest:.3g} for any T, got floor={c.floor:g}."
        )
    high = 1
    while planned_bound(theorem, c, gamma, k0, k0 + high) > eps**2:
        high *= 2
        if high > MAX_T:
            raise ArgumentValueError(f"`eps` must be larger: T exceeds 2^100, got eps={eps:g}.")
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if planned_bound(theorem, c, gamma, k0, k0 + middle) > eps**2 else (low, middle)
    return k0 + high


def largest_nu(theorem: Theorem, *, L1: float, d: int, eps: float) -> float:
    r"""Return the error below which Theorem C.1 or C.2 reaches eps, :math:`O(\epsilon^2 / d^3)`.

    With the floor :math:`\sqrt\nu`, the part of the bound that remains is proportional to nu.

    Parameters
    ----------
    theorem
        `THEOREMS["C.1"]` or `THEOREMS["C.2"]`.
    L1
        Lipschitz constant of the gradient of f.
    d
        Number of variables.
    eps
        Gradient norm to reach.

    Examples
    --------
    >>> from slgh.theory import THEOREMS
    >>> round(largest_nu(THEOREMS["C.1"], L1=1.0, d=2, eps=0.1) * 1e6, 2)
    18.55
    """
    unit = Constants(L1=L1, d=d, t1=1.0, floor=1.0, L0=1.0, nu=1.0)
    return eps**2 / theorem.residue(unit)
