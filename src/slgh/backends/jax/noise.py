"""Noise on JAX: Threefry, keyed by seed, problem, iteration and call."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from slgh.backends.compiled import KeyedNoise, seed_words
from slgh.backends.protocols import Keys
from slgh.checks import ArgumentValueError
from slgh.protocols import Array


def problem_keys(keys: Keys) -> Array:
    """Return one key per problem, (B,): its seed, folded with its number."""
    seeds, problems = seed_words(keys)
    return jax.vmap(jax.random.fold_in)(jax.random.wrap_key_data(jnp.asarray(seeds), impl="threefry2x32"), problems)


def _each(key: Array, k: Any, tag: int) -> Array:
    return jax.vmap(lambda one: jax.random.fold_in(jax.random.fold_in(one, k), tag))(key)


@partial(jax.jit, static_argnames=("tag", "shape", "dtype"))
def _normal(key: Array, k: Any, tag: int, shape: tuple[int, ...], dtype: Any) -> Array:
    return jax.vmap(lambda one: jax.random.normal(one, shape, dtype))(_each(key, k, tag))


@partial(jax.jit, static_argnames=("tag", "m", "terms"))
def _index(key: Array, k: Any, tag: int, m: int, terms: int) -> Array:
    return jax.vmap(lambda one: jax.random.randint(one, (m,), 0, terms))(_each(key, k, tag))


class JaxNoise(KeyedNoise):
    """Threefry, folded by problem, iteration and call."""

    def __init__(self, key: Array, d: int, dtype: Any, sample_xi: Any = None, k: Any = 0) -> None:
        super().__init__(key, d, sample_xi, k)
        self.dtype = dtype

    def draw_normal(self, key: Array, tag: int, m: int) -> Array:
        return _normal(key, self.k, tag, (m, self.d), self.dtype)

    def draw_xi(self, key: Array, tag: int, m: int) -> Array:
        if isinstance(self.sample_xi, int):
            return _index(key, self.k, tag, m, self.sample_xi)
        try:
            drawn = jax.vmap(lambda one: jnp.asarray(self.sample_xi(one, m)))(_each(key, self.k, tag))
        except Exception as error:
            error.add_note("slgh: on JAX, `sample_xi` gets a jax.random key instead of a NumPy Generator.")
            raise
        if drawn.shape[1:2] != (m,):
            raise ArgumentValueError(
                f"`sample_xi(key, n)` must return n samples along its first axis, ({m}, ...); got {drawn.shape[1:]}."
            )
        return drawn

    def every_xi(self, start: int, stop: int) -> Array:
        return jnp.broadcast_to(jnp.arange(start, stop), (self.key.shape[0], stop - start))

    def rows(self, key: Array, rows: NDArray[Any]) -> Array:
        return key[rows]


class JaxHostNoise(JaxNoise):
    """The same noise as NumPy arrays, for the Python loop."""

    def draw(self, key: Array, tag: int, m: int) -> NDArray[Any]:
        return np.asarray(super().draw(key, tag, m))

    def every_xi(self, start: int, stop: int) -> NDArray[Any]:
        return np.asarray(super().every_xi(start, stop))


class NoiseRecorder(KeyedNoise):
    """Noise that records the draws of an iteration, so that they can be made for many iterations at once."""

    def __init__(self, noise: KeyedNoise) -> None:
        super().__init__(noise.key, noise.d, noise.sample_xi, noise.k)
        self.noise = noise
        self.sizes: dict[tuple[int, int], int] = {}
        """Number of array elements of each draw, by its tag and its number of samples."""

    def draw(self, key: Array, tag: int, m: int) -> Array:
        drawn = self.noise.draw(key, tag, m)
        self.sizes[tag, m] = drawn.size
        return drawn

    def every_xi(self, start: int, stop: int) -> Array:
        return self.noise.every_xi(start, stop)


class PredrawnNoise(KeyedNoise):
    """Noise of one iteration, drawn in advance."""

    def __init__(self, noise: KeyedNoise, drawn: dict[tuple[int, int], Array]) -> None:
        super().__init__(noise.key, noise.d, noise.sample_xi, noise.k)
        self.noise, self.drawn = noise, drawn

    def draw(self, key: Array, tag: int, m: int) -> Array:
        return self.drawn[tag, m]

    def every_xi(self, start: int, stop: int) -> Array:
        return self.noise.every_xi(start, stop)
