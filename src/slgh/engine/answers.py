"""Answers to the queries of the iteration that is under way, kept so that a resumed run need not repeat them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slgh.parts import Array


class Answers:
    """Answers received since the last complete iteration.

    A run that breaks off in the middle of an iteration repeats the iteration after a resume, with the same noise and so
    with the same queries. The first of them are then answered from here.
    """

    def __init__(self) -> None:
        self.received: dict[int, Any] = {}
        """Values received for the present query, by the index of the point among the points of all problems."""
        self.begun = 0
        """Number of points of the present query whose evaluation has begun, those of earlier sittings included."""
        self._complete: list[Array] = []
        self._replayed: list[Array] = []

    def clear(self) -> None:
        """Forget everything: the iteration is complete."""
        self._complete = []

    def replay(self) -> Array | None:
        """Return the saved answer to the next query, or None if there is none."""
        if not self._replayed:
            return None
        self._complete.append(self._replayed.pop(0))
        return self._complete[-1]

    def complete(self, values: Array) -> Array:
        """Keep a complete answer, and go on to the next query."""
        self._complete.append(values)
        self.received, self.begun = {}, 0
        return values

    def saved(self, stack: Callable[[list[Any]], Array], host: Callable[[Array], NDArray[Any]]) -> dict[str, Any]:
        """Return what `load` needs, as arrays."""
        arrays = {f"{i:06d}": host(values) for i, values in enumerate(self._complete + self._replayed)}
        if self.received:
            arrays["values"] = host(stack(list(self.received.values())))
            arrays["points"] = np.array(list(self.received), np.int64)
        return arrays

    def load(self, arrays: dict[str, NDArray[Any]], native: Callable[[NDArray[Any]], Array]) -> None:
        """Go on from what was `saved`."""
        self._replayed = [native(arrays[name]) for name in sorted(arrays) if name.isdigit()]
        if "points" in arrays:
            values = native(arrays["values"])
            self.received = {int(i): values[j] for j, i in enumerate(arrays["points"])}
            self.begun = len(self.received)
