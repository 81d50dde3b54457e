"""Gaussian smoothing: of a formula in closed form, or of a Python function of few variables by quadrature."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from slgh import checks
from slgh.smoothing.errors import FormulaError, FormulaTooLarge, NotInClosedForm, TooFewVariables
from slgh.smoothing.nodes import FALLBACKS
from slgh.smoothing.quadrature import Quadrature

if TYPE_CHECKING:  # SymPy is optional
    import sympy

    from slgh.smoothing.closed_form import Smoothed

__all__ = ["FormulaError", "FormulaTooLarge", "NotInClosedForm", "Quadrature", "TooFewVariables", "smooth"]


def smooth(
    formula: str | sympy.Basic | Callable[..., Any],
    *,
    d: int | None = None,
    variables: Sequence[str] | None = None,
    fallback: str | None = None,
    nodes: int | None = None,
    max_seconds: float | None = 60.0,
) -> Smoothed:
    r"""Return the exact Gaussian homotopy of a formula, in closed form.

    .. math:: F(x, t) = E f(x + t u), \quad \nabla_x F, \quad \frac{\partial F}{\partial t} = t \operatorname{tr}
        \operatorname{Hess} F, \qquad u \sim N(0, I)

    It covers polynomials; exp, sin, cos, sinh, cosh of linear forms; Gaussians, that is exp of a concave quadratic form
    with any center and matrix; abs, max, min, sign, heaviside, erf and conditionals (a if x >= 0 else b) along linear
    forms; products of a polynomial, an exponential or Gaussian, and either waves or one half-line; products of anything
    in different variables; sums of such terms, and what expands into them. See `slgh.smoothing.gaussian` for the rule.

    Parameters
    ----------
    formula
        One of three. Text in Python's notation, which is parsed and never evaluated, such as
        "100*(y - x**2)**2 + (1 - x)**2", or with a vector and sums or products over an index,
        "sum(x[i]**2 - 10*cos(2*pi*x[i]) for i in range(d))". The names pi and e are the constants, d is the number of
        variables. Or a SymPy expression (also with IndexedBase, Sum and Product). Or a function of symbols that uses
        SymPy's operations: of several arguments, or with `d` of one vector.
    d
        The number of variables. Needed only for a function of a vector, and for sums that must be written out (double
        sums, sums inside other functions). Without it the formula of a vector holds for any number.
    variables
        The order of plain variables in x. By default they are sorted by name (x2 before x10); those of a function are
        in the order of its arguments.
    fallback
        What to do with a term that has no closed form. None: raise an error that names it. "quadrature": Gauss-Hermite
        over the variables of the term, up to 4. "sampling": the mean over fixed directions, any number of variables.
    nodes
        Nodes per axis for quadrature (default 128, 64, 20, 10 for 1 to 4 variables), or pairs of directions for
        sampling (default 256).
    max_seconds
        Limit on the CPU time of the algebra, in seconds: building F, and preparing its value and each derivative when
        they are first evaluated. It decides whether there is a result, never which. None: no limit.

    Raises
    ------
    FormulaTooLarge
        If the algebra takes longer than `max_seconds`, or nests too deep. A ValueError.
    NotInClosedForm
        If a term has no closed form and there is no `fallback`. A ValueError, as are all errors about the formula.

    Returns
    -------
    Smoothed
        An object with value(x, t), grad(x, t), dt(x, t), trace(x, t), batched over x (..., d) and t (...), for NumPy,
        PyTorch and JAX arrays: a closed form for `minimize`. Its `expression` is F as a SymPy expression.

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
        from slgh.smoothing.closed_form import Smoothed
        from slgh.smoothing.formula import read_formula
        from slgh.smoothing.time_limit import Clock, run_clock
    except ModuleNotFoundError as error:
        if error.name not in ("sympy", "mpmath"):
            raise
        raise checks.MissingLibraryError('`slgh.smooth` needs SymPy. Run pip install "slgh[formula]".') from error
    if fallback is not None:
        checks.choice("fallback", fallback, FALLBACKS)
    if nodes is not None:
        checks.count("nodes", nodes)
    if max_seconds is not None:
        checks.real("max_seconds", max_seconds, above=0)
    with run_clock(None if max_seconds is None else Clock(max_seconds)):
        return Smoothed(read_formula(formula, d, variables), fallback, nodes)
