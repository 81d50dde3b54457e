"""Split a formula into bodies: expressions in placeholders, repeated over a range of an index.

The term sum(x[i]**2 * x[i+1] for i in range(d-1)) has one body in the placeholders z0 = x[i], z1 = x[i+1]. It is
smoothed once, as a formula, and evaluated for all i at once on slices of x. Other terms, and sums for which that is not
possible, are written out; their index has one value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import sympy as sp
from sympy.utilities.iterables import sift

from slgh.checks import ArgumentValueError
from slgh.smoothing.errors import TooFewVariables
from slgh.smoothing.formula import Formula
from slgh.smoothing.parse import DIMENSION
from slgh.smoothing.time_limit import check_time

MAX_TERMS = 20_000
"""Maximum number of terms into which all sums together may be written out."""

MAX_FACTORS = 1_000
"""Maximum number of factors into which a product may be written out."""

MAX_PLAIN_VARIABLES = 256
"""More plain variables than this are treated as components of a vector: similar terms become one body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRange:
    """Variables of the placeholders: number k is x[slope * i + offsets[k]], for i in start..stop-1.

    `start` and `stop` may depend on the number of variables d.
    """

    offsets: tuple[int, ...]
    slope: int = 1
    start: Any = 0
    stop: Any = 1

    @property
    def index(self) -> sp.Symbol:
        """Symbol of i in the body, with assumptions about its sign."""
        known = {"nonnegative": True} if sp.sympify(self.start).is_nonnegative else {}
        return sp.Symbol("i", integer=True, **known)

    @property
    def single(self) -> bool:
        """True if the index has only one value."""
        return bool(self.start == 0 and self.stop == 1)


@lru_cache
def slices_of(indices: IndexRange, d: int) -> tuple[int, int, tuple[slice, ...]]:
    """Return, for d variables, the first index, the one after the last, and the slice of x of each placeholder."""
    start, stop = (int(sp.sympify(end).subs(DIMENSION, d)) for end in (indices.start, indices.stop))
    if stop <= start:
        return start, start, (slice(0, 0),) * len(indices.offsets)
    found = []
    for offset in indices.offsets:
        first, last = sorted((indices.slope * start + offset, indices.slope * (stop - 1) + offset))
        if first < 0 or last >= d:
            raise TooFewVariables(first if first < 0 else last, d)
        if indices.slope > 0:
            found.append(slice(first, last + 1, indices.slope))
        else:
            found.append(slice(last, first - 1 if first else None, indices.slope))
    return start, stop, tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """An expression in placeholders z (and the index and d), summed over a range of the index.

    With `product` the values are multiplied instead, and their product is multiplied by `factor`.
    """

    expression: Any
    z: tuple[sp.Symbol, ...]
    indices: IndexRange
    product: bool = False
    factor: Any = sp.S.One

    def with_placeholders(self, numbers: list[int]) -> Body:
        """Return the body with only these of its placeholders."""
        offsets = tuple(self.indices.offsets[k] for k in numbers)
        return replace(self, z=tuple(self.z[k] for k in numbers), indices=replace(self.indices, offsets=offsets))

    def in_variables(self, part: Any, formula: Formula, shift: int = 0) -> Any:
        """Return a part of the body, which may be a condition, in the variables of the formula.

        Plain variables are taken at the value `shift` of the index.
        """
        indices, variables = self.indices, list[Any]()
        if formula.vector is None:
            variables = [sp.Symbol(formula.names[offset + shift], real=True) for offset in indices.offsets]
        else:
            x, index = sp.IndexedBase(formula.vector, real=True), sp.S.Zero if indices.single else indices.index
            variables = [x[indices.slope * index + offset] for offset in indices.offsets]
        return part.xreplace(dict(zip(self.z, variables, strict=True)))

    def in_formula(self, expression: Any, formula: Formula) -> Any:
        """Return an expression in placeholders in the variables of the formula, inside the sum or product."""
        indices, shown = self.indices, self.in_variables(expression, formula)
        if indices.single:
            return self.factor * shown
        if formula.vector is None:
            return sp.Add(*(self.in_variables(expression, formula, shift) for shift in range(indices.stop)))
        limits = (indices.index, indices.start, indices.stop - 1)
        return self.factor * (sp.Product if self.product else sp.Sum)(shown, limits)


def split_formula(formula: Formula) -> list[Body]:
    """Return the bodies of a formula: its sums over an index as they are, the rest written out."""
    if formula.vector is None:
        expression = write_out(formula.expression, formula)
        if len(formula.names) <= MAX_PLAIN_VARIABLES:
            return [explicit_body(expression, formula)]
        return join_consecutive([explicit_body(term, formula) for term in sp.Add.make_args(expression)])
    bodies, rest = [], []
    for term in distribute(formula.expression):
        body = indexed_body(term)
        if body is None:
            rest += sp.Add.make_args(write_out(term, formula))
        else:
            bodies.append(body)
    return bodies + join_consecutive([explicit_body(term, formula) for term in rest])


def join_consecutive(bodies: list[Body]) -> list[Body]:
    """Join bodies of one index that differ only in their offsets, where the offsets are consecutive."""
    alike: dict[Any, list[Body]] = {}
    for body in bodies:
        first, *others = body.indices.offsets
        alike.setdefault((body.expression, *(o - first for o in others)), []).append(body)
    found: list[Body] = []
    for group in alike.values():
        group.sort(key=lambda body: body.indices.offsets[0])
        end = None
        for body in group:
            first = body.indices.offsets[0]
            if first == end:
                indices = found[-1].indices
                found[-1] = replace(found[-1], indices=replace(indices, stop=indices.stop + 1))
            else:
                found.append(body)
            end = first + 1
    return found


def distribute(expression: Any) -> list[Any]:
    """Return the terms of a sum. Products with a sum that contains a sum over an index are multiplied out."""
    found = []
    for term in sp.Add.make_args(expression):
        sums, others = sift(sp.Mul.make_args(term), lambda f: bool(f.is_Add and f.has(sp.Sum, sp.Product)), binary=True)
        if len(sums) == 1:
            found += [one for a in sums[0].args for one in distribute(sp.Mul(*others) * a)]
        else:
            found.append(term)
    return found


def indexed_body(term: Any) -> Body | None:
    """Return the body of a sum or product over an index, or None if its subscripts are not slope * i + offset."""
    sums, others = sift(sp.Mul.make_args(term), lambda f: isinstance(f, sp.Sum | sp.Product), binary=True)
    outside = sp.Mul(*others)
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
    indices = IndexRange(offsets=tuple(map(int, offsets)), slope=int(slope), start=start, stop=last + 1)
    body = (inside if product else outside * inside).xreplace(to_z | {index: indices.index})
    return Body(expression=body, z=z, indices=indices, product=product, factor=outside if product else sp.Integer(1))


def write_out(term: Any, formula: Formula) -> Any:
    """Return the term without sums and products over indices, for which d must be known."""
    fixed = not term.has(sp.Sum, sp.Product) and not any(a.has(DIMENSION) for a in term.atoms(sp.Indexed))
    if fixed or not term.has(sp.Sum, sp.Product, DIMENSION):
        return term
    if formula.d is None:
        raise ArgumentValueError(f"`formula`: this term needs the number of variables, pass d=...: {term}.")
    term, room = term.subs(DIMENSION, formula.d), [MAX_TERMS]

    def visit(node: Any) -> Any:
        check_time()
        if not node.has(sp.Sum, sp.Product):
            return node
        if isinstance(node, sp.Sum | sp.Product):
            kind = sp.Add if isinstance(node, sp.Sum) else sp.Mul
            return kind(*(visit(node.function.subs(values)) for values in index_values(node, room)))
        return node.func(*map(visit, node.args))

    return visit(term)


def index_values(node: Any, room: list[int]) -> list[dict[Any, int]]:
    """Return the values of the indices of a sum. The bounds of inner indices may depend on outer ones.

    `room` holds the number of terms that this sum and all later ones may still have.
    """
    found: list[dict[Any, int]] = [{}]
    for index, start, last in reversed(node.limits):
        ends = [(outer, int(start.subs(outer)), int(last.subs(outer)) + 1) for outer in found]
        most = room[0] if isinstance(node, sp.Sum) else min(room[0], MAX_FACTORS)
        if sum(max(0, stop - first) for _, first, stop in ends) > most:
            raise ArgumentValueError(f"`formula`: more than {most} terms cannot be written out: {str(node)[:200]}.")
        found = [{**outer, index: i} for outer, first, stop in ends for i in range(first, stop)]
    room[0] -= len(found)
    return found


def explicit_body(expression: Any, formula: Formula) -> Body:
    """Return the body of an expression without an index: in plain variables, or in fixed components of the vector."""
    check_time()
    if formula.vector is not None:
        own = {int(a.indices[0]): a for a in expression.atoms(sp.Indexed)}
        if own and formula.d is not None and max(own) >= formula.d:
            raise ArgumentValueError(
                f"`formula` uses variable {own[max(own)]}, but there are only {formula.d} variables."
            )
    elif len(formula.names) <= MAX_PLAIN_VARIABLES:
        own = {k: sp.Symbol(name, real=True) for k, name in enumerate(formula.names)}
    else:
        free = {s.name: s for s in expression.free_symbols}
        own = {k: free[name] for k, name in enumerate(formula.names) if name in free}
    own = dict(sorted(own.items())) or {0: sp.Dummy()}
    z = placeholders(len(own))
    expression = expression.xreplace(dict(zip(own.values(), z, strict=True)))
    return Body(expression=expression, z=z, indices=IndexRange(offsets=tuple(own)))


def placeholders(n: int) -> tuple[sp.Symbol, ...]:
    """Return the symbols z0, z1, ..."""
    return tuple(sp.Symbol(f"z{k}", real=True) for k in range(n))
