"""The only place that calls the user: values, gradients and closed forms at the points of a query."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slgh.engine.workers import Call, Mapper
from slgh.parts import Query

CLOSED_FORM = ("value", "grad", "dt", "trace")


def is_closed_form(fun: Any) -> bool:
    """Whether `fun` is a closed form: an object with the four methods value, grad, dt, trace."""
    return all(callable(getattr(fun, name, None)) for name in CLOSED_FORM)


class PointCall:
    """fun(x, *data, *xi, *args) for one point; an object so that processes can be sent it."""

    def __init__(self, fun: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.fun = fun
        self.args = args

    def __call__(self, item: tuple[Any, ...]) -> Any:
        return self.fun(*item, *self.args)


class Objective:
    """The user's functions, with the arguments that belong to each problem.

    Parameters
    ----------
    fun, grad
        Functions of one point, or with `vectorized` of points (..., d); or `fun` a closed form.
    batched
        Whether there is a batch axis for vectorised functions to see.
    data
        Arrays with leading axis B, one row a problem.
    """

    def __init__(
        self,
        fun: Any,
        grad: Callable[..., Any] | None,
        *,
        args: tuple[Any, ...],
        data: tuple[NDArray[Any], ...],
        vectorized: bool,
        batched: bool,
        raise_nonfinite: bool,
    ) -> None:
        self.fun, self.grad = fun, grad
        self.closed = is_closed_form(fun)
        self.args, self.data = args, data
        self._rows: NDArray[np.intp] | None = None
        self._data = data
        self.vectorized, self.batched = vectorized, batched
        self.raise_nonfinite = raise_nonfinite
        self.mappers: list[Mapper | None] = [None, None]
        self._calls = self.point_calls()

    def point_calls(self) -> list[Call]:
        """The functions that workers call, one point a time."""
        if self.vectorized or self.closed:
            return []
        return [PointCall(f, self.args) for f in (self.fun, self.grad) if f is not None]

    def __call__(self, query: Query, rows: NDArray[np.intp]) -> NDArray[Any]:
        """Values (B, n), or gradients (B, n, d), in the points' dtype, for the problems `rows`."""
        points: NDArray[Any] = query.points
        if self.data and rows is not self._rows:
            self._rows, self._data = rows, tuple(a[rows] for a in self.data)
        gradient = query.what in ("grad", "F.grad")
        name = "grad" if gradient else "fun"
        if self.closed or query.what.startswith("F"):
            values = self._ask_closed_form(query)
        elif self.vectorized:
            values = self._ask_vectorized(query, name)
        else:
            values = self._ask_pointwise(query, name)
        if self.raise_nonfinite and not np.isfinite(values).all():
            bad = ~np.isfinite(values).all(axis=tuple(range(2, values.ndim)))
            b, i = np.argwhere(bad)[0]
            raise FloatingPointError(
                f"`{name}` must be finite with on_nonfinite='raise', got {values[b, i]} at x = {points[b, i]}."
            )
        return values

    def _extras(self, query: Query) -> list[Any]:
        """data as (B, 1, ...) and xi as (B, n, ...), without B where there is no batch axis."""
        if query.xi is None and not self._data:
            return []
        extras = [a[:, None] for a in self._data]
        if query.xi is not None:
            extras.append(query.xi)
        return extras if self.batched else [a[0] for a in extras]

    def _ask_vectorized(self, query: Query, name: str) -> NDArray[Any]:
        points = query.points
        points.flags.writeable = False
        fun = self.fun if name == "fun" else self.grad
        assert fun is not None
        found = fun(points if self.batched else points[0], *self._extras(query), *self.args)
        return self._check_shape(found, query, name)

    def _ask_closed_form(self, query: Query) -> NDArray[Any]:
        points, extras = query.points, self._extras(query)
        what = {"fun": "value", "F": "value", "F.trace": "trace", "F.dt": "dt"}.get(query.what, "grad")
        t = np.zeros(1, points.dtype) if query.t is None else query.t
        t = np.broadcast_to(t, points.shape[:2])
        if not self.batched:
            points, t = points[0], t[0]
        found = getattr(self.fun, what)(points, t, *extras, *self.args)
        return self._check_shape(found, query, f"fun.{what}")

    def _check_shape(self, found: Any, query: Query, name: str) -> NDArray[Any]:
        B, n, d = query.points.shape
        shape = (B, n, d) if name.endswith("grad") else (B, n)
        values = real_array(found, name, query.points.dtype)
        if values.shape != (shape if self.batched else shape[1:]):
            what = "one gradient a point" if name.endswith("grad") else "one value a point"
            raise ValueError(
                f"`{name}` must return {what}, shape {shape if self.batched else shape[1:]} for points of shape "
                f"{query.points.shape if self.batched else (n, d)}; got {values.shape}."
            )
        return values if self.batched else values[None]

    def _ask_pointwise(self, query: Query, name: str) -> NDArray[Any]:
        points = query.points
        B, n, d = points.shape
        xi = query.xi
        items = [
            (
                points[b, i].copy(),
                *(a[b] for a in self._data),
                *(() if xi is None else (xi[b, i],)),
            )
            for b in range(B)
            for i in range(n)
        ]
        which = 0 if name == "fun" else 1
        call, mapper = self._calls[which], self.mappers[which]
        found = [call(item) for item in items] if mapper is None else list(mapper(call, items))
        if name == "grad":
            rows = [_vector(v, d, points.dtype) for v in found]
            return np.array(rows, points.dtype).reshape(B, n, d)
        return np.array([_number(v) for v in found], points.dtype).reshape(B, n)


def _number(value: Any) -> float:
    """A real number from what `fun` returned for one point; an array of size 1 counts."""
    if type(value) is float or isinstance(value, np.floating):
        return value  # type: ignore[return-value]
    array = real_array(value, "fun", np.float64)
    if array.size != 1:
        raise ValueError(f"`fun` must return one number a point, got {_show(value)}.")
    return float(array.reshape(()))


def _vector(value: Any, d: int, dtype: Any) -> NDArray[Any]:
    array = real_array(value, "grad", dtype)
    if array.shape != (d,):
        raise ValueError(f"`grad` must return an array of shape ({d},), got shape {array.shape}.")
    return array


def real_array(value: Any, name: str, dtype: Any) -> NDArray[Any]:
    """An array of real numbers of our own, or an error that names who returned what."""
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.asarray(None)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"`{name}` must return real numbers, got {_show(value)}.")
    return array.astype(dtype)


def _show(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 80 else text[:77] + '...'}"
