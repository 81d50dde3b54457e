"""The cosine basis of a grid: directions of images, fields and time series, from coarse to fine."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from slgh.protocols import Array, device_of

MAX_CHANNELS = 4
"""Longest axis that is taken for the channels of an image."""

CHANNEL_DAMPING = 6
"""Factor by which frequencies along the channels are lowered, so that changes of color are coarse directions."""


def cosine_matrix(n: int, like: Array, xp: Any) -> Array:
    r"""Return the orthonormal cosine transform of n points (DCT-II), one basis vector per row.

    .. math:: C_{ki} = \sqrt{(2 - [k = 0]) / n}\, \cos(\pi k (2 i + 1) / (2 n))

    It has the dtype of `like` and is computed on its device: a captured loop cannot copy a constant from the host.
    """
    k = xp.arange(n, device=device_of(like))
    # The cosine has the period 4 n in this integer. Reducing it first keeps small dtypes accurate.
    phase = xp.astype(k[:, None] * (2 * k[None, :] + 1) % (4 * n), like.dtype)
    scale = xp.sqrt((2.0 - xp.astype(k == 0, like.dtype)) / n)
    return scale[:, None] * xp.cos(phase * (math.pi / (2 * n)))


@dataclass(frozen=True)
class CosineBasis:
    """Products of cosines along the axes of a grid: an orthonormal basis of its d = prod(shape) variables.

    The variables are the grid's points in C order. Basis vectors have the same order, by their frequencies.

    Parameters
    ----------
    shape
        Shape of the grid, for example (3, 32, 32) for a color image with channels first.
    """

    shape: tuple[int, ...]

    def frequencies(self, like: Array, xp: Any) -> Array:
        """Return the frequency of each basis vector (d,): 0 for the constant, and below 1 along each axis.

        An axis of at most four points is taken for channels. Its frequencies count less.
        """
        squares = xp.zeros((1,), dtype=like.dtype, device=device_of(like))
        for n in self.shape:
            k = xp.astype(xp.arange(n, device=device_of(like)), like.dtype)
            along = k / (n if n > MAX_CHANNELS else n * CHANNEL_DAMPING)
            squares = xp.reshape(squares[:, None] + along * along, (-1,))
        return xp.sqrt(squares)

    def synthesize(self, coefficients: Array, xp: Any) -> Array:
        """Return the sums of basis vectors with these coefficients: (..., d) to (..., d)."""
        lead = tuple(coefficients.shape[:-1])
        field = xp.reshape(coefficients, (*lead, *self.shape))
        for axis, n in enumerate(self.shape):
            if n > 1:
                at = len(lead) + axis
                field = xp.moveaxis(field, at, -1)
                field = xp.moveaxis(xp.matmul(field, cosine_matrix(n, coefficients, xp)), -1, at)
        return xp.reshape(field, (*lead, math.prod(self.shape)))

    def vectors(self, index: Array, like: Array, xp: Any) -> Array:
        """Return the basis vectors with these numbers (B, m) as (B, m, d), of the dtype of `like`."""
        B, m = index.shape
        product = xp.ones((B, m, 1), dtype=like.dtype, device=device_of(like))
        for axis, n in enumerate(self.shape):
            along = index // math.prod(self.shape[axis + 1 :]) % n
            rows = xp.take(cosine_matrix(n, like, xp), xp.reshape(along, (-1,)), axis=0)
            product = xp.reshape(product[..., None] * xp.reshape(rows, (B, m, 1, n)), (B, m, -1))
        return product
