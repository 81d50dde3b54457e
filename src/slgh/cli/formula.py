"""Formulas given as text: their variables, their closed form, and their values where there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from slgh.smoothing.formula import Formula


def read(text: str, d: int | None) -> Formula:
    """The formula and its variables, without smoothing it."""
    try:
        from slgh.smoothing.formula import read_formula
    except ModuleNotFoundError as error:
        if error.name not in ("sympy", "mpmath"):
            raise
        raise ImportError('`formula` needs SymPy: pip install "slgh[formula]".') from error
    return read_formula(text, d, None)


class Values:
    """f and its gradient at points (..., d), of any formula, whether or not it has a closed form under a Gaussian."""

    def __init__(self, formula: Formula) -> None:
        from slgh.smoothing.bodies import cut
        from slgh.smoothing.pieces import Piece
        from slgh.smoothing.rules import Closed

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
