"""JAX: the loop compiled where the user's function can be traced; else NumPy's, with JAX arrays for the function."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from slgh import checks
from slgh.backends.jax.loop import WhileLoop
from slgh.backends.jax.noise import JaxHostNoise, problem_keys
from slgh.backends.mapping import Mapped
from slgh.backends.numpy.backend import NOTHING, NumpyBackend, real_array
from slgh.backends.protocols import Keys
from slgh.protocols import Array

UNTRACEABLE = (jax.errors.JAXTypeError, jax.errors.JAXIndexError)
"""What tracing raises where Python must see a value."""


@dataclass(frozen=True)
class JaxGradient:
    """The gradient of fun in its first argument, by reverse mode."""

    fun: Callable[..., Any]
    vectorized: bool

    def __call__(self, x: Array, *extra: Any) -> Array:
        def total(x: Array) -> Array:
            value = self.fun(x, *extra)
            return jnp.asarray(value).sum() if self.vectorized else _number(value)

        try:
            return jax.grad(total)(x)
        except Exception as error:
            error.add_note("slgh: raised while `fun` was differentiated; pass `grad`, or take a zeroth-order method.")
            raise


def _number(value: Any) -> Array:
    """What `fun` returned for one point, as a number, traced or not."""
    array = value if isinstance(value, jax.Array) else real_array(value, "fun")
    if array.size != 1:
        what = f"shape {array.shape}" if isinstance(value, jax.Array) else checks.show(value)
        raise ValueError(f"`fun` must return one number a point, got {what}.")
    return jnp.asarray(array).reshape(())


def _fitting(number: Any, dtype: Any) -> Any:
    """A Python number that JAX converts without an error: counts have 32 bits, and floats the range of `dtype`."""
    if isinstance(number, int):
        return min(number, np.iinfo(np.int32).max)
    if isinstance(number, float) and not float(np.finfo(dtype).tiny) <= abs(number) <= float(np.finfo(dtype).max):
        with np.errstate(all="ignore"):
            return float(dtype.type(number))
    return number


class Tracing:
    """How the user's functions are called while a loop is traced: arrays are JAX's, and nothing looks at values."""

    xp = jnp

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype

    def to_function(self, array: Array) -> Array:
        return array

    def guard_arguments(self, *arrays: Array) -> AbstractContextManager[None]:
        return NOTHING

    def real(self, value: Any, name: str) -> Array:
        array = value if isinstance(value, jax.Array) else real_array(value, name)
        if not jnp.isdtype(array.dtype, ("bool", "integral", "real floating")):
            raise TypeError(f"`{name}` must return real numbers, got dtype {array.dtype}.")
        with np.errstate(all="ignore"):
            return jnp.asarray(array, self.dtype)


class JaxBackend(NumpyBackend):
    """JAX on x0's device. Only a compiled loop computes there; the Python loop computes with NumPy, which is sooner."""

    name = "jax"
    engine = "jax python loop"
    differentiates = compiles = True
    can_refill = False
    forks = False

    def __init__(self, x0: Array) -> None:
        if isinstance(x0, jax.core.Tracer):
            raise TypeError("`x0` must be an array, got a tracer: minimize compiles its own loop, call it outside jit.")
        floating = jnp.issubdtype(x0.dtype, jnp.inexact)
        self.dtype = np.dtype(x0.dtype if floating else jnp.zeros(0).dtype)
        self.device = next(iter(x0.devices()))

    def read(self, x0: Any) -> NDArray[Any]:
        return np.asarray(x0).astype(self.dtype)

    def to_library(self, array: Any) -> Array:
        with np.errstate(all="ignore"):
            return jax.device_put(jnp.array(array), self.device)

    def to_function(self, array: Any) -> Array:
        return self.to_library(array)

    def guard_arguments(self, *arrays: Array) -> AbstractContextManager[None]:
        return NOTHING

    def host(self, array: Array) -> NDArray[Any]:
        return np.asarray(array)

    def data(self, array: Any) -> Array:
        return self.to_library(array)

    def copy(self, point: NDArray[Any]) -> Array:
        return self.to_library(point)

    def noise(self, keys: Keys, d: int, sample_xi: Any, *, samples: int) -> Any:
        return JaxHostNoise(jax.device_put(problem_keys(keys), self.device), d, self.dtype, sample_xi)

    def gradient(self, fun: Callable[..., Any], *, vectorized: bool) -> JaxGradient:
        return JaxGradient(fun, vectorized)

    def mapped(self, fun: Callable[..., Any], *, data: int, xi: bool, vector: bool) -> Mapped:
        return Mapped(fun, data, int(xi), jax.vmap, jnp.asarray if vector else _number)

    def compile(self, program: Any, inputs: Any, carry: Any, noise: Any) -> WhileLoop | str:
        inputs = inputs._replace(
            numbers=tuple(_fitting(number, self.dtype) for number in inputs.numbers),
            **{name: _fitting(getattr(inputs, name), self.dtype) for name in ("target", "tail_from", "last")},
        )
        try:
            return WhileLoop.of(program, Tracing(self.dtype), inputs, carry, noise)
        except UNTRACEABLE as error:
            return f"it cannot be traced ({str(error).splitlines()[0]})"
        except NotImplementedError as error:
            if not isinstance(program.functions.fun, Mapped):
                raise
            return f"it cannot be mapped ({str(error).splitlines()[0]})"
