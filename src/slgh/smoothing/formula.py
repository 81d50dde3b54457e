"""Read a formula: text, a SymPy expression, or a function of symbols."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp

from slgh import checks
from slgh.smoothing.parse import DIMENSION, is_real, read_text
from slgh.smoothing.time_limit import check_time


@dataclass(frozen=True, slots=True, kw_only=True)
class Formula:
    """A formula and its variables in order, which are names or the components of one vector."""

    expression: Any
    """Expression in real symbols, or in components of a real vector."""
    names: tuple[str, ...]
    """Plain variables. Empty for a vector."""
    vector: str | None
    d: int | None
    """Number of variables, or None if any number >= `least` is possible."""
    least: int
    """Smallest number of variables."""
    user_symbols: tuple[tuple[Any, Any], ...] = ()
    """Pairs of a real symbol and the user's own symbol of a SymPy expression, which may have other assumptions."""


def read_formula(formula: Any, d: int | None, variables: Sequence[str] | None) -> Formula:
    """Return the formula of a text, a SymPy expression, or a function of symbols."""
    if d is not None:
        checks.count("d", d)
    if variables is not None and (isinstance(variables, str) or not all(isinstance(v, str) for v in variables)):
        raise checks.ArgumentTypeError(f"`variables` must be a list of names, got {variables!r}.")
    mentioned, vectors, highest = set[str](), set[str](), 0
    if isinstance(formula, str):
        expression, reader = read_text(formula)
        mentioned, vectors, highest = reader.plain, reader.subscripted, reader.highest
    elif isinstance(formula, sp.Basic | sp.MatrixBase):
        expression = formula
    elif callable(formula):
        expression, variables = call_with_symbols(formula, d, variables)
    else:
        raise checks.ArgumentTypeError(
            f"`formula` must be text, a SymPy expression or a function, got {type(formula).__name__}."
        )
    if not isinstance(expression, sp.Expr) or expression.has(sp.MatrixSymbol) or not is_real(expression):
        raise checks.ArgumentValueError(f"`formula` must be a real number at each point, got {str(expression)[:200]}.")
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
        raise checks.ArgumentValueError(f"`formula` must have plain variables, or one vector, got {names}.")
    if bases:
        if variables is not None:
            raise checks.ArgumentValueError(
                "`variables` orders plain variables, but the formula has a vector, which is in order. Omit `variables`."
            )
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
    """Return a formula in plain variables. `mentioned` are those in the text, even if they cancel.

    If `keep`, the symbols are the user's own.
    """
    found = {s.name for s in plain}
    if len(found) < len(plain):
        raise checks.ArgumentValueError(
            f"`formula` has different symbols of the same name, among {sorted(map(str, plain))}."
        )
    names = sorted(found | mentioned, key=natural) if variables is None else list(variables)
    if len(set(names)) < len(names) or not found <= set(names):
        raise checks.ArgumentValueError(
            f"`variables` must name each of {', '.join(sorted(found, key=natural))} once, got {names}."
        )
    if not names:
        raise checks.ArgumentValueError(f"`formula` must have a variable, got {expression}.")
    if d is not None and d != len(names):
        raise checks.ArgumentValueError(
            f"`d` must be the number of variables, {len(names)} ({', '.join(names)}), got d={d}."
        )
    real = {s: sp.Symbol(s.name, real=True) for s in plain}
    return Formula(
        expression=expression.xreplace(real).subs(DIMENSION, len(names)),
        names=tuple(names),
        vector=None,
        d=len(names),
        least=len(names),
        user_symbols=tuple((symbol, own) for own, symbol in real.items()) if keep else (),
    )


def read_vector(expression: Any, name: str, d: int | None, highest: int) -> Formula:
    """Return a formula in x[0], x[1], ... or x[i]. `highest` is the highest subscript in the text, even canceled."""
    base = sp.IndexedBase(name, real=True)
    if any(len(a.indices) != 1 for a in expression.atoms(sp.Indexed)):
        raise checks.ArgumentValueError(
            f"`formula` must have one subscript per variable, as in {name}[i], got {str(expression)[:200]}."
        )
    expression = expression.replace(lambda e: isinstance(e, sp.Indexed), lambda e: base[e.indices])
    fixed = [int(a.indices[0]) for a in expression.atoms(sp.Indexed) if a.indices[0].is_Integer]
    if min(fixed, default=0) < 0:
        raise checks.ArgumentValueError(f"`formula` must have subscripts from 0 on, got {name}[{min(fixed)}].")
    least = max([*fixed, highest]) + 1
    if d is None and not expression.has(sp.Sum, sp.Product, DIMENSION):
        d = least
    if d is not None and d < least:
        raise checks.ArgumentValueError(
            f"`d` must be at least {least}, since the formula has {name}[{least - 1}], got d={d}."
        )
    return Formula(expression=expression, names=(), vector=name, d=d, least=least)


def natural(name: str) -> list[Any]:
    """Return a sort key that puts x2 before x10.

    >>> sorted(["x10", "y", "x2"], key=natural)
    ['x2', 'x10', 'y']
    """
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


class TimeCheckedArray(np.ndarray[Any, Any]):
    """An array of symbols that checks the time at each access: Python's sum of symbols takes quadratic time."""

    def __getitem__(self, key: Any) -> Any:
        check_time()
        return super().__getitem__(key)

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))


def call_with_symbols(
    function: Callable[..., Any], d: int | None, variables: Sequence[str] | None
) -> tuple[Any, Sequence[str] | None]:
    """Call a function with symbols instead of numbers: one per argument, or with `d` one vector of them."""
    try:
        kinds = inspect.signature(function).parameters
    except ValueError:
        raise checks.ArgumentTypeError(
            f"`formula` must be a function with a signature that Python can inspect, got {function!r}."
        ) from None
    parameters = [name for name, p in kinds.items() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(parameters) == 1 and d is not None:
        x = sp.IndexedBase(parameters[0], real=True)
        given: tuple[Any, ...] = (np.array([x[i] for i in range(d)], dtype=object).view(TimeCheckedArray),)
    else:
        variables = parameters if variables is None else variables
        given = tuple(sp.Symbol(name, real=True) for name in variables)
    try:
        found = sp.sympify(function(*given), strict=True)
    except (TypeError, AttributeError, sp.SympifyError) as error:
        hint = "" if d is not None else ", and `d=` for a function of one vector"
        raise checks.ArgumentTypeError(
            "`formula` must be written with operations of SymPy (sympy.cos, sympy.Max, sympy.Piecewise, not numpy.cos, "
            f"max, if{hint}): {error}"
        ) from error
    return found, variables
