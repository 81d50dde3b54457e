"""The compiled loop of PyTorch: iterations captured as CUDA graphs, and replayed."""

from __future__ import annotations

import gc
import warnings
from dataclasses import replace
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from slgh.backends.mapping import Mapped
from slgh.backends.protocols import Records, record_rows
from slgh.backends.torch.noise import PhiloxNoise


class Uncapturable(Exception):
    """An iteration that cannot be a CUDA graph, and why."""


def _flat(carry: Any) -> list[Tensor]:
    """The tensors of nested tuples, in order."""
    return [tensor for part in carry for tensor in _flat(part)] if isinstance(carry, tuple) else [carry]


def _copy(targets: list[Tensor], sources: list[Tensor]) -> None:
    """Copy tensors onto others, where they are not the same; a source that shares a target's memory is saved first."""
    memory = {target.untyped_storage().data_ptr() for target in targets}
    pairs = [
        (target, source.clone() if source.untyped_storage().data_ptr() in memory else source)
        for target, source in zip(targets, sources, strict=True)
        if target is not source
    ]
    if pairs:
        torch._foreach_copy_([target for target, _ in pairs], [source for _, source in pairs])


UNROLL = 8
"""Iterations of the larger graph: the state is copied to its place once for all of them."""


class CudaGraph:
    """One iteration captured as a graph, for each kind of iteration, and replayed; its tensors stay in place."""

    engine = "torch cuda graph"

    def __init__(self, program: Any, inputs: Any, carry: Any, noise: PhiloxNoise) -> None:
        self.program, self.inputs, self.carry = program, inputs, carry
        self.noise = noise
        device = noise.key.device
        self.k, self.i = torch.tensor(0, device=device), torch.tensor([0], device=device)
        self.sound = torch.tensor(True, device=device)
        rows = record_rows(carry.seen)
        self.records = [column.new_zeros(rows, *column.shape) for column in carry.seen]
        self.evaluations: dict[bool, tuple[int, int]] = {}
        kinds = [True] if program.period == 1 else [True, False]
        self.graphs = {first: self._capture(first) for first in kinds}
        self.unrolled = self._capture(True, UNROLL) if program.period == 1 else None

    def longest(self, carry: Any, k: int, stride: int) -> int:
        return record_rows(carry.seen)

    def _iterate(self, first: bool, times: int = 1) -> None:
        """Iterations of one kind, in place."""
        mine, carry = self.noise, self.carry
        for _ in range(times):
            noise = PhiloxNoise(mine.key, mine.d, mine.dtype, mine.sample_xi, self.k)
            k = self.k if self.program.exhausted is None else self.k - mine.key[:, 3]
            carry, sound, self.evaluations[first] = self.program.iterate(carry, k, first, noise, self.inputs)
            if isinstance(sound, Tensor):
                self.sound.logical_and_(sound)
            for record, column in zip(self.records, carry.seen, strict=True):
                record.index_copy_(0, self.i, column[None])
            self.k += 1
            if self.records:
                self.i += 1
        _copy(_flat(self.carry), _flat(carry))

    def _capture(self, first: bool, times: int = 1) -> torch.cuda.CUDAGraph:
        """A graph of iterations of one kind; the state is afterwards what it was."""
        tensors = [*_flat(self.carry), self.k, self.i, self.sound]
        before = [tensor.clone() for tensor in tensors]
        try:
            self._warm_up(first)
            return self._captured(first, times)
        finally:
            for tensor, value in zip(tensors, before, strict=True):
                tensor.copy_(value)

    def _warm_up(self, first: bool) -> None:
        """Do what happens at the first call only, such as compiling kernels, before anything is captured."""
        stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
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
                raise Uncapturable(f"torch.func.vmap cannot map fun ({_first_line(error)})") from error
            raise
        torch.cuda.current_stream().wait_stream(stream)

    def _captured(self, first: bool, times: int) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        collecting = gc.isenabled()
        gc.disable()  # what is freed on the device in mid-capture breaks it
        try:
            # What other threads do on the device, JAX's for one, is no business of this capture.
            with warnings.catch_warnings(), torch.cuda.graph(graph, capture_error_mode="thread_local"):
                warnings.filterwarnings("ignore", "The CUDA Graph is empty")
                self._iterate(first, times)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            torch.cuda.synchronize()
            raise Uncapturable(f"fun cannot be captured in a CUDA graph ({_first_line(error)})") from error
        finally:
            if collecting:
                gc.enable()
        return graph

    def advance(self, carry: Any, k: int, n: int, stride: int) -> tuple[Any, Records, int]:
        mine = _flat(self.carry)
        _copy(mine, _flat(carry))
        before = [] if self.program.masked else [tensor.clone() for tensor in mine]
        self._begin(k)
        j = k
        while j < k + n:
            if self.unrolled is not None and j + UNROLL <= k + n:
                self.unrolled.replay()
                j += UNROLL
            else:
                self.graphs[j % self.program.period == 0].replay()
                j += 1
        if not self.sound:
            _copy(mine, before)
            n = self._sound_ones(k, n)
            _copy(mine, before)
        return self.carry, self._rows, n

    def refill(self, slots: NDArray[Any], carry: Any, data: tuple[Tensor, ...], problems: NDArray[Any], k: int) -> Any:
        key = self.noise.keys_from(problems, k)
        at = torch.as_tensor(slots, device=key.device)
        mine, new = [*_flat(self.carry), *self.inputs.data, self.noise.key], [*_flat(carry), *data, key]
        for target, rows in zip(mine, new, strict=True):
            target[at] = rows
        return self.carry

    def _begin(self, k: int) -> None:
        """Set the counters to the k-th iteration."""
        self.k.fill_(k)
        self.i.zero_()
        self.sound.fill_(True)

    def _sound_ones(self, k: int, n: int) -> int:
        """How many of n iterations from the k-th on come before an unsound one, found one by one."""
        self._begin(k)
        for j in range(n):
            self.graphs[(k + j) % self.program.period == 0].replay()
            if not self.sound:
                return j
        return 0

    def _rows(self, wanted: list[int]) -> tuple[NDArray[Any], ...]:
        return tuple(record[torch.as_tensor(wanted, device=record.device)].cpu().numpy() for record in self.records)

    def masked(self, carry: Any) -> CudaGraph:
        return CudaGraph(replace(self.program, masked=True), self.inputs, carry, self.noise)

    def compiled_functions(self, functions: Any) -> Any:
        return functions


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0]
