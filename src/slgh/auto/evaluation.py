"""Evaluations that a phase of "auto" asks for. The phases are generators that yield them."""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
"""Phases compute in double precision, whatever the dtype of x0."""


MAX_REQUEST_NUMBERS = 1 << 22
"""Maximum number of array elements in one request."""


class Evaluation(NamedTuple):
    """Evaluations that a phase needs."""

    points: Floats
    """(n, d)."""
    gradient: bool = False
    """The answer is the gradients (n, d) if True, else the values (n,)."""
    is_step: bool = False
    """True if this is a step of the phase, which the history records."""
    t: float = 0.0
    """Smoothing radius of the step, 0 for a local search."""
    center: Floats | None = None
    """Iterate x of the step, (d,), if it is the center of the points instead of the first one."""

    @property
    def samples(self) -> int:
        """Number of samples around the center. In an asynchronous run, some of them may stay without a value."""
        return 0 if self.center is None else len(self.points)


T = TypeVar("T")
Evaluating: TypeAlias = Generator[Evaluation, Floats, T]
"""A computation that yields evaluations, receives their answers, and returns a T."""
