"""The six theorems of the paper as plain formulas, written from its proofs without code of the library.

The equations are those of Appendices B (3.4, 3.5, 4.1, 4.2) and C (C.1, C.2). Where the documentation of the library
corrects a slip of a proof, the corrected form is used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

VANISHED = 1e-40
"""Below this fraction of t1, a radius adds nothing to a sum."""

LARGEST_GAMMA = 0.999
"""Largest gamma that the library chooses."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Constants of Assumptions A1 to A3, and the first and the smallest radius."""

    theorem: str
    d: int
    L1: float
    L0: float
    t1: float
    floor: float
    sigma: float = 0.0
    nu: float = 0.0
    gap: float = math.inf
    span: float = math.inf

    @property
    def tolerant(self) -> bool:
        """True if the values have an error."""
        return self.theorem in ("C.1", "C.2")

    @property
    def stochastic(self) -> bool:
        """True if f is stochastic."""
        return self.theorem in ("3.5", "4.2", "C.2")

    def curvature(self, t: Any) -> Any:
        """Return L1(t) of Lemma C.7."""
        return self.L1 + 2 * self.nu / t**2 if self.tolerant else self.L1

    def error(self, t: Any) -> Any:
        """Return (nu / t)^2."""
        return self.nu**2 / t**2 if self.tolerant else 0.0


def first_candidate(theorem: str, d: int, eps: float) -> float:
    """Return k1 of the theorem."""
    match theorem:
        case "3.4":
            return 1 / eps**2
        case "3.5":
            return 1 / eps**4
        case "4.1" | "C.1":
            return d / eps**2
    return d / eps**4  # 4.2, C.2


def second_candidate(theorem: str, d: int, eps: float, gamma: float) -> float:
    """Return k2 of the theorem, a logarithm to the base gamma."""
    match theorem:
        case "3.4":
            exponent = 1.5 * math.log(d)
        case "3.5":
            exponent = max(0.5 * math.log(d), 1.5 * math.log(d) + 2 * math.log(eps))
        case "4.1" | "4.2":
            exponent = 0.5 * math.log(d)
        case _:  # C.1, C.2
            exponent = math.log(d)
    return -exponent / math.log(gamma)


def tuned_gamma(theorem: str, d: int, eps: float) -> float:
    """Return the gamma of each theorem's last sentence, as printed in its proof.

    The burn-in has at least one iteration.
    """
    inverse = min(1.0, 1 / first_candidate(theorem, d, eps))
    match theorem:
        case "3.4":
            tuned = d ** (-1.5 * inverse)
        case "3.5":
            tuned = max(math.sqrt(d), d**1.5 * eps**2) ** -inverse
        case "4.1" | "4.2":
            tuned = d ** (-inverse / 2)
        case _:  # C.1, C.2
            tuned = d**-inverse
    return float(min(tuned, LARGEST_GAMMA))


def step(s: Setting, n: float, t: Any) -> Any:
    """Return beta of the theorem for n = T - k0 at radius t."""
    match s.theorem:
        case "3.4":
            return 1 / s.L1
        case "3.5":
            return min(1 / s.L1, 1 / math.sqrt(n))
        case "4.1":
            return 1 / (2 * (s.d + 4) * s.L1)
        case "4.2":
            return min(1 / (2 * (s.d + 4) * s.L1), 1 / math.sqrt(n * (s.d + 4)))
        case "C.1":
            return 1 / (16 * (s.d + 4) * s.curvature(t))
    return np.minimum(1 / (16 * (s.d + 4) * s.curvature(t)), 1 / math.sqrt(n * (s.d + 4)))  # C.2


def weight(s: Setting, beta: Any, L: Any) -> Any:
    """Return the factor of |grad f(x_k)|^2 after the proof has rearranged its terms."""
    if s.theorem in ("3.4", "3.5"):
        return (2 * beta - s.L1 * beta**2) / 2
    if s.theorem in ("4.1", "4.2"):
        return beta - (s.d + 4) * s.L1 * beta**2
    return beta - 8 * (s.d + 4) * L * beta**2


def noise(s: Setting, beta: Any, L: Any) -> Any:
    """Return the contribution of the variance in an iteration of the stochastic theorems."""
    match s.theorem:
        case "3.5":
            return s.L1 / 2 * beta**2 * s.sigma**2
        case "4.2":
            return s.L1 * beta**2 * (s.d + 4) * s.sigma**2
        case "C.2":
            return 2 * L * beta**2 * 4 * (s.d + 4) * s.sigma**2
    return 0.0


def surplus(s: Setting, beta: Any, L: Any, error: Any, t: Any) -> Any:
    """Return the right-hand side of an iteration at radius t, without the descent of F."""
    lemma_ii = s.L0 * s.L1 * (s.d + 3) ** 1.5 * t
    sixth = s.L1**2 * (s.d + 6) ** 3 * t**2
    if s.theorem in ("3.4", "3.5"):
        own = weight(s, beta, L) * lemma_ii
    elif s.theorem in ("4.1", "4.2"):
        own = beta * lemma_ii + s.L1 / 2 * beta**2 * sixth / 2
    else:
        own = 4 * (L / 2 * beta**2) * (sixth + 8 * s.d * error) + beta * (sixth / 2 + 8 / math.pi * error)
    return own + noise(s, beta, L)


def growth(s: Setting, beta: Any, L: Any, error: Any, t: Any) -> Any:
    """Return the growth in an iteration of the burn-in: with gradients the variance alone, with values everything."""
    return noise(s, beta, L) if s.theorem in ("3.4", "3.5") else surplus(s, beta, L, error, t)


def assemble(
    s: Setting,
    n: float,
    least_weight: float,
    *,
    grown: float,
    added: float,
    falls: tuple[float, float],
    changes: tuple[float, float],
) -> float:
    """Sum the inequality of the proof: over the burn-in for the value at its end, then over the next n iterations."""
    times = 4 if s.tolerant else 1
    slope = s.L0 * math.sqrt(s.d)
    by_descent = s.gap + s.nu + slope * s.t1 + slope * falls[0] + 2 * s.nu * changes[0] + grown / times
    begun = min(s.span + s.nu, by_descent)
    descent = begun + s.nu + slope * falls[1] + 2 * s.nu * changes[1]
    return (times * descent + added) / (n * least_weight)


def bound(s: Setting, gamma: float, k0: int, T: int) -> float:
    """Return the bound for every run whose radii are not above those of SLGH_r, summed radius by radius.

    While t decreases, step, curvature and error are the worst of all t above the floor.
    """
    n = T - k0
    lowest = max(s.floor / s.t1, VANISHED)
    radii = s.t1 * gamma ** np.arange(min(T, math.ceil(math.log(lowest) / math.log(gamma)) + 2), dtype=float)
    radii = radii[radii > max(s.floor, VANISHED * s.t1)]
    fallen = len(radii)
    most, least = step(s, n, math.inf), step(s, n, s.floor or 1.0)
    L, error = s.curvature(s.floor or 1.0), s.error(s.floor or 1.0)
    grown = np.sum(growth(s, most, L, error, radii[:k0]) + 0 * radii[:k0])
    grown += max(0, k0 - fallen) * growth(s, least, L, error, s.floor)
    added = np.sum(surplus(s, most, L, error, radii[k0:]))
    added += (T - max(k0, fallen)) * surplus(s, least, L, error, s.floor)
    t = float(radii[k0]) if k0 < fallen else max(s.floor, s.t1 * gamma**k0)
    return assemble(
        s,
        n,
        weight(s, least, L),
        grown=float(grown),
        added=float(added),
        falls=(s.t1 - t, t - s.floor),
        changes=(min(k0, fallen), fallen - min(k0, fallen)),
    )


def bound_of_run(s: Setting, n: float, k0: int, t: Any, *, weighted: bool, printed: bool) -> float:
    """Return the bound for the radii t (T + 1, B) of runs with the step for n iterations: the mean over columns."""
    T, B = len(t) - 1, t.shape[1]
    grown = added = 0.0
    falls, changes, weights = [0.0, 0.0], [0.0, 0.0], []
    for k in range(T):
        for b in range(B):
            now, after = float(t[k, b]), int(k >= k0)
            L, error = s.curvature(now), s.error(now)
            beta = float(step(s, n, now))
            fall = abs(float(t[k + 1, b]) - now)
            falls[after] += fall / B
            changes[after] += (1 if printed or fall > 0 else 0) / B
            if after:
                added += surplus(s, beta, L, error, now) / B
                weights.append(weight(s, beta, L))
            else:
                grown += growth(s, beta, L, error, now) / B
    a = sum(weights) / len(weights) if weighted else min(weights)
    return assemble(
        s, T - k0, a, grown=grown, added=added, falls=(falls[0], falls[1]), changes=(changes[0], changes[1])
    )


def residue(s: Setting) -> float:
    """Return the limit of the bound as T grows: surplus over weight at the floor. A step with 1/sqrt(n) vanishes."""
    lemma_ii: float = s.L0 * s.L1 * (s.d + 3) ** 1.5 * s.floor
    sixth: float = s.L1**2 * (s.d + 6) ** 3 * s.floor**2
    error = float(s.error(s.floor))
    match s.theorem:
        case "3.4" | "3.5" | "4.2":
            return lemma_ii
        case "4.1":
            return 2 * lemma_ii + sixth / (4 * (s.d + 4))
        case "C.1":
            return sixth + 16 / math.pi * error + (sixth + 8 * s.d * error) / (4 * (s.d + 4))
    return sixth / 2 + 8 / math.pi * error  # C.2


def largest_nu(theorem: str, *, L1: float, d: int, eps: float) -> float:
    """Return the nu whose floor sqrt(nu) leaves exactly eps^2 in Theorem C.1 or C.2."""
    cube = L1**2 * (d + 6) ** 3
    if theorem == "C.1":
        left: float = cube + 16 / math.pi + (cube + 8 * d) / (4 * (d + 4))
    else:
        left = cube / 2 + 8 / math.pi
    return eps**2 / left
