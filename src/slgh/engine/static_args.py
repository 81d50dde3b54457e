"""Separate numbers from structure: a compiled loop takes hyperparameters as inputs, so that it is not compiled again
for other values."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

from array_api_compat import is_array_api_obj


class Placeholder(NamedTuple):
    """Place of a number in a structure. All placeholders are equal, so that equal structures have equal hashes."""


class Static(NamedTuple):
    """A value that is not a number, and so belongs to the structure."""

    value: Any
    kind: type
    """Distinguishes 1 from True, which are equal."""


class Record(NamedTuple):
    """A tuple, or the fields of a dataclass."""

    kind: type
    names: tuple[str, ...]
    parts: tuple[Any, ...]


def partition(thing: Any) -> tuple[Any, list[Any]]:
    """Return the structure of a value, hashable if its pieces are, and its floats and arrays in order.

    >>> structure, numbers = partition((1.5, "name", (2.0, 3)))
    >>> numbers
    [1.5, 2.0]
    >>> combine(structure, iter([10.0, 20.0]))
    (10.0, 'name', (20.0, 3))
    """
    if isinstance(thing, float) or is_array_api_obj(thing):
        return Placeholder(), [thing]
    names: tuple[str, ...] = ()
    if isinstance(thing, tuple):
        pieces = thing
    elif dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        names = tuple(f.name for f in dataclasses.fields(thing))
        if not set(getattr(thing, "__dict__", ())) <= set(names):  # `combine` would lose the other attributes
            return Static(thing, type(thing)), []
        pieces = tuple(_float(getattr(thing, f.name), f.type) for f in dataclasses.fields(thing))
    else:
        return Static(thing, type(thing)), []
    parts = [partition(piece) for piece in pieces]
    return (
        Record(type(thing), names, tuple(structure for structure, _ in parts)),
        [number for _, numbers in parts for number in numbers],
    )


def combine(structure: Any, numbers: Iterator[Any]) -> Any:
    """Invert `partition`, with other numbers. `__post_init__` of dataclasses is not called again."""
    if isinstance(structure, Placeholder):
        return next(numbers)
    if isinstance(structure, Static):
        return structure.value
    pieces = [combine(part, numbers) for part in structure.parts]
    if not structure.names:
        return tuple(pieces) if structure.kind is tuple else structure.kind(*pieces)
    thing = object.__new__(structure.kind)
    for name, piece in zip(structure.names, pieces, strict=True):
        object.__setattr__(thing, name, piece)
    return thing


def _float(value: Any, annotation: Any) -> Any:
    """Convert an integer in a field of floats."""
    return float(value) if type(value) is int and "float" in str(annotation) else value
