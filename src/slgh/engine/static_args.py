"""Numbers apart from structure: a compiled loop takes hyperparameters as inputs, so that another value needs no
compilation of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

from array_api_compat import is_array_api_obj


class Hole(NamedTuple):
    """Where a number was."""


class Static(NamedTuple):
    """Anything that is no number: part of the structure."""

    value: Any
    kind: type
    """Since 1 and True are equal."""


class Record(NamedTuple):
    """A tuple, or a dataclass by its fields."""

    kind: type
    names: tuple[str, ...]
    parts: tuple[Any, ...]


def split(thing: Any) -> tuple[Any, list[Any]]:
    """The structure of a thing, which can be hashed if its pieces can, and its floats and arrays in order.

    >>> structure, numbers = split((1.5, "name", (2.0, 3)))
    >>> numbers
    [1.5, 2.0]
    >>> join(structure, iter([10.0, 20.0]))
    (10.0, 'name', (20.0, 3))
    """
    if isinstance(thing, float) or is_array_api_obj(thing):
        return Hole(), [thing]
    names: tuple[str, ...] = ()
    if isinstance(thing, tuple):
        pieces = thing
    elif dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        names = tuple(f.name for f in dataclasses.fields(thing))
        if not set(getattr(thing, "__dict__", ())) <= set(names):
            return Static(thing, type(thing)), []
        pieces = tuple(_float(getattr(thing, f.name), f.type) for f in dataclasses.fields(thing))
    else:
        return Static(thing, type(thing)), []
    parts = [split(piece) for piece in pieces]
    return (
        Record(type(thing), names, tuple(structure for structure, _ in parts)),
        [number for _, numbers in parts for number in numbers],
    )


def join(structure: Any, numbers: Iterator[Any]) -> Any:
    """The inverse of `split`, with other numbers. What is checked when a dataclass is made is not checked again."""
    if isinstance(structure, Hole):
        return next(numbers)
    if isinstance(structure, Static):
        return structure.value
    pieces = [join(part, numbers) for part in structure.parts]
    if not structure.names:
        return tuple(pieces) if structure.kind is tuple else structure.kind(*pieces)
    thing = object.__new__(structure.kind)
    for name, piece in zip(structure.names, pieces, strict=True):
        object.__setattr__(thing, name, piece)
    return thing


def _float(value: Any, annotation: Any) -> Any:
    """A whole number in a field of floats as a float, as which it was meant."""
    return float(value) if type(value) is int and "float" in str(annotation) else value
