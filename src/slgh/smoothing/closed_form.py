"""`smooth`: a formula's Gaussian homotopy in closed form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import sympy as sp
from array_api_compat import array_namespace, device, is_array_api_obj, is_jax_array

from slgh import checks
from slgh.smoothing.formula import Body, Formula, cut, read_formula
from slgh.smoothing.gaussian import Names
from slgh.smoothing.nodes import FALLBACKS, Nodes
from slgh.smoothing.normal import normal_cdf, normal_pdf
from slgh.smoothing.pieces import INDEX, Averaged, Closed, Factors, Piece, Rule, T, resolve
from slgh.smoothing.terms import NoClosedForm, factorise, held_as_exp, smooth_expression


class Smoothed:
    r"""The Gaussian homotopy F(x, t) = E f(x + t u) of a formula, and its derivatives.

    Points x are (..., d), radii t (...) or numbers, of NumPy, PyTorch or JAX. f itself is t = 0; where f jumps, F(x, 0)
    is the mean of both sides.

    Attributes
    ----------
    expression
        F as a SymPy expression in the formula's variables and t. Terms without a closed form stand in it as unevaluated
        Expectation(term).
    variables
        Their names in order, as x is; for a vector those of its components, where d is known.
    d
        The number of variables, or None where the formula is for any.
    """

    def __init__(self, formula: Formula, pieces: list[Piece], expression: Any) -> None:
        self._formula, self._pieces, self.expression = formula, pieces, expression
        self.d = formula.d
        self._singular = expression.has(normal_pdf, normal_cdf)

    @property
    def variables(self) -> tuple[str, ...]:
        if self._formula.names or self.d is None:
            return self._formula.names
        return tuple(f"{self._formula.vector}[{i}]" for i in range(self.d))

    def value(self, x: Any, t: Any) -> Any:
        """F(x, t), (...)."""
        return self._sum("value", x, t)

    def dt(self, x: Any, t: Any) -> Any:
        """The derivative of F by t, (...)."""
        return self._sum("dt", x, t)

    def trace(self, x: Any, t: Any) -> Any:
        """The trace of the Hessian of F, (...)."""
        return self._sum("trace", x, t)

    def grad(self, x: Any, t: Any) -> Any:
        """The gradient of F by x, (..., d)."""
        x, t, xp = self._read(x, t)
        d = x.shape[-1]
        slopes = [slope for piece in self._pieces for slope in piece.slopes(x, t, xp)]
        if len(slopes) == 1 and slopes[0][0] == slice(0, d, 1):
            return slopes[0][1]
        if len(slopes) == d and all(where == slice(i, i + 1, 1) for i, (where, _) in enumerate(slopes)):
            return xp.concat([g for _, g in slopes], axis=-1)
        found = xp.zeros_like(x)
        for where, g in slopes:
            if is_jax_array(found):
                found = found.at[..., where].add(g)
            else:
                found[..., where] += g
        return found

    def fun(self, x: Any) -> Any:
        """f(x), which is F(x, 0)."""
        return self.value(x, 0.0)

    def _sum(self, what: str, x: Any, t: Any) -> Any:
        x, t, xp = self._read(x, t)
        found = [getattr(piece, what)(x, t, xp) for piece in self._pieces]
        return sum(found[1:], found[0])

    def _read(self, x: Any, t: Any) -> tuple[Any, Any, Any]:
        """x and t as arrays of one library, and its namespace."""
        if not is_array_api_obj(x):
            x = np.asarray(x, float)
        xp = array_namespace(x)
        if x.dtype != xp.float64 and x.dtype != xp.float32:
            x = xp.astype(x, xp.float64)
        d, formula = (x.shape[-1] if x.ndim else 0), self._formula
        if d < formula.least or (formula.d is not None and d != formula.d):
            wanted = f"{formula.least} or more" if formula.d is None else formula.d
            raise ValueError(f"`x` must have {wanted} variables along its last axis, got shape {tuple(x.shape)}.")
        if not is_array_api_obj(t):
            t = xp.asarray(t, dtype=x.dtype, device=device(x))
        if self._singular:  # a half-line's density divides by t: 0 becomes what is 0 after it is squared
            least = float(xp.finfo(x.dtype).smallest_normal) ** 0.25
            t = xp.where(t > least, t, xp.full_like(t, least))
        return x, t, xp

    def __repr__(self) -> str:
        return f"Smoothed({self.expression})"

    def _repr_latex_(self) -> str:
        return f"$F = {sp.latex(self.expression)}$"


def build(
    formula: Any, *, d: int | None, variables: Sequence[str] | None, fallback: str | None, nodes: int | None
) -> Smoothed:
    """What `slgh.smooth` does."""
    if fallback is not None:
        checks.choice("fallback", fallback, list(FALLBACKS))
    if nodes is not None:
        checks.count("nodes", nodes)
    read = read_formula(formula, d, variables)
    pieces: list[Piece] = []
    shown: list[Any] = []
    for body in cut(read):
        name = Names()
        closed, left = smooth_expression(body.expression, body.z, T, name)
        if left and fallback is None:
            raise ValueError(no_closed_form(left, body, read))
        if left and body.product:
            closed, left = sp.Integer(0), [(body.expression, left[0][1])]
        if closed != 0:
            rule: Rule = Closed(closed, body.z, name.meaning)
            pieces.append(Piece(runs=body.runs, rule=rule, product=body.product, factor=body.factor))
            shown.append(written(resolve(closed, name.meaning), body, read))
        for term, _ in left:
            own = [k for k, s in enumerate(body.z) if s in term.free_symbols]
            runs = replace(body.runs, offsets=tuple(body.runs.offsets[k] for k in own))
            rule = averaged(term, tuple(body.z[k] for k in own), partial(FALLBACKS[str(fallback)], nodes))
            pieces.append(Piece(runs=runs, rule=rule, product=body.product, factor=body.factor))
            shown.append(written(sp.Function("Expectation")(term), body, read))
    return Smoothed(read, pieces, sp.Add(*shown))


def averaged(term: Any, z: tuple[sp.Symbol, ...], choose_nodes: Callable[[int], Nodes]) -> Rule:
    """A term without a closed form, by nodes; factors that share no variable each by their own."""
    factors = factorise(term, z)
    if len(factors) == 1:
        return Averaged(term, z, *choose_nodes(len(z)))
    rules: list[Rule] = []
    owners = []
    for factor in factors:
        owners.append([k for k, s in enumerate(z) if s in factor.free_symbols])
        own = tuple(z[k] for k in owners[-1])
        name = Names()
        closed, left = smooth_expression(factor, own, T, name)
        rules.append(averaged(held_as_exp(factor), own, choose_nodes) if left else Closed(closed, own, name.meaning))
    return Factors(rules, owners)


def no_closed_form(left: list[tuple[Any, NoClosedForm]], body: Body, formula: Formula) -> str:
    """The error that names the terms without a closed form, and what may be done."""

    def show(part: Any) -> str:
        return str(written(part, body, formula))[:200]

    terms = "; ".join(f"{show(term)}, because {error.why} {show(error.blame)}" for term, error in left)
    return (
        f"`formula` has no closed form under a Gaussian in {terms}. Pass fallback='quadrature' (Gauss-Hermite, for "
        "terms of up to 4 variables) or fallback='sampling', or minimise the function itself by a zeroth-order method."
    )


def written(expression: Any, body: Body, formula: Formula) -> Any:
    """An expression in placeholders, in the variables of the formula."""
    if formula.vector is None:
        return expression.xreplace({z: sp.Symbol(n, real=True) for z, n in zip(body.z, formula.names, strict=True)})
    x = sp.IndexedBase(formula.vector, real=True)
    runs = body.runs
    single = runs.start == 0 and runs.stop == 1
    index = sp.Integer(0) if single else INDEX
    shown = expression.xreplace({z: x[runs.slope * index + o] for z, o in zip(body.z, runs.offsets, strict=True)})
    if single:
        return shown
    return body.factor * (sp.Product if body.product else sp.Sum)(shown, (INDEX, runs.start, runs.stop - 1))
