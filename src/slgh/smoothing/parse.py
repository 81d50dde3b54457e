"""Read formulas from text safely: with `ast` and an allowlist. No text is ever evaluated.

SymPy's own parsers evaluate Python, so they never receive text. This module builds SymPy objects node by node. It
refuses nodes that are not on its lists, and expressions that would grow beyond its limits.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from typing import Any, NoReturn

import sympy as sp

from slgh.smoothing.errors import FormulaError, FormulaTooLarge
from slgh.smoothing.time_limit import check_time

MAX_CHARACTERS = 20_000

MAX_NODES = 10_000
"""Maximum number of nodes of the syntax tree."""

MAX_DEPTH = 60
"""Maximum number of levels of nesting. A chain such as a + b + c is one level."""

MAX_SIDES = 16
"""Maximum number of arguments of min and max, which SymPy compares in pairs."""

MAX_EXPONENT = 64
"""Largest integer exponent."""

MAX_BITS = 4096
"""Maximum number of bits of a power of numbers."""

DIMENSION = sp.Symbol("d", integer=True, positive=True)
"""Symbol of `d` in a formula, the number of variables."""

CONSTANTS = {"pi": sp.pi, "e": sp.E, "d": DIMENSION}

SYMPY_NAMES = ("exp", "log", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "atan", "erf", "sign")
"""Functions that have the same name in SymPy."""

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    **{name: getattr(sp, name) for name in SYMPY_NAMES},
    "abs": sp.Abs,
    "relu": lambda x: sp.Max(0, x),
    "heaviside": lambda x: sp.Heaviside(x, sp.S.Half),
}
"""Functions of one argument. `min`, `max`, `where`, `sum`, `prod` and `mean` have their own rules."""

OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}

RELATIONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: sp.Lt,
    ast.LtE: sp.Le,
    ast.Gt: sp.Gt,
    ast.GtE: sp.Ge,
}

SPELLINGS = {"ln": "log", "arctan": "atan", "fabs": "abs", "maximum": "max", "minimum": "min"}
"""Other names of functions, and the one used here."""

SUMS: dict[str, Any] = {"sum": sp.Sum, "prod": sp.Product, "mean": sp.Sum}

ARRAY_HINT = "; for arrays of numbers pass a function, as in slgh.smooth(lambda x: x @ A @ x, d=2)"

HINT = " Write products as 2*x, powers as x**2, absolute values as abs(x), and only the right-hand side of f(x) = ..."


def parse(text: str) -> sp.Expr:
    """Return the SymPy expression of a formula.

    Variables are names (x, y, x1, ...) or one subscripted name (x[0], x[i]). Numbers are exact: 0.1 is 1/10.

    >>> parse("100*(y - x**2)**2 + (1 - x)**2")
    (1 - x)**2 + 100*(-x**2 + y)**2
    >>> parse("sum(x[i]**2 - 10*cos(2*pi*x[i]) for i in range(d))")
    Sum(-10*cos(2*pi*x[i]) + x[i]**2, (i, 0, d - 1))
    >>> parse("x**2 if x >= 0 else x**2/50")
    Piecewise((x**2, x >= 0), (x**2/50, True))
    """
    return read_text(text)[0]


def read_text(text: str) -> tuple[sp.Expr, FormulaReader]:
    """Return the expression, and the reader, which knows all variables in the text, even if they cancel."""
    if len(text) > MAX_CHARACTERS:
        raise FormulaError(f"`formula` must have at most {MAX_CHARACTERS} characters, got {len(text)}.")
    try:
        tree = ast.parse(text.strip(), mode="eval")
        reader = FormulaReader(text.strip())
        refuse_size(tree)
        found = reader.number(tree.body)
    except SyntaxError as error:
        raise FormulaError(f"`formula` is not an expression: {error.msg}, in {text[:200]!r}.{HINT}") from None
    except (ValueError, MemoryError, RecursionError, OverflowError, ZeroDivisionError, TypeError) as error:
        if isinstance(error, FormulaError | FormulaTooLarge):
            raise
        raise FormulaError(f"`formula` cannot be read ({type(error).__name__}: {error}): {text[:200]!r}.") from None
    if not is_real(found):
        raise FormulaError(f"`formula` must be real and finite, got {text[:200]!r}.")
    return found, reader


def is_real(expression: Any) -> bool:
    """Return True if no number in the expression is complex or infinite.

    SymPy keeps numbers such as (-1)**(1/3) and sqrt(sin(4)) as they are, without an imaginary unit.

    >>> is_real(sp.sqrt(sp.sin(4))), is_real(sp.sqrt(sp.sin(3)))
    (False, True)
    """
    if expression.has(sp.zoo, sp.nan, sp.oo, sp.I):
        return False
    return not any(a.is_number and a.is_real is False for a in expression.atoms(sp.Pow, sp.log))


def refuse_size(tree: ast.AST) -> None:
    """Raise if the syntax tree has too many nodes or levels."""
    stack, count = [(tree, 0)], 0
    while stack:
        node, depth = stack.pop()
        count += 1
        if count > MAX_NODES or depth > MAX_DEPTH:
            raise FormulaError(f"`formula` must have at most {MAX_NODES} operations, nested at most {MAX_DEPTH} deep.")
        for child in ast.iter_child_nodes(node):
            chained = isinstance(node, ast.BinOp) and child is node.left and isinstance(child, ast.BinOp)
            stack.append((child, depth if chained else depth + 1))


class FormulaReader:
    """Walk the syntax tree. `bound` holds the indices of the sums around a node."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.bound: dict[str, sp.Symbol] = {}
        self.plain: set[str] = set()
        self.subscripted: set[str] = set()
        self.highest = 0
        """Highest subscript that is a number."""

    def fail(self, node: ast.AST, why: str) -> NoReturn:
        part = ast.get_source_segment(self.text, node) or self.text
        raise FormulaError(f"`formula`: {why}; got {part[:200]!r}.")

    def number(self, node: ast.AST) -> Any:
        """Return the expression of a node that represents a number."""
        match node:
            case ast.Constant(value=value):
                return self.literal(node, value)
            case ast.Name(id=name):
                return self.name(node, name)
            case ast.BinOp():
                return self.chain(node)
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.number(operand)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self.number(operand)
            case ast.Subscript():
                return self.subscript(node)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self.conditional(test, body, orelse)
            case ast.Call():
                return self.call(node)
        return self.fail(node, f"{type(node).__name__} is not allowed")

    def literal(self, node: ast.AST, value: Any) -> Any:
        if type(value) not in (int, float):
            self.fail(node, "only real numbers are allowed")
        too_large = math.isinf(value) if isinstance(value, float) else value.bit_length() > MAX_BITS
        if too_large:
            self.fail(node, "the number is too large")
        return sp.Rational(repr(value))

    def conditional(self, test: ast.AST, body: ast.AST, orelse: ast.AST) -> Any:
        return sp.Piecewise((self.number(body), self.condition(test)), (self.number(orelse), True))

    def name(self, node: ast.AST, name: str) -> Any:
        if name in self.bound:
            return self.bound[name]
        if name in CONSTANTS:
            return CONSTANTS[name]
        if name in FUNCTIONS or name in SUMS or name in ("min", "max", "where", "range"):
            self.fail(node, f"`{name}` is a function, and needs parentheses")
        if name.startswith("_") or not name.isascii():
            self.fail(node, "names are made of the letters a to z and digits; constants are pi and e")
        self.plain.add(name)
        self.refuse_mixture(node)
        return sp.Symbol(name, real=True)

    def refuse_mixture(self, node: ast.AST) -> None:
        """Raise unless there is one subscripted variable, or only plain ones."""
        if len(self.subscripted) > 1 or (self.subscripted and self.plain):
            names = ", ".join(sorted(self.subscripted | self.plain))
            self.fail(node, f"variables are plain names, or one name with subscripts, not both ({names}){ARRAY_HINT}")

    def chain(self, node: ast.BinOp) -> Any:
        """Return the expression of a chain of operators. It follows the left operands without recursion."""
        spine: list[ast.BinOp] = []
        left: ast.AST = node
        while isinstance(left, ast.BinOp):
            spine.append(left)
            left = left.left
        value = self.number(left)
        terms: list[Any] = []
        for operation in reversed(spine):
            check_time()
            right = self.number(operation.right)
            if isinstance(operation.op, ast.Add | ast.Sub):  # summed together below: one by one takes quadratic time
                terms.append(right if isinstance(operation.op, ast.Add) else -right)
                continue
            value, terms = sp.Add(value, *terms), []
            if isinstance(operation.op, ast.Pow):
                value = self.power(operation, value, right)
            elif type(operation.op) in OPERATORS:
                if isinstance(operation.op, ast.Div) and right.is_zero:
                    self.fail(operation, "division by zero")
                value = OPERATORS[type(operation.op)](value, right)
                self.refuse_large(operation, value)
            elif isinstance(operation.op, ast.BitXor):
                self.fail(operation, "powers are written **, not ^")
            else:
                hint = ARRAY_HINT if isinstance(operation.op, ast.MatMult) else ""
                self.fail(operation, f"the operator {type(operation.op).__name__} is not allowed{hint}")
        if terms:
            value = sp.Add(value, *terms)
            self.refuse_large(node, value)
        return value

    def refuse_large(self, node: ast.AST, value: Any) -> None:
        """Raise if a number, or a numeric coefficient, exceeds the largest float."""
        number = value.as_coeff_Mul()[0]
        if number.is_Rational and max(abs(number.p).bit_length(), number.q.bit_length()) > 1024:
            self.fail(node, "the number is too large")

    def power(self, node: ast.AST, base: Any, exponent: Any) -> Any:
        if exponent.is_number:
            size = float(abs(exponent))
            if size > MAX_EXPONENT:
                self.fail(node, f"exponents must be at most {MAX_EXPONENT}")
            if base.is_zero and exponent.is_negative:
                self.fail(node, "division by zero")
            if base.is_Rational and (abs(base.p).bit_length() + base.q.bit_length()) * size > MAX_BITS:
                self.fail(node, "the power of numbers is too large")
        elif not (base.is_number and base.is_positive) and not self.is_index_power(base, exponent):
            self.fail(node, "a variable exponent needs a positive number as base")
        return base**exponent

    def is_index_power(self, base: Any, exponent: Any) -> bool:
        """Return True for a power of numbers and indices, such as (-1)**i or i**i."""
        indices = {*self.bound.values(), DIMENSION}
        return bool(base.free_symbols <= indices and exponent.free_symbols <= indices)

    def subscript(self, node: ast.Subscript) -> Any:
        if not isinstance(node.value, ast.Name):
            self.fail(node, "only a variable can have a subscript")
        name = node.value.id
        if name in FUNCTIONS or name in CONSTANTS or name in self.bound or name.startswith("_"):
            self.fail(node, f"`{name}` cannot have a subscript")
        self.subscripted.add(name)
        self.refuse_mixture(node)
        index = self.index(node.slice)
        if index.is_Integer and index < 0:
            self.fail(node, "subscripts count from 0; the last variable is x[d-1]")
        if index.is_Integer:
            self.highest = max(self.highest, int(index))
        return sp.IndexedBase(name, real=True)[index]

    def index(self, node: ast.AST) -> Any:
        """Return an integer expression: literals, indices and d, added, subtracted and multiplied."""
        match node:
            case ast.Constant(value=int() as value) if not isinstance(value, bool) and abs(value) < 1 << 31:
                return sp.Integer(value)
            case ast.Name(id=name) if name in self.bound or name == "d":
                return self.bound.get(name, DIMENSION)
            case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() as op, left=left, right=right):
                return sp.expand(OPERATORS[type(op)](self.index(left), self.index(right)))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self.index(operand)
        return self.fail(node, "subscripts and ranges are whole numbers, made of indices and d")

    def condition(self, node: ast.AST) -> Any:
        match node:
            case ast.Compare(left=left, ops=ops, comparators=comparators):
                sides = [self.number(side) for side in (left, *comparators)]
                if any(type(op) not in RELATIONS for op in ops):
                    self.fail(node, "comparisons are <, <=, > and >=")
                pairs = zip(ops, sides, sides[1:], strict=False)
                return sp.And(*(RELATIONS[type(op)](a, b) for op, a, b in pairs))
            case ast.BoolOp(op=ast.And(), values=values):
                return sp.And(*map(self.condition, values))
            case ast.BoolOp(op=ast.Or(), values=values):
                return sp.Or(*map(self.condition, values))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return sp.Not(self.condition(operand))
        return self.fail(node, "a condition compares numbers, as in x >= 0")

    def call(self, node: ast.Call) -> Any:
        if not isinstance(node.func, ast.Name):
            self.fail(node, "functions are written by their plain names, exp(x), not np.exp(x)")
        name = node.func.id
        if node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
            self.fail(node, "functions take plain arguments")
        if name in SUMS:
            total = self.summed(node, SUMS[name])
            if name == "mean":
                total /= sp.Mul(*(last - start + 1 for _, start, last in total.limits))
            return total
        if name == "where" and len(node.args) == 3:
            return self.conditional(*node.args)
        if name in ("min", "max") and node.args:
            sides = [self.number(a) for a in node.args]
            if sum(len(side.args) if isinstance(side, sp.Max | sp.Min) else 1 for side in sides) > MAX_SIDES:
                self.fail(node, f"`{name}` takes at most {MAX_SIDES} arguments")
            return (sp.Min if name == "min" else sp.Max)(*sides)
        if name in SPELLINGS:
            self.fail(node, f"write {SPELLINGS[name]} for {name}")
        if name not in FUNCTIONS:
            known = ", ".join([*FUNCTIONS, "min", "max", "where", *SUMS])
            self.fail(node, f"the functions are {known}")
        if len(node.args) != 1:
            self.fail(node, f"`{name}` takes 1 argument")
        value = FUNCTIONS[name](self.number(node.args[0]))
        if value.is_number and not math.isfinite(abs(complex(value))):
            self.fail(node, "the value is not finite")
        return value

    def summed(self, node: ast.Call, kind: Any) -> Any:
        """Return the expression of sum(... for i in range(...)), with one or several `for`."""
        if len(node.args) != 1 or not isinstance(node.args[0], ast.GeneratorExp):
            self.fail(node, "a sum is written sum(... for i in range(d))")
        generator = node.args[0]
        outer, limits = dict(self.bound), []
        for loop in generator.generators:
            match loop:
                case ast.comprehension(
                    target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"), args=ends, keywords=[]), ifs=[]
                ) if 1 <= len(ends) <= 2 and not loop.is_async:
                    if name in CONSTANTS or name in FUNCTIONS or name.startswith("_"):
                        self.fail(node, f"`{name}` cannot be an index")
                    start, stop = ([sp.Integer(0)] if len(ends) == 1 else []) + [self.index(end) for end in ends]
                    self.bound[name] = sp.Symbol(name, integer=True)
                    limits.append((self.bound[name], start, stop - 1))
                case _:
                    self.fail(node, "an index runs over range(stop) or range(start, stop)")
        body = self.number(generator.elt)
        self.bound = outer
        return kind(body, *reversed(limits))
