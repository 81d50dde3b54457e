"""Compile SymPy expressions into functions of arrays, for any array namespace.

Common subexpressions are computed once, constants in advance, and integer powers by multiplication.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

import sympy as sp
from sympy.printing.lambdarepr import LambdaPrinter

from slgh.backends import special_functions
from slgh.smoothing.time_limit import check_time, run_clock, running_clock

MAX_OPERANDS = 1000
"""Longer sums and products are printed as calls: Python cannot compile such deeply nested operators."""

SECONDS_PER_NODE = 5e-5
"""Approximate time that SymPy needs to find common subexpressions, per node of the expressions."""


class Printer(LambdaPrinter):  # type: ignore[misc]
    """Print expressions as calls of the functions in `runtime`."""

    def _print(self, expr: Any, **kwargs: Any) -> Any:
        check_time()
        return super()._print(expr, **kwargs)

    def _print_Add(self, expr: Any, order: Any = None) -> str:
        if len(expr.args) <= MAX_OPERANDS:
            return super()._print_Add(expr, order=order)  # type: ignore[no-any-return]
        return f"total({', '.join(self._print(a) for a in self._as_ordered_terms(expr, order=order))})"

    def _print_Mul(self, expr: Any) -> str:
        if len(expr.args) <= MAX_OPERANDS:
            return super()._print_Mul(expr)  # type: ignore[no-any-return]
        return f"product({', '.join(self._print(a) for a in expr.args)})"

    def _print_Pow(self, node: Any, **kwargs: Any) -> str:
        base = self._print(node.base)
        if node.exp.is_Integer:
            return f"power({base}, {node.exp})"
        if abs(node.exp) == sp.S.Half:
            return f"sqrt({base})" if node.exp > 0 else f"(1/sqrt({base}))"
        return f"({base})**({self._print(node.exp)})"

    def _called(self, node: Any) -> str:
        """Print a call of the function with the node's name."""
        return f"{type(node).__name__}({', '.join(self._print(a) for a in node.args)})"

    # LambdaPrinter's own versions are for numbers: they branch on values.
    _print_Abs = _print_sign = _print_Max = _print_Min = _print_Heaviside = _called
    _print_And = _print_Or = _print_Not = _print_ITE = _called

    def _print_Piecewise(self, node: Any) -> str:
        text = "nan"
        for value, condition in reversed(node.args):
            shown = self._print(value)
            text = shown if condition == sp.true else f"where({self._print(condition)}, {shown}, {text})"
        return text


def power(base: Any, exponent: int) -> Any:
    """Return an integer power by repeated squaring, which is far cheaper than a general power."""
    if exponent < 0:
        return 1 / power(base, -exponent)
    result = None
    while exponent:
        if exponent & 1:
            result = base if result is None else result * base
        exponent >>= 1
        if exponent:
            base = base * base
    return result


def normal_cdf(mu: Any, v: Any) -> Any:
    """Return the probability that a normal variable with mean mu and variance v is positive."""
    x = mu / v**0.5
    return special_functions(x).ndtr(x)


def runtime(xp: Any) -> dict[str, Any]:
    """Return the names that printed code may use."""

    def normal_pdf(mu: Any, v: Any) -> Any:
        return xp.exp(-mu * mu / (2 * v)) / (2 * math.pi * v) ** 0.5

    def fold(choose: Callable[[Any, Any], Any]) -> Callable[..., Any]:
        def folded(first: Any, *others: Any) -> Any:
            for other in others:
                first = xp.where(choose(first, other), first, other)
            return first

        return folded

    names = ("exp", "log", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "atan", "sign", "where")
    return {
        **{name: getattr(xp, name) for name in names},
        "nan": math.nan,
        "Abs": xp.abs,
        "Heaviside": lambda x, half=0.5: (1 + xp.sign(x)) / 2,
        "Max": fold(lambda a, b: a > b),
        "Min": fold(lambda a, b: a < b),
        "And": lambda *conditions: reduce(operator.and_, conditions),
        "Or": lambda *conditions: reduce(operator.or_, conditions),
        "Not": operator.invert,
        "ITE": xp.where,
        "erf": lambda x: special_functions(x).erf(x),
        "power": power,
        "total": lambda *terms: reduce(operator.add, terms),
        "product": lambda *factors: reduce(operator.mul, factors),
        "normal_cdf": normal_cdf,
        "normal_pdf": normal_pdf,
    }


def fold_numbers(node: Any) -> Any:
    """Return the expression with constants such as 2*pi**2 computed. Integers stay."""
    check_time()
    if isinstance(node, sp.Piecewise):
        return sp.Piecewise(*((fold_numbers(value), fold_numbers(condition)) for value, condition in node.args))
    if isinstance(node, sp.logic.boolalg.Boolean):
        return node.func(*(fold_numbers(a) for a in node.args)) if node.args else node
    if node.is_Integer or not node.args:
        return sp.Float(node, 17) if node.is_number and not node.is_Integer else node
    if node.is_number:
        return sp.Float(node.evalf(20), 17)
    if node.is_Pow and node.exp.is_Rational:
        return fold_numbers(node.base) ** node.exp
    return node.func(*(fold_numbers(a) for a in node.args))


def count_nodes(expression: Any) -> int:
    """Return the number of nodes of an expression tree."""
    count = 0
    for _ in sp.preorder_traversal(expression):
        count += 1
        check_time()
    return count


class CompiledExpressions:
    """A list of expressions as a function, compiled for each namespace when it is first needed.

    `definitions` maps names in the expressions to expressions in the arguments.
    """

    def __init__(
        self, arguments: Sequence[sp.Symbol], expressions: Sequence[Any], definitions: Mapping[Any, Any] | None = None
    ) -> None:
        self.arguments, self.expressions = list(arguments), list(expressions)
        used = set().union(*(e.free_symbols for e in self.expressions))
        self.names = {name: what for name, what in (definitions or {}).items() if name in used}
        self._compiled: dict[Any, Callable[..., list[Any]]] = {}
        self._clock = running_clock()

    def __call__(self, xp: Any, *values: Any) -> list[Any]:
        """Return the expressions at these arrays of the namespace xp."""
        if xp not in self._compiled:
            with run_clock(self._clock):
                self._compiled[xp] = self._compile(xp)
        return self._compiled[xp](*values)

    def _compile(self, xp: Any) -> Callable[..., list[Any]]:
        def compiled(arguments: list[Any], expressions: Iterable[Any]) -> Any:
            folded = [fold_numbers(e) for e in expressions]
            check_time(ahead=SECONDS_PER_NODE * sum(map(count_nodes, folded)))
            printer = Printer({"fully_qualified_modules": False, "inline": True, "allow_unknown_functions": True})
            return sp.lambdify(arguments, folded, modules=[runtime(xp)], printer=printer, cse=True)

        if not self.names:
            return compiled(self.arguments, self.expressions)  # type: ignore[no-any-return]
        first = compiled(self.arguments, self.names.values())
        then = compiled([*self.arguments, *self.names], self.expressions)
        return lambda *values: then(*values, *first(*values))
