"""Common parts of the compiled loops of PyTorch and JAX: keyed noise, functions mapped over points, size limits."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slgh.backends.protocols import Keys
from slgh.protocols import Array

COMPILED_CHUNK = 1 << 22
"""Maximum number of array elements in the directions of one query. Each chunk becomes code of its own."""

RECORD_ELEMENTS = 1 << 20
"""Maximum number of array elements in the records of one block."""

MAX_RECORDS = 1024
"""Maximum number of records of one block."""

NORMAL = 0
XI = 2
LAST_XI = 3
PURPOSES = 4
"""Purposes of a draw, and their number. Normals have two streams, NORMAL and NORMAL + 1."""


def max_records(columns: tuple[Array, ...]) -> int:
    """Return the number of records that a block may leave, one row of `columns` each."""
    elements: int = sum(math.prod(column.shape) for column in columns)
    return max(1, min(MAX_RECORDS, RECORD_ELEMENTS // max(1, elements)))


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message."""
    return str(error).strip().splitlines()[0]


def seed_words(keys: Keys) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return two words per problem of its seed, (B, 2), and its number, (B,)."""
    known = {seed: np.random.SeedSequence(seed).generate_state(2) for seed in {seed for seed, _ in keys}}
    return np.array([known[seed] for seed, _ in keys]), np.array([problem for _, problem in keys], np.uint32)


class KeyedNoise:
    """Noise keyed by (seed, problem, iteration, call). It has no position, so a compiled loop can draw it.

    `key` holds one key per problem, and `all_keys` those of all problems of the run. `k` may be a 0-d array.
    """

    def __init__(self, key: Any, d: int, sample_xi: Any = None, k: Any = 0) -> None:
        self.key = self.all_keys = key
        self.d = d
        self.sample_xi = sample_xi
        self.k = k
        self.rewind()

    def _tag(self, purpose: int) -> int:
        """Return the purpose of a draw and the number of its call in this iteration, as one number."""
        self.calls[purpose] += 1
        return purpose + PURPOSES * (self.calls[purpose] - 1)

    def draw(self, key: Any, tag: int, m: int) -> Array:
        """Make the draw with this tag."""
        return self.draw_normal(key, tag, m) if tag % PURPOSES < XI else self.draw_xi(key, tag, m)

    def draw_normal(self, key: Any, tag: int, m: int) -> Array:
        """Return (B, m, d) standard normals."""
        raise NotImplementedError

    def draw_xi(self, key: Any, tag: int, m: int) -> Array:
        """Return (B, m, ...) samples of the objective's own randomness."""
        raise NotImplementedError

    def every_xi(self, start: int, stop: int) -> Array:
        raise NotImplementedError

    def rows(self, key: Any, rows: NDArray[Any]) -> Any:
        """Return the keys of some of the problems."""
        raise NotImplementedError

    def normal(self, m: int, stream: int = 0) -> Array:
        return self.draw(self.key, self._tag(NORMAL + stream), m)

    def xi(self, m: int) -> Array:
        return self.draw(self.key, self._tag(XI), m)

    def last_xi(self, m: int, rows: NDArray[Any]) -> Array:
        self.mark(0)
        return self.draw(self.rows(self.all_keys, rows), LAST_XI, m)

    def mark(self, k: Any) -> None:
        self.k = k
        self.rewind()

    def rewind(self) -> None:
        self.calls = [0] * PURPOSES

    def keep(self, rows: NDArray[Any]) -> None:
        self.key = self.rows(self.key, rows)

    def assign(self, rows: NDArray[Any], began: NDArray[Any]) -> None:
        self.key = self.rows(self.all_keys, rows)

    def append(self, rows: NDArray[Any], k: int) -> None:
        raise NotImplementedError

    def save(self) -> dict[str, NDArray[Any]]:
        return {}

    def load(self, saved: dict[str, NDArray[Any]], rows: NDArray[Any], began: NDArray[Any]) -> None:
        self.assign(rows, began)


@dataclass(frozen=True)
class Mapped:
    """A function of one point as a function of points (B, n, d), by the library's `vmap`.

    `fun` takes a point, `data` arrays that belong to the problem, (B, 1, ...) here, `xi` arrays that belong to the
    point, (B, n, ...), and further arguments. `finish` gives its value the right shape.
    """

    fun: Callable[..., Any]
    data: int
    xi: int
    vmap: Callable[..., Any]
    finish: Callable[[Any], Array]

    def __call__(self, points: Array, *extra: Any) -> Array:
        data, xi = extra[: self.data], extra[self.data : self.data + self.xi]
        args = extra[self.data + self.xi :]

        def one(x: Array, xi: tuple[Any, ...], data: tuple[Any, ...]) -> Array:
            return self.finish(self.fun(x, *data, *xi, *args))

        of_problem = self.vmap(one, (0, 0, None))
        return self.vmap(of_problem)(points, xi, tuple(a[:, 0] for a in data))
