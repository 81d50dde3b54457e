"""What a test problem consists of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


class ClosedForm(Protocol):
    """F(x, t) = E f(x + t u) and its derivatives, exactly; x is (..., d), t (...)."""

    def value(self, x: Any, t: Any) -> Any: ...
    def grad(self, x: Any, t: Any) -> Any: ...
    def dt(self, x: Any, t: Any) -> Any: ...
    def trace(self, x: Any, t: Any) -> Any: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A function to minimize, with what is known of it.

    `fun` and `grad` are vectorized over (..., d). `minimizers` (n, d) are the global ones, `minimum` is f there.
    `smooth` is the closed form of F where there is one, `parameters` what the paper ran it with.
    """

    name: str
    fun: Callable[[Any], Any]
    x0: NDArray[np.float64]
    minimizers: NDArray[np.float64]
    minimum: float
    grad: Callable[[Any], Any] | None = None
    smooth: ClosedForm | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def d(self) -> int:
        """The number of variables."""
        return len(self.x0)
