r"""Central differences along random signs: simultaneous perturbation, the oracle of SPSA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from slgh.oracles.antithetic import Antithetic
from slgh.protocols import Array, Noise


@dataclass(frozen=True, slots=True, kw_only=True)
class Rademacher(Antithetic):
    r"""Estimate the gradient from M pairs along vectors of independent signs.

    .. math::
        g = \frac{1}{M} \sum_{i=1}^M \frac{f(x + t \Delta_i) - f(x - t \Delta_i)}{2t}\, \Delta_i^{-1}, \qquad
        \Delta_i \in \{-1, 1\}^d

    M = `samples` pairs, 2M evaluations; Spall uses M = 1. The componentwise inverse of a sign is the sign itself, so
    this is the antithetic oracle with the signs of its normal directions. t is Spall's c_k. All points lie at the same
    distance from x, so they do not determine the trace.

    Parameters
    ----------
    values
        "raw": f itself. "ranks": in g, each of the 2M values is replaced by its rank among them, from -1/2 to 1/2.

    References
    ----------
    Spall. Multivariate stochastic approximation using a simultaneous perturbation gradient approximation. IEEE
    Transactions on Automatic Control 37, 1992.
    """

    name: ClassVar[str] = "rademacher"
    provides: ClassVar[frozenset[str]] = frozenset({"f", "F"})

    def _directions(self, m: int, noise: Noise, xp: Any) -> Array:
        u = noise.normal(m)
        return xp.copysign(xp.ones_like(u), u)
