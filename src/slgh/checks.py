"""Checks of arguments, with one wording for all of them.

Every error about an argument begins with the argument's name in backticks. Messages put other arguments in backticks
too, alone or with a value: `max_iter`, `step='theory'`. The command line relies on both: it separates such errors
from defects, and replaces what is in backticks by its options.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any

import numpy as np


class ArgumentError(Exception):
    """An argument breaks a rule: "`name` must `rule` got name=value." and a hint."""

    def __init__(self, name: str, rule: str, value: Any, hint: str = "") -> None:
        super().__init__(name, rule, value, hint)  # so that a copy can be made, as for another process
        self.name, self.rule, self.value, self.hint = name, rule, value, hint

    def __str__(self) -> str:
        return f"`{self.name}` must {self.rule} got {self.name}={self.value!r}.{self.hint}"


class ArgumentValueError(ArgumentError, ValueError):
    """An argument has a value that is not allowed."""


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument has a type that is not allowed."""


def is_about_argument(error: Exception) -> bool:
    """Return True if an exception of this library is about an argument, and not a defect."""
    return isinstance(error, ValueError | TypeError | ImportError | OSError) and str(error).startswith("`")


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
        raise ArgumentTypeError(name, "be a real number,", value)
    return to_float(value)


def real(name: str, value: Any, *, above: float = -math.inf, below: float = math.inf) -> None:
    """Raise unless `value` is a real number in the open interval (above, below)."""
    number = _real(name, value)
    if not above < number < below:
        if math.isinf(below):
            rule = f"be a finite number above {above:g}" if above > -math.inf else "be a finite number"
        else:
            rule = f"lie in ({above:g}, {below:g})"
        raise ArgumentValueError(name, f"{rule},", value)


def at_least(name: str, value: Any, least: float) -> None:
    """Raise unless `value` is a finite real number >= `least`."""
    number = _real(name, value)
    if not (least <= number < math.inf):
        raise ArgumentValueError(name, f"be a finite number >= {least:g},", value)


def count(name: str, value: Any, least: int = 1, most: int | None = None) -> None:
    """Raise unless `value` is an integer >= `least`, and <= `most` if given."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ArgumentTypeError(name, "be an integer,", value)
    if value < least:
        raise ArgumentValueError(name, f"be an integer >= {least},", value)
    if most is not None and int(value) > most:
        raise ArgumentValueError(name, f"be an integer <= {most},", value)


def choice(name: str, value: Any, choices: tuple[str, ...] | list[str]) -> None:
    """Raise unless `value` is one of `choices`, and list them."""
    if value not in choices:
        listed = ", ".join(repr(c) for c in choices)
        raise ArgumentValueError(name, f"be one of {listed};", value, did_you_mean(value, choices))


def did_you_mean(value: Any, choices: Iterable[str]) -> str:
    """Return a hint at the choice with the nearest spelling, or an empty string.

    >>> did_you_mean("max_eval", ["max_evals", "max_iter"])
    ' Did you mean max_evals?'
    """
    lower = {choice.lower(): choice for choice in choices}
    near = get_close_matches(str(value).lower(), lower, n=1, cutoff=0.76)
    return f" Did you mean {lower[near[0]]}?" if near else ""


def show(value: Any) -> str:
    """Return the type of a value and the beginning of its repr, for errors."""
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 80 else text[:77] + '...'}"
