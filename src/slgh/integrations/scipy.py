"""slgh as a method of `scipy.optimize.minimize`, also inside `basinhopping`."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import slgh

LIMITS = {"maxfev": "max_evals", "maxfun": "max_evals", "maxiter": "max_iter"}
"""SciPy's names of limits, and slgh's."""


def method(
    fun: Callable[..., Any],
    x0: Any,
    args: tuple[Any, ...] = (),
    *,
    jac: Callable[..., Any] | None = None,
    hess: Any = None,
    hessp: Any = None,
    bounds: Any = None,
    constraints: Any = (),
    callback: Callable[..., object] | None = None,
    tol: float | None = None,
    disp: bool = False,
    **options: Any,
) -> slgh.Result:
    """Minimize a function with slgh, for the argument `method` of `scipy.optimize.minimize`.

    Parameters
    ----------
    fun, x0, args, bounds, constraints
        As in SciPy.
    jac
        Gradient. With jac=True, fun returns the value and the gradient. None, the default: values only.
    hess, hessp
        Not used, with a warning: slgh needs no Hessian.
    tol
        The `ftol` of `slgh.minimize`, unless the options have `ftol` or `xtol`. Not used with constraints, with a
        warning.
    callback
        Called after each iteration, with `intermediate_result`, or with x. To stop the run, raise StopIteration or,
        with `intermediate_result`, return True.
    disp
        True prints the message at the end. False by default.
    **options
        maxfev (or maxfun) sets `max_evals`, and maxiter sets `max_iter`. All others are arguments of `slgh.minimize`,
        such as `seed`, `method` and `target`.

    Returns
    -------
    Result
        A `scipy.optimize.OptimizeResult` with x, fun, success, message, nfev, njev and nit.
    """
    constrained = constraints is not None and not (isinstance(constraints, list | tuple) and not constraints)
    for name, value in {"hess": hess, "hessp": hessp}.items():
        if value is not None:
            warnings.warn(f"slgh does not use {name}.", RuntimeWarning, stacklevel=3)
    if tol is not None and constrained:
        warnings.warn("slgh does not use tol with constraints.", RuntimeWarning, stacklevel=3)
    elif tol is not None and not {"ftol", "xtol"} & options.keys():
        options["ftol"] = tol
    for name in LIMITS.keys() & options.keys():
        options[LIMITS[name]] = options.pop(name)
    x = np.atleast_1d(np.asarray(x0))
    if constrained:
        options["constraints"] = constraints
    result = slgh.minimize(fun, x, args=args, grad=jac, bounds=bounds, callback=_one_argument(callback), **options)
    if disp:
        print(result)
    return result


def _one_argument(callback: Callable[..., object] | None) -> Callable[..., object] | None:
    """Return a callback as slgh calls it. SciPy calls it with x unless its parameter is `intermediate_result`."""
    if callback is None or set(inspect.signature(callback).parameters) == {"intermediate_result"}:
        return callback

    def with_x(result: slgh.Result) -> None:
        callback(np.copy(result.x))

    return with_x
