r"""Smoothing of any Python function of few variables, or of a sum over single variables, by quadrature."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_array_api_obj

from slgh import checks
from slgh.smoothing.nodes import MOST, PER_AXIS, Kept, at_least, gauss_hermite


class Quadrature:
    r"""The Gaussian homotopy of a Python function by Gauss-Hermite quadrature: a closed form for `minimize`.

    .. math::
        F(x, t) \approx \sum_j w_j f(x + t u_j), \quad
        \nabla_x F \approx \frac1t \sum_j w_j (f(x + t u_j) - f(x))\, u_j, \quad
        \operatorname{tr} \operatorname{Hess} F \approx \frac{1}{t^2} \sum_j w_j (f(x + t u_j) - f(x)) (|u_j|^2 - d)

    with n nodes an axis, :math:`n^d` in all; :math:`\partial F / \partial t` is t times the trace. Values of f suffice.

    Parameters
    ----------
    fun
        Maps points (..., d) to values (...), of NumPy, PyTorch or JAX arrays; or with `separable` to terms (..., d), of
        which term i depends on variable i alone, and f is their sum.
    nodes
        n; by default 128, 64, 20, 10 for 1 to 4 variables, and 128 for a separable sum.
    separable
        Take the quadrature along each variable on its own: n evaluations in any number of variables.

    Notes
    -----
    Smooth functions converge faster than any power of n, kinks and jumps slowly; `error` estimates how well. The rule
    sees structure down to about t / sqrt(n). Derivatives divide by t, so that they are taken at t >= eps^(1/3)
    (gradient) or eps^(1/4) (trace), eps that of the dtype. A run counts an evaluation of F as one.

    Examples
    --------
    >>> import slgh
    >>> F = slgh.smoothing.Quadrature(lambda x: np.log(1 + np.sum(x**2, axis=-1)))
    >>> bool(F.error([1.0, 2.0], 0.5) < 1e-12)
    True
    >>> result = slgh.minimize(F, [3.0, -2.0], method="slgh_r", t1=1.0, gamma=0.97, step=0.3, max_iter=300)
    >>> bool(result.fun < 1e-6)
    True
    """

    def __init__(self, fun: Callable[[Any], Any], *, nodes: int | None = None, separable: bool = False) -> None:
        if not callable(fun):
            raise TypeError(f"`fun` must be callable, got {fun!r}.")
        if nodes is not None:
            checks.count("nodes", nodes, 2)
        self.fun, self.nodes, self.separable = fun, nodes, separable
        self._rules: dict[tuple[int, int], Kept] = {}

    def value(self, x: Any, t: Any) -> Any:
        """F(x, t), (...)."""
        x, t, xp = self._read(x, t)
        values, _, w = self._around(x, t, self._per_axis(x))
        return self._total(xp.sum(values * self._along(w), axis=self._axis), xp)

    def grad(self, x: Any, t: Any) -> Any:
        """The gradient of F by x, (..., d)."""
        x, t, xp = self._read(x, t)
        t = at_least(t, 1 / 3, xp)
        rise, u, w = self._rise(x, t)
        if self.separable:
            return xp.sum(rise * (w * u[:, 0])[:, None], axis=-2) / t[..., None]
        return xp.sum((rise * w)[..., None] * u, axis=-2) / t[..., None]

    def trace(self, x: Any, t: Any) -> Any:
        """The trace of the Hessian of F, (...)."""
        x, t, xp = self._read(x, t)
        t = at_least(t, 1 / 4, xp)
        rise, u, w = self._rise(x, t)
        weights = self._along(w * (xp.sum(u * u, axis=-1) - u.shape[-1]))
        return self._total(xp.sum(rise * weights, axis=self._axis), xp) / (t * t)

    def dt(self, x: Any, t: Any) -> Any:
        """The derivative of F by t, (...)."""
        x, t, _ = self._read(x, t)
        return t * self.trace(x, t)

    def error(self, x: Any, t: Any) -> Any:
        """An estimate of the error of F(x, t), (...): how far a rule with half the nodes is from it."""
        x, t, xp = self._read(x, t)
        n = self._per_axis(x)
        values, _, w = self._around(x, t, max(1, n // 2))
        coarse = self._total(xp.sum(values * self._along(w), axis=self._axis), xp)
        return xp.abs(self.value(x, t) - coarse)

    @property
    def _axis(self) -> int:
        """The axis of the nodes."""
        return -2 if self.separable else -1

    def _along(self, w: Any) -> Any:
        """Weights (J,), to be multiplied with values (..., J) or terms (..., J, d)."""
        return w[:, None] if self.separable else w

    def _total(self, found: Any, xp: Any) -> Any:
        """The sum over the variables of a separable sum."""
        return xp.sum(found, axis=-1) if self.separable else found

    def _per_axis(self, x: Any) -> int:
        d = 1 if self.separable else x.shape[-1]
        n = PER_AXIS.get(d, 0) if self.nodes is None else self.nodes
        if n == 0 or n**d > MOST:
            wanted = f"at most {max(PER_AXIS)} variables" if n == 0 else f"at most {MOST} nodes in all"
            raise ValueError(
                f"`fun` must have {wanted} for quadrature, got {d} variables"
                + (f" with {n} nodes each" if n else "")
                + ". Pass separable=True for a sum over single variables, or minimize fun by a zeroth-order method."
            )
        return n

    def _around(self, x: Any, t: Any, n: int) -> tuple[Any, Any, Any]:
        """f, or its terms, at x + t u for the nodes u, with u (J, d) and the weights (J,)."""
        d = 1 if self.separable else x.shape[-1]
        if (d, n) not in self._rules:
            self._rules[d, n] = Kept(*gauss_hermite(d, n))
        u, w = self._rules[d, n].like(x)
        return self._call(x[..., None, :] + t[..., None, None] * u), u, w

    def _rise(self, x: Any, t: Any) -> tuple[Any, Any, Any]:
        values, u, w = self._around(x, t, self._per_axis(x))
        return values - self._call(x[..., None, :]), u, w

    def _call(self, points: Any) -> Any:
        found = self.fun(points)
        shape = tuple(points.shape) if self.separable else tuple(points.shape[:-1])
        if tuple(getattr(found, "shape", ())) != shape:
            kind = "one term a variable" if self.separable else "one value a point"
            raise ValueError(
                f"`fun` must return {kind}, shape {shape} for points of shape {tuple(points.shape)}; got "
                f"{tuple(getattr(found, 'shape', ()))}."
            )
        return found

    def _read(self, x: Any, t: Any) -> tuple[Any, Any, Any]:
        """x (..., d) and t (...) as arrays of one library, and its namespace."""
        if not is_array_api_obj(x):
            x = np.asarray(x, float)
        xp = array_namespace(x)
        if not is_array_api_obj(t):
            t = xp.asarray(t, dtype=x.dtype)
        return x, t, xp
