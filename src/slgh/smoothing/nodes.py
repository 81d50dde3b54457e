"""Directions and weights that represent u ~ N(0, I): Gauss-Hermite nodes, or low-discrepancy samples."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, is_jax_array
from numpy.typing import NDArray

from slgh.checks import ArgumentValueError

Nodes = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Directions (J, m) and weights (J,)."""


class CachedNodes:
    """Directions and weights as arrays of any library. They are cached, so that a captured graph does not copy them."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self._cached: dict[Any, tuple[Any, Any]] = {}

    def like(self, x: Any) -> tuple[Any, Any]:
        """Return arrays of the library, dtype and device of x."""
        xp = array_namespace(x)
        key = xp, x.dtype, None if is_jax_array(x) else device(x)
        if key not in self._cached:
            where = {} if is_jax_array(x) else {"device": device(x)}
            u, w = (xp.asarray(a, dtype=x.dtype, **where) for a in self.nodes)
            if is_jax_array(x):  # they may belong to a trace, and must not outlive it
                return u, w
            self._cached[key] = u, w
        return self._cached[key]


MAX_NODES = 20_000
"""Maximum number of nodes of a rule."""

NODES_PER_AXIS = {1: 128, 2: 64, 3: 20, 4: 10}
"""Default number of nodes per axis, by the number of variables."""

SAMPLED_PAIRS = 256
"""Default number of antithetic pairs of samples."""

FALLBACKS = ("quadrature", "sampling")
"""Gauss-Hermite nodes for a term of few variables, or samples.

The samples are the same at every point and radius, so that the sampled F is an ordinary function of x and t.
"""


def raise_radius(t: Any, power: float, xp: Any) -> Any:
    """Return max(t, eps^power). Below it, a difference divided by t would be rounding."""
    least = float(xp.finfo(t.dtype).eps) ** power
    return xp.where(t > least, t, xp.full_like(t, least))


def gauss_hermite(m: int, n: int) -> Nodes:
    """Return the product rule of n^m nodes, exact for polynomials up to degree 2 n - 1 in each variable.

    >>> u, w = gauss_hermite(2, 3)
    >>> u.shape, bool(abs(w @ u[:, 0] ** 4 - 3) < 1e-12)
    ((9, 2), True)
    """
    from scipy import special

    nodes, weights = special.roots_hermitenorm(n)  # NumPy's version overflows beyond about 300 nodes
    weights = weights / math.sqrt(2 * math.pi)
    u = np.stack([axis.ravel() for axis in np.meshgrid(*[nodes] * m, indexing="ij")], axis=-1)
    w = np.prod([axis.ravel() for axis in np.meshgrid(*[weights] * m, indexing="ij")], axis=0)
    return u, w


def quasi_normal(m: int, n: int, seed: int = 0) -> Nodes:
    """Return n antithetic pairs of normal directions from a scrambled Sobol sequence: odd moments vanish.

    >>> u, w = quasi_normal(3, 8)
    >>> u.shape, bool(np.allclose(w @ u, 0))
    ((16, 3), True)
    """
    from scipy import special
    from scipy.stats import qmc  # slow to import, and rarely needed

    sequence = qmc.Sobol(m, rng=np.random.default_rng(seed))
    points = sequence.random_base2(max(1, math.ceil(math.log2(n))))[:n]
    u = special.ndtri(np.clip(points, 1e-12, 1 - 1e-12))
    return np.concatenate([u, -u]), np.full(2 * n, 1 / (2 * n))


def fallback_nodes(m: int, *, fallback: str, nodes: int | None, coarse: bool) -> Nodes:
    """Return the nodes for a term of m variables, as in `FALLBACKS`; `coarse`: half as many per axis, or in all."""
    sampling = fallback == "sampling"
    if not sampling and m not in NODES_PER_AXIS:
        raise ArgumentValueError(
            f"`fallback` 'quadrature' is for terms of at most {max(NODES_PER_AXIS)} variables, this term has {m}. Pass "
            "fallback='sampling'."
        )
    n = nodes or (SAMPLED_PAIRS if sampling else NODES_PER_AXIS[m])
    if not sampling and n**m > MAX_NODES:
        most = int(MAX_NODES ** (1 / m))
        raise ArgumentValueError(f"`nodes` must be at most {most} for a term of {m} variables, got nodes={n}.")
    return (quasi_normal if sampling else gauss_hermite)(m, max(1, n // 2) if coarse else n)
