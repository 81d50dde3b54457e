"""The compiled loop of PyTorch: iterations captured as CUDA graphs, and replayed."""

from __future__ import annotations

import gc
import warnings
from dataclasses import replace
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from slgh.backends.compiled import Mapped, first_line, max_records
from slgh.backends.protocols import Carry, CompiledLoop, Inputs, LoopProgram, Records
from slgh.backends.torch.noise import PhiloxNoise
from slgh.protocols import Leaves

UNROLL = 8
"""Iterations of the larger graph. It copies the state to its place once for all of them."""


class Uncapturable(Exception):
    """An iteration cannot be captured as a CUDA graph. The message says why."""


class CudaGraph(CompiledLoop):
    """Replays one captured graph per kind of iteration. Its tensors stay in place."""

    engine = "torch cuda graph"

    def __init__(self, program: LoopProgram, inputs: Inputs, carry: Carry, noise: PhiloxNoise) -> None:
        self.program, self.inputs, self.carry, self.noise = program, inputs, carry, noise
        device = noise.key.device
        self.k, self.i = torch.tensor(0, device=device), torch.tensor([0], device=device)
        self.finite = torch.tensor(True, device=device)
        rows = max_records(carry.seen)
        self.records = [column.new_zeros(rows, *column.shape) for column in carry.seen]
        self.evaluations: dict[bool, tuple[int, int]] = {}
        kinds = [True] if program.period == 1 else [True, False]
        self.graphs = {first: self._capture(first) for first in kinds}
        self.unrolled = self._capture(True, UNROLL) if program.period == 1 else None

    def longest(self, carry: Carry, k: int, stride: int) -> int:
        return max_records(carry.seen)

    def advance(self, carry: Carry, k: int, n: int, stride: int) -> tuple[Carry, Records, int]:
        own = _flat(self.carry)
        _copy(own, _flat(carry))
        before = [] if self.program.masked else [tensor.clone() for tensor in own]
        self._begin(k)
        j = k
        while j < k + n:
            if self.unrolled is not None and j + UNROLL <= k + n:
                self.unrolled.replay()
                j += UNROLL
            else:
                self._replay(j)
                j += 1
        if not self.finite:
            _copy(own, before)
            n = self._count_finite(k, n)
            _copy(own, before)
        return self.carry, self._read_records, n

    def refill(self, slots: NDArray[Any], carry: Carry, data: Leaves, problems: NDArray[Any], k: int) -> Carry:
        key = self.noise.keys_from(problems, k)
        at = torch.as_tensor(slots, device=key.device)
        own, new = [*_flat(self.carry), *self.inputs.data, self.noise.key], [*_flat(carry), *data, key]
        for target, rows in zip(own, new, strict=True):
            target[at] = rows
        return self.carry

    def masked(self, carry: Carry) -> CudaGraph:
        return CudaGraph(replace(self.program, masked=True), self.inputs, carry, self.noise)

    def compiled_functions(self, functions: Any) -> Any:
        return functions

    def _begin(self, k: int) -> None:
        """Set the counters to iteration k."""
        self.k.fill_(k)
        self.i.zero_()
        self.finite.fill_(True)

    def _replay(self, k: int) -> None:
        self.graphs[k % self.program.period == 0].replay()

    def _count_finite(self, k: int, n: int) -> int:
        """Repeat n iterations from the k-th, one by one, and count those before the first value that is not finite."""
        self._begin(k)
        for j in range(n):
            self._replay(k + j)
            if not self.finite:
                return j
        return 0

    def _read_records(self, wanted: list[int]) -> tuple[NDArray[Any], ...]:
        return tuple(record[torch.as_tensor(wanted, device=record.device)].cpu().numpy() for record in self.records)

    def _iterate(self, first: bool, times: int = 1) -> None:
        """Run iterations of one kind, in place."""
        own, carry = self.noise, self.carry
        for _ in range(times):
            noise = PhiloxNoise(own.key, own.d, own.dtype, own.sample_xi, self.k)
            k = self.k - own.key[:, 3] if self.program.slotted else self.k
            carry, finite, self.evaluations[first] = self.program.iterate(carry, k, first, noise, self.inputs)
            if isinstance(finite, Tensor):
                self.finite.logical_and_(finite)
            for record, column in zip(self.records, carry.seen, strict=True):
                record.index_copy_(0, self.i, column[None])
            self.k += 1
            if self.records:
                self.i += 1
        _copy(_flat(self.carry), _flat(carry))

    def _capture(self, first: bool, times: int = 1) -> torch.cuda.CUDAGraph:
        """Return a graph of iterations of one kind, and leave the state unchanged."""
        tensors = [*_flat(self.carry), self.k, self.i, self.finite]
        before = [tensor.clone() for tensor in tensors]
        try:
            self._warm_up(first)
            return self._captured(first, times)
        finally:
            _copy(tensors, before)

    def _warm_up(self, first: bool) -> None:
        """Do the work of a first call, such as compiling kernels, before anything is captured."""
        make_stream: Any = torch.cuda.Stream
        stream = make_stream()
        stream.wait_stream(torch.cuda.current_stream())
        try:
            with torch.cuda.stream(stream):
                for _ in range(2):
                    self.i.zero_()
                    self._iterate(first)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            if isinstance(self.program.functions.fun, Mapped):
                raise Uncapturable(f"torch.func.vmap cannot map fun ({first_line(error)})") from error
            raise
        torch.cuda.current_stream().wait_stream(stream)

    def _captured(self, first: bool, times: int) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        collecting = gc.isenabled()
        gc.disable()  # freeing device memory during the capture breaks it
        try:
            # Other threads (JAX's, for example) may use the device during the capture.
            with warnings.catch_warnings(), torch.cuda.graph(graph, capture_error_mode="thread_local"):
                warnings.filterwarnings("ignore", "The CUDA Graph is empty")
                self._iterate(first, times)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            torch.cuda.synchronize()
            raise Uncapturable(f"fun cannot be captured in a CUDA graph ({first_line(error)})") from error
        finally:
            if collecting:
                gc.enable()
        return graph


def _flat(carry: Any) -> list[Tensor]:
    """Return the tensors of nested tuples, in order."""
    return [tensor for part in carry for tensor in _flat(part)] if isinstance(carry, tuple) else [carry]


def _copy(targets: list[Tensor], sources: list[Tensor]) -> None:
    """Copy tensors onto others. A source that shares memory with a target is saved first."""
    memory = {target.untyped_storage().data_ptr() for target in targets}
    pairs = [
        (target, source.clone() if source.untyped_storage().data_ptr() in memory else source)
        for target, source in zip(targets, sources, strict=True)
        if target is not source
    ]
    if pairs:
        torch._foreach_copy_([target for target, _ in pairs], [source for _, source in pairs])
