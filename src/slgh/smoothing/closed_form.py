"""`Smoothed`, the Gaussian homotopy of a formula, and its assembly from rules."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any

import numpy as np
import sympy as sp
from array_api_compat import array_namespace, is_array_api_obj, is_numpy_array
from numpy.typing import NDArray

from slgh.checks import ArgumentTypeError, ArgumentValueError
from slgh.protocols import device_of
from slgh.smoothing.bodies import Body, IndexRange, split_formula
from slgh.smoothing.errors import NotInClosedForm
from slgh.smoothing.formula import Formula
from slgh.smoothing.gaussian import T, as_erf
from slgh.smoothing.nodes import Nodes, fallback_nodes
from slgh.smoothing.pieces import Piece, gradient, total
from slgh.smoothing.rewrite import NoClosedForm, held_as_exp, present
from slgh.smoothing.rules import AveragedRule, ClosedFormRule, ProductRule, Rule
from slgh.smoothing.terms import factorize, smooth_expression
from slgh.smoothing.time_limit import check_time


class Smoothed:
    r"""The Gaussian homotopy F(x, t) = E f(x + t u) of a formula, and its derivatives.

    Points x (..., d) and radii t (...) or numbers broadcast against each other. They are NumPy, PyTorch or JAX arrays.
    f itself is F at t = 0, `F(x)`; where f jumps, F(x, 0) is the mean of both sides.

    Attributes
    ----------
    expression
        F as a SymPy expression in `symbols` and `t`. A term without a closed form is written Expectation(term).
    symbols, t
        The symbols of the variables in the order of x (for a vector of any length, the IndexedBase), and of the radius.
    d
        The number of variables, or None if the formula holds for any number.
    """

    def __init__(self, formula: Formula, fallback: str | None, nodes: int | None, coarse: bool = False) -> None:
        self._made_of = formula, fallback, nodes, coarse
        self._formula = formula
        self.d = formula.d
        self._pieces, self._terms, self._approximate = assemble(formula, fallback, nodes, coarse=coarse)
        self._singular = any(piece.rule.singular for piece in self._pieces)

    def __reduce__(
        self,
    ) -> Any:  # without a time limit: a formula that was built once must not fail on a busier machine
        return Smoothed, self._made_of

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of the variables in order. Empty for a vector of any length."""
        if self._formula.names or self.d is None:
            return self._formula.names
        return tuple(f"{self._formula.vector}[{i}]" for i in range(self.d))

    @cached_property
    def symbols(self) -> Any:
        formula = self._formula
        if formula.vector is not None:
            base = sp.IndexedBase(formula.vector)
            return base if self.d is None else tuple(base[i] for i in range(self.d))
        own = {symbol.name: own for symbol, own in formula.user_symbols}
        return tuple(own.get(name, sp.Symbol(name)) for name in formula.names)

    @cached_property
    def t(self) -> sp.Symbol:
        return sp.Symbol("radius" if "t" in self._formula.names else "t")

    @cached_property
    def expression(self) -> Any:
        formula = self._formula
        F = as_erf(sp.Add(*self._terms)).xreplace({T: self.t})
        if formula.vector is None:
            real = [sp.Symbol(name, real=True) for name in formula.names]
            return F.xreplace(dict(zip(real, self.symbols, strict=True)))
        base, plain = sp.IndexedBase(formula.vector, real=True), sp.IndexedBase(formula.vector)
        return F.replace(
            lambda e: isinstance(e, sp.Indexed) and e.base == base, lambda e: plain[e.indices] if e.indices else e
        )

    def value(self, x: Any, t: Any) -> Any:
        """Return F(x, t), (...)."""
        return total(self._pieces, "value", *self._read(x, t))

    def dt(self, x: Any, t: Any) -> Any:
        """Return the derivative of F by t, (...)."""
        return total(self._pieces, "dt", *self._read(x, t))

    def trace(self, x: Any, t: Any) -> Any:
        """Return the trace of the Hessian of F, (...)."""
        return total(self._pieces, "trace", *self._read(x, t))

    def grad(self, x: Any, t: Any) -> Any:
        """Return the gradient of F by x, (..., d)."""
        return gradient(self._pieces, *self._read(x, t))

    def fun(self, x: Any) -> Any:
        """Return f(x), which is F(x, 0)."""
        return self.value(x, 0.0)

    __call__ = fun

    def error(self, x: Any, t: Any) -> Any:
        """Return an estimate of the error of F(x, t), (...): 0 in closed form, else the change from half the nodes."""
        value = self.value(x, t)
        if not self._approximate:
            return 0 * value
        return array_namespace(value).abs(value - self._coarse.value(x, t))

    @cached_property
    def _coarse(self) -> Smoothed:
        return Smoothed(*self._made_of[:3], coarse=True)

    def _read(self, x: Any, t: Any) -> tuple[Any, Any, Any]:
        """Return x (..., d) and t (...) as arrays of one library, dtype and leading shape, and its namespace."""
        if not is_array_api_obj(x):
            x = np.asarray(x, float)
        xp = array_namespace(x)
        if type(t) is not type(x) and is_numpy_array(x) and is_array_api_obj(t) and not is_numpy_array(t):
            xp = array_namespace(t)
            x = xp.asarray(x, device=device_of(t))
        if x.dtype != xp.float64 and x.dtype != xp.float32:
            if xp.isdtype(x.dtype, "complex floating"):
                raise ArgumentTypeError(f"`x` must be real, got dtype {x.dtype}.")
            x = xp.astype(x, xp.float64)
        self._check(x)
        if type(t) is not type(x) or t.dtype != x.dtype:
            t = xp.asarray(t, dtype=x.dtype, device=device_of(x))
        shape = tuple(x.shape[:-1])
        if tuple(t.shape) != shape:
            shape = np.broadcast_shapes(shape, tuple(t.shape))
            x, t = xp.broadcast_to(x, (*shape, x.shape[-1])), xp.broadcast_to(t, shape)
        if self._singular:
            # The density of a half-line divides by t: use a t whose square is negligible but does not underflow.
            least = float(xp.finfo(x.dtype).smallest_normal) ** 0.2
            t = xp.where(xp.abs(t) < least, xp.full_like(t, least), t)
        return x, t, xp

    def _check(self, x: Any) -> None:
        d, formula = (x.shape[-1] if x.ndim else 0), self._formula
        if d < formula.least or (formula.d is not None and d != formula.d):
            wanted = f"{formula.least} or more" if formula.d is None else formula.d
            several = " (points of one variable are x[:, None])" if formula.d == 1 else ""
            raise ArgumentValueError(
                f"`x` must have {wanted} variables along its last axis{several}, got shape {tuple(x.shape)}."
            )

    def __repr__(self) -> str:
        return f"Smoothed({self.expression})"

    def _repr_latex_(self) -> str:
        return f"$F = {sp.latex(self.expression)}$"


class UnsmoothedFormula:
    """A formula and its gradient at points (..., d), NumPy arrays. No closed form of the homotopy is needed."""

    def __init__(self, formula: Formula) -> None:
        self._pieces = [closed_piece(body, body.expression, {}) for body in split_formula(formula)]

    def fun(self, x: NDArray[Any]) -> Any:
        """Return f(x), (...)."""
        return total(self._pieces, "value", x, np.zeros(x.shape[:-1], x.dtype), np)

    def grad(self, x: NDArray[Any]) -> Any:
        """Return the gradient of f, (..., d)."""
        return gradient(self._pieces, x, np.zeros(x.shape[:-1], x.dtype), np)


def assemble(
    formula: Formula, fallback: str | None, nodes: int | None, *, coarse: bool
) -> tuple[list[Piece], list[Any], bool]:
    """Return the pieces that evaluate F, the terms of its expression, and True if any of them is approximate."""
    pieces, terms, approximate = list[Piece](), list[Any](), False
    choose_nodes = partial(fallback_nodes, fallback=str(fallback), nodes=nodes, coarse=coarse)
    for body in split_formula(formula):
        check_time()
        closed, definitions, left = smooth_expression(body.expression, body.z)
        if left and (fallback is None or any(error.infinite for _, error in left)):
            raise NotInClosedForm(no_closed_form(left, body, formula))
        if left and body.product:
            closed, left = sp.S.Zero, [(body.expression, left[0][1])]
        if closed != 0:
            pieces.append(closed_piece(body, closed, definitions))
            terms.append(body.in_formula(closed.xreplace(definitions), formula))
        for term, _ in left:
            approximate = True
            own = body.with_placeholders([k for k, s in enumerate(body.z) if s in term.free_symbols])
            pieces.append(Piece(body=own, rule=averaged_rule(term, own.z, own.indices.index, choose_nodes)))
            terms.append(body.in_formula(sp.Function("Expectation")(term), formula))
    if not pieces:  # the formula is 0
        zero = Body(expression=sp.S.Zero, z=(sp.Symbol("z0", real=True),), indices=IndexRange(offsets=(0,)))
        pieces.append(closed_piece(zero, zero.expression, {}))
    return pieces, terms, approximate


def closed_piece(body: Body, F: Any, definitions: Mapping[Any, Any]) -> Piece:
    """Return the piece of a body whose smoothed expression is F."""
    return Piece(body=body, rule=ClosedFormRule(F, body.z, definitions, body.indices.index))


def averaged_rule(term: Any, z: tuple[sp.Symbol, ...], index: sp.Symbol, choose_nodes: Callable[[int], Nodes]) -> Rule:
    """Return a rule for a term without a closed form. Factors that share no variable get a rule each."""
    constant, factors = term.as_independent(*z, as_Add=False)
    groups = [held_as_exp(group) for group in factorize(factors, z)]
    if len(groups) == 1:
        direction = ridge(term, z)
        rank = len(z) if direction is None else 1
        u, w = choose_nodes(rank)
        jumps = term.has(sp.sign, sp.Heaviside, sp.Piecewise)
        bends = term.has(sp.Abs, sp.Max, sp.Min) and not np.allclose(w, w[0])  # equal weights: nodes are samples
        u = u if direction is None else u * direction
        return AveragedRule(term, z, (u, w), index=index, rank=rank, stein=jumps or bends)
    groups[0] = constant * groups[0]
    rules = list[tuple[Rule, list[int]]]()
    for group in groups:
        own = present(group, z)
        closed, definitions, left = smooth_expression(group, own)
        rule: Rule = ClosedFormRule(closed, own, definitions, index)
        if left:
            rule = averaged_rule(group, own, index, choose_nodes)
        rules.append((rule, [z.index(s) for s in own]))
    return ProductRule(rules)


def ridge(term: Any, z: tuple[sp.Symbol, ...]) -> Any:
    """Return the unit vector a if the term is a function of a'z alone, so that nodes along a suffice; or None."""
    if len(z) == 1:
        return None
    slopes = [sp.diff(term, s) for s in z]
    ratios = [sp.cancel(slope / slopes[0]) if slopes[0] != 0 else sp.nan for slope in slopes]
    if not all(ratio.is_number and ratio.is_finite for ratio in ratios):
        return None
    a = np.array([float(ratio) for ratio in ratios])
    return a / math.sqrt(float(a @ a))


def no_closed_form(left: list[tuple[Any, NoClosedForm]], body: Body, formula: Formula) -> str:
    """Return an error message that names the terms without a closed form, and says what to do."""

    def show(part: Any) -> str:
        return str(body.in_variables(held_as_exp(part), formula))[:200]

    terms = "; ".join(f"{show(term)}, because {error.why} {show(error.blame)}" for term, error in left)
    if any(error.infinite for _, error in left):
        return f"`formula` cannot be smoothed in {terms}."
    return (
        f"`formula` has no closed form under a Gaussian in {terms}. Pass `fallback='quadrature'` (Gauss-Hermite, for "
        "terms of up to 4 variables) or `fallback='sampling'`, or minimize the function itself by a zeroth-order "
        "method."
    )
