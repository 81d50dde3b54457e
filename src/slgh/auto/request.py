"""What a phase of a portfolio asks of f: the question that the look and the local solvers put to it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Request(NamedTuple):
    """What is asked of f: values (n,) at points (n, d), or with `gradient` the gradients (n, d).

    `stands`: the first point is where a solver stands, not only one that it measures from.
    """

    points: Floats
    gradient: bool = False
    stands: bool = False
