r"""Smooth a Python function of few variables, or a sum of functions of single variables, by quadrature."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_array_api_obj

from slgh import checks
from slgh.smoothing.nodes import MAX_NODES, NODES_PER_AXIS, CachedNodes, gauss_hermite, raise_radius


class Quadrature:
    r"""The Gaussian homotopy of a Python function by Gauss-Hermite quadrature: a closed form for `minimize`.

    .. math::
        F(x, t) \approx \sum_j w_j f(x + t u_j), \quad
        \nabla_x F \approx \frac1t \sum_j w_j (f(x + t u_j) - f(x))\, u_j, \quad
        \operatorname{tr} \operatorname{Hess} F \approx \frac{1}{t^2} \sum_j w_j (f(x + t u_j) - f(x)) (|u_j|^2 - d)

    with n nodes per axis, :math:`n^d` in all. :math:`\partial F / \partial t` is t times the trace.

    Parameters
    ----------
    fun
        Maps points (..., d) to values (...), as NumPy, PyTorch or JAX arrays; or with `separable` to terms (..., d)
        whose sum is f, where term i depends on variable i alone.
    nodes
        n. By default 128, 64, 20, 10 for 1 to 4 variables, and 128 for a separable sum.
    separable
        Integrate along each variable on its own: n evaluations for any number of variables.

    Notes
    -----
    For smooth functions the error falls faster than any power of n, for kinks and jumps slowly; `error` estimates it.
    The rule resolves structure down to about t / sqrt(n). Derivatives divide by t, so they are taken at t >= eps^(1/3)
    (gradient) or t >= eps^(1/4) (trace), where eps is that of the dtype. A run counts an evaluation of F as one.

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
            raise checks.ArgumentTypeError(f"`fun` must be callable, got {fun!r}.")
        if nodes is not None:
            checks.count("nodes", nodes, 2)
        self.fun, self.nodes, self.separable = fun, nodes, separable
        self._rules: dict[tuple[int, int], CachedNodes] = {}

    def value(self, x: Any, t: Any) -> Any:
        """Return F(x, t), (...)."""
        x, t, xp = self._read(x, t)
        values, _, w = self._at_nodes(x, t, self._nodes_per_axis(x))
        return self._integrate(values, w, xp)

    def grad(self, x: Any, t: Any) -> Any:
        """Return the gradient of F by x, (..., d)."""
        x, t, xp = self._read(x, t)
        t = raise_radius(t, 1 / 3, xp)
        rise, u, w = self._rise(x, t)
        if self.separable:
            return xp.sum(rise * (w * u[:, 0])[:, None], axis=-2) / t[..., None]
        return xp.sum((rise * w)[..., None] * u, axis=-2) / t[..., None]

    def trace(self, x: Any, t: Any) -> Any:
        """Return the trace of the Hessian of F, (...)."""
        x, t, xp = self._read(x, t)
        t = raise_radius(t, 1 / 4, xp)
        rise, u, w = self._rise(x, t)
        return self._integrate(rise, w * (xp.sum(u * u, axis=-1) - u.shape[-1]), xp) / (t * t)

    def dt(self, x: Any, t: Any) -> Any:
        """Return the derivative of F by t, (...)."""
        x, t, _ = self._read(x, t)
        return t * self.trace(x, t)

    def error(self, x: Any, t: Any) -> Any:
        """Estimate the error of F(x, t), (...), by the difference from a rule with half as many nodes per axis."""
        x, t, xp = self._read(x, t)
        values, _, w = self._at_nodes(x, t, max(1, self._nodes_per_axis(x) // 2))
        return xp.abs(self.value(x, t) - self._integrate(values, w, xp))

    def _integrate(self, values: Any, weights: Any, xp: Any) -> Any:
        """Return the weighted sum (...) of values (..., J), or of terms (..., J, d)."""
        if self.separable:
            return xp.sum(xp.sum(values * weights[:, None], axis=-2), axis=-1)
        return xp.sum(values * weights, axis=-1)

    def _nodes_per_axis(self, x: Any) -> int:
        d = 1 if self.separable else x.shape[-1]
        n = NODES_PER_AXIS.get(d, 0) if self.nodes is None else self.nodes
        if n == 0 or n**d > MAX_NODES:
            limit = f"at most {max(NODES_PER_AXIS)} variables" if n == 0 else f"at most {MAX_NODES} nodes in all"
            raise checks.ArgumentValueError(
                f"`fun` must have {limit} for quadrature, got {d} variables"
                + (f" with {n} nodes each" if n else "")
                + ". Pass separable=True for a sum over single variables, or minimize fun by a zeroth-order method."
            )
        return n

    def _at_nodes(self, x: Any, t: Any, n: int) -> tuple[Any, Any, Any]:
        """Return f, or its terms, at x + t u for the nodes u; u (J, d); and the weights (J,)."""
        d = 1 if self.separable else x.shape[-1]
        if (d, n) not in self._rules:
            self._rules[d, n] = CachedNodes(gauss_hermite(d, n))
        u, w = self._rules[d, n].like(x)
        return self._call(x[..., None, :] + t[..., None, None] * u), u, w

    def _rise(self, x: Any, t: Any) -> tuple[Any, Any, Any]:
        """Return f(x + t u) - f(x), u and the weights."""
        values, u, w = self._at_nodes(x, t, self._nodes_per_axis(x))
        return values - self._call(x[..., None, :]), u, w

    def _call(self, points: Any) -> Any:
        found = self.fun(points)
        shape = tuple(points.shape) if self.separable else tuple(points.shape[:-1])
        if tuple(getattr(found, "shape", ())) != shape:
            kind = "one term per variable" if self.separable else "one value per point"
            raise checks.ArgumentValueError(
                f"`fun` must return {kind}, shape {shape} for points of shape {tuple(points.shape)}; got "
                f"{tuple(getattr(found, 'shape', ()))}."
            )
        return found

    def _read(self, x: Any, t: Any) -> tuple[Any, Any, Any]:
        """Return x (..., d) and t (...) as arrays of one library, and its namespace."""
        if not is_array_api_obj(x):
            x = np.asarray(x, float)
        xp = array_namespace(x)
        if not is_array_api_obj(t):
            t = xp.asarray(t, dtype=x.dtype)
        return x, t, xp
