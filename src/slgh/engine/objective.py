"""The only place that calls the user's functions: values, gradients and closed forms at the points of a query."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from slgh import __version__, checks
from slgh.backends import Backend
from slgh.engine import bad_values
from slgh.engine.cache import Cache, Key
from slgh.engine.clusters import Call, Mapper, unpickle_call
from slgh.engine.constraints import ConstrainedFunction, ConstrainedGradient, Constraints
from slgh.engine.executors import Workers
from slgh.engine.requests import Answers, Evaluate, OutOfTime
from slgh.engine.timed_workers import TIMED_OUT
from slgh.protocols import Array, Query

CLOSED_FORM_METHODS = {
    "fun": "value",
    "grad": "grad",
    "F": "value",
    "F.grad": "grad",
    "F.dt": "dt",
    "F.trace": "trace",
}
"""Method of a closed form that answers each kind of query. "fun" and "grad" are at t = 0."""


def is_closed_form(fun: Any) -> bool:
    """Return True if `fun` is a closed form: an object with the four methods value, grad, dt, trace."""
    return all(callable(getattr(fun, name, None)) for name in CLOSED_FORM_METHODS.values())


class PointCall:
    """fun(x, *data, *xi, *args) at one point. It is an object so that it can be pickled."""

    def __init__(self, fun: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.fun = fun
        self.args = args

    def __reduce__(self) -> Any:
        return unpickle_call, (__version__, PointCall, self.fun, self.args)

    def __call__(self, item: tuple[Any, ...]) -> Any:
        return self.fun(*item, *self.args)


@dataclass(frozen=True)
class FirstOutput:
    """The first of the arrays that fun returns with a Watch: the value."""

    fun: Callable[..., Any]

    def __call__(self, *args: Any) -> Any:
        return self.fun(*args)[0]


class Caller(Protocol):
    """The part of a Backend that calls of vectorized functions need. A loop that is traced has no more than this."""

    @property
    def xp(self) -> Any: ...
    def to_function(self, array: Any) -> Array: ...
    def guard_arguments(self, *arrays: Array) -> AbstractContextManager[None]: ...
    def real(self, value: Any, name: str) -> Array: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Vectorized:
    """The user's functions of many points: fun and grad, or a closed form.

    Unless `batched`, they get points without the batch axis. No branch depends on values, so that a loop can be
    compiled with it.
    """

    backend: Caller
    fun: Any
    grad: Callable[..., Any] | None
    args: tuple[Any, ...]
    batched: bool
    closed: bool = False
    watched: bool = False
    """True if fun returns a tuple: the values, and numbers for the Watch. The answer has them along a last axis."""
    mappers: tuple[Mapper, ...] = ()
    """Workers for each of `calls`. Empty, the default: one call in this process."""
    chunks: int = 1
    """Number of calls that the points are divided among if there are workers."""

    @property
    def calls(self) -> list[Call]:
        """Calls of fun and, if there is one, of grad."""
        return [PointCall(fun, self.args) for fun in (self.fun, self.grad) if fun is not None]

    def with_workers(self, workers: Workers) -> Vectorized:
        """Return the same functions, called by workers. Each gets a chunk of the points."""
        if self.closed:
            raise checks.ArgumentValueError("`workers` cannot evaluate a closed form. Omit `workers`.")
        chunks = workers.size or os.cpu_count() or 1
        return replace(self, mappers=tuple(workers.mappers), chunks=chunks)

    def answer(self, query: Query, data: tuple[Array, ...]) -> Array:
        """Return values (B, n), or gradients (B, n, d). `data` has the rows (B, ...) of the problems."""
        if not self.mappers:
            given = self._arguments(query, data)
            with self.backend.guard_arguments(*given):
                return self._read(self._function(query)(*given, *self.args), query)
        axis = 0 if self.batched and query.points.shape[0] > 1 else 1
        found: dict[int, Array] = {}
        which = 0 if query.what == "fun" else 1
        with self.backend.guard_arguments(query.points, *data):
            chunks = _slices(query.points.shape[axis], self.chunks)
            parts = [_part(query, data, axis, some) for some in chunks]  # views, protected as well
            items = [tuple(self._arguments(*part)) for part in parts]
            with closing(self.mappers[which](self.calls[which], items)) as values:
                for i, value in values:
                    found[i] = self._read(value, parts[i][0])
        return self.backend.xp.concat([found[i] for i in range(len(parts))], axis=axis)

    def _function(self, query: Query) -> Callable[..., Any]:
        """Return the function that answers a query."""
        if self.closed:
            return getattr(self.fun, CLOSED_FORM_METHODS[query.what])  # type: ignore[no-any-return]
        fun = self.fun if query.what == "fun" else self.grad
        assert fun is not None
        return fun

    def _arguments(self, query: Query, data: tuple[Array, ...]) -> list[Array]:
        """Return the arguments of the function, without `args`."""
        # `to_function` may copy. Data may be large, so it is passed without.
        to_function = self.backend.to_function
        given = [to_function(self._seen(query.points))]
        if self.closed:
            xp, shape = self.backend.xp, query.points.shape[:2]
            t = xp.zeros_like(query.points[..., 0]) if query.t is None else xp.broadcast_to(query.t, shape)
            given.append(to_function(self._seen(t)))
        given += [self._seen(rows[:, None]) for rows in data]
        if query.xi is not None:
            given.append(to_function(self._seen(query.xi)))
        return given

    def _read(self, found: Any, query: Query) -> Array:
        """Return what the function returned as an array (B, n) or (B, n, d). Raise if its shape is wrong."""
        name = f"fun.{CLOSED_FORM_METHODS[query.what]}" if self.closed else query.what
        if not (self.watched and name == "fun"):
            return self._check_shape(found, query, name)
        if not isinstance(found, tuple):
            raise checks.ArgumentTypeError(
                f"`fun` must return a tuple, (values, what is watched ...), with `watch`; got {checks.show(found)}."
            )
        return self.backend.xp.stack([self._check_shape(one, query, name) for one in found], axis=-1)

    def _seen(self, array: Array) -> Array:
        """Return the array as the function gets it: without the batch axis, unless it is `batched`."""
        return array if self.batched else array[0]

    def _check_shape(self, found: Any, query: Query, name: str) -> Array:
        """Return what the function `name` returned as an array with leading axis B, or raise if its shape is wrong."""
        of, shape = "gradient" if query.is_gradient else "value", query.answer_shape
        values = self.backend.real(found, name)
        hidden = 0 if self.batched else 1  # leading axes that the function does not see
        if tuple(values.shape) != shape[hidden:]:
            raise checks.ArgumentValueError(
                f"`{name}` must return one {of} per point, shape {shape[hidden:]} for points of shape "
                f"{tuple(query.points.shape)[hidden:]}; got {tuple(values.shape)}."
            )
        return values if self.batched else values[None]


def _slices(n: int, parts: int) -> list[slice]:
    """Divide n points into at most this many slices of about equal length.

    >>> _slices(5, 2)
    [slice(0, 2, None), slice(2, 5, None)]
    """
    parts = max(1, min(n, parts))
    ends = [n * k // parts for k in range(parts + 1)]
    return [slice(begin, end) for begin, end in pairwise(ends)]


def _part(query: Query, data: tuple[Array, ...], axis: int, some: slice) -> tuple[Query, tuple[Array, ...]]:
    """Return a query for some problems (axis 0) or some points (axis 1), with the data of its problems."""
    rows = (some,) if axis == 0 else (slice(None), some)
    xi = None if query.xi is None else query.xi[rows]
    part = query._replace(points=query.points[rows], xi=xi)
    return part, tuple(a[some] for a in data) if axis == 0 else data


class Pointwise:
    """The user's functions of one point, called in a loop or by workers.

    Parameters
    ----------
    derived
        True if `grad` is the backend's automatic derivative of `fun`.
    constrained
        True if fun and grad return tuples: the value or gradient of f, and those of the constraints.
    mappers
        Workers for each of `calls`. Empty, the default: a loop in this process.
    """

    def __init__(
        self,
        backend: Backend,
        fun: Any,
        grad: Callable[..., Any] | None,
        args: tuple[Any, ...],
        *,
        derived: bool,
        constrained: bool = False,
        mappers: Sequence[Mapper] = (),
    ) -> None:
        self.backend, self.fun, self.grad, self.args, self.derived = backend, fun, grad, args, derived
        self.constrained = constrained
        self.calls: list[Call] = [PointCall(backend.without_gradients(fun), args)]
        """Calls of fun and, if there is one, of grad."""
        if grad is not None:
            self.calls.append(PointCall(grad, args))
        self._mappers = mappers

    def with_workers(self, workers: Workers) -> Pointwise:
        """Return the same functions, called by workers."""
        return Pointwise(
            self.backend,
            self.fun,
            self.grad,
            self.args,
            derived=self.derived,
            constrained=self.constrained,
            mappers=workers.mappers,
        )

    def answer(
        self,
        query: Query,
        data: tuple[Array, ...],
        answers: Answers | None = None,
        same: Mapping[int, int] = MappingProxyType({}),
        expired: Callable[[], bool] | None = None,
    ) -> Array:
        """Return values (B, n), or gradients (B, n, d). `data` has the rows (B, ...) of the problems.

        Points whose values are in `answers` are not evaluated again. New values are added to it one by one, so that
        they are kept if the function raises. `same` has points that get the value of another point of the query.
        Without workers, raise OutOfTime before the first evaluation at which `expired` returns True.
        """
        points, xi, backend = query.points, query.xi, self.backend
        B, n, d = points.shape
        answers = Answers() if answers is None else answers
        received = answers.received
        known = received.keys() | same.keys()
        missing = [i for i in range(B * n) if i not in known] if known else range(B * n)
        items = [
            (
                backend.to_library(points[b, i]),
                *(a[b] for a in data),
                *(() if xi is None else (backend.to_library(xi[b, i]),)),
            )
            for b, i in (divmod(j, n) for j in missing)
        ]
        which = 0 if query.what == "fun" else 1
        call = self.calls[which]
        read: Callable[[Any], Any] = backend.number if which == 0 else partial(self._vector, d=d)
        if self.constrained:
            read = partial(self._with_constraints, read=read)

        def nothing() -> Array:
            """Return the value of an evaluation that took too long: NaN, or a gradient of NaN."""
            return backend.native(np.full(() if which == 0 else (d,), np.nan, backend.host(points).dtype))

        with backend.guard_arguments(points):
            if not self._mappers:
                for j, item in zip(missing, items, strict=True):
                    if expired is not None and expired():
                        raise OutOfTime
                    answers.begin(1)
                    answers.receive(j, read(call(item)))
            else:
                answers.begin(len(items))
                with closing(self._mappers[which](call, items)) as values:
                    for i, value in values:
                        answers.receive(missing[i], nothing() if value is TIMED_OUT else read(value))
        answers.begin(len(same))
        for j, i in same.items():
            answers.receive(j, received[i])
        if self.constrained and len(shapes := {received[j].shape for j in range(B * n)}) > 1:
            lengths = sorted((shape[0] - 1) // (3 if which == 0 else 1) for shape in shapes)
            raise checks.ArgumentValueError(
                f"`constraints` must return the same number of values at all points, got {lengths}."
            )
        found = backend.stack([received[j] for j in range(B * n)])
        return backend.xp.reshape(found, (B, n, *found.shape[1:]))

    def mapped(self, *, data: int, xi: bool) -> Vectorized:
        """Return the functions of many points that the backend maps these to, with `data` arrays and `xi` or not."""
        fun = self.backend.mapped(self.fun, data=data, xi=xi, vector=False)
        grad = self.grad
        if self.derived:
            grad = self.backend.gradient(fun, vectorized=True)
        elif grad is not None:
            grad = self.backend.mapped(grad, data=data, xi=xi, vector=True)
        return Vectorized(backend=self.backend, fun=fun, grad=grad, args=self.args, batched=True)

    @staticmethod
    def _with_constraints(value: tuple[Any, Any], read: Callable[[Any], Any]) -> Array:
        """Return f and its constraints (1 + 3 k,), or their derivatives (1 + k, d)."""
        return np.concatenate([np.asarray(read(value[0]), float)[None], value[1]])

    def _vector(self, value: Any, d: int) -> Array:
        """Return a gradient (d,), or raise if it is none."""
        array = self.backend.real(value, "grad")
        if tuple(array.shape) != (d,):
            raise checks.ArgumentValueError(
                f"`grad` must return an array of shape ({d},), got shape {tuple(array.shape)}."
            )
        return array


class Objective:
    """Answers requests by calling the user's functions with the data of each problem.

    Parameters
    ----------
    data
        Arrays with leading axis B, one row per problem.
    raise_nonfinite
        Bad-value policy "raise".
    cache
        Values that are not computed again, None for no cache.
    expired
        Returns True if no further evaluation may begin, None if there is no time limit.
    """

    def __init__(
        self,
        functions: Vectorized | Pointwise,
        *,
        backend: Backend,
        data: tuple[Array, ...],
        raise_nonfinite: bool,
        cache: Cache | None = None,
        expired: Callable[[], bool] | None = None,
    ) -> None:
        self.functions, self.backend, self.data = functions, backend, data
        self.raise_nonfinite, self.cache, self.expired = raise_nonfinite, cache, expired
        # The last request's rows, and their data. The next request mostly has the same array of rows. Requests never
        # change that array, so the identity test in `__call__` is enough.
        self._rows: NDArray[np.intp] | None = None
        self._data = data

    def __call__(self, request: Evaluate) -> Array:
        """Return values (B, n), or gradients (B, n, d), in the points' dtype."""
        query, rows, answers = request
        if self.data and rows is not self._rows:
            at = self.backend.index(rows)
            self._rows, self._data = rows, tuple(a[at] for a in self.data)
        with self.backend.guard_arguments(*self._data):
            if self.cache is not None:
                values = self._answer_cached(request, self.cache)
            elif isinstance(self.functions, Pointwise):
                values = self.functions.answer(query, self._data, answers, expired=self.expired)
            else:
                answers.begin(query.points.shape[0] * query.points.shape[1])
                values = self.functions.answer(query, self._data)
        if self.raise_nonfinite:
            name = "grad" if query.is_gradient else "fun"
            found, points = self.backend.host(values), self.backend.host(query.points)
            if isinstance(self.functions, Pointwise) and self.functions.constrained and not query.is_gradient:
                found = found[..., : 1 + (found.shape[-1] - 1) // 3]  # without the bounds, which may be infinite
                bad_values.refuse(found[..., 1:], points, "constraints")
                found = found[..., 0]
            bad_values.refuse(found, points, name)
        return values

    def _answer_cached(self, request: Evaluate, cache: Cache) -> Array:
        """Return values (B, n), or gradients (B, n, d). Each point whose value is not in the cache is evaluated once.

        A function of the points of all problems gets those columns of the points (B, n, d) that it needs for any of
        them.
        """
        query, rows, answers = request
        functions, backend, received = self.functions, self.backend, answers.received
        (B, n), keys = query.points.shape[:2], cache.keys(query, rows, backend.host)
        known, first, same = dict[int, Any](), dict[Key, int](), dict[int, int]()
        for i, key in enumerate(keys):
            if i in received:
                continue
            if (value := cache.find(key)) is not None:
                known[i] = value
            elif first.setdefault(key, i) != i:
                same[i] = first[key]
        if isinstance(functions, Pointwise):
            cache.hits += len(known) + len(same)
            answers.begin(len(known))
            for i, value in known.items():
                answers.receive(i, value)
            values = functions.answer(query, self._data, answers, same, self.expired)
            cache.store(keys, (received[i] for i in range(B * n)))
            return values
        answers.begin(B * n)
        columns = sorted({i % n for i in first.values()})
        cache.hits += B * (n - len(columns))
        if columns:
            part = query._replace(points=query.points[:, backend.index(np.array(columns))])
            new = functions.answer(part, self._data)
            known |= {b * n + i: new[b, k] for k, i in enumerate(columns) for b in range(B)}
        known |= {i: known[of] for i, of in same.items()}
        cache.store(keys, (known[i] for i in range(B * n)))
        return backend.xp.reshape(backend.stack([known[i] for i in range(B * n)]), query.answer_shape)


def refuse_functions(fun: Any, grad: Any, args: tuple[Any, ...], backend: Backend) -> None:
    """Raise if `fun`, `grad` or `args` cannot be used."""
    if not is_closed_form(fun) and not callable(fun):
        hint = f" For a formula pass slgh.smooth({fun!r})." if isinstance(fun, str) else ""
        raise checks.ArgumentTypeError(f"`fun` must be callable or a closed form, got {fun!r}.{hint}")
    if grad is True and not backend.differentiates:
        raise checks.ArgumentValueError(
            "`grad=True` differentiates functions of PyTorch or JAX arrays; for NumPy pass the gradient."
        )
    if grad is not None and grad is not True and not callable(grad):
        raise checks.ArgumentTypeError(f"`grad` must be callable, got {grad!r}.")
    backend.check_functions((fun, grad, *args))


def read_functions(
    fun: Any,
    grad: Any,
    *,
    backend: Backend,
    args: tuple[Any, ...],
    vectorized: bool,
    batched: bool,
    differentiate: bool,
    watched: bool = False,
    constraints: Constraints | None = None,
) -> Vectorized | Pointwise:
    """Return the user's functions in the form in which they are called.

    Parameters
    ----------
    differentiate
        True if gradients are needed. If the user gives none, the backend differentiates.
    watched
        True if fun returns a tuple: the values, and numbers for the Watch.
    constraints
        Constraints that are evaluated with fun. They take one point, and so does a vectorized fun then.
    """
    closed = is_closed_form(fun)
    derived = differentiate and not closed and not callable(grad)
    value = FirstOutput(fun) if watched else fun
    grad = backend.gradient(value, vectorized=vectorized) if derived else grad if differentiate else None
    if watched and (closed or not vectorized):
        raise checks.ArgumentValueError(
            "`watch` needs vectorized=True: a fun of points (..., d) that returns a tuple of arrays (...)."
        )
    if constraints is not None:
        fun = ConstrainedFunction(fun, constraints)
        grad = None if grad is None else ConstrainedGradient(grad, constraints)
        return Pointwise(backend, fun, grad, args, derived=False, constrained=True)
    if vectorized or closed:
        return Vectorized(
            backend=backend, fun=fun, grad=grad, args=args, batched=batched, closed=closed, watched=watched
        )
    return Pointwise(backend, fun, grad, args, derived=derived)
