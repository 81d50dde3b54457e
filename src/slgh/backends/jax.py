"""JAX: the loop as one compiled while_loop where the user's function can be traced, a Python loop otherwise."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from slgh import checks
from slgh.backends.backend import Keys, Records, record_rows
from slgh.backends.choices import Host
from slgh.backends.fingerprint import Fingerprint, trace
from slgh.backends.keyed import KeyedNoise, words
from slgh.backends.numpy import real_array
from slgh.parts import Array, Context, Query
from slgh.result import Status

AHEAD, NUMBERS = 256, 1 << 19
"""Noise is drawn for so many iterations at once, if it is not more than so many numbers: one call for all is sooner."""

PROGRAMS = 64
"""Compiled programs that are kept."""

UNTRACEABLE = (jax.errors.JAXTypeError, jax.errors.JAXIndexError)
"""What tracing raises where Python must see a value."""


def problem_keys(keys: Keys) -> Array:
    """One key a problem, (B,): its seed's, folded with its number."""
    seeds, problems = words(keys)
    return jax.vmap(jax.random.fold_in)(jax.random.wrap_key_data(jnp.asarray(seeds), impl="threefry2x32"), problems)


def _each(key: Array, k: Any, tag: int) -> Array:
    return jax.vmap(lambda one: jax.random.fold_in(jax.random.fold_in(one, k), tag))(key)


@partial(jax.jit, static_argnames=("tag", "shape", "dtype"))
def _normal(key: Array, k: Any, tag: int, shape: tuple[int, ...], dtype: Any) -> Array:
    return jax.vmap(lambda one: jax.random.normal(one, shape, dtype))(_each(key, k, tag))


@partial(jax.jit, static_argnames=("tag", "m", "terms"))
def _index(key: Array, k: Any, tag: int, m: int, terms: int) -> Array:
    return jax.vmap(lambda one: jax.random.randint(one, (m,), 0, terms))(_each(key, k, tag))


class JaxNoise(KeyedNoise):
    """Threefry, folded by problem, iteration and call."""

    def __init__(self, key: Array, d: int, dtype: Any, sample_xi: Any = None, k: Any = 0) -> None:
        super().__init__(key, d, sample_xi, k)
        self.dtype = dtype

    def draw_normal(self, key: Array, tag: int, m: int) -> Array:
        return _normal(key, self.k, tag, (m, self.d), self.dtype)

    def draw_xi(self, key: Array, tag: int, m: int) -> Array:
        if isinstance(self.sample_xi, int):
            return _index(key, self.k, tag, m, self.sample_xi)
        try:
            drawn = jax.vmap(lambda one: jnp.asarray(self.sample_xi(one, m)))(_each(key, self.k, tag))
        except Exception as error:
            error.add_note("slgh: on JAX, `sample_xi` gets a jax.random key instead of a NumPy Generator.")
            raise
        if drawn.shape[1:2] != (m,):
            raise ValueError(
                f"`sample_xi(key, n)` must return n samples along its first axis, ({m}, ...); got {drawn.shape[1:]}."
            )
        return drawn

    def every_xi(self, start: int, stop: int) -> Array:
        return jnp.broadcast_to(jnp.arange(start, stop), (self.key.shape[0], stop - start))

    def rows(self, key: Array, rows: NDArray[Any]) -> Array:
        return key[rows]


class Recording(KeyedNoise):
    """Noise that remembers what an iteration asks for, so that it can be drawn for many iterations at once."""

    def __init__(self, noise: KeyedNoise) -> None:
        super().__init__(noise.key, noise.d, noise.sample_xi, noise.k)
        self.noise = noise
        self.normals: set[tuple[int, int]] = set()
        self.xis: set[tuple[int, int]] = set()
        self.numbers = 0

    def draw_normal(self, key: Array, tag: int, m: int) -> Array:
        return self._remember(self.normals, tag, m, self.noise.draw_normal(key, tag, m))

    def draw_xi(self, key: Array, tag: int, m: int) -> Array:
        return self._remember(self.xis, tag, m, self.noise.draw_xi(key, tag, m))

    def _remember(self, calls: set[tuple[int, int]], tag: int, m: int, drawn: Array) -> Array:
        calls.add((tag, m))
        self.numbers += drawn.size
        return drawn

    def draw(self, noise: KeyedNoise) -> dict[tuple[int, int], Array]:
        """All that an iteration asks for."""
        return {call: noise.draw_normal(noise.key, *call) for call in self.normals} | {
            call: noise.draw_xi(noise.key, *call) for call in self.xis
        }


class Drawn(KeyedNoise):
    """The noise of one iteration, drawn before."""

    def __init__(self, noise: KeyedNoise, drawn: dict[tuple[int, int], Array]) -> None:
        super().__init__(noise.key, noise.d, noise.sample_xi, noise.k)
        self.drawn = drawn

    def draw_normal(self, key: Array, tag: int, m: int) -> Array:
        return self.drawn[tag, m]

    draw_xi = draw_normal


@dataclass(frozen=True)
class Autograd:
    """The gradient of fun in its first argument, by reverse mode."""

    fun: Callable[..., Any]
    vectorized: bool

    def __call__(self, x: Array, *extra: Any) -> Array:
        def total(x: Array) -> Array:
            value = self.fun(x, *extra)
            return jnp.asarray(value).sum() if self.vectorized else _number(value)

        try:
            return jax.grad(total)(x)
        except Exception as error:
            error.add_note("slgh: raised while `fun` was differentiated; pass `grad`, or take a zeroth-order method.")
            raise


def _number(value: Any) -> Array:
    """What `fun` returned for one point, as a number, traced or not."""
    array = value if isinstance(value, jax.Array) else real_array(value, "fun")
    if array.size != 1:
        what = f"shape {array.shape}" if isinstance(value, jax.Array) else checks.show(value)
        raise ValueError(f"`fun` must return one number a point, got {what}.")
    return jnp.asarray(array).reshape(())


@dataclass(frozen=True)
class Mapped:
    """A function of one point as one of points (B, n, d); its data (B, 1, ...) belong to a problem, xi to a point."""

    fun: Callable[..., Any]
    data: int
    xi: int
    vector: bool

    def __call__(self, points: Array, *extra: Any) -> Array:
        data, xi = extra[: self.data], extra[self.data : self.data + self.xi]
        args = extra[self.data + self.xi :]

        def one(x: Array, xi: tuple[Any, ...], data: tuple[Any, ...]) -> Array:
            value = self.fun(x, *data, *xi, *args)
            return jnp.asarray(value) if self.vector else _number(value)

        of_problem = jax.vmap(one, in_axes=(0, 0, None))
        return jax.vmap(of_problem)(points, xi, tuple(a[:, 0] for a in data))


@dataclass(frozen=True)
class JaxBackend:
    """JAX on x0's device."""

    dtype: Any
    device: Any

    name = "jax"
    engine = "jax python loop"
    xp = jnp
    ops = Host(jnp)
    differentiates = compiles = True

    @staticmethod
    def of(x0: Array) -> JaxBackend:
        """The backend of an array, which must not be traced."""
        if isinstance(x0, jax.core.Tracer):
            raise TypeError("`x0` must be an array, got a tracer: minimize compiles its own loop, call it outside jit.")
        floating = jnp.issubdtype(x0.dtype, jnp.floating) or jnp.issubdtype(x0.dtype, jnp.complexfloating)
        dtype = x0.dtype if floating else jnp.zeros(0).dtype
        return JaxBackend(np.dtype(dtype), next(iter(x0.devices())))

    def read(self, x0: Any) -> NDArray[Any]:
        return np.asarray(x0).astype(self.dtype)

    def native(self, array: NDArray[Any]) -> Array:
        return jax.device_put(jnp.array(array), self.device)

    def host(self, array: Array) -> NDArray[Any]:
        return np.asarray(array)

    def data(self, array: Any) -> Array:
        return jax.device_put(jnp.asarray(array), self.device)

    def index(self, rows: NDArray[Any]) -> NDArray[Any]:
        return rows

    def context(self, needs: frozenset[str], *, stochastic: bool) -> Context:
        return Context(xp=jnp, needs=needs, stochastic=stochastic)

    def noise(self, keys: Keys, d: int, sample_xi: Any, *, samples: int) -> JaxNoise:
        return JaxNoise(jax.device_put(problem_keys(keys), self.device), d, self.dtype, sample_xi)

    def real(self, value: Any, name: str) -> Array:
        array = value if isinstance(value, jax.Array) else real_array(value, name)
        if not (jnp.isdtype(array.dtype, ("bool", "integral", "real floating"))):
            raise TypeError(f"`{name}` must return real numbers, got {checks.show(value)}.")
        return jnp.asarray(array, self.dtype)

    def number(self, value: Any) -> Array:
        return _number(self.real(value, "fun"))

    def stack(self, items: list[Any]) -> Array:
        return jnp.stack(items)

    def copy(self, point: Array) -> Array:
        return point

    def calling(self, points: Array) -> AbstractContextManager[None]:
        return nullcontext()

    def session(self, *, differences: bool) -> AbstractContextManager[None]:
        return nullcontext()

    def gradient(self, fun: Callable[..., Any], *, vectorized: bool) -> Autograd:
        return Autograd(fun, vectorized)

    def mapped(self, fun: Callable[..., Any], *, data: int, xi: bool, vector: bool) -> Mapped:
        return Mapped(fun, data, int(xi), vector)

    def refuse(self, functions: tuple[Any, ...]) -> None:
        pass

    def compile(self, program: Any, inputs: Any, carry: Any, noise: JaxNoise, *, long: bool) -> WhileLoop | str:
        try:
            program = replace(program, fingerprint=_fingerprint(program, inputs, carry, noise))
            spec = Spec(program=program, d=noise.d, sample_xi=noise.sample_xi)
            loop = WhileLoop(code_of(spec), inputs, noise.everyone, ahead=long)
            loop.trace(carry)
        except UNTRACEABLE as error:
            return f"it cannot be traced ({str(error).splitlines()[0]})"
        return loop


def _fingerprint(program: Any, inputs: Any, carry: Any, noise: JaxNoise) -> Fingerprint:
    """What the user's functions do at one point and at two; the numbers they are given are inputs."""
    functions, (B, d) = program.functions, carry.state.x.shape
    kinds = ["fun", "F", "F.grad", "F.dt", "F.trace"] if functions.closed else ["fun", "grad"]
    if functions.grad is None and not functions.closed:
        kinds.remove("grad")
    stochastic = noise.sample_xi is not None
    traced = []
    for n in (1, 2):
        points: Any = jax.ShapeDtypeStruct((B, n, d), carry.state.x.dtype)  # type: ignore[no-untyped-call]
        xi = jax.eval_shape(lambda n=n: noise.draw_xi(noise.everyone, 0, n)) if stochastic else None

        def answer(points: Array, t: Array, xi: Any, inputs: Any, what: str) -> Array:
            t = t[:, None] if what.startswith("F") else None
            return program.bind(inputs)[1].answer(Query(what, points, t=t, xi=xi), inputs.data)

        traced += [trace(partial(answer, what=what), points, carry.state.t, xi, inputs) for what in kinds]
    if stochastic:
        traced.append(trace(lambda key: noise.draw_xi(key, 0, 2), noise.everyone))
    return Fingerprint(traced, (functions.fun, functions.grad, noise.sample_xi))


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What a compiled loop depends on, besides shapes and dtypes."""

    program: Any
    d: int
    sample_xi: Any = field(compare=False)


class Code:
    """A compiled block, and the evaluations of an iteration, which are known once it has been traced."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.evaluations: dict[bool, tuple[int, int]] = {}
        self.block = jax.jit(self._block, static_argnames=("rows", "ahead"))

    def _block(
        self, carry: Any, k: Array, n: Array, stride: Array, key: Array, inputs: Any, rows: int, ahead: bool
    ) -> tuple[Array, Array, Any, Any]:
        """Up to n iterations from the k-th on: how many, whether the last was sound, the carry, and their rows."""
        program, d, sample_xi = self.spec.program, self.spec.d, self.spec.sample_xi
        dtype = carry.state.x.dtype
        loop = (
            jnp.zeros_like(n),
            jnp.ones((), bool),
            carry,
            tuple(jnp.zeros((rows + 1, *column.shape), column.dtype) for column in carry.seen),
        )

        def iterate(first: bool, carry: Any, k: Array, noise: KeyedNoise) -> Any:
            carry, sound, self.evaluations[first] = program.iterate(carry, k, first, noise, inputs)
            return carry, jnp.asarray(sound)

        def either(carry: Any, k: Array, noise: KeyedNoise) -> Any:
            if program.period == 1:
                return iterate(True, carry, k, noise)
            kinds = [partial(iterate, kind) for kind in (True, False)]
            return jax.lax.cond(k % program.period == 0, *(lambda c, f=f: f(c, k, at(k)) for f in kinds), carry)

        def going(i: Array, sound: Array, carry: Any) -> Array:
            more = (i < n) & sound
            return more & jnp.any(carry.status == int(Status.RUNNING)) if program.careful or program.ends else more

        def body(loop: Any, noise: KeyedNoise) -> Any:
            i, _, carry, records = loop
            now = k + i
            carry, sound = either(carry, now, noise)
            slot = jnp.where(now % stride == 0, now // stride - (k + stride - 1) // stride, rows)
            return i + 1, sound, carry, tuple(r.at[slot].set(c) for r, c in zip(records, carry.seen, strict=True))

        def at(k: Array) -> JaxNoise:
            return JaxNoise(key, d, dtype, sample_xi, k)

        recording = Recording(at(k))
        if ahead and program.period == 1:
            jax.eval_shape(lambda: either(carry, k, recording))
        C = min(AHEAD, NUMBERS // recording.numbers) if recording.numbers else 0
        if C < 2:
            return jax.lax.while_loop(lambda loop: going(*loop[:3]), lambda loop: body(loop, at(k + loop[0])), loop)

        def chunk(loop: Any) -> Any:
            start = loop[0]
            drawn = jax.vmap(lambda j: recording.draw(at(k + start + j)))(jnp.arange(C))

            def one(loop: Any) -> Any:
                j = loop[0] - start
                return body(loop, Drawn(at(k + loop[0]), {call: a[j] for call, a in drawn.items()}))

            return jax.lax.while_loop(lambda loop: going(*loop[:3]) & (loop[0] < start + C), one, loop)

        return jax.lax.while_loop(lambda loop: going(*loop[:3]), chunk, loop)


compiled = lru_cache(maxsize=PROGRAMS)(Code)


def code_of(spec: Spec) -> Code:
    """The code of a program, compiled before if it was needed before; what cannot be hashed is compiled anew."""
    try:
        hash(spec)
    except TypeError:
        return Code(spec)
    return compiled(spec)


class WhileLoop:
    """Blocks of iterations inside one compiled while_loop."""

    engine = "jax while_loop"

    def __init__(self, code: Code, inputs: Any, key: Array, *, ahead: bool) -> None:
        self.code, self.inputs, self.key, self.ahead = code, inputs, key, ahead
        self.evaluations = code.evaluations

    def longest(self, carry: Any, stride: int) -> int:
        return record_rows(carry.seen) * stride

    def advance(self, carry: Any, k: int, n: int, stride: int) -> tuple[Any, Records, int]:
        numbers = (np.int32(number) for number in (k, n, stride))
        rows = record_rows(carry.seen)
        done, sound, carry, records = self.code.block(
            carry, *numbers, self.key, self.inputs, rows=rows, ahead=self.ahead
        )

        def recorded(wanted: list[int]) -> tuple[NDArray[Any], ...]:
            return tuple(np.asarray(column)[: len(wanted)] for column in records)

        return carry, recorded, n if bool(sound) else int(done) - 1

    def trace(self, carry: Any) -> None:
        """Compile, without an iteration: what one asks for is then known."""
        self.advance(carry, 0, 0, 1)

    def careful(self, carry: Any) -> WhileLoop:
        spec = self.code.spec
        program = replace(spec.program, careful=True)
        loop = WhileLoop(code_of(replace(spec, program=program)), self.inputs, self.key, ahead=self.ahead)
        loop.trace(carry)
        return loop
