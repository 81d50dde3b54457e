r"""Quadratic program with elastic constraints, by a primal-dual interior-point method.

.. math:: \min_{s, v} \; g^T s + \tfrac12 s^T H s + w \sum_i v_i \quad \text{s.t.} \quad
    E s - v \le r, \quad v \ge 0, \quad a \le s \le b.

The v are the violations that remain, at the price w each, so that there is always a solution. This is Mehrotra's
predictor-corrector method (SIAM J. Optim. 2, 1992). The slacks are eliminated by hand, which leaves a system of d + k
equations for k rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import lu_factor, lu_solve

from slgh.auto.evaluation import Floats

MAX_ITERATIONS = 60
"""Maximum number of iterations. Most programs take 10 to 20."""

TOLERANCE = 1e-15
"""Mean complementarity at the end, relative to the price of a violation and the gradient."""

RESIDUAL = 1e-10
"""Largest error of the linear equations at the end."""

LEAST_CENTERING = 0.1
"""Share of the complementarity that a step keeps at least while there are such errors."""

STEP_SHARE = 0.995
"""Share of the step to the boundary that is taken."""


class Program(NamedTuple):
    """Gradient g (d,), Hessian H (d, d), rows E (k, d), right-hand sides r (k,), price w, bounds a < 0 < b (d,)."""

    gradient: Floats
    hessian: Floats
    rows: Floats
    right: Floats
    price: float
    low: Floats
    high: Floats


class ProgramSolution(NamedTuple):
    """Minimizer s (d,), and the multipliers of the rows (k,), between 0 and w."""

    step: Floats
    multipliers: Floats


class _Iterate(NamedTuple):
    """Step s (d,) and all slacks and multipliers, which are positive.

    The slacks of the rows are w, of the violations v, and of the bounds p = b - s and q = s - a. Their multipliers are
    `of_w` to `of_q`, in the same order.
    """

    s: Floats
    w: Floats
    v: Floats
    p: Floats
    q: Floats
    of_w: Floats
    of_v: Floats
    of_p: Floats
    of_q: Floats

    @property
    def products(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Products of the slacks and their multipliers."""
        return self.w * self.of_w, self.v * self.of_v, self.p * self.of_p, self.q * self.of_q

    @property
    def complementarity(self) -> float:
        """Mean of the products."""
        return float(np.mean(np.concatenate(self.products)))

    def moved(self, step: _Iterate, length: float) -> _Iterate:
        """Return this iterate plus a multiple of a step."""
        return _Iterate(*(now + length * change for now, change in zip(self, step, strict=True)))

    def longest(self, step: _Iterate) -> float:
        """Return the longest step, up to 1, that keeps all slacks and multipliers non-negative."""
        now, change = np.concatenate(self[1:]), np.concatenate(step[1:])
        falling = change < 0
        return min(1.0, float(np.min(-now[falling] / change[falling], initial=np.inf)))


class _Residuals(NamedTuple):
    """Errors of the linear equations: gradient by s (d,), rows (k,), and gradient by v (k,)."""

    dual: Floats
    rows: Floats
    price: Floats


def solve(program: Program) -> ProgramSolution:
    """Minimize a program with a positive definite Hessian."""
    at, scale = _start(program)
    for _ in range(MAX_ITERATIONS):
        mu, errors = at.complementarity, _residuals(program, at)
        dual_error = float(np.abs(errors.dual).max()) / scale
        if mu <= TOLERANCE * scale and max(float(np.abs(errors.rows).max(initial=0.0)), dual_error) <= RESIDUAL:
            break
        factors = lu_factor(_matrix(program, at), check_finite=False)
        # Predictor: towards products of 0. It shows how fast they can fall, and its own products correct the step.
        affine = _newton(program, at, errors, factors, tuple(-now for now in at.products))
        after = at.moved(affine, at.longest(affine)).complementarity
        # The products must not vanish before the residuals do, or the steps would be cut at the boundary.
        least = LEAST_CENTERING if dual_error > RESIDUAL else 0.0
        center = mu * max((max(after, 0.0) / mu) ** 3, least)
        wanted = tuple(center - now - more for now, more in zip(at.products, affine.products, strict=True))
        step = _newton(program, at, errors, factors, wanted)
        if not np.isfinite(step.s).all():
            break
        at = at.moved(step, STEP_SHARE * at.longest(step))
    return ProgramSolution(np.clip(at.s, program.low, program.high), at.of_w)


def _start(program: Program) -> tuple[_Iterate, float]:
    """Return the first iterate, in the middle of the bounds, and the unit of gradients and multipliers."""
    g, H, E, r, price, low, high = program
    k = len(r)
    scale = max(float(np.abs(g).max(initial=0.0)), float(np.abs(H).max(initial=0.0)), price if k else 0.0, 1e-300)
    s = 0.5 * (low + high)
    p, q, beyond = high - s, s - low, E @ s - r
    half = np.full(k, 0.5 * price)
    first = _Iterate(
        s=s,
        w=np.maximum(-beyond, 0) + 1.0,
        v=np.maximum(beyond, 0) + 1.0,
        p=p,
        q=q,
        of_w=half,
        of_v=half,
        of_p=scale / np.minimum(p, 1.0),
        of_q=scale / np.minimum(q, 1.0),
    )
    return first, scale


def _residuals(program: Program, at: _Iterate) -> _Residuals:
    """Return the errors of the linear equations."""
    g, H, E, r, price, _, _ = program
    return _Residuals(
        dual=H @ at.s + g + E.T @ at.of_w + at.of_p - at.of_q,
        rows=E @ at.s - at.v + at.w - r,
        price=price - at.of_w - at.of_v,
    )


def _matrix(program: Program, at: _Iterate) -> Floats:
    """Return the matrix of the equations for s and the multipliers of the rows, (d + k, d + k).

    Without the multipliers it would be smaller, but far less accurate.
    """
    H, E = program.hessian, program.rows
    upper = np.hstack([H + np.diag(at.of_p / at.p + at.of_q / at.q), E.T])
    lower = np.hstack([E, np.diag(-(at.v / at.of_v + at.w / at.of_w))])
    return np.vstack([upper, lower])


def _newton(
    program: Program, at: _Iterate, errors: _Residuals, factors: tuple[Any, Any], wanted: tuple[Floats, ...]
) -> _Iterate:
    """Return the Newton step that removes the errors and changes the four products by `wanted`, to first order."""
    in_w, in_v, in_p, in_q = wanted
    shift = errors.rows - (in_v - at.v * errors.price) / at.of_v + in_w / at.of_w
    right = np.concatenate([-errors.dual - in_p / at.p + in_q / at.q, -shift])
    found = lu_solve(factors, right, check_finite=False)
    ds, dw = found[: at.s.size], found[at.s.size :]  # dw: of the multipliers of w
    dv = errors.price - dw
    return _Iterate(
        s=ds,
        w=(in_w - at.w * dw) / at.of_w,
        v=(in_v - at.v * dv) / at.of_v,
        p=-ds,
        q=ds,
        of_w=dw,
        of_v=dv,
        of_p=(in_p + at.of_p * ds) / at.p,
        of_q=(in_q - at.of_q * ds) / at.q,
    )
