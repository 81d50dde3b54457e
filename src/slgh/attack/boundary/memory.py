r"""Derivatives of several functions, learned from differences and remembered between iterations.

Differences along n directions say nothing about the derivative along others. There the memory keeps what it knew. This
is the least change of J that agrees with all differences: Broyden's update for one direction, block Kaczmarz for
several.
"""

from __future__ import annotations

from typing import Any

from array_api_compat import device

from slgh.protocols import Array

RIDGE = 1e-4
"""Share of the mean squared length of the moves that is added to the diagonal of their Gram matrix.

Moves that are cut off by the box can be nearly parallel.
"""

CONJUGATE_GRADIENTS = 12
"""Iterations of conjugate gradients for the Gram matrix, which is nearly diagonal. A fixed number can be compiled."""


def learn(J: Array, moves: Array, rises: Array, xp: Any) -> Array:
    r"""Return the derivatives nearest to J that agree with differences along some moves.

    .. math:: J' = J + (Y - S J^\top)^\top (S S^\top)^{-1} S

    Parameters
    ----------
    J
        (B, K, d) derivatives of K functions.
    moves
        S, (B, n, d). A move of length 0 teaches nothing.
    rises
        Y, (B, n, K): the change of each function along each move.
    """
    residual = rises - xp.matmul(moves, xp.matrix_transpose(J))
    gram = xp.matmul(moves, xp.matrix_transpose(moves))
    weights = _solve(gram, residual, xp)
    return J + xp.matmul(xp.matrix_transpose(weights), moves)


def _solve(gram: Array, right: Array, xp: Any) -> Array:
    """Solve (gram + ridge) w = right for (B, n, n) and (B, n, K) by conjugate gradients, scaled by the diagonal.

    A library's solver reads its error code on the host, which a captured loop cannot.
    """
    diagonal = xp.sum(gram * xp.eye(gram.shape[-1], dtype=gram.dtype, device=device(gram)), axis=-1)
    mean = xp.mean(diagonal, axis=-1)
    tiny = xp.finfo(gram.dtype).smallest_normal
    ridge = RIDGE * mean + tiny
    scale = (1.0 / (diagonal + ridge[:, None]))[..., None]
    w = xp.zeros_like(right)
    rest = right * xp.astype(diagonal > 0, right.dtype)[..., None]
    z = scale * rest
    direction, size = z, xp.sum(rest * z, axis=1, keepdims=True)
    for _ in range(min(CONJUGATE_GRADIENTS, gram.shape[-1])):
        image = xp.matmul(gram, direction) + ridge[:, None, None] * direction
        step = size / (xp.sum(direction * image, axis=1, keepdims=True) + tiny)
        w, rest = w + step * direction, rest - step * image
        z = scale * rest
        new = xp.sum(rest * z, axis=1, keepdims=True)
        direction, size = z + new / (size + tiny) * direction, new
    return w
