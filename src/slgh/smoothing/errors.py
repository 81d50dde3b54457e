"""The errors of `smooth`. They do not need SymPy, which is optional."""

from __future__ import annotations

from slgh.checks import ArgumentValueError


class FormulaError(ArgumentValueError):
    """The formula cannot be read. The message quotes the part that is wrong."""


class TooFewVariables(ArgumentValueError):
    """The formula uses the variable x[`reached`], which is not among the d variables given."""

    def __init__(self, reached: int, d: int) -> None:
        super().__init__(f"`formula` uses variable x[{reached}], but the {d} variables are x[0] to x[{d - 1}].")
        self.reached = reached


class NotInClosedForm(ArgumentValueError):
    """The formula has a term without a closed form, and `smooth` was given no `fallback`."""


class FormulaTooLarge(ArgumentValueError):
    """The algebra of the formula takes longer than `max_seconds` of `smooth`, or nests too deep for Python."""
