"""Directions and weights that stand for u ~ N(0, I): those of Gauss and Hermite, or low-discrepancy samples."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, is_jax_array
from numpy.typing import NDArray


class Kept:
    """Directions and weights as arrays of any library, kept, so that a captured graph need not copy them."""

    def __init__(self, u: NDArray[Any], w: NDArray[Any]) -> None:
        self.nodes = u, w
        self._kept: dict[Any, tuple[Any, Any]] = {}

    def like(self, x: Any) -> tuple[Any, Any]:
        """Arrays of the library, dtype and device of x."""
        xp = array_namespace(x)
        key = xp, x.dtype, None if is_jax_array(x) else device(x)
        if key not in self._kept:
            where = {} if is_jax_array(x) else {"device": device(x)}
            u, w = (xp.asarray(a, dtype=x.dtype, **where) for a in self.nodes)
            if is_jax_array(x):  # may be of a trace, which must not outlive it
                return u, w
            self._kept[key] = u, w
        return self._kept[key]


Nodes = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Directions (J, m) and weights (J,)."""

MOST = 20_000
"""The most nodes of a rule."""

PER_AXIS = {1: 128, 2: 64, 3: 20, 4: 10}
"""How many nodes an axis has by default, for so many variables."""


def at_least(t: Any, power: float, xp: Any) -> Any:
    """t, but not below eps^power, where what is divided by it would be rounding."""
    least = float(xp.finfo(t.dtype).eps) ** power
    return xp.where(t > least, t, xp.full_like(t, least))


def gauss_hermite(m: int, n: int) -> Nodes:
    """The product rule of n^m nodes, exact for polynomials up to degree 2 n - 1 in each variable.

    >>> u, w = gauss_hermite(2, 3)
    >>> u.shape, bool(abs(w @ u[:, 0] ** 4 - 3) < 1e-12)
    ((9, 2), True)
    """
    from scipy import special

    nodes, weights = special.roots_hermitenorm(n)  # NumPy's overflows beyond some 300 nodes
    weights = weights / math.sqrt(2 * math.pi)
    u = np.stack([axis.ravel() for axis in np.meshgrid(*[nodes] * m, indexing="ij")], axis=-1)
    w = np.prod([axis.ravel() for axis in np.meshgrid(*[weights] * m, indexing="ij")], axis=0)
    return u, w


def quasi_normal(m: int, n: int, seed: int = 0) -> Nodes:
    """n antithetic pairs of a scrambled Sobol sequence, as normal directions: odd moments vanish.

    >>> u, w = quasi_normal(3, 8)
    >>> u.shape, bool(np.allclose(w @ u, 0))
    ((16, 3), True)
    """
    from scipy import special
    from scipy.stats import qmc  # slow to import, and not needed by most

    sequence = qmc.Sobol(m, rng=np.random.default_rng(seed))
    points = sequence.random_base2(max(1, math.ceil(math.log2(n))))[:n]
    u = special.ndtri(np.clip(points, 1e-12, 1 - 1e-12))
    return np.concatenate([u, -u]), np.full(2 * n, 1 / (2 * n))


def by_quadrature(nodes: int | None, m: int, *, coarse: bool = False) -> Nodes:
    """Nodes of Gauss and Hermite for a term of few variables; `coarse`: half as many on each axis."""
    if m not in PER_AXIS:
        raise ValueError(
            f"`fallback` 'quadrature' is for terms of up to {max(PER_AXIS)} variables, one here has {m}. Pass "
            "fallback='sampling'."
        )
    n = PER_AXIS[m] if nodes is None else nodes
    if n**m > MOST:
        raise ValueError(f"`nodes` must be at most {int(MOST ** (1 / m))} for a term of {m} variables, got nodes={n}.")
    return gauss_hermite(m, max(1, n // 2) if coarse else n)


def by_sampling(nodes: int | None, m: int, *, coarse: bool = False) -> Nodes:
    """Samples, the same at every point and radius, so that the sampled F is a function like any other.

    `coarse`: half as many.
    """
    n = 256 if nodes is None else nodes
    return quasi_normal(m, max(1, n // 2) if coarse else n)


FALLBACKS: dict[str, Callable[..., Nodes]] = {"quadrature": by_quadrature, "sampling": by_sampling}
