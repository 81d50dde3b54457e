"""Reading what a user calls a formula (text, a SymPy expression, a function of symbols) and cutting it into pieces."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sympy as sp

from slgh import checks
from slgh.smoothing.parse import DIMENSION, read_text
from slgh.smoothing.pieces import Runs

UNROLLED, MULTIPLIED = 20_000, 1_000
"""The most terms that all sums together may be written out into, and the most factors of a product."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """An expression in placeholders z (and the index and d), over runs of variables.

    They are summed over the index, or with `product` multiplied, and the product times `factor`.
    """

    expression: Any
    z: tuple[sp.Symbol, ...]
    runs: Runs
    product: bool = False
    factor: Any = sp.S.One


@dataclass(frozen=True, slots=True, kw_only=True)
class Formula:
    """A formula with its variables in order: names, or the components of one vector."""

    expression: Any
    """In real symbols, or components of a real vector."""
    names: tuple[str, ...]
    """The plain variables; empty for a vector."""
    vector: str | None
    d: int | None
    """The number of variables, where it is known."""
    least: int
    """The least number of variables."""
    own: tuple[tuple[Any, Any], ...] = ()
    """The user's own symbols for ours, where they differ: those of a SymPy expression have their own assumptions."""


def read_formula(formula: Any, d: int | None, variables: Sequence[str] | None) -> Formula:
    """A formula from text, a SymPy expression, or a function of symbols."""
    if d is not None:
        checks.count("d", d)
    if variables is not None and (isinstance(variables, str) or not all(isinstance(v, str) for v in variables)):
        raise TypeError(f"`variables` must be a list of names, got {variables!r}.")
    mentioned, vectors, highest = set[str](), set[str](), 0
    if isinstance(formula, str):
        expression, reader = read_text(formula)
        mentioned, vectors, highest = reader.plain, reader.subscripted, reader.highest
    elif isinstance(formula, sp.Basic | sp.MatrixBase):
        expression = formula
    elif callable(formula):
        expression, variables = call_with_symbols(formula, d, variables)
    else:
        raise TypeError(f"`formula` must be text, a SymPy expression or a function, got {type(formula).__name__}.")
    if not isinstance(expression, sp.Expr) or expression.has(sp.I, sp.nan, sp.oo, sp.zoo, sp.MatrixSymbol):
        raise ValueError(f"`formula` must be a real number at each point, got {str(expression)[:200]}.")
    indexed = expression.atoms(sp.Indexed)
    bases = sorted({a.base.label.name for a in indexed} | vectors)
    bound = {limit[0] for s in expression.atoms(sp.Sum, sp.Product) for limit in s.limits}
    labels = {sp.Symbol(name) for name in bases} | {a.base.label for a in indexed}
    plain = {s for s in expression.free_symbols - bound - labels - indexed if s != DIMENSION}
    if bases:
        dimension = {s for s in plain if s.name == "d"}
        expression, plain = expression.xreplace(dict.fromkeys(dimension, DIMENSION)), plain - dimension
    if len(bases) > 1 or (bases and plain):
        names = ", ".join([*bases, *sorted(map(str, plain))])
        raise ValueError(f"`formula` must have plain variables, or one vector, got {names}.")
    if bases:
        if variables is not None:
            raise ValueError("`variables` orders plain variables; a vector's are in order.")
        return read_vector(expression, bases[0], d, highest)
    return read_plain(expression, plain, mentioned, d, variables, keep=isinstance(formula, sp.Basic))


def read_plain(
    expression: Any,
    plain: set[Any],
    mentioned: set[str],
    d: int | None,
    variables: Sequence[str] | None,
    *,
    keep: bool,
) -> Formula:
    """A formula in plain variables; `mentioned` are those of the text, also where they cancelled.

    `keep`: the symbols are the user's own.
    """
    found = {s.name for s in plain}
    if len(found) < len(plain):
        raise ValueError(f"`formula` has different symbols of the same name, among {sorted(map(str, plain))}.")
    names = sorted(found | mentioned, key=natural) if variables is None else list(variables)
    if len(set(names)) < len(names) or not found <= set(names):
        raise ValueError(f"`variables` must name each of {', '.join(sorted(found, key=natural))} once, got {names}.")
    if not names:
        raise ValueError(f"`formula` must have a variable, got {expression}.")
    if d is not None and d != len(names):
        raise ValueError(f"`d` must be the number of variables, {len(names)} ({', '.join(names)}); got d={d}.")
    real = {s: sp.Symbol(s.name, real=True) for s in plain}
    return Formula(
        expression=expression.xreplace(real).subs(DIMENSION, len(names)),
        names=tuple(names),
        vector=None,
        d=len(names),
        least=len(names),
        own=tuple((ours, theirs) for theirs, ours in real.items()) if keep else (),
    )


def read_vector(expression: Any, name: str, d: int | None, highest: int) -> Formula:
    """A formula in x[0], x[1], ... or x[i]; `highest` is the highest subscript of the text, also where it cancelled."""
    base = sp.IndexedBase(name, real=True)
    if any(len(a.indices) != 1 for a in expression.atoms(sp.Indexed)):
        raise ValueError(f"`formula` must have one subscript a variable, as in {name}[i]; got {str(expression)[:200]}.")
    expression = expression.replace(lambda e: isinstance(e, sp.Indexed), lambda e: base[e.indices])
    fixed = [int(a.indices[0]) for a in expression.atoms(sp.Indexed) if a.indices[0].is_Integer]
    if min(fixed, default=0) < 0:
        raise ValueError(f"`formula`: subscripts count from 0, got {name}[{min(fixed)}].")
    least = max([*fixed, highest]) + 1
    if d is None and not expression.has(sp.Sum, sp.Product, DIMENSION):
        d = least
    if d is not None and d < least:
        raise ValueError(f"`d` must be at least {least}, the formula has {name}[{least - 1}]; got d={d}.")
    return Formula(expression=expression, names=(), vector=name, d=d, least=least)


def natural(name: str) -> list[Any]:
    """So that x2 comes before x10.

    >>> sorted(["x10", "y", "x2"], key=natural)
    ['x2', 'x10', 'y']
    """
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def call_with_symbols(
    function: Callable[..., Any], d: int | None, variables: Sequence[str] | None
) -> tuple[Any, Sequence[str] | None]:
    """Call a function with symbols instead of numbers: one an argument, or with `d` one vector of them."""
    try:
        kinds = inspect.signature(function).parameters
    except ValueError:
        raise TypeError(f"`formula` must be a function whose arguments can be seen, got {function!r}.") from None
    parameters = [name for name, p in kinds.items() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(parameters) == 1 and d is not None:
        x = sp.IndexedBase(parameters[0], real=True)
        given: tuple[Any, ...] = (np.array([x[i] for i in range(d)], dtype=object),)
    else:
        variables = parameters if variables is None else variables
        given = tuple(sp.Symbol(name, real=True) for name in variables)
    try:
        found = sp.sympify(function(*given), strict=True)
    except (TypeError, AttributeError, sp.SympifyError) as error:
        hint = "" if d is not None else ", and `d=` for a function of one vector"
        raise TypeError(
            "`formula` must be written with operations of SymPy (sympy.cos, sympy.Max, sympy.Piecewise, not numpy.cos, "
            f"max, if{hint}): {error}"
        ) from error
    return found, variables


def cut(formula: Formula) -> list[Body]:
    """The formula as bodies over runs: its sums over an index as they are, the rest written out."""
    if formula.vector is None:
        return [explicit(unroll(formula.expression, formula), formula)]
    bodies, rest = [], []
    for term in distributed(formula.expression):
        body = rolled(term)
        if body is None:
            rest += sp.Add.make_args(unroll(term, formula))
        else:
            bodies.append(body)
    return bodies + roll_up([explicit(term, formula) for term in rest])


def roll_up(bodies: list[Body]) -> list[Body]:
    """Bodies that differ in nothing but where they are, joined into runs where they follow each other."""
    alike: dict[Any, list[Body]] = {}
    for body in bodies:
        first, *others = body.runs.offsets
        alike.setdefault((body.expression, *(o - first for o in others)), []).append(body)
    found = []
    for group in alike.values():
        group.sort(key=lambda body: body.runs.offsets[0])
        runs: list[list[Body]] = []
        for body in group:
            if runs and body.runs.offsets[0] == runs[-1][-1].runs.offsets[0] + 1:
                runs[-1].append(body)
            else:
                runs.append([body])
        found += [replace(run[0], runs=replace(run[0].runs, stop=len(run))) for run in runs]
    return found


def distributed(expression: Any) -> list[Any]:
    """The terms of a sum, products with a sum over an index multiplied out."""
    found = []
    for term in sp.Add.make_args(expression):
        factors = sp.Mul.make_args(term)
        sums = [f for f in factors if f.is_Add and f.has(sp.Sum, sp.Product)]
        if len(sums) == 1:
            others = sp.Mul(*(f for f in factors if f is not sums[0]))
            found += [one for a in sums[0].args for one in distributed(others * a)]
        else:
            found.append(term)
    return found


def rolled(term: Any) -> Body | None:
    """A sum or product over an index as a Body, where all subscripts are the same multiple of the index apart."""
    factors = sp.Mul.make_args(term)
    sums = [f for f in factors if isinstance(f, sp.Sum | sp.Product)]
    outside = sp.Mul(*(f for f in factors if not isinstance(f, sp.Sum | sp.Product)))
    if len(sums) != 1 or outside.has(sp.Indexed, sp.Sum, sp.Product) or len(sums[0].limits) != 1:
        return None
    inside, (index, start, last) = sums[0].function, sums[0].limits[0]
    subscripts = sorted({a.indices[0] for a in inside.atoms(sp.Indexed)}, key=sp.default_sort_key)
    slopes = {sp.diff(s, index) for s in subscripts}
    offsets = [sp.expand(s - sp.diff(s, index) * index) for s in subscripts]
    product = isinstance(sums[0], sp.Product)
    if (
        inside.has(sp.Sum, sp.Product)
        or len(slopes) != 1
        or not (slope := slopes.pop()).is_Integer
        or slope == 0
        or not all(o.is_Integer for o in offsets)
        or (product and len(subscripts) > 1)
    ):
        return None
    z = placeholders(len(subscripts))
    to_z = {a: z[subscripts.index(a.indices[0])] for a in inside.atoms(sp.Indexed)}
    runs = Runs(offsets=tuple(map(int, offsets)), slope=int(slope), start=start, stop=last + 1)
    body = (inside if product else outside * inside).xreplace(to_z | {index: runs.index})
    return Body(expression=body, z=z, runs=runs, product=product, factor=outside if product else sp.Integer(1))


def unroll(term: Any, formula: Formula) -> Any:
    """Write sums and products over indices out, for which d must be known."""
    fixed = not term.has(sp.Sum, sp.Product) and not any(a.has(DIMENSION) for a in term.atoms(sp.Indexed))
    if fixed or not term.has(sp.Sum, sp.Product, DIMENSION):
        return term
    if formula.d is None:
        raise ValueError(f"`formula`: the number of variables must be known for this term, pass d=...: {term}.")
    term, room = term.subs(DIMENSION, formula.d), [UNROLLED]

    def visit(node: Any) -> Any:
        if not node.has(sp.Sum, sp.Product):
            return node
        if isinstance(node, sp.Sum | sp.Product):
            kind = sp.Add if isinstance(node, sp.Sum) else sp.Mul
            return kind(*(visit(node.function.subs(values)) for values in every_index(node, room)))
        return node.func(*map(visit, node.args))

    return visit(term)


def every_index(node: Any, room: list[int]) -> list[dict[Any, int]]:
    """The values of the indices of a sum, outer ones first, which bounds of the inner ones may depend on.

    `room` is how many there may be yet, in this sum and all others.
    """
    found: list[dict[Any, int]] = [{}]
    for index, start, last in reversed(node.limits):
        ends = [(outer, int(start.subs(outer)), int(last.subs(outer)) + 1) for outer in found]
        most = room[0] if isinstance(node, sp.Sum) else min(room[0], MULTIPLIED)
        if sum(max(0, stop - first) for _, first, stop in ends) > most:
            raise ValueError(f"`formula`: more than {most} terms cannot be written out: {str(node)[:200]}.")
        found = [{**outer, index: i} for outer, first, stop in ends for i in range(first, stop)]
    room[0] -= len(found)
    return found


def explicit(expression: Any, formula: Formula) -> Body:
    """An expression in plain variables, or in components of the vector, as a Body of one index."""
    if formula.vector is None:
        symbols: list[Any] = [sp.Symbol(name, real=True) for name in formula.names]
        offsets = list(range(len(symbols)))
    else:
        symbols = sorted(expression.atoms(sp.Indexed), key=lambda a: int(a.indices[0]))
        offsets = [int(a.indices[0]) for a in symbols]
        if offsets and formula.d is not None and offsets[-1] >= formula.d:
            raise ValueError(f"`formula` reaches variable {symbols[-1]}, of {formula.d} variables.")
        if not symbols:
            symbols, offsets = [sp.Dummy()], [0]
    z = placeholders(len(symbols))
    return Body(
        expression=expression.xreplace(dict(zip(symbols, z, strict=True))), z=z, runs=Runs(offsets=tuple(offsets))
    )


def placeholders(n: int) -> tuple[sp.Symbol, ...]:
    """z0, z1, ..."""
    return tuple(sp.Symbol(f"z{k}", real=True) for k in range(n))
