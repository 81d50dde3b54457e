"""Gaussian smoothing: of a formula in closed form, of a Python function of few variables by quadrature."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from slgh.smoothing.quadrature import Quadrature

if TYPE_CHECKING:
    import sympy

    from slgh.smoothing.closed_form import Smoothed

__all__ = ["FormulaError", "FormulaTooLarge", "NotInClosedForm", "Quadrature", "TooFewVariables", "smooth"]


class FormulaError(ValueError):
    """A formula that cannot be read, with the part of it that is to blame."""


class TooFewVariables(ValueError):
    """A formula asks for variable x[`reached`], of fewer, or for one before x[0]."""

    def __init__(self, reached: int, d: int) -> None:
        super().__init__(f"`formula` reaches variable x[{reached}] of {d} variables, which are x[0] to x[{d - 1}].")
        self.reached = reached


class NotInClosedForm(ValueError):
    """`smooth` can read the formula, but has no closed form for a term of it and was given no `fallback`."""


class FormulaTooLarge(ValueError):
    """The algebra of a formula takes longer than `max_seconds` of `smooth`, or nests too deep for Python."""


def smooth(
    formula: str | sympy.Basic | Callable[..., Any],
    *,
    d: int | None = None,
    variables: Sequence[str] | None = None,
    fallback: str | None = None,
    nodes: int | None = None,
    max_seconds: float | None = 60.0,
) -> Smoothed:
    r"""The Gaussian homotopy of a formula in closed form, exactly.

    .. math:: F(x, t) = E f(x + t u), \quad \nabla_x F, \quad \frac{\partial F}{\partial t} = t \operatorname{tr}
        \operatorname{Hess} F, \qquad u \sim N(0, I)

    Covered are polynomials; exp, sin, cos, sinh, cosh of linear forms; Gaussians, exp of a falling quadratic form with
    any center and matrix; abs, max, min, sign, heaviside, erf and cases (a if x >= 0 else b) along linear forms;
    products of a polynomial, an exponential or Gaussian, and either waves or one half-line; products of anything in
    different variables; sums of such terms, and what expands into them. See `slgh.smoothing.gaussian` for the rule.

    Parameters
    ----------
    formula
        Text in Python's notation, read safely (nothing in it is evaluated): "100*(y - x**2)**2 + (1 - x)**2", or of a
        vector with its sums, "sum(x[i]**2 - 10*cos(2*pi*x[i]) for i in range(d))", also with prod. The names pi and e
        are the constants, d is the number of variables. Or a SymPy expression (with IndexedBase, Sum and Product). Or
        a function of symbols, written with SymPy's operations: of several arguments, or with `d` of one vector.
    d
        The number of variables. Needed only for a function of a vector, and for sums that must be written out (double
        sums, sums inside other functions); without it a vector's formula is for any number.
    variables
        The order of plain variables in x; by default that of their names (x2 before x10), for a function that of its
        arguments.
    fallback
        What to do about a term without a closed form. None: an error that names it. "quadrature": Gauss-Hermite over
        the variables of the term, up to 4. "sampling": the mean over fixed directions, any number of variables.
    nodes
        Nodes an axis for quadrature (default 128, 64, 20, 10 for 1 to 4 variables), pairs of directions for sampling
        (256).
    max_seconds
        Time limit in seconds of CPU time for the algebra: building F, and preparing its value and each derivative when
        they are first evaluated. It decides whether there is a result, never which. None: no limit.

    Raises
    ------
    FormulaTooLarge
        Where the algebra has not ended after `max_seconds`, or nests too deep; a ValueError too.
    NotInClosedForm
        Where a term has no closed form and there is no `fallback`; a ValueError, as all about the formula are.

    Returns
    -------
    Smoothed
        With value(x, t), grad(x, t), dt(x, t), trace(x, t), batched over x (..., d) and t (...), for NumPy, PyTorch and
        JAX arrays: what `minimize` takes as a closed form. And `expression`, F as a SymPy expression.

    Examples
    --------
    >>> import slgh
    >>> F = slgh.smooth("x**4 - 3*x**2 + x")
    >>> F.expression
    3*t**4 + 6*t**2*x**2 - 3*t**2 + x**4 - 3*x**2 + x
    >>> float(F.value([1.0], 0.5))
    -0.0625
    >>> rastrigin = slgh.smooth("sum(x[i]**2 - 10*cos(2*pi*x[i]) for i in range(d))")
    >>> rastrigin.grad([[1.0, 0.5, 0.25]] * 2, [0.0, 1.0]).shape
    (2, 3)
    """
    try:
        from slgh.smoothing.closed_form import build
    except ModuleNotFoundError as error:
        if error.name not in ("sympy", "mpmath"):
            raise
        raise ImportError('`slgh.smooth` needs SymPy: pip install "slgh[formula]".') from error
    return build(formula, d=d, variables=variables, fallback=fallback, nodes=nodes, max_seconds=max_seconds)
