"""What a JAX function computes, as something to compare: code is compiled anew when, and only when, it must be."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import jax
import numpy as np


class Fingerprint:
    """Of functions, by what they do when they are traced: their operations, and the arrays that they close over.

    The arrays of JAX, which cannot change, and Python functions that are called back are told apart by identity, other
    arrays by their contents. What was traced is kept, so that no other object can take its place.
    """

    def __init__(self, traced: list[Any]) -> None:
        self._kept = traced
        held = (_name(thing) for closed in traced for thing in _held(closed))
        self.key: tuple[Hashable, ...] = (*(str(closed.jaxpr) for closed in traced), *held)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fingerprint) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def trace(fun: Callable[..., Any], *arguments: Any) -> Any:
    """The operations of fun at arguments, which may be shapes alone."""
    return jax.make_jaxpr(fun)(*arguments)


def _held(closed: Any) -> Iterator[Any]:
    """The arrays that traced code closes over and the functions it calls back, those of inner code included."""
    yield from closed.consts
    for equation in closed.jaxpr.eqns:
        for name, value in equation.params.items():
            if name == "callback":
                yield getattr(value, "callback_func", value)
            for inner in value if isinstance(value, tuple | list) else (value,):
                if hasattr(inner, "jaxpr") and hasattr(inner, "consts"):
                    yield from _held(inner)


def _name(thing: Any) -> Hashable:
    if isinstance(thing, jax.Array) or callable(thing):
        return id(thing)
    array = np.asarray(thing)
    return array.shape, str(array.dtype), hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
