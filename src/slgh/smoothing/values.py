"""A formula as it stands: f and its gradient, whether or not its homotopy has a closed form."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slgh.smoothing.bodies import cut
from slgh.smoothing.formula import Formula
from slgh.smoothing.pieces import Piece
from slgh.smoothing.rules import Closed


class Values:
    """f and its gradient at points (..., d), NumPy arrays."""

    def __init__(self, formula: Formula) -> None:
        self._pieces = [
            Piece(
                runs=body.runs,
                rule=Closed(body.expression, body.z, {}, body.runs.index),
                product=body.product,
                factor=body.factor,
            )
            for body in cut(formula)
        ]

    def fun(self, x: NDArray[Any]) -> Any:
        """f(x), (...)."""
        t = np.zeros(x.shape[:-1], x.dtype)
        return sum(piece.value(x, t, np) for piece in self._pieces)

    def grad(self, x: NDArray[Any]) -> NDArray[Any]:
        """The gradient of f, (..., d)."""
        t, found = np.zeros(x.shape[:-1], x.dtype), np.zeros_like(x)
        for piece in self._pieces:
            for where, slope in piece.slopes(x, t, np):
                found[..., where] += slope
        return found
