"""Functions of one point as functions of many, by a library's own vmap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from slgh.protocols import Array


@dataclass(frozen=True)
class Mapped:
    """A function of one point as one of points (B, n, d).

    Data (B, 1, ...) belong to a problem, xi (B, n, ...) to a point. `vmap` is the library's, and `finish` makes what
    fun returns for a point an array of the right shape.
    """

    fun: Callable[..., Any]
    data: int
    xi: int
    vmap: Callable[..., Any]
    finish: Callable[[Any], Array]

    def __call__(self, points: Array, *extra: Any) -> Array:
        data, xi = extra[: self.data], extra[self.data : self.data + self.xi]
        args = extra[self.data + self.xi :]

        def one(x: Array, xi: tuple[Any, ...], data: tuple[Any, ...]) -> Array:
            return self.finish(self.fun(x, *data, *xi, *args))

        of_problem = self.vmap(one, (0, 0, None))
        return self.vmap(of_problem)(points, xi, tuple(a[:, 0] for a in data))
