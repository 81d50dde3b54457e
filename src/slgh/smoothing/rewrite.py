"""Rewrite kinks and jumps with half-lines, and powers of numbers as exponentials.

|x|, max, min, sign and conditionals become sums of terms times Heaviside functions of linear forms. The coefficient of
the first variable of each form is 1, so that parallel half-lines have the same direction.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import sympy as sp

from slgh.smoothing.time_limit import check_time

Variables = tuple[sp.Symbol, ...]

DIGITS = 30
"""Digits of numbers that decide between cases: far more than a float has, so that rounding has no influence."""


class NoClosedForm(ValueError):
    """A term has no closed form: `why` gives the reason, `blame` the part. If `infinite`, F itself is infinite."""

    def __init__(self, why: str, blame: Any, *, infinite: bool = False) -> None:
        super().__init__(f"{why} {blame}")
        self.why, self.blame, self.infinite = why, blame, infinite


def present(expression: Any, z: Variables) -> Variables:
    """Return the variables that occur in the expression."""
    free = expression.free_symbols
    return tuple(s for s in z if s in free)


class HeldExp(sp.Function):  # type: ignore[misc]
    """exp(block), which SymPy does not merge with other exponentials of a product."""

    nargs = 1


def held_as_exp(expression: Any) -> Any:
    """Return the expression with held exponentials as ordinary ones."""
    return expression.replace(HeldExp, sp.exp)


def exponent_of(factor: Any, z: Variables) -> Any | None:
    """Return g if the factor is exp(g), or a positive number to the power g / log(number); else None."""
    if isinstance(factor, HeldExp | sp.exp):
        return factor.args[0]
    if factor.is_Pow and factor.exp.has(*z) and not factor.base.has(*z) and factor.base.is_positive is not False:
        return factor.exp * sp.log(factor.base)
    return None


def rewrite(expression: Any, z: Variables) -> Any:
    """Return the expression in half-lines and exponentials.

    Half-lines replace |x|, max, min, sign and conditionals; exponentials replace hyperbolic functions and powers of
    numbers.
    """

    def visit(node: Any) -> Any:
        check_time()
        if not node.args or not node.has(*z):
            return held_as_exp(node)  # HeldExp(1), if a half-line in its exponent has become a number
        if isinstance(node, sp.Piecewise):
            return cases(node, z, visit)
        node = node.func(*(visit(a) for a in node.args))
        if node.has(sp.Heaviside) and not is_ring(node):
            line = min(node.atoms(sp.Heaviside), key=sp.default_sort_key)
            above, below = (node.xreplace({line: side}) for side in (sp.S.One, sp.S.Zero))
            if (above + below).has(sp.I, sp.zoo, sp.nan, sp.oo):  # such as sqrt(sign(x)) for x < 0
                raise NoClosedForm("this is not real everywhere:", node)
            return line * visit(above) + (1 - line) * visit(below)
        exponent = exponent_of(node, z)
        if exponent is not None:
            return sp.exp(exponent, evaluate=False) if isinstance(node, HeldExp) else sp.exp(exponent)
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
                # SymPy's own rewriting would also turn the sin of a number into complex exponentials.
                up, down = sp.exp(node.args[0]) / 2, sp.exp(-node.args[0]) / 2
                return up + down if isinstance(node, sp.cosh) else up - down
        return node

    return visit(expression)


def is_ring(node: Any) -> bool:
    """Return True for a sum, a product, a positive integer power or a half-line, in which half-lines may stay."""
    return (
        node.is_Add
        or node.is_Mul
        or isinstance(node, sp.Heaviside)
        or (node.is_Pow and node.exp.is_Integer and node.exp > 0)
    )


def larger(a: Any, b: Any, side: int, z: Variables) -> Any:
    """Return max(a, b) for side 1, min(a, b) for side -1."""
    difference = sp.expand(a - b)
    return (a + b + side * difference * sign(difference, z)) / 2


def cases(node: Any, z: Variables, visit: Any) -> Any:
    """Return a Piecewise as a sum of its branches, each times the indicator that its condition is the first to hold."""
    found, left = sp.S.Zero, sp.S.One
    for value, condition in node.args:
        here = indicator(condition, z, visit)
        found += expand_half_lines(left * here) * visit(value)
        left = expand_half_lines(left * (1 - here))
    return expand_half_lines(found)


def expand_half_lines(expression: Any) -> Any:
    """Multiply out, and reduce a product of parallel half-lines to the smallest: many cases stay few terms."""
    terms = []
    for term in sp.Add.make_args(expand(expression)):
        check_time()
        bases = [(f.base if f.is_Pow else f, f) for f in sp.Mul.make_args(term)]
        lines = [base for base, _ in bases if isinstance(base, sp.Heaviside)]
        rest = sp.Mul(*(factor for base, factor in bases if not isinstance(base, sp.Heaviside)))
        kept: list[Any] = []
        for line in lines:
            for k, other in enumerate(kept):
                apart = sp.expand(line.args[0] - other.args[0])
                if apart.is_number:
                    kept[k] = line if sign_of_number(apart) == -1 else other
                    break
            else:
                kept.append(line)
        terms.append(rest * sp.Mul(*kept))
    return sp.Add(*terms)


def indicator(condition: Any, z: Variables, visit: Any) -> Any:
    """Return 1 where the condition holds and 0 elsewhere, up to a set of measure zero."""
    if not condition.has(*z):
        return sp.Piecewise((sp.S.One, condition), (sp.S.Zero, True))
    match condition:
        case sp.And():
            return sp.Mul(*(indicator(c, z, visit) for c in condition.args))
        case sp.Or():
            return 1 - sp.Mul(*(1 - indicator(c, z, visit) for c in condition.args))
        case sp.Not():
            return 1 - indicator(condition.args[0], z, visit)
        case sp.ITE():
            test, yes, no = (indicator(c, z, visit) for c in condition.args)
            return test * yes + (1 - test) * no
        case sp.GreaterThan() | sp.LessThan() | sp.StrictGreaterThan() | sp.StrictLessThan():
            # Both sides may be equal on a set of positive measure, as in max(x, 0) > 0: then < and <= differ.
            strict = isinstance(condition, sp.StrictGreaterThan | sp.StrictLessThan)
            return (1 + sign(visit(condition.gts - condition.lts), z, zero=-1 if strict else 1)) / 2
    raise NoClosedForm("there is no rule for the condition", condition)


def sign(p: Any, z: Variables, zero: int = 0) -> Any:
    """Return the sign of a polynomial as a product of signs of linear forms, 2 H(l) - 1 each; `zero` where p is 0."""
    check_time()
    if not p.has(sp.Heaviside) and p.free_symbols <= set(z):  # keep factors as written: they are slow to find again
        if p.is_Mul:
            return sp.Mul(*(sign(factor, z) for factor in p.args))
        if p.is_Pow and p.exp.is_Integer and p.exp > 0:
            return sign(p.base, z) if p.exp % 2 else sp.S.One
    p = sp.expand(p)
    own = present(p, z)
    if not own:
        if zero and sign_of_number(p) is None:
            raise NoClosedForm("the sign of this is unknown:", p)
        return sp.sign(p) if sign_of_number(p) != 0 else sp.Integer(zero)
    if p.has(sp.Heaviside):
        line = min(p.atoms(sp.Heaviside), key=sp.default_sort_key)
        above, below = (sign(p.xreplace({line: side}), z, zero) for side in (sp.S.One, sp.S.Zero))
        return line * above + (1 - line) * below
    if not p.is_polynomial(*own):
        raise NoClosedForm("there is no rule for the sign of", p)
    if sp.Poly(p, *own).total_degree() == 1:
        return sign_of_line(p, own, zero)
    constant, factors = sp.factor_list(p, *own)
    found = sp.sign(constant)
    for factor, power in factors:
        if power % 2:
            found *= sign_of_factor(factor, present(p, z))
    return found


def sign_of_factor(factor: Any, z: Variables) -> Any:
    """Return the sign of an irreducible factor: a linear form, or a polynomial in one variable by its real roots."""
    own = present(factor, z)
    poly = sp.Poly(factor, *own)
    if poly.total_degree() == 1:
        return sign_of_line(factor, own)
    if len(own) == 1 and not poly.free_symbols_in_domain and poly.degree() <= 4:
        return sp.Mul(sp.sign(poly.LC()), *(sign_of_line(own[0] - root, own) for root in real_roots(poly)))
    raise NoClosedForm("this does not change sign along lines:", factor)


def real_roots(poly: sp.Poly) -> list[Any]:
    """Return the real roots of a polynomial in one variable: exact for rational coefficients, else floats."""
    if poly.domain.is_ZZ or poly.domain.is_QQ:
        return list(sp.real_roots(poly))
    try:
        roots = poly.nroots(n=DIGITS, maxsteps=200)
    except sp.NoConvergence:
        raise NoClosedForm("the roots of this were not found:", poly.as_expr()) from None
    # A double root may become a complex pair. Keeping both or neither is correct: their signs cancel.
    return [sp.re(root) for root in roots if abs(sp.im(root)) <= 1e-12 * max(1, abs(root))]


def sign_of_line(form: Any, z: Variables, zero: int = 0) -> Any:
    """Return the sign of a linear form, scaled so that the coefficient of its first variable is 1."""
    leading = sp.diff(form, z[0])
    side = sign_of_number(leading)
    if side is None:
        raise NoClosedForm("the sign of this is unknown:", leading)
    if side == 0:
        return sign(form - leading * z[0], z, zero)
    # The coefficient 1 is set, not computed: SymPy does not see that the expanded (pi + e)/(pi + e) is 1.
    rest = sp.expand((form - leading * z[0]) / leading)
    return side * (2 * sp.Heaviside(z[0] + rest, sp.S.Half) - 1)


def sign_of_number(number: Any) -> int | None:
    """Return the sign of a number or of a symbolic constant, or None if it is unknown.

    SymPy's assumptions cannot decide if digits cancel, as in 1 - pi/3 + ... Then the sign is that of the value.
    """
    if number.is_positive or number.is_negative:
        return 1 if number.is_positive else -1
    if not number.is_number:
        return 0 if number.is_zero else None
    value = sp.re(number.evalf(DIGITS))
    return 0 if abs(value) < 10 ** (5 - DIGITS) else int(sp.sign(value))


def expand(expression: Any) -> Any:
    """Multiply out products and powers, but not the exponents of exponentials."""
    return sp.expand(expression, power_base=False, power_exp=False, log=False)
