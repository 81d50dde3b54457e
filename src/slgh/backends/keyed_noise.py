"""Noise without a position: keyed by (seed, problem, iteration), so that it can be drawn inside a compiled loop."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slgh.backends.protocols import Keys
from slgh.protocols import Array

NORMAL, XI, LAST_XI = 0, 2, 3
"""What a draw is for; normals have two streams."""


def words(keys: Keys) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """(B, 2) words of each problem's seed, and (B,) its number."""
    known = {seed: np.random.SeedSequence(seed).generate_state(2) for seed in {seed for seed, _ in keys}}
    return np.array([known[seed] for seed, _ in keys]), np.array([problem for _, problem in keys], np.uint32)


class KeyedNoise:
    """The noise of one iteration, drawn by a library's own `draw`; going on means another iteration.

    `k` may be an array without dimensions. Each call within an iteration has a number of its own.
    """

    def __init__(self, key: Any, d: int, sample_xi: Any = None, k: Any = 0) -> None:
        self.key, self.all_keys = key, key
        self.d = d
        self.sample_xi = sample_xi
        self.k = k
        self.calls = [0] * 4

    def _tag(self, purpose: int) -> int:
        """The purpose of a draw and its number within the iteration, as one number."""
        self.calls[purpose] += 1
        return purpose + 4 * (self.calls[purpose] - 1)

    def draw_normal(self, key: Any, tag: int, m: int) -> Array:
        """(B, m, d) standard normals."""
        raise NotImplementedError

    def draw_xi(self, key: Any, tag: int, m: int) -> Array:
        """(B, m, ...) samples of the objective's own randomness."""
        raise NotImplementedError

    def rows(self, key: Any, rows: NDArray[Any]) -> Any:
        """The keys of some of the problems."""
        raise NotImplementedError

    def normal(self, m: int, stream: int = 0) -> Array:
        return self.draw_normal(self.key, self._tag(NORMAL + stream), m)

    def xi(self, m: int) -> Array:
        return self.draw_xi(self.key, self._tag(XI), m)

    def last_xi(self, m: int, rows: NDArray[Any]) -> Array:
        self.mark(0)
        return self.draw_xi(self.rows(self.all_keys, rows), LAST_XI, m)

    def mark(self, k: int) -> None:
        self.k = k
        self.calls = [0] * 4

    def rewind(self) -> None:
        self.calls = [0] * 4

    def keep(self, rows: NDArray[Any]) -> None:
        self.key = self.rows(self.key, rows)

    def assign(self, rows: NDArray[Any], began: NDArray[Any]) -> None:
        """Be the noise of these of all problems, which began in these iterations."""
        self.key = self.rows(self.all_keys, rows)

    def append(self, rows: NDArray[Any], k: int) -> None:
        raise NotImplementedError

    def save(self) -> dict[str, NDArray[Any]]:
        return {}

    def load(self, saved: dict[str, NDArray[Any]], rows: NDArray[Any], began: NDArray[Any]) -> None:
        self.assign(rows, began)
