"""NumPy as the engine computes with it: a namespace without wrappers, and points written in place."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slgh.protocols import Context


def _reduction(ufunc: np.ufunc) -> Any:
    """Return the reduction by `ufunc` with the signature of the array API."""
    reduce: Any = ufunc.reduce

    def reduced(x: Any, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
        return reduce(x, axis, dtype, None, keepdims)

    return staticmethod(reduced)


class NumpyNamespace:
    """NumPy as an array-API namespace, without the Python wrappers around some functions.

    The results are the same. For small arrays, a wrapper takes longer than the function it wraps.
    """

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        setattr(self, name, found)
        return found

    sum, min, max = _reduction(np.add), _reduction(np.minimum), _reduction(np.maximum)
    all = _reduction(np.logical_and)

    @staticmethod
    def mean(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
        total = NumpyNamespace.sum(x, axis=axis, keepdims=keepdims)
        return total / (x.size // max(1, total.size))

    @staticmethod
    def argmin(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
        return x.argmin(axis, keepdims=keepdims)

    @staticmethod
    def reshape(x: Any, /, shape: tuple[int, ...]) -> Any:
        return x.reshape(shape)

    @staticmethod
    def take(x: Any, indices: Any, /, *, axis: Any = None) -> Any:
        return x.take(indices, axis)

    @staticmethod
    def take_along_axis(x: Any, indices: Any, /, *, axis: int = -1) -> Any:
        if x.ndim == 3 and axis == 1 and indices.shape[1:] == (1, 1):
            # One row per problem, the engine's case: indexing rows is faster than gathering their entries.
            return x[np.arange(x.shape[0]), indices[:, 0, 0]][:, None, :]
        return np.take_along_axis(x, indices, axis)

    @staticmethod
    def astype(x: Any, dtype: Any, /, *, copy: bool = True) -> Any:
        return x.astype(dtype, copy=copy)

    @staticmethod
    def zeros_like(x: Any, /, *, dtype: Any = None) -> Any:
        return np.zeros(x.shape, dtype or x.dtype)

    @staticmethod
    def ones_like(x: Any, /, *, dtype: Any = None) -> Any:
        return np.ones(x.shape, dtype or x.dtype)


xp = NumpyNamespace()


class NumpyContext(Context):
    """A Context that writes points in place, without intermediate arrays."""

    def sample_points(
        self, x: NDArray[Any], t: NDArray[Any], directions: list[NDArray[Any]], centers: int
    ) -> NDArray[Any]:
        B, d = x.shape
        m = [u.shape[1] for u in directions]
        points = np.empty((B, centers + sum(m), d), x.dtype)
        points[:, :centers] = x[:, None, :]
        flat, at, radius = points.reshape(B, -1), centers * d, t[:, None]
        for u, size in zip(directions, m, strict=True):
            np.multiply(u.reshape(B, size * d), radius, out=flat[:, at : at + size * d])
            at += size * d
        moved = points[:, centers:]
        moved += x[:, None, :]
        return points

    def antithetic_points(
        self, x: NDArray[Any], t: NDArray[Any], u: NDArray[Any], widths: NDArray[Any] | None, centers: int
    ) -> NDArray[Any]:
        (B, m, d), origin = u.shape, x[:, None, :]
        points = np.empty((B, centers + 2 * m, d), x.dtype)
        points[:, :centers] = origin
        ahead, behind = points[:, centers : centers + m], points[:, centers + m :]
        if widths is None:
            np.multiply(u, t[:, None, None], out=ahead)
        else:
            np.multiply(u, widths[:, None, :], out=ahead)
            ahead *= t[:, None, None]
        np.subtract(origin, ahead, out=behind)
        ahead += origin
        return points
