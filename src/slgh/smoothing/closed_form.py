"""`Smoothed`, a formula's Gaussian homotopy: what `slgh.smooth` returns."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import sympy as sp
from array_api_compat import array_namespace, device, is_array_api_obj, is_jax_array, is_numpy_array

from slgh import checks
from slgh.smoothing import NotInClosedForm
from slgh.smoothing.bodies import Body, cut
from slgh.smoothing.formula import Formula, read_formula
from slgh.smoothing.gaussian import Names
from slgh.smoothing.nodes import FALLBACKS, Nodes
from slgh.smoothing.normal import as_erf
from slgh.smoothing.pieces import Piece, Runs, index_from
from slgh.smoothing.rewrite import NoClosedForm, held_as_exp
from slgh.smoothing.rules import Averaged, Closed, Factors, Rule, T, resolve
from slgh.smoothing.terms import factorize, smooth_expression
from slgh.smoothing.time_limit import Clock, check_time, run_clock


class Smoothed:
    r"""The Gaussian homotopy F(x, t) = E f(x + t u) of a formula, and its derivatives.

    Points x are (..., d), radii t (...) or numbers, which broadcast against each other, of NumPy, PyTorch or JAX. f
    itself is t = 0, `F(x)`; where f jumps, F(x, 0) is the mean of both sides.

    Attributes
    ----------
    expression
        F as a SymPy expression in `symbols` and `t`. Terms without a closed form stand in it as Expectation(term).
    symbols, t
        The symbols of the variables in order, as x is (for a vector of any length, the IndexedBase), and of the radius.
    d
        The number of variables, or None where the formula is for any.
    """

    def __init__(self, formula: Formula, fallback: str | None, nodes: int | None, coarse: bool = False) -> None:
        self._made_of = formula, fallback, nodes, coarse
        self._formula = formula
        self.d = formula.d
        self._pieces, self._terms, self._approximate = assemble(formula, fallback, nodes, coarse=coarse)
        self._singular = any(piece.rule.singular for piece in self._pieces)

    def __reduce__(self) -> Any:  # without a limit: what was built once is not refused on a busier machine
        return Smoothed, self._made_of

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables in order; for a vector of any length none."""
        if self._formula.names or self.d is None:
            return self._formula.names
        return tuple(f"{self._formula.vector}[{i}]" for i in range(self.d))

    @cached_property
    def symbols(self) -> Any:
        formula = self._formula
        if formula.vector is not None:
            base = sp.IndexedBase(formula.vector)
            return base if self.d is None else tuple(base[i] for i in range(self.d))
        own = {ours.name: theirs for ours, theirs in formula.own}
        return tuple(own.get(name, sp.Symbol(name)) for name in formula.names)

    @cached_property
    def t(self) -> sp.Symbol:
        return sp.Symbol("radius" if "t" in self.variables else "t")

    @cached_property
    def expression(self) -> Any:
        formula = self._formula
        F = as_erf(sp.Add(*self._terms)).xreplace({T: self.t})
        if formula.vector is None:
            ours = [sp.Symbol(name, real=True) for name in formula.names]
            return F.xreplace(dict(zip(ours, self.symbols, strict=True)))
        real, plain = sp.IndexedBase(formula.vector, real=True), sp.IndexedBase(formula.vector)
        return F.replace(
            lambda e: isinstance(e, sp.Indexed) and e.base == real, lambda e: plain[e.indices] if e.indices else e
        )

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

    __call__ = fun

    def error(self, x: Any, t: Any) -> Any:
        """An estimate of the error of F(x, t), (...): 0 in closed form, else how far half the nodes are from all."""
        value = self.value(x, t)
        if not self._approximate:
            return 0 * value
        return array_namespace(value).abs(value - self._coarse.value(x, t))

    @cached_property
    def _coarse(self) -> Smoothed:
        return Smoothed(*self._made_of[:3], coarse=True)

    def _sum(self, what: str, x: Any, t: Any) -> Any:
        x, t, xp = self._read(x, t)
        found = [getattr(piece, what)(x, t, xp) for piece in self._pieces]
        return sum(found[1:], found[0])

    def _read(self, x: Any, t: Any) -> tuple[Any, Any, Any]:
        """x (..., d) and t (...) as arrays of one library, dtype and leading shape, and the library's namespace."""
        if not is_array_api_obj(x):
            x = np.asarray(x, float)
        xp = array_namespace(x)
        if type(t) is not type(x) and is_numpy_array(x) and is_array_api_obj(t) and not is_numpy_array(t):
            xp = array_namespace(t)
            x = xp.asarray(x, device=device(t))
        if x.dtype != xp.float64 and x.dtype != xp.float32:
            if xp.isdtype(x.dtype, "complex floating"):
                raise TypeError(f"`x` must be real, got dtype {x.dtype}.")
            x = xp.astype(x, xp.float64)
        self._check(x)
        if type(t) is not type(x) or t.dtype != x.dtype:
            t = xp.asarray(t, dtype=x.dtype, device=device(x))
        shape = tuple(x.shape[:-1])
        if tuple(t.shape) != shape:
            shape = np.broadcast_shapes(shape, tuple(t.shape))
            x, t = xp.broadcast_to(x, (*shape, x.shape[-1])), xp.broadcast_to(t, shape)
        if self._singular:  # a half-line's density divides by t: 0 becomes what is 0 after it is squared
            least = float(xp.finfo(x.dtype).smallest_normal) ** 0.2
            t = xp.where(xp.abs(t) < least, xp.full_like(t, least), t)
        return x, t, xp

    def _check(self, x: Any) -> None:
        d, formula = (x.shape[-1] if x.ndim else 0), self._formula
        if d < formula.least or (formula.d is not None and d != formula.d):
            wanted = f"{formula.least} or more" if formula.d is None else formula.d
            several = " (points of one variable are x[:, None])" if formula.d == 1 else ""
            raise ValueError(
                f"`x` must have {wanted} variables along its last axis{several}, got shape {tuple(x.shape)}."
            )

    def __repr__(self) -> str:
        return f"Smoothed({self.expression})"

    def _repr_latex_(self) -> str:
        return f"$F = {sp.latex(self.expression)}$"


def build(
    formula: Any,
    *,
    d: int | None,
    variables: Sequence[str] | None,
    fallback: str | None,
    nodes: int | None,
    max_seconds: float | None,
) -> Smoothed:
    """What `slgh.smooth` does."""
    if fallback is not None:
        checks.choice("fallback", fallback, list(FALLBACKS))
    if nodes is not None:
        checks.count("nodes", nodes)
    if max_seconds is not None:
        checks.real("max_seconds", max_seconds, above=0)
    with run_clock(None if max_seconds is None else Clock(max_seconds)):
        return Smoothed(read_formula(formula, d, variables), fallback, nodes)


def assemble(
    formula: Formula, fallback: str | None, nodes: int | None, *, coarse: bool
) -> tuple[list[Piece], list[Any], int]:
    """The pieces that F is evaluated by, its terms as expressions, and how many nodes an axis there are, or 0."""
    pieces: list[Piece] = []
    terms: list[Any] = []
    used: list[int] = []

    def choose_nodes(m: int) -> Nodes:
        u, w = FALLBACKS[str(fallback)](nodes, m, coarse=coarse)
        used.append(round(len(w) ** (1 / m)) if fallback == "quadrature" else len(w) // 2)
        return u, w

    for body in cut(formula):
        check_time()
        name = Names()
        closed, left = smooth_expression(body.expression, body.z, T, name)
        if left and (fallback is None or any(error.infinite for _, error in left)):
            raise NotInClosedForm(no_closed_form(left, body, formula))
        if left and body.product:
            closed, left = sp.S.Zero, [(body.expression, left[0][1])]
        if closed != 0:
            rule: Rule = Closed(closed, body.z, name.meaning, body.runs.index)
            pieces.append(Piece(runs=body.runs, rule=rule, product=body.product, factor=body.factor))
            terms.append(written(resolve(closed, name.meaning), body, formula))
        for term, _ in left:
            own = [k for k, s in enumerate(body.z) if s in term.free_symbols]
            runs = replace(body.runs, offsets=tuple(body.runs.offsets[k] for k in own))
            rule = averaged(term, tuple(body.z[k] for k in own), body.runs.index, choose_nodes)
            pieces.append(Piece(runs=runs, rule=rule, product=body.product, factor=body.factor))
            terms.append(written(sp.Function("Expectation")(term), body, formula))
    if not pieces:  # a formula that is 0
        z = sp.Symbol("z0", real=True)
        pieces.append(Piece(runs=Runs(offsets=(0,)), rule=Closed(sp.S.Zero, (z,), {}, index_from(0))))
    return pieces, terms, max(used, default=0)


def averaged(term: Any, z: tuple[sp.Symbol, ...], index: sp.Symbol, choose_nodes: Callable[[int], Nodes]) -> Rule:
    """A term without a closed form, by nodes; factors that share no variable each by their own."""
    constant, factors = term.as_independent(*z, as_Add=False)
    groups = [held_as_exp(group) for group in factorize(factors, z)]
    if len(groups) == 1:
        direction = ridge(term, z)
        rank = len(z) if direction is None else 1
        u, w = choose_nodes(rank)
        jumps = term.has(sp.sign, sp.Heaviside, sp.Piecewise)
        bends = term.has(sp.Abs, sp.Max, sp.Min) and not np.allclose(w, w[0])  # not where nodes are samples
        u = u if direction is None else u * direction
        return Averaged(term, z, u, w, index=index, rank=rank, stein=jumps or bends)
    rules: list[Rule] = []
    owners = []
    for k, group in enumerate(groups):
        own = tuple(s for s in z if s in group.free_symbols)
        owners.append([z.index(s) for s in own])
        group = constant * group if k == 0 else group
        name = Names()
        closed, left = smooth_expression(group, own, T, name)
        closed_rule = partial(Closed, closed, own, name.meaning, index)
        rules.append(averaged(group, own, index, choose_nodes) if left else closed_rule())
    return Factors(rules, owners)


def ridge(term: Any, z: tuple[sp.Symbol, ...]) -> Any:
    """The unit vector a, where the term is a function of a'z alone, which takes nodes along a only; or None."""
    if len(z) == 1:
        return None
    slopes = [sp.diff(term, s) for s in z]
    ratios = [sp.cancel(slope / slopes[0]) if slopes[0] != 0 else sp.nan for slope in slopes]
    if not all(ratio.is_number and ratio.is_finite for ratio in ratios):
        return None
    a = np.array([float(ratio) for ratio in ratios])
    return a / math.sqrt(float(a @ a))


def no_closed_form(left: list[tuple[Any, NoClosedForm]], body: Body, formula: Formula) -> str:
    """The error that names the terms without a closed form, and what may be done."""

    def show(part: Any) -> str:
        return str(in_variables(held_as_exp(part), body, formula))[:200]

    terms = "; ".join(f"{show(term)}, because {error.why} {show(error.blame)}" for term, error in left)
    if any(error.infinite for _, error in left):
        return f"`formula` cannot be smoothed in {terms}."
    return (
        f"`formula` has no closed form under a Gaussian in {terms}. Pass fallback='quadrature' (Gauss-Hermite, for "
        "terms of up to 4 variables) or fallback='sampling', or minimize the function itself by a zeroth-order method."
    )


def written(expression: Any, body: Body, formula: Formula) -> Any:
    """A body's expression in placeholders, in the variables of the formula, with the sum or product around it."""
    shown, runs = in_variables(expression, body, formula), body.runs
    if is_single(runs):
        return body.factor * shown
    if formula.vector is None:
        return sp.Add(*(in_variables(expression, body, formula, shift) for shift in range(runs.stop)))
    return body.factor * (sp.Product if body.product else sp.Sum)(shown, (runs.index, runs.start, runs.stop - 1))


def in_variables(part: Any, body: Body, formula: Formula, shift: int = 0) -> Any:
    """A part of a body, also a condition, in the variables of the formula; plain ones at this value of the index."""
    if formula.vector is None:
        names = [formula.names[offset + shift] for offset in body.runs.offsets]
        return part.xreplace({z: sp.Symbol(name, real=True) for z, name in zip(body.z, names, strict=True)})
    x, runs = sp.IndexedBase(formula.vector, real=True), body.runs
    index = sp.S.Zero if is_single(runs) else runs.index
    return part.xreplace({z: x[runs.slope * index + o] for z, o in zip(body.z, runs.offsets, strict=True)})


def is_single(runs: Runs) -> bool:
    """Return True if the index has only one value."""
    return bool(runs.start == 0 and runs.stop == 1)
