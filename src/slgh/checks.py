"""Checks of hyperparameters, with the same wording everywhere."""

from __future__ import annotations

import math
from collections.abc import Iterable
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any

import numpy as np


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
        raise TypeError(f"`{name}` must be a real number, got {name}={value!r}.")
    return to_float(value)


def real(name: str, value: Any, *, above: float = -math.inf, below: float = math.inf) -> None:
    """Raise unless `value` is a real number in the open interval (above, below)."""
    number = _real(name, value)
    if not above < number < below:
        if math.isinf(below):
            rule = f"be a finite number above {above:g}" if above > -math.inf else "be a finite number"
        else:
            rule = f"lie in ({above:g}, {below:g})"
        raise ValueError(f"`{name}` must {rule}, got {name}={value!r}.")


def at_least(name: str, value: Any, least: float) -> None:
    """Raise unless `value` is a finite real number >= `least`."""
    number = _real(name, value)
    if not (least <= number < math.inf):
        raise ValueError(f"`{name}` must be a finite number >= {least:g}, got {name}={value!r}.")


def count(name: str, value: Any, least: int = 1, most: int | None = None) -> None:
    """Raise unless `value` is an integer >= `least`, and <= `most` if given."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"`{name}` must be an integer, got {name}={value!r}.")
    if value < least:
        raise ValueError(f"`{name}` must be an integer >= {least}, got {name}={value!r}.")
    if most is not None and int(value) > most:
        raise ValueError(f"`{name}` must be an integer <= {most}, got {name}={value!r}.")


def choice(name: str, value: Any, choices: tuple[str, ...] | list[str]) -> None:
    """Raise unless `value` is one of `choices`, and list them."""
    if value not in choices:
        listed = ", ".join(repr(c) for c in choices)
        raise ValueError(f"`{name}` must be one of {listed}; got {name}={value!r}.{did_you_mean(value, choices)}")


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
