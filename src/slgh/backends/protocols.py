"""What the engine needs of an array library."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from numpy.typing import NDArray

from slgh.backends.masking import EagerChoice
from slgh.protocols import Array, Context, Noise

Keys = list[tuple[int, int]]
"""(seed, problem) of each problem: what its noise is keyed by."""


Records = Callable[[list[int]], tuple[NDArray[Any], ...]]
"""Gives the columns of `Carry.seen` after these iterations of a block, the recorded ones, each (rows, B, ...)."""


COMPILED_CHUNK = 1 << 22
"""Numbers that the directions of one query may hold in a compiled loop, where each chunk is code of its own."""

ROWS = 1 << 20
"""Numbers that the records of one block may hold."""


def record_rows(seen: tuple[Array, ...]) -> int:
    """How many records, a row of `seen` each, a block may leave."""
    numbers: int = sum(math.prod(column.shape) for column in seen)
    return max(1, min(1024, ROWS // max(1, numbers)))


class NoiseSource(Noise, Protocol):
    """The noise of a run in a Python loop: it can go back to the beginning of an iteration, and be saved."""

    def mark(self, k: int) -> None:
        """Remember this place, the beginning of iteration k."""

    def rewind(self) -> None:
        """Go back to the marked place: the iteration that was begun there will be done again."""

    def keep(self, rows: NDArray[Any]) -> None:
        """Go on with these of the problems that are left."""

    def append(self, rows: NDArray[Any], k: int) -> None:
        """Have these of all problems begin, in iteration k, behind those that are there."""

    def assign(self, rows: NDArray[Any], began: NDArray[Any]) -> None:
        """Hold the noise of exactly these problems, which began in these iterations.

        Noise with a position (NumPy's) starts from its beginning.
        """

    def last_xi(self, m: int, rows: NDArray[Any]) -> Array:
        """m samples of their own for the final value of these of all problems, (B, m, ...)."""

    def save(self) -> dict[str, NDArray[Any]]:
        """Everything needed to go on from here, as arrays."""

    def load(self, saved: dict[str, NDArray[Any]], rows: NDArray[Any], began: NDArray[Any]) -> None:
        """Go on from what `save` returned, with these of all problems, which began in these iterations."""


class CompiledLoop(Protocol):
    """Iterations without host contact."""

    engine: str
    evaluations: dict[bool, tuple[int, int]]
    """Values and gradients that one iteration asks for, by whether it is the first of a period."""

    def longest(self, carry: Any, k: int, stride: int) -> int:
        """How many iterations a block from the k-th on may have, for the records of every `stride`-th to fit."""

    def advance(self, carry: Any, k: int, n: int, stride: int) -> tuple[Any, Records, int]:
        """The carry after n iterations from the k-th on, their records, and how many of them were sound.

        Iterations that are multiples of `stride` are recorded. Where every problem has ended, the rest is left out. Of
        a block with an unsound iteration only the number of those before it counts, and `carry` is as it was.
        """

    def masked(self, carry: Any) -> CompiledLoop:
        """A loop from `carry` on that supposes nothing of values, and so is always sound."""

    def refill(self, slots: NDArray[Any], carry: Any, data: tuple[Array, ...], problems: NDArray[Any], k: int) -> Any:
        """Put waiting problems into free slots, from iteration k on, and return the carry of all slots.

        `carry` and `data` hold the rows of the new problems. Only for a backend with `can_refill`.
        """

    def compiled_functions(self, functions: Any) -> Any:
        """The user's functions, for many queries besides the loop's."""


class Backend(Protocol):
    """One array library, with the dtype and device of x0."""

    @property
    def name(self) -> str:
        """What the noise and the rounding depend on: "numpy", "torch cpu", "torch cuda", "jax"."""

    @property
    def engine(self) -> str:
        """The Python loop of this library, as `result.engine` says it."""

    @property
    def xp(self) -> Any:
        """The array namespace."""

    @property
    def ops(self) -> EagerChoice: ...

    @property
    def differentiates(self) -> bool:
        """Whether gradients can be had without the user's."""

    @property
    def compiles(self) -> bool:
        """Whether there is a loop without host contact."""

    @property
    def can_refill(self) -> bool:
        """Whether problems can take the places of others that have ended: its noise can `append`, its loop `refill`."""

    @property
    def forks(self) -> bool:
        """Whether worker processes may be forks: not where the library runs threads, which a fork can block."""

    def read(self, x0: Any) -> NDArray[Any]:
        """x0 on the host, in its own floating dtype."""

    def native(self, array: NDArray[Any]) -> Array:
        """An array that iterations of the Python loop compute with, of a memory of its own where they may write."""

    def to_library(self, array: Any) -> Array:
        """A copy for the user, of x0's library and on its device."""

    def to_function(self, array: Any) -> Array:
        """An array of x0's library for the user's function to read: a copy, unless `guard_arguments` protects it."""

    def host(self, array: Array) -> NDArray[Any]:
        """The values as a NumPy array, not to be written to."""

    def data(self, array: Any) -> Array:
        """A copy of what the user passed as data, as an array of this library on x0's device."""

    def index(self, rows: NDArray[Any]) -> Any:
        """Row numbers that arrays of this library can be indexed with."""

    def context(self, needs: frozenset[str], *, stochastic: bool) -> Context: ...

    def noise(self, keys: Keys, d: int, sample_xi: Any, *, samples: int) -> NoiseSource: ...

    def real(self, value: Any, name: str) -> Array:
        """What the user's function `name` returned, as real numbers of x0's dtype, or a TypeError."""

    def number(self, value: Any) -> Any:
        """What `fun` returned for one point, to be stacked."""

    def without_gradients(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        """fun, for a thread or process that does not run in our `session`; it must stay picklable."""

    def stack(self, items: list[Any]) -> Array:
        """Numbers, or arrays of one shape, along a new first axis."""

    def copy(self, point: Array) -> Array:
        """A point that the user may write into."""

    def guard_arguments(self, *arrays: Array) -> AbstractContextManager[None]:
        """Around calls of the user's functions with `arrays`, which they must not write into."""

    def session(self, *, differences: bool) -> AbstractContextManager[None]:
        """Around all arithmetic of a run, the user's included; `differences`: of values of f."""

    def gradient(self, fun: Callable[..., Any], *, vectorized: bool) -> Callable[..., Any]:
        """The gradient of fun in its first argument by automatic differentiation."""

    def mapped(self, fun: Callable[..., Any], *, data: int, xi: bool, vector: bool) -> Callable[..., Any]:
        """A function of one point, a number or a vector, with so many arrays of data and xi or not, as one of
        points (B, n, d)."""

    def check_functions(self, functions: tuple[Any, ...], name: str = "fun") -> None:
        """Raise where the user's functions, which the error calls `name`, are in no state to be minimized."""

    def compile(self, program: Any, inputs: Any, carry: Any, noise: Any) -> CompiledLoop | str:
        """A loop without host contact, or the reason why there is none."""
