"""Interfaces between the engine and an array library, and the data of a compiled loop."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol

from numpy.typing import NDArray

from slgh.backends.masking import EagerChoice
from slgh.protocols import Array, Context, Leaves, Noise, Query, StepState

Keys = list[tuple[int, int]]
"""(seed, problem) of each problem. Its noise is keyed by them."""

Records = Callable[[list[int]], tuple[NDArray[Any], ...]]
"""Returns the columns of `Carry.seen` after the given iterations of a block, (rows, B, ...) each."""


class NoiseSource(Noise, Protocol):
    """Noise of a run in a Python loop. It can repeat an iteration, and be saved."""

    def mark(self, k: int) -> None:
        """Remember this position, the start of iteration k."""

    def rewind(self) -> None:
        """Return to the marked position, to repeat the iteration."""

    def keep(self, rows: NDArray[Any]) -> None:
        """Continue with these of the current problems."""

    def append(self, rows: NDArray[Any], k: int) -> None:
        """Start these problems of the run in iteration k, after the current ones."""

    def assign(self, rows: NDArray[Any], began: NDArray[Any]) -> None:
        """Replace the current problems by these problems of the run, which began in the given iterations.

        Noise with a position (NumPy's) starts from its beginning.
        """

    def last_xi(self, m: int, rows: NDArray[Any]) -> Array:
        """Return m samples, (B, m, ...), for the final value of these problems of the run. No iteration uses them."""

    def save(self) -> dict[str, NDArray[Any]]:
        """Return everything needed to continue, as arrays."""

    def load(self, saved: dict[str, NDArray[Any]], rows: NDArray[Any], began: NDArray[Any]) -> None:
        """Continue from what `save` returned, with these problems of the run, which began in these iterations."""


class Carry(NamedTuple):
    """State of a compiled loop: the state of its problems, and the progress of each."""

    state: StepState
    status: Array
    """(B,) Status of each problem."""
    nit: Array
    """(B,) iterations that each problem has completed."""
    seen: Leaves
    """Columns of the history for the last iteration of each problem, (B, ...) each."""


class Inputs(NamedTuple):
    """Arrays and numbers that may change from run to run without another compilation."""

    numbers: tuple[Any, ...]
    """Hyperparameters of the method, then the numbers among the user's arguments."""
    data: tuple[Array, ...]
    box: Any
    """The `Box` of the engine, or None."""
    limits: Any
    """The `Limits` of the engine that the loop checks for each problem."""
    tail_from: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopProgram:
    """One iteration for a compiler. Equal programs are compiled once, if their functions compute the same."""

    ctx: Context
    functions: Any = field(compare=False)
    """The user's functions: a `Vectorized` of the engine, without its args."""
    period: int
    masked: bool
    """True if values may be NaN or infinite. If False, a block that meets such a value is discarded."""
    ends: bool
    """True if a problem may end, so that it has to be frozen."""
    slotted: bool
    """True if problems begin one after the other, so that each has its own iteration."""

    def iterate(
        self, carry: Carry, k: Any, first: bool, noise: Noise, inputs: Inputs
    ) -> tuple[Carry, Array | bool, tuple[int, int]]:
        """Do iteration k of all problems.

        Returns
        -------
        tuple
            The next carry, True if all values were finite, and the numbers of values and gradients per problem.
        """
        raise NotImplementedError

    def running(self, carry: Carry) -> Array:
        """Return True for problems that have not ended, (B,)."""
        raise NotImplementedError

    def answer(self, query: Query, inputs: Inputs) -> Array:
        """Answer a query with the user's functions."""
        raise NotImplementedError


class CompiledLoop(Protocol):
    """Iterations without host contact."""

    engine: ClassVar[str]
    """Name of the loop in `result.engine`."""
    evaluations: dict[bool, tuple[int, int]]
    """Values and gradients evaluated in one iteration. The key is True for the first iteration of a period."""

    def longest(self, carry: Carry, k: int, stride: int) -> int:
        """Return the maximum length of a block from iteration k, if every `stride`-th iteration is recorded."""

    def advance(self, carry: Carry, k: int, n: int, stride: int) -> tuple[Carry, Records, int]:
        """Run n iterations from the k-th.

        Returns the new carry, the records of the iterations that are multiples of `stride`, and the number of
        iterations before the first value that is not finite. If that is less than n, the carry is unchanged. The block
        ends early once every problem has ended.
        """

    def masked(self, carry: Carry) -> CompiledLoop:
        """Return a loop from `carry` on that does not assume values to be finite."""

    def refill(self, slots: NDArray[Any], carry: Carry, data: Leaves, problems: NDArray[Any], k: int) -> Carry:
        """Put waiting problems into free slots, from iteration k on, and return the carry of all slots.

        `carry` and `data` hold the rows of the new problems. Only for a backend with `can_refill`.
        """

    def compiled_functions(self, functions: Any) -> Any:
        """Return the user's functions for frequent queries outside the loop, compiled if that pays."""


class Backend(Protocol):
    """An array library, with the dtype and device of x0."""

    name: str
    """Key of the noise and the rounding: "numpy", "torch cpu", "torch cuda", "jax"."""
    engine: str
    """Name of the library's Python loop in `result.engine`."""
    xp: Any
    """The array namespace."""
    ops: EagerChoice
    differentiates: bool
    """True if the library has automatic differentiation."""
    compiles: bool
    """True if there is a compiled loop."""
    can_refill: bool
    """True if waiting problems can take freed slots: the noise has `append` and the loop `refill`."""
    forks: bool
    """True if worker processes may be forks. A library that runs threads can deadlock in a fork."""

    def read_devices(self, device: Any) -> list[Any]:
        """Return the devices that the user names for the problems of a batch."""

    def move(self, thing: Any, device: Any) -> Any:
        """Copy arrays and modules to a device, also those in tuples, partial functions and dataclasses.

        Anything else is returned unchanged.
        """

    def read(self, x0: Any) -> NDArray[Any]:
        """Return x0 on the host, in its own floating dtype."""

    def native(self, array: NDArray[Any]) -> Array:
        """Return an array for the arithmetic of the Python loop. If the loop may write into it, it is a copy."""

    def to_library(self, array: Any) -> Array:
        """Return a copy in x0's library, on its device. The user may keep it and write into it."""

    def to_loop(self, array: Any) -> Array:
        """Return a copy for a compiled loop, on its device."""

    def to_function(self, array: Any) -> Array:
        """Return an array of x0's library for the user's function to read: a copy, or protected by guard_arguments."""

    def host(self, array: Array) -> NDArray[Any]:
        """Return the values as a NumPy array, not to be written to."""

    def data(self, array: Any) -> Array:
        """Return a copy of the user's data in x0's library, on its device."""

    def index(self, rows: NDArray[Any]) -> Any:
        """Return row numbers that can index arrays of this library."""

    def context(self, needs: frozenset[str], *, stochastic: bool) -> Context: ...

    def noise(self, keys: Keys, d: int, sample_xi: Any, *, samples: int) -> NoiseSource: ...

    def real(self, value: Any, name: str) -> Array:
        """Return the value of the user's function `name` in x0's dtype. Raise a TypeError if it is not real."""

    def number(self, value: Any) -> Any:
        """Return the value of `fun` at one point, for `stack`."""

    def stack(self, items: list[Any]) -> Array:
        """Stack numbers, or arrays of one shape, along a new first axis."""

    def without_gradients(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        """Return fun for a thread or process outside `session`. It stays picklable."""

    def guard_arguments(self, *arrays: Array) -> AbstractContextManager[None]:
        """Protect `arrays` while the user's functions are called with them."""

    def session(self, *, differences: bool) -> AbstractContextManager[None]:
        """Enclose all arithmetic of a run, the user's included. `differences`: values of f are subtracted."""

    def gradient(self, fun: Callable[..., Any], *, vectorized: bool) -> Callable[..., Any]:
        """Return the gradient of fun with respect to its first argument, by automatic differentiation."""

    def mapped(self, fun: Callable[..., Any], *, data: int, xi: bool, vector: bool) -> Callable[..., Any]:
        """Map a function of one point over points (B, n, d).

        It takes `data` arrays that belong to a problem, and one xi per point if `xi`. It returns a number, or a vector
        if `vector`.
        """

    def check_functions(self, functions: tuple[Any, ...], name: str = "fun") -> None:
        """Raise if the user's functions cannot be minimized in their present state. `name` goes into the error."""

    def compile(self, program: LoopProgram, inputs: Inputs, carry: Carry, noise: Any) -> CompiledLoop | str:
        """Return a compiled loop, or the reason why there is none."""
