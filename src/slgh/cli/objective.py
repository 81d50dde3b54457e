"""What is to be minimized, and from where: a formula, a test problem or a Python function, with start and bounds."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slgh import checks
from slgh.cli.common import fail
from slgh.cli.start import read_numbers, read_start
from slgh.cli.user_code import UserClosedForm, UserFunction
from slgh.engine.objective import is_closed_form
from slgh.method import METHODS, SCALE_FREE
from slgh.problems import PROBLEMS
from slgh.smoothing import NotInClosedForm, TooFewVariables, smooth

if TYPE_CHECKING:
    from slgh.smoothing.formula import Formula

FIRST_ORDER = ("gradient", "sampled_gradient", "closed_form")
"""Oracles that need a gradient or a closed form."""

MAX_VARIABLES = 10**8
"""Maximum of --d: one point then takes 800 MB."""

OF_THE_PAPER = ("ackley", "himmelblau", "hole", "rosenbrock")
"""Problems of the paper's experiments; their parameters are what it ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What the command line says of the function and the start, as it was typed."""

    formula: str | None = None
    fun: str | None = None
    grad: str | None = None
    vectorized: bool = False
    terms: int | None = None
    fallback: str | None = None
    x0: str | None = None
    d: int | None = None
    bounds: str | None = None
    folder: str = "."
    """Where files and modules of the user's are looked for."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Objective:
    """A function with its start. There are values, or a closed form, or both."""

    title: str
    about: str
    """What it is, for the reader."""
    x0: NDArray[np.float64]
    variables: tuple[str, ...] = ()
    values: Callable[..., Any] | None = None
    grad: Callable[..., Any] | None = None
    closed: Any = None
    no_closed_form: ValueError | None = None
    """Why a formula has none."""
    vectorized: bool = True
    terms: int | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """What a test problem is usually run with."""

    @property
    def d(self) -> int:
        """The number of variables."""
        return len(self.x0)

    @property
    def ours(self) -> bool:
        """Whether the code is ours and not the user's."""
        return not isinstance(self.values or self.closed, UserFunction | UserClosedForm)

    def unwarned(self) -> AbstractContextManager[object]:
        """Around a run: what is not finite in a formula is counted, not warned of; the user's functions may warn."""
        return np.errstate(all="ignore") if self.ours else nullcontext()

    def arguments(self, method: str, oracle: str | None) -> dict[str, Any]:
        """What to pass to `slgh.minimize` so that the method gets what it asks for, and no more."""
        recipe = METHODS.get(method)
        asked = oracle or (recipe.oracle if recipe else None)
        either = method in SCALE_FREE and oracle is None
        if either or asked in FIRST_ORDER:
            if self.closed is not None:
                return {"fun": self.closed}
            if not either:
                self._refuse_values_alone(method, asked)
            grad = self.grad if not either or self.no_closed_form is None else None
            return self._plain(grad)
        return self._plain(None)

    def _plain(self, grad: Callable[..., Any] | None) -> dict[str, Any]:
        """Values, and gradients where they are wanted."""
        if self.values is None:
            return {"fun": self.closed}
        return {"fun": self.values, "grad": grad, "vectorized": self.vectorized, "sample_xi": self.terms}

    def _refuse_values_alone(self, method: str, oracle: str | None) -> None:
        if self.no_closed_form is not None and oracle != "gradient":
            raise ValueError(f"{self.no_closed_form} method='auto' does so.") from self.no_closed_form
        if self.grad is None:
            zeroth = f"zo{method.removeprefix('zo')}"
            other = f"--method {zeroth}" if zeroth in METHODS else "a method that takes values, such as zoslgh_r"
            remedy = "pass --grad, or take" if not self.ours else "take"
            fail(f"--method {method} needs gradients, which {self.title} has not: {remedy} {other} or auto.")

    def at_start(self) -> float | None:
        """f(x0), where it is known without asking the user's function once more."""
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


def read_objective(source: Source) -> Objective:
    """Look at what is given, and refuse what does not go together."""
    if (source.formula is None) == (source.fun is None):
        given = "got both" if source.fun else "got neither, see slgh minimize --help"
        fail(f"Pass either a formula (or the name of a test problem) or --fun module:function; {given}.")
    if source.d is not None:
        checks.count("d", source.d)
        if source.d > MAX_VARIABLES:
            fail(f"--d must be at most {MAX_VARIABLES}, got {source.d}.")
    if source.fun is not None:
        if source.fallback is not None:
            fail("--fallback smooths formulas; a Python function is minimized by its values, or with --grad.")
        return read_function(source)
    for option, value in (("--grad", source.grad), ("--vectorized", source.vectorized), ("--terms", source.terms)):
        if value:
            fail(f"{option} goes with --fun; a formula needs none.")
    text = str(source.formula)
    name = text.strip()
    if name in PROBLEMS:
        if source.fallback is not None:
            fail(f"--fallback smooths formulas; {name} is a test problem.")
        return read_problem(name, source)
    # One variable alone is no function to minimize, but a misspelled name.
    if name.isidentifier() and 2 < len(name) <= 100:
        hint = checks.did_you_mean(name, PROBLEMS)
        fail(f"There is no test problem {name!r}; choose from {', '.join(PROBLEMS)}, or pass a formula.{hint}")
    return read_formula(text, source)


def read_function(source: Source) -> Objective:
    """A Python function, or a closed form, by its name."""
    name = str(source.fun)
    fun = UserFunction("--fun", name, source.folder)
    grad = None if source.grad is None else UserFunction("--grad", source.grad, source.folder)
    x0 = read_start(source.x0, source.d, None, "a Python function does not tell how many variables it has")
    about = f"Python function of {len(x0)} variable{'s' * (len(x0) > 1)}"
    if is_closed_form(fun.function):
        for option, value in (("--grad", source.grad), ("--vectorized", source.vectorized), ("--terms", source.terms)):
            if value:
                fail(f"{option} goes with a function; {name} is a closed form.")
        return Objective(title=name, about=f"{about}, closed form", x0=x0, closed=UserClosedForm(name, fun.function))
    if source.terms is not None:
        checks.count("sample_xi", source.terms)
        about += f", the mean of {source.terms:,} terms"
    return Objective(
        title=name, about=about, x0=x0, values=fun, grad=grad, vectorized=source.vectorized, terms=source.terms
    )


def read_problem(name: str, source: Source) -> Objective:
    """A test problem, in as many variables as the start has, where it leaves their number open."""
    make = PROBLEMS[name]
    flexible = "d" in inspect.signature(make).parameters
    d = source.d
    if d is None and source.x0 is not None:
        d = len(read_numbers(source.x0))
    if d is not None and not flexible and d != make().d:
        fail(f"{name} has {make().d} variables, got {d}.")
    try:
        problem = make(d) if flexible and d is not None else make()
    except ValueError:
        if source.d is not None:
            raise
        fail(f"--x0 must have more numbers for {name}, got {d}.")
    x0 = problem.x0 if source.x0 is None else read_start(source.x0, source.d, problem.d, name)
    return Objective(
        title=name,
        about=f"test problem in {problem.d} variables" + (", closed form" if problem.smooth else ""),
        x0=x0,
        values=problem.fun,
        grad=problem.grad,
        closed=problem.smooth,
        parameters=problem.parameters,
    )


def _read_text(text: str, d: int | None) -> Formula:
    """The formula and its variables, without smoothing it."""
    try:
        from slgh.smoothing.formula import read_formula as read
    except ModuleNotFoundError as error:
        if error.name not in ("sympy", "mpmath"):
            raise
        raise ImportError('`formula` needs SymPy: pip install "slgh[formula]".') from error
    return read(text, d, None)


def _values_of(text: str, d: int | None) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The formula and its gradient, unsmoothed."""
    from slgh.smoothing.closed_form import UnsmoothedFormula

    plain = UnsmoothedFormula(_read_text(text, d))
    return plain.fun, plain.grad


def _refuse_too_few(formula: Formula, values: Callable[..., Any], x0: NDArray[np.float64]) -> None:
    """Say how many variables a formula needs whose sums run over ranges of plain numbers, such as range(5)."""
    try:
        with np.errstate(all="ignore"):
            values(x0)
    except TooFewVariables as error:
        n = error.reached + 1
        if n <= len(x0) or "d" in map(str, formula.expression.free_symbols):
            raise
        fail(f"--x0: the formula needs {n} variables, got {len(x0)}: pass {n} numbers, or one with --d {n}.")


def read_formula(text: str, source: Source) -> Objective:
    """A formula, with its closed form where it has one."""
    if source.fallback is not None:
        checks.choice("fallback", source.fallback, ("quadrature", "sampling"))
    formula = _read_text(text, None)
    names = formula.names
    if names:
        order = f"x0 is the start of {', '.join(names)}" + (", in this order" if len(names) > 1 else "")
    elif formula.d is not None:
        order = f"x0 is the start of {formula.vector}[0] to {formula.vector}[{formula.d - 1}]"
    else:
        order = f"x0 is the start of {formula.vector}[0], {formula.vector}[1], ..."
    x0 = read_start(source.x0, source.d, formula.d, order)
    if len(x0) < formula.least:
        fail(f"--x0 must have {formula.least} or more numbers, got {len(x0)}: {order}.")
    closed, why = None, None
    d = None if names else len(x0)
    try:
        closed = smooth(text, d=d, fallback=source.fallback)
        values, grad = closed.fun, None
    except NotInClosedForm as error:
        if source.fallback is not None:
            raise
        why = error
        values, grad = _values_of(text, d)
    _refuse_too_few(formula, values, x0)
    form = (
        "no closed form" if closed is None else f"smoothed by {source.fallback}" if source.fallback else "closed form"
    )
    shown = ", ".join(names) if names else f"{formula.vector}[0] to {formula.vector}[{len(x0) - 1}]"
    return Objective(
        title=text.strip(),
        about=f"formula in {shown}; {form}",
        x0=x0,
        variables=names,
        values=values,
        grad=grad,
        closed=closed,
        no_closed_form=why,
    )
