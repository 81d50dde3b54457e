"""Checks of arguments, with one wording for all of them.

Every error about an argument is an `ArgumentError`, by which the command line tells bad input from a defect. Messages
put arguments in backticks, alone or with a value: `max_iter`, `step='theory'`. The command line replaces what is in
backticks by its options.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any, NamedTuple, Self

import numpy as np


class BrokenRule(NamedTuple):
    """The rule that an argument breaks: "`name` must `rule` got name=value." and a hint."""

    name: str
    rule: str
    value: Any
    hint: str = ""

    def __str__(self) -> str:
        return f"`{self.name}` must {self.rule} got {self.name}={self.value!r}.{self.hint}"


class ArgumentError(Exception):
    """Bad input, and not a defect of slgh. Subclasses are also the built-in exceptions that a caller expects."""

    broken: BrokenRule | None = None
    """The rule, if the message follows from one."""

    @classmethod
    def of(cls, name: str, rule: str, value: Any, hint: str = "") -> Self:
        """Return the error that an argument breaks a rule."""
        broken = BrokenRule(name, rule, value, hint)
        error = cls(str(broken))
        error.broken = broken
        return error


class ArgumentValueError(ArgumentError, ValueError):
    """An argument has a value that is not allowed."""


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument has a type that is not allowed, or is unknown or missing."""


class ArgumentFileError(ArgumentError, OSError):
    """A file or folder that an argument names cannot be used."""


class MissingFileError(ArgumentFileError, FileNotFoundError):
    """A file or folder that an argument names does not exist."""


class MissingLibraryError(ArgumentError, ImportError):
    """A feature needs a library that is not installed. The message names the extra."""


class NonfiniteError(FloatingPointError):
    """A value is NaN or infinite, and the user asked to raise an error."""


def plain(value: Any) -> Any:
    """Convert a NumPy scalar or 0-d array to a Python number, and return anything else unchanged."""
    return value.item() if isinstance(value, np.generic | np.ndarray) and value.ndim == 0 else value


def to_float(number: Any) -> float:
    """Convert a Python number to a float, infinite if it is too large."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _real(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ArgumentTypeError.of(name, "be a real number,", value)
    return to_float(value)


def real(name: str, value: Any, *, above: float = -math.inf, below: float = math.inf) -> None:
    """Raise unless `value` is a real number in the open interval (above, below)."""
    number = _real(name, value)
    if not above < number < below:
        if math.isinf(below):
            rule = f"be a finite number above {above:g}" if above > -math.inf else "be a finite number"
        else:
            rule = f"lie in ({above:g}, {below:g})"
        raise ArgumentValueError.of(name, f"{rule},", value)


def at_least(name: str, value: Any, least: float) -> None:
    """Raise unless `value` is a finite real number >= `least`."""
    number = _real(name, value)
    if not (least <= number < math.inf):
        raise ArgumentValueError.of(name, f"be a finite number >= {least:g},", value)


def count(name: str, value: Any, least: int = 1, most: int | None = None) -> None:
    """Raise unless `value` is an integer >= `least`, and <= `most` if given."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ArgumentTypeError.of(name, "be an integer,", value)
    if value < least:
        raise ArgumentValueError.of(name, f"be an integer >= {least},", value)
    if most is not None and int(value) > most:
        raise ArgumentValueError.of(name, f"be an integer <= {most},", value)


def choice(name: str, value: Any, choices: tuple[str, ...] | list[str]) -> None:
    """Raise unless `value` is one of `choices`, and list them."""
    if value not in choices:
        listed = ", ".join(repr(c) for c in choices)
        raise ArgumentValueError.of(name, f"be one of {listed};", value, did_you_mean(value, choices))


def did_you_mean(value: Any, choices: Iterable[str]) -> str:
    """Return a hint at the choice with the nearest spelling, or an empty string.

    >>> did_you_mean("max_eval", ["max_evals", "max_iter"])
    ' Did you mean max_evals?'
    """
    lower = {choice.lower(): choice for choice in choices}
    near = get_close_matches(str(value).lower(), lower, n=1, cutoff=0.76)
    return f" Did you mean {lower[near[0]]}?" if near else ""


def show(value: Any) -> str:
    """Return the type of a value and the beginning of its repr in one line, for errors."""
    text = " ".join(repr(value).split())
    return f"{type(value).__name__} {text if len(text) <= 80 else text[:77] + '...'}"
