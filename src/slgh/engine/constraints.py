"""Constraints beyond bounds, as SciPy takes them: what they are, and how far a point violates them.

One evaluation is f and all constraints at a point. `ConstrainedFunction` calls them, and the answer to a query has f,
the values of the nonlinear constraints, and their lower and upper bounds along its last axis. `Constraints` reads it,
and adds the linear constraints, which it computes itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import LinearConstraint, NonlinearConstraint

from slgh.backends.numpy.backend import plain_array, real_array
from slgh.checks import ArgumentTypeError, ArgumentValueError, at_least

Floats = NDArray[np.float64]


class Rows(NamedTuple):
    """f (n,) at n points, the values of all constraints (n, m), and their bounds (m,)."""

    f: Floats
    c: Floats
    low: Floats
    high: Floats

    @property
    def violations(self) -> Floats:
        """Largest violation at each point (n,), infinite if a constraint is NaN there."""
        return np.asarray(np.max(excess(self.c, self.low, self.high), axis=1, initial=0.0))


def excess(c: Floats, low: Floats, high: Floats) -> Floats:
    """Return by how much values c (..., m) violate their bounds, infinity for NaN.

    >>> excess(np.array([3.0, 0.5, np.nan]), np.zeros(3), np.ones(3))
    array([ 2.,  0., inf])
    """
    beyond = np.maximum(np.maximum(low - c, c - high), 0.0)
    return np.where(np.isnan(c), np.inf, beyond)


class NonlinearFunction(NamedTuple):
    """Function of x with several values, their bounds, which broadcast to the values, and its Jacobian, if any."""

    fun: Callable[..., Any]
    low: Floats
    high: Floats
    jac: Callable[..., Any] | None
    args: tuple[Any, ...] = ()

    def values(self, x: Any) -> Floats:
        """Return the values (m,) and their bounds, (3, m)."""
        found = np.atleast_1d(real_array(self.fun(x, *self.args), "constraints.fun")).astype(float)
        if found.ndim != 1 or np.broadcast_shapes((1,), self.low.shape) not in ((1,), found.shape):
            expected = f"({self.low.size},), as many as bounds" if self.low.size > 1 else "(m,)"
            raise ArgumentValueError(
                f"`constraints` must have functions that return an array of shape {expected}; got {found.shape}."
            )
        return np.stack([found, *(np.broadcast_to(side, found.shape) for side in (self.low, self.high))])

    def slopes(self, x: Any) -> Floats:
        """Return the Jacobian (m, d)."""
        assert self.jac is not None
        found = np.atleast_2d(real_array(_dense(self.jac(x, *self.args)), "constraints.jac")).astype(float)
        if found.ndim != 2 or found.shape[1] != len(x):
            raise ArgumentValueError(
                f"`constraints` must have Jacobians of shape (m, {len(x)}), one row per value; got {found.shape}."
            )
        return found


@dataclass(frozen=True, kw_only=True)
class Constraints:
    """All constraints of a problem."""

    nonlinear: tuple[NonlinearFunction, ...]
    matrix: Floats
    """(l, d) rows of the linear constraints."""
    low: Floats
    """(l,) bounds of the linear constraints."""
    high: Floats
    tolerance: float
    """Largest violation of a feasible point."""

    @property
    def differentiable(self) -> bool:
        """True if all nonlinear constraints have a Jacobian."""
        return all(one.jac is not None for one in self.nonlinear)

    def rows(self, answer: NDArray[Any], points: Floats) -> Rows:
        """Return the values at points (n, d), given the answer (n, 1 + 3 k) to the query."""
        given = answer.reshape(len(points), -1).astype(float)
        k = (given.shape[1] - 1) // 3
        low, high = given[0, 1 + k : 1 + 2 * k], given[0, 1 + 2 * k :]
        # The product of each row alone: its bits must not depend on the number of points.
        linear = np.array([[row @ x for row in self.matrix] for x in points]).reshape(len(points), len(self.matrix))
        return Rows(
            given[:, 0],
            np.concatenate([given[:, 1 : 1 + k], linear], axis=1),
            np.concatenate([low, self.low]),
            np.concatenate([high, self.high]),
        )

    def slopes(self, answer: NDArray[Any], point: Floats) -> Floats:
        """Return the derivatives of f and of all constraints at a point (d,), (1 + m, d)."""
        return np.concatenate([answer.reshape(-1, point.size).astype(float), self.matrix])


class ConstrainedFunction:
    """f and the nonlinear constraints at one point. It is an object so that it can be pickled."""

    def __init__(self, fun: Callable[..., Any], constraints: Constraints) -> None:
        self.fun, self.constraints = fun, constraints

    def __call__(self, x: Any, *more: Any) -> tuple[Any, Floats]:
        """Return f, and the values and bounds of the constraints, (3 k,)."""
        parts = [one.values(x) for one in self.constraints.nonlinear]
        return self.fun(x, *more), np.concatenate(parts, axis=1).ravel() if parts else np.empty(0)


class ConstrainedGradient:
    """Gradients of f and of the nonlinear constraints at one point."""

    def __init__(self, grad: Callable[..., Any], constraints: Constraints) -> None:
        self.grad, self.constraints = grad, constraints

    def __call__(self, x: Any, *more: Any) -> tuple[Any, Floats]:
        """Return the gradient of f, and the rows of the Jacobians (k, d)."""
        parts = [one.slopes(x) for one in self.constraints.nonlinear]
        return self.grad(x, *more), np.concatenate(parts) if parts else np.empty((0, len(x)))


def _dense(matrix: Any) -> Any:
    """Return a sparse matrix as an array."""
    return matrix.toarray() if hasattr(matrix, "toarray") else matrix


def read_constraints(constraints: Any, d: int, tolerance: float | None, dtype: Any) -> Constraints | None:
    """Return the constraints of a problem of d variables, or None if there are none."""
    one = isinstance(constraints, LinearConstraint | NonlinearConstraint | Mapping)
    if constraints is None or not (one or isinstance(constraints, Iterable)):
        if constraints is None:
            return None
        raise _wrong_type(constraints)
    given = [constraints] if one else list(constraints)
    if not given:
        return None
    linear = [_read_linear(c, d) for c in given if isinstance(c, LinearConstraint)]
    nonlinear = tuple(_read_nonlinear(c) for c in given if not isinstance(c, LinearConstraint))
    if tolerance is None:
        tolerance = float(np.sqrt(np.finfo(dtype).eps))
    at_least("feasibility_tol", tolerance, 0)
    return Constraints(
        nonlinear=nonlinear,
        matrix=np.concatenate([np.empty((0, d)), *(A for A, _, _ in linear)]),
        low=np.concatenate([np.empty(0), *(low for _, low, _ in linear)]),
        high=np.concatenate([np.empty(0), *(high for _, _, high in linear)]),
        tolerance=float(tolerance),
    )


def _read_linear(constraint: LinearConstraint, d: int) -> tuple[Floats, Floats, Floats]:
    """Return the matrix (l, d) and its bounds (l,)."""
    _refuse_keep_feasible(constraint.keep_feasible)
    A = np.atleast_2d(np.asarray(_dense(constraint.A), float))
    if A.ndim != 2 or A.shape[1] != d:
        raise ArgumentValueError(
            f"`constraints` must have a matrix with one column per variable (expected {d}); got shape {A.shape}."
        )
    if not np.isfinite(A).all():
        raise ArgumentValueError(f"`constraints` must have a finite matrix, got {A[~np.isfinite(A)][0]}.")
    low, high = _read_sides(constraint.lb, constraint.ub)
    low, high = (np.broadcast_to(side, A.shape[:1]) for side in (low, high))  # SciPy has checked the shapes
    return A, low, high


def _read_nonlinear(constraint: Any) -> NonlinearFunction:
    """Return a nonlinear constraint, from SciPy's class or dictionary."""
    fun: Any
    jac: Any
    args: tuple[Any, ...]
    if isinstance(constraint, NonlinearConstraint):
        _refuse_keep_feasible(constraint.keep_feasible)
        fun, jac, args = constraint.fun, constraint.jac, ()
        low, high = _read_sides(constraint.lb, constraint.ub)
    elif isinstance(constraint, Mapping):
        kind = str(constraint.get("type", "")).lower()
        if kind not in ("ineq", "eq"):
            raise ArgumentValueError(
                f"`constraints` must have the type 'ineq' (fun >= 0) or 'eq' (fun = 0), got {constraint.get('type')!r}."
            )
        fun, jac, args = constraint.get("fun"), constraint.get("jac"), tuple(constraint.get("args", ()))
        low, high = np.zeros(1), np.full(1, np.inf if kind == "ineq" else 0.0)
    else:
        raise _wrong_type(constraint)
    if not callable(fun):
        raise ArgumentTypeError(f"`constraints` must have a callable fun, got {fun!r}.")
    return NonlinearFunction(fun, low, high, jac if callable(jac) else None, args)


def _read_sides(low: Any, high: Any) -> tuple[Floats, Floats]:
    """Return lower and upper bounds as arrays (k,) of the same shape, or raise if they are invalid."""
    try:
        low, high = np.broadcast_arrays(*(np.atleast_1d(plain_array(side)).astype(float) for side in (low, high)))
    except (ValueError, TypeError):
        raise ArgumentValueError(
            f"`constraints` must have bounds lb and ub of one shape, got {low!r} and {high!r}."
        ) from None
    if low.ndim != 1:
        raise ArgumentValueError(f"`constraints` must have bounds that are numbers or vectors, got shape {low.shape}.")
    if not (low <= high).all() or np.isposinf(low).any() or np.isneginf(high).any():
        i = int(np.argmax(~(low <= high) | np.isposinf(low) | np.isneginf(high)))
        raise ArgumentValueError(
            f"`constraints` must have lb <= ub, with lb < inf and ub > -inf; got ({low[i]}, {high[i]}) for value {i}."
        )
    return low, high


def _refuse_keep_feasible(keep_feasible: Any) -> None:
    """Raise if fun may not be evaluated at infeasible points."""
    if np.any(keep_feasible):
        raise ArgumentValueError(
            "`constraints` cannot have keep_feasible=True: fun is evaluated at infeasible points. Return NaN there, "
            "or use bounds."
        )


def _wrong_type(constraint: Any) -> ArgumentTypeError:
    return ArgumentTypeError(
        "`constraints` must be a scipy.optimize.LinearConstraint, a NonlinearConstraint, a dictionary with 'type' and "
        f"'fun', or a list of these; got {constraint!r}."
    )
