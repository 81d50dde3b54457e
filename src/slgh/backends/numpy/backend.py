"""NumPy: a Python loop on the host."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slgh import checks
from slgh.backends.masking import EagerChoice
from slgh.backends.numpy.arrays import NumpyContext, xp
from slgh.backends.numpy.noise import NumpyNoise
from slgh.backends.protocols import Backend, Carry, CompiledLoop, Inputs, Keys, LoopProgram, NoiseSource
from slgh.protocols import Context

NOTHING: AbstractContextManager[None] = nullcontext()


def make_backend(x0: Any) -> NumpyBackend:
    return NumpyBackend()


class NumpyBackend(Backend):
    """NumPy on the host. `read` sets the dtype."""

    name = engine = "numpy"
    xp = xp
    ops = EagerChoice(xp)
    differentiates = compiles = False
    can_refill = True
    forks = True

    def read_devices(self, device: Any) -> list[Any]:
        hint = "shard x0 over them with jax.device_put" if self.name == "jax" else "use `workers` for several processes"
        raise checks.ArgumentTypeError(f"`device` is for PyTorch, and x0 is an array of {self.name}: {hint}.")

    def move(self, thing: Any, device: Any) -> Any:
        return thing

    def read(self, x0: Any) -> NDArray[Any]:
        try:
            x = plain_array(x0)
        except ValueError:
            raise checks.ArgumentValueError(f"`x0` must be an array of numbers, got {x0!r}.") from None
        self.dtype = np.dtype(np.float64) if x.dtype.kind in "iub" else x.dtype
        return x.astype(self.dtype)

    def native(self, array: NDArray[Any]) -> NDArray[Any]:
        return array

    to_function = host = native

    def index(self, rows: NDArray[Any]) -> NDArray[Any]:
        return rows

    def to_library(self, array: NDArray[Any]) -> NDArray[Any]:
        return array.copy()

    to_loop = to_library

    def data(self, array: Any) -> NDArray[Any]:
        copy = np.array(array)
        copy.flags.writeable = False
        return copy

    def context(self, needs: frozenset[str], *, stochastic: bool) -> Context:
        return NumpyContext(xp=xp, needs=needs, stochastic=stochastic)

    def noise(self, keys: Keys, d: int, sample_xi: Any, *, samples: int) -> NoiseSource:
        return NumpyNoise(keys, d, self.dtype, sample_xi, samples=samples)

    def real(self, value: Any, name: str) -> NDArray[Any]:
        array = real_array(value, name)
        with NOTHING if array.dtype == self.dtype else np.errstate(all="ignore"):
            return array.astype(self.dtype)

    def number(self, value: Any) -> float | np.floating[Any]:
        if type(value) is float or isinstance(value, np.floating):
            return value
        array = real_array(value, "fun")
        if array.size != 1:
            raise checks.ArgumentValueError(f"`fun` must return one number per point, got {checks.show(value)}.")
        return float(array.reshape(()))

    def without_gradients(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        return fun

    def stack(self, items: list[Any]) -> NDArray[Any]:
        with np.errstate(all="ignore"):
            return np.array(items, self.dtype)

    def guard_arguments(self, *arrays: NDArray[Any]) -> AbstractContextManager[None]:
        for array in arrays:
            array.flags.writeable = False
        return NOTHING

    def session(self, *, differences: bool) -> AbstractContextManager[None]:
        return NOTHING

    def gradient(self, fun: Callable[..., Any], *, vectorized: bool) -> Callable[..., Any]:
        raise NotImplementedError("NumPy does not differentiate.")

    def check_functions(self, functions: tuple[Any, ...], name: str = "fun") -> None:
        pass

    def mapped(self, fun: Callable[..., Any], *, data: int, xi: bool, vector: bool) -> Callable[..., Any]:
        raise NotImplementedError("NumPy maps no functions.")

    def compile(self, program: LoopProgram, inputs: Inputs, carry: Carry, noise: Any) -> CompiledLoop | str:
        return "NumPy compiles nothing"


def real_array(value: Any, name: str) -> NDArray[Any]:
    """Return an array of real numbers, or raise an error that names the function and its value."""
    try:
        array = plain_array(value)
    except (ValueError, TypeError):
        array = np.asarray(None)
    if array.dtype.kind not in "fiub":
        hint = " Does it lack a return statement?" if value is None else ""
        raise checks.ArgumentTypeError(f"`{name}` must return real numbers, got {checks.show(value)}.{hint}")
    return array


def plain_array(value: Any) -> NDArray[Any]:
    """Return an array without a mask, with Python numbers as floats."""
    array = _unmasked(value)
    if array.dtype == object and all(isinstance(one, Real | Decimal) for one in array.flat):
        array = np.array([checks.to_float(one) for one in array.flat], float).reshape(array.shape)
    return array


def _unmasked(value: Any) -> NDArray[Any]:
    """Return an array with NaN for masked entries: they are missing, whatever is stored under the mask."""
    if isinstance(value, list | tuple) and any(isinstance(one, np.ma.MaskedArray) for one in value):
        return np.stack([_unmasked(one) for one in value])
    if isinstance(value, np.ma.MaskedArray):
        masked: Any = value.astype(float) if value.dtype.kind in "iub" else value
        value = masked.filled(np.nan)
    return np.asarray(value)
