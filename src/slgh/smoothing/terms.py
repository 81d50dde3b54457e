"""Taking a formula apart into terms that the Gaussian rule covers.

Sums are smoothed term by term. A product whose factors share no variable is the product of their smoothed forms, since
the directions are independent. What is left is rewritten (|x| by half-lines, waves' products as sums of waves, powers
of numbers as exponentials), expanded, and read as canonical terms.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np
import sympy as sp

from slgh.smoothing.gaussian import HalfLine, Names, Quadratic, Term, heat, smooth_term

EXPANDED = 20_000
"""The most terms that expanding may lead to."""

WAVES = 1024
"""The most waves that a product of waves may become."""

Variables = tuple[sp.Symbol, ...]


class NoClosedForm(ValueError):
    """A term that has no closed form here: why, and because of which part of it; `infinite`: F itself is infinite."""

    def __init__(self, why: str, blame: Any, *, infinite: bool = False) -> None:
        super().__init__(f"{why} {blame}")
        self.why, self.blame, self.infinite = why, blame, infinite


def smooth_expression(
    expression: Any, z: Variables, t: sp.Symbol, name: Names
) -> tuple[Any, list[tuple[Any, NoClosedForm]]]:
    """The closed form of E f(z + t u); and the terms that have none, which it lacks, with the reason."""
    closed, left = [], []
    for term in sp.Add.make_args(expression):
        try:
            closed.append(smooth_product(term, z, t, name))
        except NoClosedForm as error:
            left.append((term, error))
    return sp.Add(*closed), left


def smooth_sum(expression: Any, z: Variables, t: sp.Symbol, name: Names) -> Any:
    """The closed form of a sum, or NoClosedForm."""
    return sp.Add(*(smooth_product(term, z, t, name) for term in sp.Add.make_args(expression)))


def smooth_product(term: Any, z: Variables, t: sp.Symbol, name: Names) -> Any:
    """The closed form of one term: polynomials by heat, independent factors one by one, the rest expanded."""
    own = present(term, z)
    if not own:
        return term
    if term.is_polynomial(*own):
        refuse_size(term)
        return heat(term, own, t**2 * sp.eye(len(own)))
    groups = factorise(term, own)
    if len(groups) > 1:
        return sp.Mul(*(smooth_sum(group, z, t, name) for group in groups))
    rewritten = rewrite(groups[0], own)
    refuse_size(rewritten)
    polynomials: dict[Any, Any] = {}
    for one in sp.Add.make_args(tidy(rewritten)):
        p, rest = split_polynomial(one, own)
        polynomials[rest] = polynomials.get(rest, sp.S.Zero) + p
    return sp.Add(*(smooth_joined(p, rest, z, t, name) for rest, p in polynomials.items()))


def smooth_joined(p: Any, rest: Any, z: Variables, t: sp.Symbol, name: Names) -> Any:
    """The closed form of a polynomial times one product of other functions."""
    own = present(p * rest, z)
    if rest == 1:
        return smooth_product(p, z, t, name)
    monomials = sp.Add.make_args(p)
    if len(monomials) == 1 and len(factorise(p * rest, own)) > 1:
        return smooth_product(p * rest, z, t, name)
    try:
        return sp.Add(*(smooth_term(canonical, t, name) for canonical in read(p, rest, own)))
    except NoClosedForm:
        if len(monomials) == 1:
            raise
        return sp.Add(*(smooth_joined(one, rest, z, t, name) for one in monomials))


def factorise(term: Any, z: Variables) -> list[Any]:
    """The term as products of factors that share no variable."""
    factors = sp.Mul.make_args(split_exponentials(term, z))
    return [sp.Mul(*group) for group in hanging_together(factors, z)]


def split_polynomial(term: Any, z: Variables) -> tuple[Any, Any]:
    """The polynomial part of a product, and the rest."""
    factors = sp.Mul.make_args(term)
    there = [f.is_polynomial(*z) for f in factors]
    p = sp.Mul(*(f for f, yes in zip(factors, there, strict=True) if yes))
    return p, sp.Mul(*(f for f, yes in zip(factors, there, strict=True) if not yes))


def present(expression: Any, z: Variables) -> Variables:
    """The variables that occur."""
    free = expression.free_symbols
    return tuple(s for s in z if s in free)


def hanging_together(parts: tuple[Any, ...], z: Variables) -> list[list[Any]]:
    """The parts in groups that share no variable."""
    groups: list[tuple[set[Any], list[Any]]] = []
    for part in parts:
        names, members = set(present(part, z)), [part]
        apart = []
        for group in groups:
            if names & group[0]:
                names, members = names | group[0], group[1] + members
            else:
                apart.append(group)
        groups = [*apart, (names, members)]
    return [members for _, members in groups]


def split_exponentials(product: Any, z: Variables) -> Any:
    """exp(a + b) as exp(a) exp(b), where a and b share no variable; each keeps the constant of its own square."""
    factors = []
    for factor in sp.Mul.make_args(product):
        exponent = exponent_of(factor, z)
        if exponent is None:
            factors.append(factor)
            continue
        constant, rest = expand(exponent).as_independent(*z, as_Add=True)
        blocks = hanging_together(sp.Add.make_args(rest), z)
        if len(blocks) == 1:
            factors.append(factor)
            continue
        for block in map(sp.Add.fromiter, blocks):
            own = Quadratic.of(block, present(block, z)).constant if is_polynomial(block, z, 2) else 0
            factors.append(Held(block - own))
            constant += own
        factors.append(sp.exp(constant))
    return sp.Mul(*factors)


class Held(sp.Function):  # type: ignore[misc]
    """exp(block), kept from joining its neighbours."""

    nargs = 1


def held_as_exp(expression: Any) -> Any:
    """Held exponentials as what they are."""
    return expression.replace(Held, sp.exp)


def exponent_of(factor: Any, z: Variables) -> Any | None:
    """g, where the factor is exp(g) or a positive number to the power g / log(number)."""
    if isinstance(factor, Held | sp.exp):
        return factor.args[0]
    if factor.is_Pow and factor.exp.has(*z) and not factor.base.has(*z) and factor.base.is_positive is not False:
        return factor.exp * sp.log(factor.base)
    return None


def rewrite(expression: Any, z: Variables) -> Any:
    """Half-lines for |x|, max, min, sign and cases; exponentials for hyperbolic functions and powers of numbers."""

    def visit(node: Any) -> Any:
        if not node.args or not node.has(*z):
            return node
        if isinstance(node, sp.Piecewise):
            return cases(node, z, visit)
        node = node.func(*(visit(a) for a in node.args))
        if node.has(sp.Heaviside) and not is_ring(node):
            line = min(node.atoms(sp.Heaviside), key=sp.default_sort_key)
            return line * visit(node.xreplace({line: sp.S.One})) + (1 - line) * visit(node.xreplace({line: sp.S.Zero}))
        exponent = exponent_of(node, z)
        if exponent is not None:
            return sp.exp(exponent, evaluate=False) if isinstance(node, Held) else sp.exp(exponent)
        match node:
            case sp.Abs():
                return node.args[0] * sign(node.args[0], z)
            case sp.sign():
                return sign(node.args[0], z)
            case sp.Heaviside():
                return (1 + sign(node.args[0], z)) / 2
            case sp.Max() | sp.Min():
                return reduce(lambda a, b: larger(a, b, 1 if isinstance(node, sp.Max) else -1, z), node.args)
            case sp.sinh() | sp.cosh():
                return node.rewrite(sp.exp)
        return node

    return visit(expression)


def is_ring(node: Any) -> bool:
    """Whether the node is a sum, a product, a whole power or a half-line, which half-lines may stand in."""
    return (
        node.is_Add
        or node.is_Mul
        or isinstance(node, sp.Heaviside)
        or (node.is_Pow and node.exp.is_Integer and node.exp > 0)
    )


def larger(a: Any, b: Any, side: int, z: Variables) -> Any:
    """max(a, b) for side 1, min(a, b) for side -1."""
    difference = sp.expand(a - b)
    return (a + b + side * difference * sign(difference, z)) / 2


def cases(node: Any, z: Variables, visit: Any) -> Any:
    """A Piecewise as a sum of its branches, each times the indicator of its condition and of none before it."""
    found, left = sp.S.Zero, sp.S.One
    for value, condition in node.args:
        here = indicator(condition, z)
        found += tidy(left * here) * visit(value)
        left = tidy(left * (1 - here))
    return tidy(found)


def tidy(expression: Any) -> Any:
    """Multiplied out, products of half-lines of one direction as the one farthest in: many cases stay few terms."""
    terms = []
    for term in sp.Add.make_args(expand(expression)):
        bases = [(f.base if f.is_Pow else f, f) for f in sp.Mul.make_args(term)]
        lines = [base for base, _ in bases if isinstance(base, sp.Heaviside)]
        rest = sp.Mul(*(factor for base, factor in bases if not isinstance(base, sp.Heaviside)))
        kept: list[Any] = []
        for line in lines:
            for k, other in enumerate(kept):
                apart = sp.expand(line.args[0] - other.args[0])
                if apart.is_number:
                    kept[k] = line if apart.is_negative else other
                    break
            else:
                kept.append(line)
        terms.append(rest * sp.Mul(*kept))
    return sp.Add(*terms)


def indicator(condition: Any, z: Variables) -> Any:
    """1 where the condition holds and 0 elsewhere, but for a set that no Gaussian sees."""
    if not condition.has(*z):
        return sp.Piecewise((sp.S.One, condition), (sp.S.Zero, True))
    match condition:
        case sp.And():
            return sp.Mul(*(indicator(c, z) for c in condition.args))
        case sp.Or():
            return 1 - sp.Mul(*(1 - indicator(c, z) for c in condition.args))
        case sp.Not():
            return 1 - indicator(condition.args[0], z)
        case sp.GreaterThan() | sp.StrictGreaterThan():
            return (1 + sign(condition.lhs - condition.rhs, z)) / 2
        case sp.LessThan() | sp.StrictLessThan():
            return (1 + sign(condition.rhs - condition.lhs, z)) / 2
    raise NoClosedForm("there is no rule for the condition", condition)


def sign(p: Any, z: Variables) -> Any:
    """The sign of a polynomial as a product of signs of linear forms, 2 H(l) - 1 each."""
    p = sp.expand(p)
    own = present(p, z)
    if not own:
        return sp.sign(p)
    if p.has(sp.Heaviside):
        line = min(p.atoms(sp.Heaviside), key=sp.default_sort_key)
        return line * sign(p.xreplace({line: sp.S.One}), z) + (1 - line) * sign(p.xreplace({line: sp.S.Zero}), z)
    if not p.is_polynomial(*own):
        raise NoClosedForm("there is no rule for the sign of", p)
    if sp.Poly(p, *own).total_degree() == 1:
        return sign_of_line(p, own)
    constant, factors = sp.factor_list(p, *own)
    found = sp.sign(constant)
    for factor, power in factors:
        if power % 2:
            found *= sign_of_factor(factor, present(p, z))
    return found


def sign_of_factor(factor: Any, z: Variables) -> Any:
    """The sign of a factor over the rationals: a line, or a polynomial of one variable by its real roots."""
    own = present(factor, z)
    poly = sp.Poly(factor, *own)
    if poly.total_degree() == 1:
        return sign_of_line(factor, own)
    if len(own) == 1 and not poly.free_symbols_in_domain and poly.degree() <= 4:
        roots = sp.real_roots(poly)
        return sp.Mul(sp.sign(poly.LC()), *(sign_of_line(own[0] - root, own) for root in roots))
    raise NoClosedForm("a change of sign is not along lines, of", factor)


def sign_of_line(form: Any, z: Variables) -> Any:
    """The sign of a linear form, scaled so that its first variable has the factor 1."""
    leading = sp.diff(form, z[0])
    if leading.is_negative:
        side = -1
    elif leading.is_positive:
        side = 1
    else:
        raise NoClosedForm("it is not known whether this is positive:", leading)
    return side * (2 * sp.Heaviside(sp.expand(form / leading), sp.S.Half) - 1)


def expand(expression: Any) -> Any:
    """Multiply out products and powers; exponentials stay whole."""
    return sp.expand(expression, power_base=False, power_exp=False, log=False)


def read(polynomial: Any, rest: Any, z: Variables) -> list[Term]:
    """A polynomial times a product as canonical terms: exponent, waves and half-lines told apart."""
    exponent, term = sp.S.Zero, polynomial * rest
    waves: list[tuple[Any, Any]] = []
    lines: list[HalfLine] = []
    for factor in sp.Mul.make_args(rest):
        base, power = factor.as_base_exp() if factor.is_Pow else (factor, sp.S.One)
        g = exponent_of(factor, z)
        if g is not None and is_polynomial(g, z, 2):
            exponent += g
        elif isinstance(base, sp.cos | sp.sin) and power.is_Integer and power > 0 and is_polynomial(base.args[0], z, 1):
            waves += [(base.args[0], 0 if isinstance(base, sp.cos) else -sp.pi / 2)] * int(power)
        elif isinstance(factor, sp.Heaviside):
            lines.append(HalfLine(form=base.args[0]))
        elif isinstance(base, sp.erf) and power == 1 and is_polynomial(base.args[0], z, 1):
            lines.append(HalfLine(form=base.args[0], softness=sp.S.Half))
        else:
            raise NoClosedForm("there is no rule for", factor)
    refuse_growth(exponent, z, term)
    if not lines:
        return [
            Term(polynomial=c * polynomial, exponent=exponent, phase=phase, variables=z) for c, phase in as_sum(waves)
        ]
    if waves:
        raise NoClosedForm("there is no rule for a wave times a half-line,", term)
    if len(lines) > 1:
        raise NoClosedForm("there is no rule for half-lines of different directions,", term)
    line = lines[0]
    if line.softness == 0:
        return [Term(polynomial=polynomial, exponent=exponent, halfline=line, variables=z)]
    return [  # erf(g) = 2 P(w <= sqrt(2) g) - 1
        Term(polynomial=2 * polynomial, exponent=exponent, halfline=line, variables=z),
        Term(polynomial=-polynomial, exponent=exponent, variables=z),
    ]


def is_polynomial(g: Any, z: Variables, degree: int) -> bool:
    own = present(g, z)
    return not own or (g.is_polynomial(*own) and sp.Poly(g, *own).total_degree() <= degree)


def as_sum(waves: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """A product of waves cos(a + b) as a sum of (factor, phase); no waves: (1, None)."""
    if not waves:
        return [(sp.S.One, None)]
    found: dict[Any, Any] = {sp.S.Zero: sp.S.One}
    for argument, shift in waves:
        phase = argument + shift
        joint: dict[Any, Any] = {}
        for p, c in found.items():
            for new in (sp.expand(p + phase), sp.expand(p - phase)):
                key = -new if -new in joint else new
                joint[key] = joint.get(key, sp.S.Zero) + c / 2
        found = joint
        if len(found) > WAVES:
            raise ValueError(f"`formula`: a product of waves becomes a sum of more than {WAVES} of them.")
    return [(c, p) for p, c in found.items()]


def refuse_growth(exponent: Any, z: Variables, term: Any) -> None:
    """Raise where the term grows as exp(x^2), so that its mean under a wide Gaussian is infinite."""
    if exponent == 0:
        return
    A = -sp.hessian(exponent, z).applyfunc(sp.expand)
    if not A.free_symbols:
        values = sp.matrix2numpy(A.evalf(), dtype=float)
        falls = np.linalg.eigvalsh(values)[0] >= -1e-12 * np.abs(values).max()
    else:
        falls = A[0].is_nonnegative if len(z) == 1 else A.is_positive_semidefinite
    if not falls:
        raise NoClosedForm(
            "its mean under a wide Gaussian is infinite, or not known to be finite:", term, infinite=True
        )


def refuse_size(expression: Any) -> None:
    """Raise where expanding would lead to too many terms."""
    if size(expression) > EXPANDED:
        raise ValueError(f"`formula` expands into more than {EXPANDED} terms: {str(expression)[:200]}.")


def size(node: Any) -> float:
    """A bound on the number of terms after expanding."""
    if node.is_Add:
        return sum(size(a) for a in node.args)
    if node.is_Mul:
        return math.prod(size(a) for a in node.args)
    if node.is_Pow and node.exp.is_Integer and node.exp > 0:
        n, k = size(node.base), int(node.exp)
        if n == 1:
            return 1
        return float(math.comb(int(n) + k - 1, k)) if n < EXPANDED else math.inf
    return 1
