"""Split a formula into terms that the Gaussian rule covers.

Sums are smoothed term by term. A product whose factors share no variable is the product of their smoothed forms, since
the directions are independent. The rest is rewritten (|x| with half-lines, products of waves as sums of waves, powers
of numbers as exponentials), expanded, and read as canonical terms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import sympy as sp
from sympy.utilities.iterables import sift

from slgh.smoothing.gaussian import HalfLine, Quadratic, SubexpressionNames, T, Term, heat, smooth_term
from slgh.smoothing.rewrite import (
    HeldExp,
    NoClosedForm,
    Variables,
    expand,
    expand_half_lines,
    exponent_of,
    present,
    rewrite,
)
from slgh.smoothing.time_limit import check_time

MAX_EXPANDED_TERMS = 20_000
"""Maximum number of terms that expanding may lead to."""

SECONDS_PER_TERM = 1e-3
"""Approximate time that SymPy needs to expand, per resulting term."""

MAX_WAVES = 1024
"""Maximum number of waves that a product of waves may become."""


def smooth_expression(expression: Any, z: Variables) -> tuple[Any, Mapping[Any, Any], list[tuple[Any, NoClosedForm]]]:
    """Return the closed form of E f(z + t u), the definitions of its names, and the terms that have none.

    These terms come with the reason.
    """
    closed, left, name = [], [], SubexpressionNames()
    for term in sp.Add.make_args(expression):
        try:
            closed.append(smooth_product(term, z, name))
        except NoClosedForm as error:
            left.append((term, error))
        except (NotImplementedError, sp.PolynomialError):  # SymPy's own limits
            left.append((term, NoClosedForm("SymPy cannot rewrite", term)))
    return sp.Add(*closed), name.definitions, left


def smooth_sum(expression: Any, z: Variables, name: SubexpressionNames) -> Any:
    """Return the closed form of a sum, or raise NoClosedForm."""
    return sp.Add(*(smooth_product(term, z, name) for term in sp.Add.make_args(expression)))


def smooth_product(term: Any, z: Variables, name: SubexpressionNames) -> Any:
    """Return the closed form of one term: polynomials by the heat flow, independent factors one by one."""
    check_time()
    own = present(term, z)
    if not own:
        return term
    if term.is_polynomial(*own):
        refuse_size(term)
        return heat(term, own, T**2 * sp.eye(len(own)))
    groups = factorize(term, own)
    if len(groups) > 1:
        return sp.Mul(*(smooth_sum(group, z, name) for group in groups))
    rewritten = rewrite(groups[0], own)
    refuse_size(rewritten)
    polynomials: dict[Any, Any] = {}
    for one in sp.Add.make_args(expand_half_lines(rewritten)):
        p, rest = split_polynomial(one, own)
        polynomials[rest] = polynomials.get(rest, sp.S.Zero) + p
    return sp.Add(*(smooth_polynomial_times(p, rest, z, name) for rest, p in polynomials.items()))


def smooth_polynomial_times(p: Any, rest: Any, z: Variables, name: SubexpressionNames) -> Any:
    """Return the closed form of a polynomial times one product of other functions."""
    check_time()
    own = present(p * rest, z)
    if rest == 1:
        return smooth_product(p, z, name)
    monomials = sp.Add.make_args(p)
    if len(monomials) == 1 and len(factorize(p * rest, own)) > 1:
        return smooth_product(p * rest, z, name)
    try:
        return sp.Add(*(smooth_term(canonical, name) for canonical in canonical_terms(p, rest, own)))
    except NoClosedForm:
        if len(monomials) == 1:
            raise
        return sp.Add(*(smooth_polynomial_times(one, rest, z, name) for one in monomials))


def factorize(term: Any, z: Variables) -> list[Any]:
    """Return the factors of the term, grouped into products that share no variable."""
    factors = sp.Mul.make_args(split_exponentials(term, z))
    return [sp.Mul(*group) for group in connected_groups(factors, z)]


def split_polynomial(term: Any, z: Variables) -> tuple[Any, Any]:
    """Return the polynomial part of a product, and the rest."""
    polynomial, rest = sift(sp.Mul.make_args(term), lambda f: bool(f.is_polynomial(*z)), binary=True)
    return sp.Mul(*polynomial), sp.Mul(*rest)


def connected_groups(parts: tuple[Any, ...], z: Variables) -> list[list[Any]]:
    """Return the parts in groups that share no variable."""
    groups: list[tuple[set[Any], list[Any]]] = []
    for part in parts:
        check_time()
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
    """Write exp(a + b) as exp(a) exp(b) if a and b share no variable. Each keeps the constant of its own square."""
    factors = []
    for factor in sp.Mul.make_args(product):
        exponent = exponent_of(factor, z)
        if exponent is None:
            factors.append(factor)
            continue
        constant, rest = expand(exponent).as_independent(*z, as_Add=True)
        blocks = connected_groups(sp.Add.make_args(rest), z)
        if len(blocks) == 1:
            factors.append(factor)
            continue
        for block in map(sp.Add.fromiter, blocks):
            own = Quadratic.of(block, present(block, z)).constant if is_polynomial(block, z, 2) else 0
            factors.append(HeldExp(block - own))
            constant += own
        factors.append(sp.exp(constant))
    return sp.Mul(*factors)


def canonical_terms(polynomial: Any, rest: Any, z: Variables) -> list[Term]:
    """Return a polynomial times a product as canonical terms: sort the factors into exponent, waves and half-lines."""
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
        elif isinstance(factor, sp.Heaviside) and is_polynomial(base.args[0], z, 1):
            lines.append(HalfLine(form=base.args[0]))
        elif isinstance(base, sp.erf) and power == 1 and is_polynomial(base.args[0], z, 1):
            lines.append(HalfLine(form=base.args[0], softness=sp.S.Half))
        else:
            raise NoClosedForm("there is no rule for", factor)
    refuse_growth(exponent, z, term)
    if not lines:
        return [
            Term(polynomial=c * polynomial, exponent=exponent, phase=phase, variables=z)
            for c, phase in waves_as_sum(waves)
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
    """Return True if g is a polynomial of at most this degree."""
    own = present(g, z)
    return not own or (g.is_polynomial(*own) and sp.Poly(g, *own).total_degree() <= degree)


def waves_as_sum(waves: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Return a product of waves cos(a + b) as a sum of (factor, phase); without waves (1, None)."""
    if not waves:
        return [(sp.S.One, None)]
    found: dict[Any, Any] = {sp.S.Zero: sp.S.One}
    for argument, shift in waves:
        phase = argument + shift
        joint: dict[Any, Any] = {}
        check_time()
        for p, c in found.items():
            for new in (sp.expand(p + phase), sp.expand(p - phase)):
                key = -new if -new in joint else new
                joint[key] = joint.get(key, sp.S.Zero) + c / 2
        found = joint
        if len(found) > MAX_WAVES:
            raise NoClosedForm(f"its waves become a sum of more than {MAX_WAVES} of them:", sp.cos(phase))
    return [(c, p) for p, c in found.items()]


def refuse_growth(exponent: Any, z: Variables, term: Any) -> None:
    """Raise if the term grows as exp(x^2), so that its mean under a wide Gaussian is infinite."""
    if exponent == 0:
        return
    A = -sp.hessian(exponent, z).applyfunc(sp.expand)
    if not A.free_symbols:
        values = sp.matrix2numpy(A.evalf(), dtype=float)
        falls = np.linalg.eigvalsh(values)[0] >= -1e-12 * np.abs(values).max()
    else:
        falls = A[0].is_nonnegative if len(z) == 1 else A.is_positive_semidefinite
    if not falls:
        raise NoClosedForm("its mean under a wide Gaussian is infinite, or may be infinite:", term, infinite=True)


def refuse_size(expression: Any) -> None:
    """Raise if expanding would lead to too many terms."""
    terms = size(expression)
    check_time(ahead=min(terms, MAX_EXPANDED_TERMS) * SECONDS_PER_TERM)
    if terms > MAX_EXPANDED_TERMS:
        raise NoClosedForm(f"it expands into more than {MAX_EXPANDED_TERMS} terms:", expression)


def size(node: Any) -> float:
    """Return a bound on the number of terms after expanding."""
    if node.is_Add:
        return sum(size(a) for a in node.args)
    if node.is_Mul:
        return math.prod(size(a) for a in node.args)
    if node.is_Pow and node.exp.is_Integer and node.exp > 0:
        n, k = size(node.base), int(node.exp)
        if n == 1:
            return 1
        return float(math.comb(int(n) + k - 1, k)) if n < MAX_EXPANDED_TERMS else math.inf
    return 1
