r"""Quadratic program with elastic constraints, by a primal-dual interior-point method.

.. math:: \min_{s, v} \; g^T s + \tfrac12 s^T H s + w \sum_i v_i \quad \text{s.t.} \quad
    E s - v \le r, \quad v \ge 0, \quad a \le s \le b.

The v are the violations that remain, at the price w each, so that there is always a solution. This is Mehrotra's
predictor-corrector method (SIAM J. Optim. 2, 1992). The slacks are eliminated by hand, which leaves a system of d + k
equations for k rows.
"""

from __future__ import annotations

from typing import NamedTuple

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


def solve(program: Program) -> ProgramSolution:
    """Minimize a program with a positive definite Hessian."""
    g, H, E, r, price, low, high = program
    k = len(r)
    s = 0.5 * (low + high)
    p, q = high - s, s - low
    v = np.maximum(E @ s - r, 0) + 1.0
    w = np.maximum(r - E @ s, 0) + 1.0
    lam, nu = np.full(k, 0.5 * price), np.full(k, 0.5 * price)
    scale = max(float(np.abs(g).max(initial=0.0)), float(np.abs(H).max(initial=0.0)), price if k else 0.0, 1e-300)
    alpha, beta = scale / np.minimum(p, 1.0), scale / np.minimum(q, 1.0)
    d, products, diagonal = s.size, 2 * (k + s.size), np.arange(k + s.size)
    matrix = np.zeros((d + k, d + k))
    matrix[d:, :d], matrix[:d, d:] = E, E.T
    for _ in range(MAX_ITERATIONS):
        mu = float(lam @ w + nu @ v + alpha @ p + beta @ q) / products
        dual = H @ s + g + E.T @ lam + alpha - beta
        primal = E @ s - v + w - r
        rest = price - lam - nu
        dual_error = float(np.abs(dual).max()) / scale
        if mu <= TOLERANCE * scale and max(float(np.abs(primal).max(initial=0.0)), dual_error) <= RESIDUAL:
            break
        # The system of s and the multipliers. Without the latter it would be smaller, but far less accurate.
        matrix[:d, :d] = H
        matrix[diagonal[:d], diagonal[:d]] += alpha / p + beta / q
        matrix[diagonal[d:], diagonal[d:]] = -(v / nu + w / lam)
        factors = lu_factor(matrix, check_finite=False)

        def direction(target: tuple[Floats, Floats, Floats, Floats]) -> tuple[Floats, ...]:
            """Return the Newton step for these values of the four products, minus the current ones, over them."""
            tw, tv, tp, tq = target
            # dw = (tw - w dlam) / lam, dv = (tv - v dnu) / nu, dnu = rest - dlam.
            b = primal - (tv - v * rest) / nu + tw / lam
            both = lu_solve(factors, np.concatenate([-dual - tp / p + tq / q, -b]), check_finite=False)
            ds, dlam = both[:d], both[d:]
            dnu = rest - dlam
            return ds, dlam, dnu, (tw - w * dlam) / lam, (tv - v * dnu) / nu, (tp + alpha * ds) / p, (tq - beta * ds) / q

        def length(step: tuple[Floats, ...]) -> float:
            """Return the longest step, up to 1, that keeps all slacks and multipliers non-negative."""
            ds, dlam, dnu, dw, dv, dalpha, dbeta = step
            now = np.concatenate([lam, nu, w, v, alpha, beta, p, q])
            change = np.concatenate([dlam, dnu, dw, dv, dalpha, dbeta, -ds, ds])
            falling = change < 0
            return min(1.0, float(np.min(-now[falling] / change[falling], initial=np.inf)))

        affine = direction((-lam * w, -nu * v, -alpha * p, -beta * q))
        a = length(affine)
        ds, dlam, dnu, dw, dv, dalpha, dbeta = affine
        after = (lam + a * dlam) @ (w + a * dw) + (nu + a * dnu) @ (v + a * dv)
        after += (alpha + a * dalpha) @ (p - a * ds) + (beta + a * dbeta) @ (q + a * ds)
        # The complementarity must not vanish before the residuals do, or the steps would be cut at the boundary.
        least = LEAST_CENTERING if dual_error > RESIDUAL else 0.0
        center = mu * max((max(float(after), 0.0) / products / mu) ** 3, least)
        step = direction(
            (
                center - lam * w - dlam * dw,
                center - nu * v - dnu * dv,
                center - alpha * p + dalpha * ds,
                center - beta * q - dbeta * ds,
            )
        )
        a = STEP_SHARE * length(step)
        ds, dlam, dnu, dw, dv, dalpha, dbeta = step
        if not np.isfinite(ds).all():
            break
        s, lam, nu, w, v = s + a * ds, lam + a * dlam, nu + a * dnu, w + a * dw, v + a * dv
        alpha, beta, p, q = alpha + a * dalpha, beta + a * dbeta, p - a * ds, q + a * ds
    return ProgramSolution(np.clip(s, low, high), lam)
