"""The compiled loop of JAX: blocks of iterations inside one while_loop, with the noise of many drawn at once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from slgh.backends.jax.fingerprint import Fingerprint, trace
from slgh.backends.jax.noise import JaxNoise, NoiseRecorder, PredrawnNoise
from slgh.backends.keyed_noise import KeyedNoise
from slgh.backends.protocols import COMPILED_CHUNK, Records, record_rows
from slgh.protocols import Array, Context, Query
from slgh.result import Status

AHEAD, NUMBERS = 1024, 1 << 19
"""Noise is drawn for so many iterations at once, if it is not more than so many numbers: one call for all is sooner."""

PROGRAMS = 64
"""CompiledFunctions programs that are kept."""


def _fingerprint(program: Any, inputs: Any, carry: Any, noise: JaxNoise) -> Fingerprint:
    """What the user's functions do at one point and at two; the numbers they are given are inputs."""
    functions, (B, d) = program.functions, carry.state.x.shape
    noise = JaxNoise(noise.all_keys, noise.d, noise.dtype, noise.sample_xi)
    kinds = ["fun", "F", "F.grad", "F.dt", "F.trace"] if functions.closed else ["fun", "grad"]
    if functions.grad is None and not functions.closed:
        kinds.remove("grad")
    stochastic = noise.sample_xi is not None
    traced = []
    for n in (1, 2):
        points: Any = jax.ShapeDtypeStruct((B, n, d), carry.state.x.dtype)  # type: ignore[no-untyped-call]
        xi = jax.eval_shape(lambda n=n: noise.draw_xi(noise.all_keys, 0, n)) if stochastic else None

        def answer(points: Array, t: Array, xi: Any, inputs: Any, what: str) -> Array:
            t = t[:, None] if what.startswith("F") else None
            return program.bind(inputs)[1].answer(Query(what, points, t=t, xi=xi), inputs.data)

        traced += [trace(partial(answer, what=what), points, carry.state.t, xi, inputs) for what in kinds]
    if stochastic:
        traced.append(trace(lambda key: noise.draw_xi(key, 0, 2), noise.all_keys))
    return Fingerprint(traced)


@dataclass(frozen=True, kw_only=True)
class BlockSpec:
    """What a compiled loop depends on, besides shapes and dtypes."""

    program: Any
    d: int
    sample_xi: Any = field(compare=False)


class CompiledBlocks:
    """Compiled blocks, and the evaluations of an iteration, which are known once it has been traced."""

    def __init__(self, spec: BlockSpec) -> None:
        self.spec = spec
        self.evaluations: dict[bool, tuple[int, int]] = {}
        self.recordings: dict[tuple[int, ...], NoiseRecorder] = {}
        self.block = jax.jit(self._block, static_argnames=("rows",))
        self.draw = jax.jit(self._draw, static_argnames=("window", "recording"))
        self.answer = jax.jit(self._answer, static_argnames=("what",))

    def noise(self, key: Array, k: Array, dtype: Any) -> JaxNoise:
        """The noise of iteration k."""
        return JaxNoise(key, self.spec.d, dtype, self.spec.sample_xi, k)

    def recorded(self, carry: Any, key: Array, inputs: Any) -> NoiseRecorder:
        """What an iteration draws."""
        shape = carry.state.x.shape
        if shape in self.recordings:
            return self.recordings[shape]
        recording = NoiseRecorder(self.noise(key, jnp.zeros((), jnp.int32), carry.state.x.dtype))
        if self.spec.program.period == 1:
            jax.eval_shape(lambda: self.spec.program.iterate(carry, recording.k, True, recording, inputs)[:2])
        return self.recordings.setdefault(shape, recording)

    def _answer(self, points: Array, t: Array | None, xi: Any, inputs: Any, what: str) -> Array:
        """What the user's functions say to a query."""
        _, functions = self.spec.program.bind(inputs)
        return functions.answer(Query(what, points, t=t, xi=xi), inputs.data)

    def _draw(self, key: Array, k: Array, window: int, recording: NoiseRecorder) -> Any:
        """The noise of the iterations k, ..., k + window - 1."""
        dtype = recording.noise.dtype
        return jax.vmap(lambda j: recording.draw(self.noise(key, k + j, dtype)))(jnp.arange(window))

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
        """Up to n iterations from the k-th on: how many, whether the last was sound, the carry, and their rows.

        `drawn` is the noise of the iterations from `window` on, if it was drawn before.
        """
        program, dtype = self.spec.program, carry.state.x.dtype

        def iterate(first: bool, k: Array, carry: Any) -> Any:
            noise: KeyedNoise = self.noise(key, k, dtype)
            if drawn:
                noise = PredrawnNoise(noise, {call: numbers[k - window] for call, numbers in drawn.items()})
            carry, sound, self.evaluations[first] = program.iterate(carry, k, first, noise, inputs)
            return carry, jnp.asarray(sound)

        def going(loop: Any) -> Array:
            i, sound, carry, _ = loop
            more = (i < n) & sound
            return more & jnp.any(carry.status == int(Status.RUNNING)) if program.masked or program.ends else more

        def body(loop: Any) -> Any:
            i, _, carry, records = loop
            now = k + i
            if program.period == 1:
                carry, sound = iterate(True, now, carry)
            else:
                kinds = (partial(iterate, kind, now) for kind in (True, False))
                carry, sound = jax.lax.cond(now % program.period == 0, *kinds, carry)
            slot = jnp.where(now % stride == 0, now // stride - (k + stride - 1) // stride, rows)
            return i + 1, sound, carry, tuple(r.at[slot].set(c) for r, c in zip(records, carry.seen, strict=True))

        records = tuple(jnp.zeros((rows + 1, *column.shape), column.dtype) for column in carry.seen)
        return jax.lax.while_loop(going, body, (jnp.zeros_like(n), jnp.ones((), bool), carry, records))


compiled = lru_cache(maxsize=PROGRAMS)(CompiledBlocks)


def compiled_blocks(spec: BlockSpec) -> CompiledBlocks:
    """The code of a program, compiled before if it was needed before; what cannot be hashed is compiled anew."""
    try:
        hash(spec)
    except TypeError:
        return CompiledBlocks(spec)
    return compiled(spec)


@dataclass(frozen=True)
class CompiledFunctions:
    """The user's functions, compiled once for each number of points: mapping them anew takes longer than most do."""

    functions: Any
    code: CompiledBlocks
    inputs: Any

    @property
    def calls(self) -> Any:
        return self.functions.calls

    @property
    def mappers(self) -> Any:
        return self.functions.mappers

    def answer(self, query: Query, data: tuple[Array, ...]) -> Array:
        """Values (B, n), or gradients (B, n, d), with the rows `data` (B, ...) of the problems."""
        inputs = self.inputs._replace(data=data)
        return self.code.answer(query.points, query.t, query.xi, inputs, what=query.what)


class WhileLoop:
    """Blocks of iterations inside one compiled while_loop."""

    engine = "jax while_loop"

    def __init__(self, code: CompiledBlocks, inputs: Any, carry: Any, key: Array) -> None:
        self.code, self.inputs, self.key = code, inputs, key
        self.evaluations = code.evaluations
        self.recording = code.recorded(carry, key, inputs)
        numbers = self.recording.numbers
        self.window = min(AHEAD, NUMBERS // numbers) if numbers else 0
        self.drawn_from, self.drawn = -1, None
        self.next_from, self.next_drawn = -1, None
        """The noise of the next window, drawn while the host looks at the last block of this one."""
        self.advance(carry, 0, 0, 1)

    @staticmethod
    def of(program: Any, tracing: Any, inputs: Any, carry: Any, noise: JaxNoise) -> WhileLoop:
        """The loop of a program, whose functions `tracing` calls."""
        ctx = Context(xp=jnp, needs=program.ctx.needs, stochastic=program.ctx.stochastic, chunk=COMPILED_CHUNK)
        program = replace(program, ctx=ctx, functions=replace(program.functions, backend=tracing))
        program = replace(program, fingerprint=_fingerprint(program, inputs, carry, noise))
        spec = BlockSpec(program=program, d=noise.d, sample_xi=noise.sample_xi)
        return WhileLoop(compiled_blocks(spec), inputs, carry, noise.all_keys)

    def longest(self, carry: Any, k: int, stride: int) -> int:
        longest = record_rows(carry.seen) * stride
        return longest if self.window < 2 else min(longest, self.window - k % self.window)

    def advance(self, carry: Any, k: int, n: int, stride: int) -> tuple[Any, Records, int]:
        if self.window > 1 and (begin := k - k % self.window) != self.drawn_from:
            self.drawn = self.next_drawn if begin == self.next_from else self._draw(begin)
            self.drawn_from = begin
        numbers = (np.int32(number) for number in (k, n, stride))
        done, sound, carry, records = self.code.block(
            carry,
            *numbers,
            self.key,
            self.drawn,
            np.int32(self.drawn_from),
            self.inputs,
            rows=record_rows(carry.seen),
        )

        if self.window > 1 and k + n == self.drawn_from + self.window:
            self.next_from = k + n
            self.next_drawn = self._draw(self.next_from)

        def recorded(wanted: list[int]) -> tuple[NDArray[Any], ...]:
            return tuple(np.asarray(column)[: len(wanted)] for column in records)

        return carry, recorded, n if bool(sound) else int(done) - 1

    def _draw(self, k: int) -> Any:
        """The noise of the window from the k-th iteration on."""
        return self.code.draw(self.key, np.int32(k), window=self.window, recording=self.recording)

    def masked(self, carry: Any) -> WhileLoop:
        spec = self.code.spec
        masked = replace(spec, program=replace(spec.program, masked=True))
        return WhileLoop(compiled_blocks(masked), self.inputs, carry, self.key)

    def refill(self, slots: NDArray[Any], carry: Any, data: tuple[Array, ...], problems: NDArray[Any], k: int) -> Any:
        raise NotImplementedError("A JAX loop cannot be refilled.")

    def compiled_functions(self, functions: Any) -> Any:
        return CompiledFunctions(functions, self.code, self.inputs)
