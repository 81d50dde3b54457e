"""The problem to minimize: a formula, a test problem or a Python function, with start and bounds."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slgh import checks
from slgh.cli.declaration import refuse
from slgh.cli.errors import fail
from slgh.cli.options import MinimizeOptions
from slgh.cli.parse import read_bounds, read_numbers, read_start
from slgh.cli.user_code import UserClosedForm, UserFunction
from slgh.engine.bounds import Box
from slgh.engine.bounds import read_bounds as read_box
from slgh.engine.objective import is_closed_form
from slgh.method import METHODS, SCALE_FREE
from slgh.oracles import ORACLES
from slgh.problems import PROBLEMS
from slgh.smoothing import NotInClosedForm, TooFewVariables, smooth

if TYPE_CHECKING:
    from slgh.smoothing.formula import Formula

SMOOTHED = ("sampled_gradient", "closed_form")
"""Oracles for which a formula must have a closed form."""

FUNCTION_OPTIONS = ("grad", "vectorized", "terms")
"""Options that describe the function of --fun."""

MAX_VARIABLES = 10**8
"""Maximum of --d. One point then takes 800 MB."""

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GivenProblem:
    """A function and its start. It has `values`, a closed form, or both."""

    title: str
    about: str
    """Short description, for the report."""
    x0: NDArray[np.float64]
    bounds: list[tuple[float, float]] | None = None
    variables: tuple[str, ...] = ()
    values: Function | None = None
    grad: Function | None = None
    closed: Any = None
    no_closed_form: ValueError | None = None
    """Error that says why a formula has no closed form."""
    vectorized: bool = True
    terms: int | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Usual parameters of a test problem."""

    @property
    def d(self) -> int:
        """The number of variables."""
        return len(self.x0)

    @property
    def box(self) -> Box | None:
        """The bounds as the engine takes them."""
        return read_box(self.bounds, self.d, self.x0.dtype)

    @property
    def is_builtin(self) -> bool:
        """True if no code of the user is involved."""
        return not isinstance(self.values or self.closed, UserFunction | UserClosedForm)

    def unwarned(self) -> AbstractContextManager[object]:
        """Silence warnings of NumPy for formulas and test problems. The user's functions may warn."""
        return np.errstate(all="ignore") if self.is_builtin else nullcontext()

    def arguments(self, method: str, oracle: str | None) -> dict[str, Any]:
        """Return the arguments of `slgh.minimize` that this method needs: values, a gradient or a closed form."""
        asked = oracle or METHODS[method].oracle
        either = method in SCALE_FREE and oracle is None
        first_order = either or (asked in ORACLES and ORACLES[asked].asks != "values")
        if self.values is None or (first_order and self.closed is not None):
            return {"fun": self.closed}
        if first_order and not either:
            self._refuse_values_alone(method, asked)
        with_grad = first_order and not (either and self.no_closed_form is not None)
        grad = self.grad if with_grad else None
        return {"fun": self.values, "grad": grad, "vectorized": self.vectorized, "sample_xi": self.terms}

    def _refuse_values_alone(self, method: str, oracle: str) -> None:
        if self.no_closed_form is not None and oracle in SMOOTHED:
            raise checks.ArgumentValueError(f"{self.no_closed_form} `method='auto'` does so.") from self.no_closed_form
        if self.grad is None:
            zeroth = f"zo{method.removeprefix('zo')}"
            other = f"--method {zeroth}" if zeroth in METHODS else "a zeroth-order method such as zoslgh_r"
            remedy = "Use" if self.is_builtin else "Pass --grad, or use"
            fail(f"--method {method} needs gradients, which {self.title} does not provide. {remedy} {other} or auto.")

    def at_start(self) -> float | None:
        """Return f(x0), or None if that would take another evaluation of the user's function."""
        if isinstance(self.values, UserFunction):
            if self.values.first is None:
                return None
            (x, *_), value = self.values.first
            same = np.array_equal(np.reshape(x, (-1, self.d))[0], self.x0)
            return float(np.ravel(value)[0]) if same else None
        with np.errstate(all="ignore"):
            if self.values is not None:
                return float(self.values(self.x0))
            return float(self.closed.value(self.x0, np.zeros(())))


def read_problem(options: MinimizeOptions) -> GivenProblem:
    """Return the problem of these options, and refuse options that contradict each other."""
    if (options.formula is None) == (options.fun is None):
        given = "got both" if options.fun else "got neither. See slgh minimize --help"
        fail(f"Pass either a formula (or the name of a test problem) or --fun module:function; {given}.")
    if options.d is not None:
        checks.count("d", options.d)
        if options.d > MAX_VARIABLES:
            fail(f"--d must be at most {MAX_VARIABLES}, got {options.d}.")
    problem = _read_function(options) if options.formula is None else _read_text(options.formula, options)
    return dataclasses.replace(problem, bounds=read_bounds(options.bounds, problem.x0, problem.variables))


def _read_text(text: str, options: MinimizeOptions) -> GivenProblem:
    """Return the problem of a formula, or of the name of a test problem."""
    refuse(options, *FUNCTION_OPTIONS, because="is for --fun, and not for a formula. Remove it.")
    name = text.strip()
    if name in PROBLEMS:
        refuse(options, "fallback", because=f"is for formulas, and {name} is a test problem. Remove it.")
        return _read_test_problem(name, options)
    # A single variable is not a function to minimize, so this is a misspelled name.
    if name.isidentifier() and 2 < len(name) <= 100:
        hint = checks.did_you_mean(name, PROBLEMS)
        fail(f"There is no test problem {name!r}. Choose from {', '.join(PROBLEMS)}, or pass a formula.{hint}")
    return _read_formula(text, options)


def _read_function(options: MinimizeOptions) -> GivenProblem:
    """Return the problem of a Python function or a closed form."""
    name = str(options.fun)
    because = "is for formulas. Remove it; a Python function is minimized from its values, or with --grad."
    refuse(options, "fallback", because=because)
    fun = UserFunction("--fun", name)
    grad = None if options.grad is None else UserFunction("--grad", options.grad)
    order = "the number of variables of a Python function is not known"
    x0 = read_start(options.x0, options.d, None, order, options.bounds)
    about = f"Python function of {len(x0)} variable{'s' * (len(x0) > 1)}"
    if is_closed_form(fun.function):
        refuse(options, *FUNCTION_OPTIONS, because=f"is for a function, and {name} is a closed form. Remove it.")
        closed = UserClosedForm(name, fun.function)
        return GivenProblem(title=name, about=f"{about}, closed form", x0=x0, closed=closed)
    if options.terms is not None:
        checks.count("sample_xi", options.terms)
        about += f", the mean of {options.terms:,} terms"
    return GivenProblem(
        title=name, about=about, x0=x0, values=fun, grad=grad, vectorized=options.vectorized, terms=options.terms
    )


def _read_test_problem(name: str, options: MinimizeOptions) -> GivenProblem:
    """Return a test problem. The number of variables is --d, or that of --x0 if the problem allows any number."""
    make = PROBLEMS[name]
    flexible = "d" in inspect.signature(make).parameters
    d = options.d
    if d is None and options.x0 is not None:
        d = len(read_numbers(options.x0))
    if d is not None and not flexible and d != make().d:
        fail(f"{name} has {make().d} variables, got {d}. Change --d or --x0.")
    try:
        problem = make(d) if flexible and d is not None else make()
    except ValueError:
        if options.d is not None:
            raise
        fail(f"--x0 must have more numbers for {name}, got {d}.")
    return GivenProblem(
        title=name,
        about=f"test problem in {problem.d} variables" + (", closed form" if problem.smooth else ""),
        x0=problem.x0 if options.x0 is None else read_start(options.x0, options.d, problem.d, name),
        values=problem.fun,
        grad=problem.grad,
        closed=problem.smooth,
        parameters=problem.parameters,
    )


def _read_formula(text: str, options: MinimizeOptions) -> GivenProblem:
    """Return the problem of a formula, with its closed form if there is one."""
    fallback = options.fallback
    if fallback is not None:
        checks.choice("fallback", fallback, ("quadrature", "sampling"))
    formula = _parse(text, None)
    names, vector = formula.names, formula.vector
    if names:
        order = f"x0 is the start of {', '.join(names)}" + (", in this order" if len(names) > 1 else "")
    elif formula.d is not None:
        order = f"x0 is the start of {vector}[0] to {vector}[{formula.d - 1}]"
    else:
        order = f"x0 is the start of {vector}[0], {vector}[1], ..."
    x0 = read_start(options.x0, options.d, formula.d, order, options.bounds)
    if len(x0) < formula.least:
        fail(f"--x0 must have {formula.least} or more numbers, got {len(x0)}: {order}.")
    d = None if names else len(x0)
    shown = ", ".join(names) if names else f"{vector}[0] to {vector}[{len(x0) - 1}]"
    functions: dict[str, Any]
    try:
        closed = smooth(text, d=d, fallback=fallback)
        functions = {"values": closed.fun, "closed": closed}
        form = f"smoothed by {fallback}" if fallback else "closed form"
    except NotInClosedForm as error:
        if fallback is not None:
            raise
        from slgh.smoothing.closed_form import UnsmoothedFormula

        plain = UnsmoothedFormula(_parse(text, d))
        functions = {"values": plain.fun, "grad": plain.grad, "no_closed_form": error}
        form = "no closed form"
    about = f"formula in {shown}; {form}"
    problem = GivenProblem(title=text.strip(), about=about, x0=x0, variables=names, **functions)
    _refuse_too_few(formula, problem)
    return problem


def _parse(text: str, d: int | None) -> Formula:
    """Parse a formula without smoothing it."""
    try:
        from slgh.smoothing.formula import read_formula
    except ModuleNotFoundError as error:
        if error.name not in ("sympy", "mpmath"):
            raise
        raise checks.MissingLibraryError('`formula` needs SymPy: pip install "slgh[formula]".') from error
    return read_formula(text, d, None)


def _refuse_too_few(formula: Formula, problem: GivenProblem) -> None:
    """Refuse a start that is too short for the sums of a formula, such as one over range(5)."""
    try:
        problem.at_start()
    except TooFewVariables as error:
        n = error.reached + 1
        if n <= problem.d or "d" in map(str, formula.expression.free_symbols):
            raise
        fail(f"--x0: the formula needs {n} variables, got {problem.d}. Pass {n} numbers, or one and --d {n}.")
