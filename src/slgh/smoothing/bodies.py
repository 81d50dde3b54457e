"""Cutting a formula into bodies over runs of variables: sums over an index as they are, the rest written out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import sympy as sp

from slgh.smoothing.formula import Formula
from slgh.smoothing.parse import DIMENSION
from slgh.smoothing.pieces import Runs
from slgh.smoothing.time_limit import check_time

UNROLLED, MULTIPLIED = 20_000, 1_000
"""The most terms that all sums together may be written out into, and the most factors of a product."""

PLAIN = 256
"""More plain variables than these are treated as components of a vector: terms that are alike become one body."""


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


def cut(formula: Formula) -> list[Body]:
    """The formula as bodies over runs: its sums over an index as they are, the rest written out."""
    if formula.vector is None:
        expression = unroll(formula.expression, formula)
        if len(formula.names) <= PLAIN:
            return [explicit(expression, formula)]
        return roll_up([explicit(term, formula) for term in sp.Add.make_args(expression)])
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
        check_time()
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
    check_time()
    if formula.vector is None and len(formula.names) <= PLAIN:
        symbols: list[Any] = [sp.Symbol(name, real=True) for name in formula.names]
        offsets = list(range(len(symbols)))
    elif formula.vector is None:
        free = {s.name: s for s in expression.free_symbols}
        own = [(k, free[name]) for k, name in enumerate(formula.names) if name in free]
        symbols, offsets = [s for _, s in own] or [sp.Dummy()], [k for k, _ in own] or [0]
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
