"""The errors of `smooth`. They need no SymPy, which is optional."""

from __future__ import annotations


class FormulaError(ValueError):
    """A formula cannot be read. The message quotes the part that is wrong."""


class TooFewVariables(ValueError):
    """A formula uses the variable x[`reached`], which is not among the d variables given."""

    def __init__(self, reached: int, d: int) -> None:
        super().__init__(f"`formula` reaches variable x[{reached}] of {d} variables, which are x[0] to x[{d - 1}].")
        self.reached = reached


class NotInClosedForm(ValueError):
    """`smooth` can read the formula, but has no closed form for one of its terms and was given no `fallback`."""


class FormulaTooLarge(ValueError):
    """The algebra of a formula takes longer than `max_seconds` of `smooth`, or nests too deep for Python."""
