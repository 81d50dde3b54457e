r"""Central differences along smooth directions, which become finer as t falls: for images, fields and time series."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from slgh import checks
from slgh.oracles.antithetic import Antithetic
from slgh.oracles.cosines import CosineBasis
from slgh.protocols import Array, Noise


@dataclass(frozen=True, slots=True, kw_only=True)
class CoarseToFine(Antithetic):
    r"""Estimate the gradient of F from M antithetic pairs along combinations of the n(t) coarsest cosines of a grid.

    .. math::
        F(x, t) = E f(x + t u), \qquad
        u = \sqrt{d / n}\; C^\top [\nu \le \rho(t)]\, \xi, \quad \xi \sim N(0, I), \qquad
        \rho(t) = \max(\rho_0,\ t_f / t), \qquad
        g = \frac{n}{d M} \sum_{i=1}^M \frac{f(x + t u_i) - f(x - t u_i)}{2t}\, u_i

    C is the orthonormal cosine transform of the grid, :math:`\nu` are its frequencies, from 0 to 1 along each axis, and
    n is the number of those up to :math:`\rho(t)`. So u has the covariance (d / n) P, where P projects onto these
    cosines, and the mean of g is P grad F(x, t). The squared length of u is d on average for every t. At t <=
    :math:`t_f / \sqrt{a}` on a grid with a axes, all cosines are used: then u is a normal vector, and F the Gaussian
    homotopy.

    If grad f is mostly smooth, as it is for images, its coarse part takes far fewer samples: n instead of d.

    Parameters
    ----------
    samples
        M, the number of pairs. An iteration takes 2M evaluations, and one more if f(x) is needed.
    values
        "raw": f itself. "ranks": in g, each of the 2M values is replaced by its rank among them, from -1/2 to 1/2.
    xi
        "pairs": both points of a pair share their xi. "shared": all points of an iteration do.
    grid
        Shape of the grid whose points are the variables, in C order, for example (3, 32, 32). Empty, the default: one
        axis with all variables. An axis of at most four points is taken for channels, whose frequencies count less.
    t_fine
        :math:`t_f`, the t at which frequencies up to 1 are used.
    coarsest
        :math:`\rho_0`, the lowest limit of the frequencies, 0.1 by default.
    """

    name: ClassVar[str] = "coarse_to_fine"
    provides: ClassVar[frozenset[str]] = frozenset({"f", "F"})

    grid: tuple[int, ...] = ()
    t_fine: float
    coarsest: float = 0.1

    def __post_init__(self) -> None:
        Antithetic.__post_init__(self)
        checks.real("t_fine", self.t_fine, above=0)
        checks.real("coarsest", self.coarsest, above=0)

    def _kept(self, t: Array, d: int, xp: Any) -> Array:
        """Return 1 for the cosines that are used and 0 for the others, (B, d)."""
        grid = tuple(self.grid) or (d,)
        if math.prod(grid) != d:
            raise checks.ArgumentValueError(
                f"`grid` must have as many points as there are variables, {d}; got {grid}, which has {math.prod(grid)}."
            )
        limit = xp.clip(self.t_fine / t, min=self.coarsest)
        return xp.astype(CosineBasis(grid).frequencies(t, xp) <= limit[:, None], t.dtype)

    def _directions(self, m: int, t: Array, noise: Noise, xp: Any) -> Array:
        normals = noise.normal(m)
        d = normals.shape[-1]
        kept = self._kept(t, d, xp)
        scaled = kept * xp.sqrt(d / xp.sum(kept, axis=1, keepdims=True))
        return CosineBasis(tuple(self.grid) or (d,)).synthesize(normals * scaled[:, None, :], xp)

    def _rescaled(self, g: Array, t: Array, xp: Any) -> Array:
        return g * xp.mean(self._kept(t, g.shape[-1], xp), axis=1, keepdims=True)
