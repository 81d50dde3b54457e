"""What a JAX function computes, as something to compare: code is compiled anew when, and only when, it must be."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import jax
import numpy as np


class Fingerprint:
    """Of functions, by what they do when they are traced: their operations, and the arrays that they close over.

    The arrays of JAX, which cannot change, are told apart by identity, others by their contents. `functions` is what to
    go by where the operations call back into Python.
    """

    def __init__(self, traced: list[Any], functions: tuple[Hashable, ...]) -> None:
        consts = [const for closed in traced for const in _consts(closed)]
        text = "\n".join(str(closed.jaxpr) for closed in traced)
        self._kept = consts
        self.key: tuple[Hashable, ...] = (text, *(_name(const) for const in consts))
        if " at 0x" in text:
            self.key = (*self.key, *functions)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fingerprint) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def trace(fun: Callable[..., Any], *arguments: Any) -> Any:
    """The operations of fun at arguments, which may be shapes alone."""
    return jax.make_jaxpr(fun)(*arguments)


def _consts(closed: Any) -> Iterator[Any]:
    """The arrays that traced code closes over, those of the functions it calls included."""
    yield from closed.consts
    for equation in closed.jaxpr.eqns:
        for value in equation.params.values():
            for inner in value if isinstance(value, tuple | list) else (value,):
                if hasattr(inner, "jaxpr") and hasattr(inner, "consts"):
                    yield from _consts(inner)


def _name(const: Any) -> Hashable:
    if isinstance(const, jax.Array):
        return id(const)
    array = np.asarray(const)
    return array.shape, str(array.dtype), hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
