"""The compiled loop of JAX: blocks of iterations inside one while_loop, with the noise of many drawn at once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, Generic

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from slgh.backends.compiled import COMPILED_CHUNK, KeyedNoise, max_records
from slgh.backends.jax.fingerprint import fingerprint
from slgh.backends.jax.noise import JaxNoise, NoiseRecorder, PredrawnNoise
from slgh.backends.protocols import C, I, LoopFunctions, LoopProgram, Records
from slgh.protocols import Array, Context, Query
from slgh.result import Status

MAX_WINDOW = 1024
"""Maximum number of iterations whose noise is drawn in one call. One call for all is faster than one for each."""

MAX_WINDOW_ELEMENTS = 1 << 19
"""Maximum number of array elements in such a draw."""

MAX_PROGRAMS = 64
"""Maximum number of compiled programs in the cache."""


@dataclass(frozen=True, kw_only=True)
class BlockSpec:
    """Everything that the code of a block depends on, besides shapes and dtypes."""

    program: Any
    d: int
    sample_xi: Any = field(compare=False)


class CompiledBlocks:
    """Code of a program: blocks of iterations, draws of noise, and queries."""

    def __init__(self, spec: BlockSpec) -> None:
        self.spec = spec
        self.evaluations: dict[bool, tuple[int, int]] = {}
        """Known once an iteration has been traced."""
        self.recorders: dict[tuple[int, ...], NoiseRecorder] = {}
        self.block = jax.jit(self._block, static_argnames=("rows",))
        self.draw = jax.jit(self._draw, static_argnames=("window", "recorder"))
        self.answer = jax.jit(self._answer, static_argnames=("what",))

    def noise(self, key: Array, k: Array, dtype: Any) -> JaxNoise:
        """Return the noise of iteration k."""
        return JaxNoise(key, self.spec.d, dtype, self.spec.sample_xi, k)

    def recorder(self, carry: Any, key: Array, inputs: Any) -> NoiseRecorder:
        """Return a record of what an iteration draws. It is empty if not all iterations are alike."""
        shape = carry.state.x.shape
        if shape not in self.recorders:
            recorder = NoiseRecorder(self.noise(key, jnp.zeros((), jnp.int32), carry.state.x.dtype))
            if self.spec.program.period == 1:
                jax.eval_shape(lambda: self.spec.program.iterate(carry, recorder.k, True, recorder, inputs)[:2])
            self.recorders[shape] = recorder
        return self.recorders[shape]

    def _answer(self, points: Array, t: Array | None, xi: Any, inputs: Any, what: str) -> Array:
        """Answer a query with the user's functions."""
        _, functions = self.spec.program.bind(inputs)
        return functions.answer(Query(what, points, t=t, xi=xi), inputs.data)

    def _draw(self, key: Array, k: Array, window: int, recorder: NoiseRecorder) -> Any:
        """Draw the noise of the iterations k, ..., k + window - 1."""
        dtype = recorder.noise.dtype
        return jax.vmap(lambda j: recorder.draw(self.noise(key, k + j, dtype)))(jnp.arange(window))

    def _block(
        self,
        carry: Any,
        k: Array,
        n: Array,
        stride: Array,
        key: Array,
        drawn: Any,
        window: Array,
        inputs: Any,
        rows: int,
    ) -> tuple[Array, Array, Any, Any]:
        """Run up to n iterations from the k-th.

        Returns how many, whether all values of the last one were finite, the carry, and the records. `drawn` is the
        noise of the iterations from `window` on, if it was drawn in advance.
        """
        program, dtype = self.spec.program, carry.state.x.dtype

        def iterate(first: bool, k: Array, carry: Any) -> Any:
            noise: KeyedNoise = self.noise(key, k, dtype)
            if drawn:
                noise = PredrawnNoise(noise, {call: numbers[k - window] for call, numbers in drawn.items()})
            carry, finite, self.evaluations[first] = program.iterate(carry, k, first, noise, inputs)
            return carry, jnp.asarray(finite)

        def going(loop: Any) -> Array:
            i, finite, carry, _ = loop
            more = (i < n) & finite
            return more & jnp.any(carry.status == int(Status.RUNNING)) if program.masked or program.ends else more

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

    functions: Any
    blocks: CompiledBlocks
    inputs: Any

    def answer(self, query: Query, data: tuple[Array, ...]) -> Array:
        inputs = self.inputs._replace(data=data)
        return self.blocks.answer(query.points, query.t, query.xi, inputs, what=query.what)


class WhileLoop(Generic[C, I]):
    """Blocks of iterations inside one compiled while_loop."""

    engine = "jax while_loop"

    def __init__(self, blocks: CompiledBlocks, inputs: I, carry: C, key: Array) -> None:
        self.blocks, self.inputs, self.key = blocks, inputs, key
        self.evaluations = blocks.evaluations
        self.recorder = blocks.recorder(carry, key, inputs)
        elements = self.recorder.elements
        self.window = min(MAX_WINDOW, MAX_WINDOW_ELEMENTS // elements) if elements else 0
        self.drawn_from, self.drawn = -1, None
        self.next_from, self.next_drawn = -1, None
        """The noise of the next window. The device draws it while the host reads the last block of this one."""
        self.advance(carry, 0, 0, 1)

    @staticmethod
    def of(program: LoopProgram[C, I], tracing: Any, inputs: I, carry: C, noise: JaxNoise) -> WhileLoop[C, I]:
        """Return the loop of a program. `tracing` is the backend that calls the user's functions in it."""
        ctx = Context(xp=jnp, needs=program.ctx.needs, stochastic=program.ctx.stochastic, chunk=COMPILED_CHUNK)
        program = replace(program, ctx=ctx, functions=replace(program.functions, backend=tracing))
        noise = JaxNoise(noise.all_keys, noise.d, noise.dtype, noise.sample_xi)
        program = replace(program, fingerprint=fingerprint(program, inputs, carry, noise))
        spec = BlockSpec(program=program, d=noise.d, sample_xi=noise.sample_xi)
        return WhileLoop(compiled_blocks(spec), inputs, carry, noise.all_keys)

    def longest(self, carry: C, k: int, stride: int) -> int:
        longest = max_records(carry.seen) * stride
        return longest if self.window < 2 else min(longest, self.window - k % self.window)

    def advance(self, carry: C, k: int, n: int, stride: int) -> tuple[C, Records, int]:
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
        return self.blocks.draw(self.key, np.int32(k), window=self.window, recorder=self.recorder)

    def masked(self, carry: C) -> WhileLoop[C, I]:
        spec = self.blocks.spec
        spec = replace(spec, program=replace(spec.program, masked=True))
        return WhileLoop(compiled_blocks(spec), self.inputs, carry, self.key)

    def refill(self, slots: NDArray[Any], carry: C, data: tuple[Array, ...], problems: NDArray[Any], k: int) -> C:
        raise NotImplementedError("A JAX loop cannot be refilled.")

    def compiled_functions(self, functions: LoopFunctions) -> CompiledFunctions:
        return CompiledFunctions(functions, self.blocks, self.inputs)
