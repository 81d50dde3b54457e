"""Requests of a run to its driver, the count of evaluations, and the answers that a resumed run can use again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from slgh.backends.protocols import Carry
from slgh.engine.checkpoint import Arrays
from slgh.protocols import Array, Query

INTERRUPTED: Any = object()
"""Answer to a request that Ctrl-C interrupted."""

REACHED: Any = object()
"""Answer to a request of an asynchronous run if a value that arrived late has reached the target."""


EXPIRED: Any = object()
"""Answer to a request during which `max_seconds` have passed."""


class OutOfTime(Exception):
    """Raised between two evaluations of a request if `max_seconds` have passed."""


class Evaluate(NamedTuple):
    """Request to evaluate the user's function."""

    query: Query
    rows: NDArray[np.intp]
    """Problems that the points belong to."""
    answers: Answers
    """Record that single values are added to as they arrive, so that an exception does not lose them."""


class Advance(NamedTuple):
    """Request to run n iterations of a compiled loop, starting with the k-th."""

    carry: Carry
    k: int
    n: int
    stride: int
    """Iterations that are multiples of this are recorded."""


Request: TypeAlias = Evaluate | Advance
"""Requests of a run to its driver."""


class Counter:
    """Number of evaluations per problem, including those of an unfinished iteration."""

    def __init__(self, nfev: int = 0, njev: int = 0) -> None:
        self.nfev, self.njev = nfev, njev

    def reset(self, nfev: int, njev: int) -> None:
        """Return to the numbers of the last complete iteration."""
        self.nfev, self.njev = nfev, njev

    def add(self, query: Query, points: int | None = None) -> None:
        """Count the points of a query or, if it was interrupted, the `points` of all problems that were begun."""
        # Evaluations are counted per problem, so round up.
        n = query.points.shape[1] if points is None else -(-points // max(1, query.points.shape[0]))
        if query.what in ("fun", "F"):
            self.nfev += n
        else:
            self.njev += n


class Answers:
    """Answers received since the last complete iteration.

    A run that stops in the middle of an iteration repeats that iteration on resume. The noise is the same, so the
    queries are the same, and the first ones are answered from this record.
    """

    def __init__(self, *, vectors: bool = False) -> None:
        self.vectors = vectors
        """True if a value is a vector: f and its constraints."""
        self.received: dict[int, Any] = {}
        """Values received for the current query, by the index of the point among the points of all problems."""
        self.begun = 0
        """Number of points in the current query whose evaluation has started, before or after a resume."""
        self._complete: list[Array] = []
        """Answers to earlier queries of the iteration."""
        self._replayed: list[Array] = []
        """Answers of a checkpoint that have not been used yet."""

    def begin(self, points: int) -> None:
        """Count points whose evaluation starts."""
        self.begun += points

    def receive(self, index: int, value: Any) -> None:
        """Keep the value at one point of the current query."""
        self.received[index] = value

    def clear(self) -> None:
        """Forget the answers of a complete iteration. Those of a checkpoint stay until they are used."""
        self._complete = []

    def replay(self, query: Query) -> Array | None:
        """Return the saved answer to the next query, or None. Discard saved answers whose shape does not match it."""
        if not (self._replayed or self.received):
            return None
        shape = query.answer_shape
        points = shape[0] * shape[1]
        if self._replayed and tuple(self._replayed[0].shape[: len(shape)]) == shape:
            self._complete.append(self._replayed.pop(0))
            return self._complete[-1]
        shapes = (value.shape[1:] if self.vectors else value.shape for value in self.received.values())
        fits = all(0 <= i < points for i in self.received) and all(tuple(one) == shape[2:] for one in shapes)
        if self._replayed or not fits:
            self._replayed, self.received, self.begun = [], {}, 0
        return None

    def complete(self, values: Array) -> Array:
        """Keep the complete answer to the current query."""
        self._complete.append(values)
        self.received, self.begun = {}, 0
        return values

    def save(self, stack: Callable[[list[Any]], Array], host: Callable[[Array], NDArray[Any]]) -> Arrays:
        """Return the arrays that `load` continues from."""
        arrays = {f"{i:06d}": host(values) for i, values in enumerate(self._complete + self._replayed)}
        if self.received:
            arrays["values"] = host(stack(list(self.received.values())))
            arrays["points"] = np.array(list(self.received), np.int64)
        return arrays

    def load(self, arrays: Arrays, native: Callable[[NDArray[Any]], Array]) -> None:
        """Continue from the arrays of `save`."""
        self._replayed = [native(arrays[name]) for name in sorted(arrays) if name.isdigit()]
        if "points" in arrays:
            values = native(arrays["values"])
            self.received = {int(i): value for i, value in zip(arrays["points"], values, strict=True)}
            self.begun = len(self.received)
