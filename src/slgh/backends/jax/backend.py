"""JAX: a compiled loop if the user's function can be traced; else NumPy's loop, with JAX arrays for the function."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from numpy.typing import NDArray

from slgh import checks
from slgh.backends.compiled import Mapped, first_line
from slgh.backends.jax.loop import WhileLoop
from slgh.backends.jax.noise import JaxHostNoise, problem_keys
from slgh.backends.numpy.backend import NOTHING, NumpyBackend, real_array
from slgh.backends.protocols import Carry, Inputs, Keys, LoopProgram, NoiseSource
from slgh.protocols import Array

UNTRACEABLE = (jax.errors.JAXTypeError, jax.errors.JAXIndexError)
"""Errors of a function that cannot be traced, because Python must read a value."""


@dataclass(frozen=True)
class JaxGradient:
    """The gradient of fun with respect to its first argument, by reverse mode."""

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
    """Return the value of `fun` at one point as a 0-d array, traced or not."""
    array = value if isinstance(value, jax.Array) else real_array(value, "fun")
    if array.size != 1:
        what = f"shape {array.shape}" if isinstance(value, jax.Array) else checks.show(value)
        raise checks.ArgumentValueError(f"`fun` must return one number per point, got {what}.")
    return jnp.asarray(array).reshape(())


def _fitting(number: Any, dtype: Any) -> Any:
    """Return a Python number that JAX can convert: counts have 32 bits, and floats the range of `dtype`.

    Arrays are returned unchanged.
    """
    if isinstance(number, int):
        return min(number, np.iinfo(np.int32).max)
    if isinstance(number, float) and not float(np.finfo(dtype).tiny) <= abs(number) <= float(np.finfo(dtype).max):
        with np.errstate(all="ignore"):
            return float(dtype.type(number))
    return number


class Tracing:
    """The part of a backend that calls the user's functions, for traced arrays, whose values cannot be read."""

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
            raise checks.ArgumentTypeError(f"`{name}` must return real numbers, got dtype {array.dtype}.")
        with np.errstate(all="ignore"):
            return jnp.asarray(array, self.dtype)


class Placement(NamedTuple):
    """Devices or shardings of arrays."""

    rows: Any
    """For arrays with one row per problem."""
    others: Any


def _placements(x0: Array) -> tuple[Placement, Placement]:
    """Return where results go, and where a loop computes. It is one device unless x0 (B, d) is divided along B.

    A loop leaves shardings to XLA, also if the axes of the user's mesh are explicit, as those of `jax.make_mesh` are.
    """
    sharding = x0.sharding
    if x0.ndim == 2 and isinstance(sharding, NamedSharding) and len(sharding.device_set) > 1:
        spec: Any = PartitionSpec  # not typed in JAX
        axis, mesh = next(iter(sharding.spec), None), sharding.mesh
        if axis is not None:
            own, inner = (
                Placement(NamedSharding(each, spec(axis)), NamedSharding(each, spec()))
                for each in (mesh, Mesh(mesh.devices, mesh.axis_names))
            )
            return own, inner
    one = next(iter(x0.devices()))
    return (Placement(one, one),) * 2


def make_backend(x0: Array) -> JaxBackend:
    return JaxBackend(x0)


class JaxBackend(NumpyBackend):
    """JAX on x0's device. Only a compiled loop computes there. The Python loop uses NumPy, which is faster for it.

    If x0 (B, d) is sharded over devices along its first axis, so are all arrays with leading axis B, and XLA divides
    the compiled loop among the devices. Nothing but the test if any problem still runs needs several of them.
    """

    name = "jax"
    engine = "jax python loop"
    differentiates = compiles = True
    can_refill = False
    forks = False

    def __init__(self, x0: Array) -> None:
        if isinstance(x0, jax.core.Tracer):
            raise checks.ArgumentTypeError(
                "`x0` must be an array, got a tracer: minimize compiles its own loop, call it outside jit."
            )
        floating = jnp.issubdtype(x0.dtype, jnp.inexact)
        self.dtype = np.dtype(x0.dtype if floating else jnp.zeros(0).dtype)
        self.problems = x0.shape[0] if x0.ndim else 1
        self.own, self.inner = _placements(x0)

    def read(self, x0: Any) -> NDArray[Any]:
        return np.asarray(x0).astype(self.dtype)

    def to_library(self, array: Any) -> Array:
        return self._placed(array, self.own)

    def to_loop(self, array: Any) -> Array:
        return self._placed(array, self.inner)

    to_function = data = to_loop

    def _placed(self, array: Any, placement: Placement) -> Array:
        """Copy an array to the devices, divided among them if it has one row per problem."""
        with np.errstate(all="ignore"):
            # An array of the host goes to its devices directly: one of them may not have the memory for all of it.
            array = np.array(array) if isinstance(array, np.ndarray) else jnp.array(array)
        divided = array.ndim and array.shape[0] == self.problems
        return jax.device_put(array, placement.rows if divided else placement.others)

    def guard_arguments(self, *arrays: Array) -> AbstractContextManager[None]:
        return NOTHING

    def host(self, array: Array) -> NDArray[Any]:
        return np.asarray(array)

    def noise(self, keys: Keys, d: int, sample_xi: Any, *, samples: int) -> NoiseSource:
        return JaxHostNoise(self._placed(problem_keys(keys), self.inner), d, self.dtype, sample_xi)

    def gradient(self, fun: Callable[..., Any], *, vectorized: bool) -> JaxGradient:
        return JaxGradient(fun, vectorized)

    def mapped(self, fun: Callable[..., Any], *, data: int, xi: bool, vector: bool) -> Mapped:
        return Mapped(fun, data, int(xi), jax.vmap, jnp.asarray if vector else _number)

    def compile(self, program: LoopProgram, inputs: Inputs, carry: Carry, noise: Any) -> WhileLoop | str:
        inputs = jax.tree.map(partial(_fitting, dtype=self.dtype), inputs)
        try:
            return WhileLoop.of(program, Tracing(self.dtype), inputs, carry, noise)
        except UNTRACEABLE as error:
            return f"it cannot be traced ({first_line(error)})"
        except NotImplementedError as error:
            if not isinstance(program.functions.fun, Mapped):
                raise
            return f"it cannot be mapped ({first_line(error)})"
