"""Fingerprints of the user's functions on JAX, so that a loop is compiled again only if it must be."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator
from functools import partial
from typing import Any

import jax
import jax.extend.core
import numpy as np

from slgh.backends.jax.noise import JaxNoise
from slgh.backends.protocols import C, I, LoopProgram
from slgh.protocols import Array, Query


class Fingerprint:
    """Identity of traced functions: their operations, and the arrays and Python functions that they close over.

    JAX arrays, which cannot change, and Python functions are compared by identity, other arrays by their contents. The
    traces are kept, so that no other object can take over an identity.
    """

    def __init__(self, traced: list[Any]) -> None:
        self._traced = traced
        constants = (_identify(constant) for closed in traced for constant in _constants(closed))
        self.key: tuple[Hashable, ...] = (*(str(closed.jaxpr) for closed in traced), *constants)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fingerprint) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def fingerprint(program: LoopProgram[C, I], inputs: I, carry: C, noise: JaxNoise) -> Fingerprint:
    """Trace the user's functions at one point and at two. Numbers among their arguments are inputs."""
    functions, (B, d) = program.functions, carry.state.x.shape
    kinds = ["fun", "F", "F.grad", "F.dt", "F.trace"] if functions.closed else ["fun", "grad"]
    if functions.grad is None and not functions.closed:
        kinds.remove("grad")
    stochastic = noise.sample_xi is not None

    def answer(points: Array, t: Array, xi: Any, inputs: I, what: str) -> Array:
        t = t[:, None] if what.startswith("F") else None
        return program.bind(inputs)[1].answer(Query(what, points, t=t, xi=xi), inputs.data)

    shape: Any = jax.ShapeDtypeStruct
    traced = []
    for n in (1, 2):
        points = shape((B, n, d), carry.state.x.dtype)
        xi = jax.eval_shape(lambda n=n: noise.draw_xi(noise.all_keys, 0, n)) if stochastic else None
        for what in kinds:
            traced.append(jax.make_jaxpr(partial(answer, what=what))(points, carry.state.t, xi, inputs))
    if stochastic:
        traced.append(jax.make_jaxpr(lambda key: noise.draw_xi(key, 0, 2))(noise.all_keys))
    return Fingerprint(traced)


def _constants(closed: Any) -> Iterator[Any]:
    """Yield the arrays that traced code closes over and the functions it calls back, inner code included."""
    yield from closed.consts
    for equation in closed.jaxpr.eqns:
        for name, value in equation.params.items():
            if name == "callback":
                yield getattr(value, "callback_func", value)
            for inner in value if isinstance(value, tuple | list) else (value,):
                if isinstance(inner, jax.extend.core.ClosedJaxpr):
                    yield from _constants(inner)


def _identify(constant: Any) -> Hashable:
    if isinstance(constant, jax.Array) or callable(constant):
        return id(constant)
    array = np.asarray(constant)
    return array.shape, str(array.dtype), hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
