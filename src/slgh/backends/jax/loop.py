"""The compiled loop of JAX: blocks of iterations inside one while_loop, with the noise of many drawn at once.

The code is cached by a fingerprint of the user's functions, so that it is compiled again only if they have changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from slgh.backends.compiled import COMPILED_CHUNK, KeyedNoise, max_records
from slgh.backends.jax.noise import JaxNoise, NoiseRecorder, PredrawnNoise
from slgh.backends.protocols import Carry, CompiledLoop, Inputs, LoopProgram, Records
from slgh.protocols import Array, Context, Leaves, Query

MAX_WINDOW = 1024
"""Maximum number of iterations whose noise is drawn in one call. One call for all is faster than one for each."""

MAX_WINDOW_ELEMENTS = 1 << 19
"""Maximum number of array elements in such a draw."""

MAX_PROGRAMS = 64
"""Maximum number of compiled programs in the cache."""


@dataclass(frozen=True)
class Fingerprint:
    """Identity of traced functions: their operations, and the arrays and Python functions that they close over.

    JAX arrays, which cannot change, and Python functions are compared by identity, other arrays by their contents.
    """

    key: tuple[Hashable, ...]
    traced: list[Any] = field(compare=False)
    """The traces are kept, so that no other object can take over an identity."""


def _answer(program: LoopProgram, points: Array, t: Array | None, xi: Any, inputs: Inputs, *, what: str) -> Array:
    return program.answer(Query(what, points, t=t, xi=xi), inputs)


def fingerprint(program: LoopProgram, inputs: Inputs, carry: Carry, noise: JaxNoise) -> Fingerprint:
    """Trace the user's functions at one point and at two. Numbers among their arguments are inputs."""
    functions, (B, d) = program.functions, carry.state.x.shape
    kinds = ["fun", "F", "F.grad", "F.dt", "F.trace"] if functions.closed else ["fun", "grad"]
    if functions.grad is None and not functions.closed:
        kinds.remove("grad")
    stochastic = noise.sample_xi is not None
    shape: Any = jax.ShapeDtypeStruct
    traced = []
    for n in (1, 2):
        points = shape((B, n, d), carry.state.x.dtype)
        xi = jax.eval_shape(lambda n=n: noise.draw_xi(noise.all_keys, 0, n)) if stochastic else None
        for what in kinds:
            t = carry.state.t[:, None] if what.startswith("F") else None
            traced.append(jax.make_jaxpr(partial(_answer, program, what=what))(points, t, xi, inputs))
    if stochastic:
        traced.append(jax.make_jaxpr(lambda key: noise.draw_xi(key, 0, 2))(noise.all_keys))
    constants = (_identify(constant) for closed in traced for constant in _constants(closed))
    return Fingerprint((*(str(closed.jaxpr) for closed in traced), *constants), traced)


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


@dataclass(frozen=True, kw_only=True)
class BlockSpec:
    """Everything that the code of a block depends on."""

    program: LoopProgram
    functions: Fingerprint
    """Includes the shapes and dtypes of the points."""
    d: int
    dtype: Any
    sample_xi: Any = field(compare=False)


class CompiledBlocks:
    """Code of a program: blocks of iterations, draws of noise, and queries."""

    def __init__(self, spec: BlockSpec) -> None:
        self.spec = spec
        self.evaluations: dict[bool, tuple[int, int]] = {}
        """Known once an iteration has been traced."""
        self._draws: dict[tuple[int, int], int] | None = None
        self.block = jax.jit(self._block, static_argnames=("rows",))
        self.draw = jax.jit(self._draw, static_argnames=("window",))
        self.answer = jax.jit(partial(_answer, spec.program), static_argnames=("what",))

    def noise(self, key: Array, k: Array) -> JaxNoise:
        """Return the noise of iteration k."""
        return JaxNoise(key, self.spec.d, self.spec.dtype, self.spec.sample_xi, k)

    def draws(self, carry: Carry, key: Array, inputs: Inputs) -> dict[tuple[int, int], int]:
        """Return the draws of an iteration, with their numbers of array elements: empty if iterations differ."""
        if self._draws is None:
            recorder = NoiseRecorder(self.noise(key, jnp.zeros((), jnp.int32)))
            if self.spec.program.period == 1:
                jax.eval_shape(lambda: self.spec.program.iterate(carry, recorder.k, True, recorder, inputs)[:2])
            self._draws = recorder.sizes
        return self._draws

    def _draw(self, key: Array, k: Array, window: int) -> Any:
        """Draw the noise of the iterations k, ..., k + window - 1."""

        def draw(j: Array) -> dict[tuple[int, int], Array]:
            noise = self.noise(key, k + j)
            return {call: noise.draw(key, *call) for call in self._draws or ()}

        return jax.vmap(draw)(jnp.arange(window))

    def _block(
        self,
        carry: Carry,
        k: Array,
        n: Array,
        stride: Array,
        key: Array,
        drawn: Any,
        window: Array,
        inputs: Inputs,
        rows: int,
    ) -> tuple[Array, Array, Any, Any]:
        """Run up to n iterations from the k-th.

        Returns how many, whether all values of the last one were finite, the carry, and the records. `drawn` is the
        noise of the iterations from `window` on, if it was drawn in advance.
        """
        program = self.spec.program

        def iterate(first: bool, k: Array, carry: Any) -> Any:
            noise: KeyedNoise = self.noise(key, k)
            if drawn:
                noise = PredrawnNoise(noise, {call: numbers[k - window] for call, numbers in drawn.items()})
            carry, finite, self.evaluations[first] = program.iterate(carry, k, first, noise, inputs)
            return carry, jnp.asarray(finite)

        def going(loop: Any) -> Array:
            i, finite, carry, _ = loop
            more = (i < n) & finite
            return more & jnp.any(program.running(carry)) if program.masked or program.ends else more

        def body(loop: Any) -> Any:
            i, _, carry, records = loop
            now = k + i
            if program.period == 1:
                carry, finite = iterate(True, now, carry)
            else:
                kinds = (partial(iterate, kind, now) for kind in (True, False))
                carry, finite = jax.lax.cond(now % program.period == 0, *kinds, carry)
            # Iterations that are not recorded write into an extra last row.
            slot = jnp.where(now % stride == 0, now // stride - (k + stride - 1) // stride, rows)
            return i + 1, finite, carry, tuple(r.at[slot].set(c) for r, c in zip(records, carry.seen, strict=True))

        records = tuple(jnp.zeros((rows + 1, *column.shape), column.dtype) for column in carry.seen)
        return jax.lax.while_loop(going, body, (jnp.zeros_like(n), jnp.ones((), bool), carry, records))


cached_blocks = lru_cache(maxsize=MAX_PROGRAMS)(CompiledBlocks)


def compiled_blocks(spec: BlockSpec) -> CompiledBlocks:
    """Return the code of a program, from the cache if the program can be hashed."""
    try:
        hash(spec)
    except TypeError:
        return CompiledBlocks(spec)
    return cached_blocks(spec)


@dataclass(frozen=True)
class CompiledFunctions:
    """The user's functions, compiled once for each number of points: mapping them again takes longer than most do."""

    blocks: CompiledBlocks
    inputs: Inputs

    def answer(self, query: Query, data: Leaves) -> Array:
        inputs = self.inputs._replace(data=data)
        return self.blocks.answer(query.points, query.t, query.xi, inputs, what=query.what)


class WhileLoop(CompiledLoop):
    """Blocks of iterations inside one compiled while_loop."""

    engine = "jax while_loop"

    def __init__(self, blocks: CompiledBlocks, inputs: Inputs, carry: Carry, key: Array) -> None:
        self.blocks, self.inputs, self.key = blocks, inputs, key
        self.evaluations = blocks.evaluations
        elements = sum(blocks.draws(carry, key, inputs).values())
        self.window = min(MAX_WINDOW, MAX_WINDOW_ELEMENTS // elements) if elements else 0
        self.drawn_from, self.drawn = -1, None
        self.next_from, self.next_drawn = -1, None
        """The noise of the next window. The device draws it while the host reads the last block of this one."""
        self.advance(carry, 0, 0, 1)

    @staticmethod
    def of(program: LoopProgram, tracing: Any, inputs: Inputs, carry: Carry, noise: JaxNoise) -> WhileLoop:
        """Return the loop of a program. `tracing` is the backend that calls the user's functions in it."""
        ctx = Context(xp=jnp, needs=program.ctx.needs, stochastic=program.ctx.stochastic, chunk=COMPILED_CHUNK)
        program = replace(program, ctx=ctx, functions=replace(program.functions, backend=tracing))
        noise = JaxNoise(noise.all_keys, noise.d, noise.dtype, noise.sample_xi)
        spec = BlockSpec(
            program=program,
            functions=fingerprint(program, inputs, carry, noise),
            d=noise.d,
            dtype=carry.state.x.dtype,
            sample_xi=noise.sample_xi,
        )
        return WhileLoop(compiled_blocks(spec), inputs, carry, noise.all_keys)

    def longest(self, carry: Carry, k: int, stride: int) -> int:
        longest = max_records(carry.seen) * stride
        return longest if self.window < 2 else min(longest, self.window - k % self.window)

    def advance(self, carry: Carry, k: int, n: int, stride: int) -> tuple[Carry, Records, int]:
        if self.window > 1 and (begin := k - k % self.window) != self.drawn_from:
            self.drawn = self.next_drawn if begin == self.next_from else self._draw(begin)
            self.drawn_from = begin
        done, finite, after, records = self.blocks.block(
            carry,
            *(np.int32(number) for number in (k, n, stride)),
            self.key,
            self.drawn,
            np.int32(self.drawn_from),
            self.inputs,
            rows=max_records(carry.seen),
        )
        if self.window > 1 and k + n == self.drawn_from + self.window:
            self.next_from, self.next_drawn = k + n, self._draw(k + n)

        def read_records(wanted: list[int]) -> tuple[NDArray[Any], ...]:
            return tuple(np.asarray(column)[: len(wanted)] for column in records)

        return after, read_records, n if bool(finite) else int(done) - 1

    def _draw(self, k: int) -> Any:
        """Draw the noise of the window from iteration k on."""
        return self.blocks.draw(self.key, np.int32(k), window=self.window)

    def masked(self, carry: Carry) -> WhileLoop:
        spec = self.blocks.spec
        spec = replace(spec, program=replace(spec.program, masked=True))
        return WhileLoop(compiled_blocks(spec), self.inputs, carry, self.key)

    def refill(self, slots: NDArray[Any], carry: Carry, data: Leaves, problems: NDArray[Any], k: int) -> Carry:
        raise NotImplementedError("A JAX loop cannot be refilled.")

    def compiled_functions(self, functions: Any) -> CompiledFunctions:
        return CompiledFunctions(self.blocks, self.inputs)
