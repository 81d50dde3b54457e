"""NumPy: points written in place, and a namespace without wrappers."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slgh import checks
from slgh.backends.masking import EagerChoice
from slgh.backends.numpy.noise import NumpyNoise
from slgh.backends.protocols import CompiledLoop, Keys
from slgh.protocols import Context

_add: Any = np.add.reduce
_minimum: Any = np.minimum.reduce
_maximum: Any = np.maximum.reduce
_and: Any = np.logical_and.reduce


class NumpyNamespace:
    """NumPy as an array-API namespace, with the Python wrappers around some functions peeled off.

    The same results, sooner: for small arrays a wrapper costs more than what it wraps. Everything else is
    NumPy's own.
    """

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        setattr(self, name, found)
        return found

    @staticmethod
    def sum(x: Any, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
        return _add(x, axis, dtype, None, keepdims)

    @staticmethod
    def mean(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
        total = _add(x, axis, None, None, keepdims)
        return total / (x.size // max(1, total.size))

    @staticmethod
    def min(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
        return _minimum(x, axis, None, None, keepdims)

    @staticmethod
    def max(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
        return _maximum(x, axis, None, None, keepdims)

    @staticmethod
    def all(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
        return _and(x, axis, None, None, keepdims)

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
    def take_along_axis(x: Any, indices: Any, /, *, axis: int) -> Any:
        """For one index a problem, (B, 1, 1) along the second of three axes: the only shape the engine has."""
        assert axis == 1
        return x[np.arange(x.shape[0]), indices[:, 0, 0]][:, None, :]

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
    """A Context that writes points where they are needed, without the intermediate arrays."""

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


NOTHING: AbstractContextManager[None] = nullcontext()


class NumpyBackend:
    """NumPy on the host."""

    name = engine = "numpy"
    xp = xp
    ops = EagerChoice(xp)
    differentiates = compiles = False
    can_refill = True
    forks = True

    def read(self, x0: Any) -> NDArray[Any]:
        try:
            x = plain_array(x0)
        except ValueError:
            raise ValueError(f"`x0` must be an array of numbers, got {x0!r}.") from None
        self.dtype = np.dtype(np.float64) if x.dtype.kind in "iub" else x.dtype
        return x.astype(self.dtype)

    def native(self, array: NDArray[Any]) -> NDArray[Any]:
        return array

    def to_library(self, array: NDArray[Any]) -> NDArray[Any]:
        return array.copy()

    def to_function(self, array: NDArray[Any]) -> NDArray[Any]:
        return array

    def host(self, array: NDArray[Any]) -> NDArray[Any]:
        return array

    def data(self, array: Any) -> NDArray[Any]:
        copy = np.array(array)
        copy.flags.writeable = False
        return copy

    def index(self, rows: NDArray[Any]) -> NDArray[Any]:
        return rows

    def context(self, needs: frozenset[str], *, stochastic: bool) -> Context:
        return NumpyContext(xp=xp, needs=needs, stochastic=stochastic)

    def noise(self, keys: Keys, d: int, sample_xi: Any, *, samples: int) -> NumpyNoise:
        return NumpyNoise(keys, d, self.dtype, sample_xi, samples=samples)

    def real(self, value: Any, name: str) -> NDArray[Any]:
        array = real_array(value, name)
        with NOTHING if array.dtype == self.dtype else np.errstate(all="ignore"):
            return array.astype(self.dtype)

    def number(self, value: Any) -> float:
        if type(value) is float or isinstance(value, np.floating):
            return value  # type: ignore[return-value]
        array = real_array(value, "fun")
        if array.size != 1:
            raise ValueError(f"`fun` must return one number a point, got {checks.show(value)}.")
        return float(array.reshape(()))

    def without_gradients(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        return fun

    def stack(self, items: list[Any]) -> NDArray[Any]:
        with np.errstate(all="ignore"):
            return np.array(items, self.dtype)

    def copy(self, point: NDArray[Any]) -> NDArray[Any]:
        return point.copy()

    def guard_arguments(self, *arrays: NDArray[Any]) -> AbstractContextManager[None]:
        for array in arrays:
            array.flags.writeable = False
        return NOTHING

    def session(self, *, differences: bool) -> AbstractContextManager[None]:
        return nullcontext()

    def gradient(self, fun: Callable[..., Any], *, vectorized: bool) -> Callable[..., Any]:
        raise NotImplementedError("NumPy does not differentiate.")

    def check_functions(self, functions: tuple[Any, ...], name: str = "fun") -> None:
        pass

    def mapped(self, fun: Callable[..., Any], *, data: int, xi: bool, vector: bool) -> Callable[..., Any]:
        raise NotImplementedError("NumPy maps no functions.")

    def compile(self, program: Any, inputs: Any, carry: Any, noise: Any) -> CompiledLoop | str:
        return "NumPy compiles nothing"


def real_array(value: Any, name: str) -> NDArray[Any]:
    """Return an array of real numbers, or raise an error that names the function and what it returned."""
    try:
        array = plain_array(value)
    except (ValueError, TypeError):
        array = np.asarray(None)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"`{name}` must return real numbers, got {checks.show(value)}.")
    return array


def plain_array(value: Any) -> NDArray[Any]:
    """Return an array without a mask, and without Python numbers where floats can hold them."""
    array = _unmasked(value)
    if array.dtype == object and all(isinstance(one, Real | Decimal) for one in array.flat):
        array = np.array([_float(one) for one in array.flat], float).reshape(array.shape)
    return array


def _unmasked(value: Any) -> NDArray[Any]:
    """An array with NaN for masked entries, which are missing values whatever is stored under the mask."""
    if isinstance(value, list | tuple) and any(isinstance(one, np.ma.MaskedArray) for one in value):
        return np.stack([_unmasked(one) for one in value])
    if isinstance(value, np.ma.MaskedArray):
        masked: Any = value.astype(float) if value.dtype.kind in "iub" else value
        value = masked.filled(np.nan)
    return np.asarray(value)


def _float(number: Any) -> float:
    """A Python number as a float, infinite where it is too large."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf
