"""PyTorch: eager where Python must see values, on CUDA a graph of one whole iteration, replayed."""

from __future__ import annotations

import functools
import inspect
import types
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import array_api_compat.torch as compat
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slgh import checks
from slgh.backends import philox
from slgh.backends.backend import Keys, Records, Source, record_rows
from slgh.backends.choices import Host
from slgh.backends.keyed import KeyedNoise, words
from slgh.backends.numpy import real_array
from slgh.backends.streams import NumpyNoise, draw_xi
from slgh.parts import Context


class Namespace:
    """PyTorch as an array-API namespace; where that makes tensors of numbers, PyTorch's own functions, which do not.

    A number made a tensor is a copy to the device, which no graph can hold.
    """

    where = staticmethod(torch.where)
    min, max = staticmethod(torch.amin), staticmethod(torch.amax)
    sum, all, any, argmin = (staticmethod(f) for f in (torch.sum, torch.all, torch.any, torch.argmin))
    vecdot, count_nonzero = staticmethod(torch.linalg.vecdot), staticmethod(torch.count_nonzero)

    def __getattr__(self, name: str) -> Any:
        found = getattr(compat, name)
        setattr(self, name, found)
        return found

    @staticmethod
    def take_along_axis(x: Tensor, indices: Tensor, *, axis: int) -> Tensor:
        return torch.take_along_dim(x, indices, dim=axis)

    @staticmethod
    def maximum(a: Tensor, b: Any) -> Tensor:
        return torch.maximum(a, b) if isinstance(b, Tensor) else torch.clamp(a, min=b)

    @staticmethod
    def minimum(a: Tensor, b: Any) -> Tensor:
        return torch.minimum(a, b) if isinstance(b, Tensor) else torch.clamp(a, max=b)

    @staticmethod
    def isfinite(a: Tensor) -> Tensor:
        return torch.abs(a) < torch.inf


xp = Namespace()


WIDE = 256
"""From so many variables on, a kernel of our own is sooner than PyTorch's."""


@functools.cache
def triton_kernels() -> Any:
    """Our Triton kernels, or None where there is no Triton."""
    if find_spec("triton") is None:
        return None
    from slgh.backends import triton_kernels

    return triton_kernels


def _kernels(x: Tensor) -> Any:
    return triton_kernels() if x.is_cuda and x.shape[-1] >= WIDE else None


class TorchContext(Context):
    """A Context that writes points where they are needed, without the intermediate arrays."""

    def place(self, x: Tensor, t: Tensor, directions: list[Tensor], centres: int) -> Tensor:
        if (kernels := _kernels(x)) is not None:
            return kernels.place(x, t, directions, centres)  # type: ignore[no-any-return]
        (B, d), m = x.shape, [u.shape[1] for u in directions]
        points = x.new_empty(B, centres + sum(m), d)
        origin, radius, at = x[:, None, :], t[:, None, None], centres
        if centres:
            points[:, :centres] = origin
        for u, size in zip(directions, m, strict=True):
            torch.addcmul(origin, u, radius, out=points[:, at : at + size])
            at += size
        return points

    def weigh(self, weights: Tensor, u: Tensor) -> Tensor:
        kernels = _kernels(u)
        found: Tensor = super().weigh(weights, u) if kernels is None else kernels.weigh(weights, u)
        return found


class HostNoise(NumpyNoise):
    """On the CPU the noise is NumPy's, so that runs agree with those of NumPy arrays."""

    def normal(self, m: int, stream: int = 0) -> Any:
        return torch.from_numpy(super().normal(m, stream))

    def _sample(self, generators: Any, m: int) -> Any:
        return torch.from_numpy(super()._sample(generators, m))

    def every_xi(self, start: int, stop: int) -> Any:
        return torch.from_numpy(super().every_xi(start, stop).copy())


class DeviceNoise(KeyedNoise):
    """On other devices it is Philox, in one Triton kernel where there is Triton."""

    def __init__(self, key: Tensor, d: int, dtype: torch.dtype, sample_xi: Any, k: Any) -> None:
        super().__init__(key, d, sample_xi, k)
        self.dtype = dtype
        kernels = triton_kernels() if key.is_cuda else None
        self._normal: Any = philox.normal if kernels is None else kernels.normal

    def draw_normal(self, key: Tensor, tag: int, m: int) -> Tensor:
        drawn: Tensor = self._normal(key, self.k, tag, m * self.d, self.dtype)
        return drawn.view(-1, m, self.d)

    def draw_xi(self, key: Tensor, tag: int, m: int) -> Tensor:
        if isinstance(self.sample_xi, int):
            return philox.index(key, self.k, tag, m, self.sample_xi)
        seeds = key.cpu().numpy()
        generators = [np.random.Generator(np.random.SFC64([*seed, int(self.k), tag])) for seed in seeds]
        return torch.from_numpy(draw_xi(self.sample_xi, generators, m)).to(key.device)

    def every_xi(self, start: int, stop: int) -> Tensor:
        return torch.arange(start, stop, device=self.key.device).expand(self.key.shape[0], stop - start)

    def rows(self, key: Tensor, rows: NDArray[Any]) -> Tensor:
        return key[torch.as_tensor(rows, device=key.device)]

    def mark(self, k: int) -> None:
        super().mark(k)
        self.k = torch.tensor(k, device=self.key.device)


@dataclass(frozen=True)
class Autograd:
    """The gradient of fun in its first argument."""

    fun: Callable[..., Any]

    def __call__(self, x: Tensor, *extra: Any) -> Tensor:
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            value = self.fun(x, *extra)
            followed = isinstance(value, Tensor) and value.requires_grad
            gradient = torch.autograd.grad(value.sum(), x, allow_unused=True)[0] if followed else None
            if gradient is None:
                raise TypeError(
                    "`fun` must be differentiable by autograd, but its value does not depend on x that way (a module "
                    "takes other parameters by torch.func.functional_call): pass `grad`, or take a zeroth-order "
                    f"method. It returned {checks.show(value)}."
                )
            return gradient


@dataclass(frozen=True)
class Mapped:
    """A function of one point as one of points (B, n, d); its data (B, 1, ...) belong to a problem, xi to a point."""

    fun: Callable[..., Any]
    data: int
    xi: int
    vector: bool

    def __call__(self, points: Tensor, *extra: Any) -> Tensor:
        data, xi = extra[: self.data], extra[self.data : self.data + self.xi]
        args = extra[self.data + self.xi :]

        def one(x: Tensor, xi: tuple[Any, ...], data: tuple[Any, ...]) -> Tensor:
            value: Tensor = self.fun(x, *data, *xi, *args)
            return value if self.vector else value.reshape(())

        of_problem = torch.func.vmap(one, in_dims=(0, 0, None))
        found: Tensor = torch.func.vmap(of_problem)(points, xi, tuple(a[:, 0] for a in data))
        return found


@dataclass(frozen=True)
class TorchBackend:
    """PyTorch on x0's device."""

    dtype: torch.dtype
    device: torch.device

    xp = xp
    ops = Host(xp)
    differentiates = True
    engine = "torch eager"

    @staticmethod
    def of(x0: Tensor) -> TorchBackend:
        """The backend of a tensor."""
        floating = x0.is_floating_point() or x0.is_complex()
        return TorchBackend(x0.dtype if floating else torch.get_default_dtype(), x0.device)

    @property
    def name(self) -> str:
        return f"torch {self.device.type}"

    @property
    def compiles(self) -> bool:
        return self.device.type == "cuda"

    def read(self, x0: Tensor) -> NDArray[Any]:
        if self.dtype not in (torch.float32, torch.float64):
            raise TypeError(f"`x0` must be real, of dtype float32 or float64; got dtype {self.dtype}.")
        return self.host(x0.to(self.dtype))

    def native(self, array: NDArray[Any]) -> Tensor:
        return torch.tensor(array, device=self.device)

    def give(self, array: Any) -> Tensor:
        return array if isinstance(array, Tensor) else self.native(array)

    def host(self, array: Tensor) -> NDArray[Any]:
        return array.detach().cpu().numpy()

    def data(self, array: Any) -> Tensor:
        mine = not isinstance(array, Tensor)
        tensor = torch.as_tensor(array, device=self.device).detach()
        return tensor.to(self.dtype) if mine and tensor.is_floating_point() else tensor

    def index(self, rows: NDArray[Any]) -> Tensor:
        return torch.as_tensor(rows, device=self.device)

    def context(self, needs: frozenset[str], *, stochastic: bool) -> Context:
        return TorchContext(xp=xp, needs=needs, stochastic=stochastic)

    def noise(self, keys: Keys, d: int, sample_xi: Any, *, samples: int) -> Source:
        if self.device.type == "cpu":
            return HostNoise(keys, d, torch.zeros(0, dtype=self.dtype).numpy().dtype, sample_xi, samples=samples)
        seeds, problems = words(keys)
        key = torch.tensor(np.column_stack([seeds, problems]).astype(np.int64), device=self.device)
        return DeviceNoise(key, d, self.dtype, sample_xi, torch.tensor(0, device=self.device))

    def real(self, value: Any, name: str) -> Tensor:
        if isinstance(value, list | tuple) and any(isinstance(one, Tensor) for one in value):
            value = torch.stack([self.real(one, name) for one in value])
        if not isinstance(value, Tensor):
            return torch.as_tensor(real_array(value, name)).to(self.device, self.dtype)
        if value.is_complex():
            raise TypeError(f"`{name}` must return real numbers, got {checks.show(value)}.")
        mine = not (value.is_cuda and torch.cuda.is_current_stream_capturing())
        return value.detach().to(self.device, self.dtype, copy=mine)

    def number(self, value: Any) -> Tensor:
        array = self.real(value, "fun")
        if array.numel() != 1:
            raise ValueError(f"`fun` must return one number a point, got {checks.show(value)}.")
        return array.reshape(())

    def stack(self, items: list[Any]) -> Tensor:
        return torch.stack(items)

    def copy(self, point: Tensor) -> Tensor:
        return point.clone()

    @contextmanager
    def calling(self, points: Tensor) -> Iterator[None]:
        version = points._version
        yield
        if points._version != version:
            raise ValueError("`fun` must not write into its argument; copy it first.")

    def session(self, *, differences: bool) -> AbstractContextManager[None]:
        """Without gradients, and for differences of f without TF32."""
        return _session(self.device if self.device.type == "cuda" else None, full_precision=differences)

    def gradient(self, fun: Callable[..., Any], *, vectorized: bool) -> Autograd:
        return Autograd(fun)

    def mapped(self, fun: Callable[..., Any], *, data: int, xi: bool, vector: bool) -> Mapped:
        return Mapped(fun, data, int(xi), vector)

    def refuse(self, functions: tuple[Any, ...]) -> None:
        for module in _modules(functions):
            if module.training:
                raise ValueError(
                    f"`fun` uses a {type(module).__name__} in training mode, whose values change from call to call "
                    "(dropout) and depend on the batch (batch norm); call its .eval() first."
                )

    def compile(self, program: Any, inputs: Any, carry: Any, noise: DeviceNoise) -> CudaGraph | str:
        if callable(noise.sample_xi):
            return "sample_xi draws on the host"
        try:
            return CudaGraph(program, inputs, carry, noise)
        except Uncapturable as error:
            return str(error)


def _modules(things: Iterable[Any], depth: int = 3) -> Iterator[torch.nn.Module]:
    """The modules that functions are, hold as attributes or arguments, close over, or name as globals."""
    for thing in things:
        if isinstance(thing, torch.nn.Module):
            yield thing
        elif depth:
            yield from _modules(_held(thing), depth - 1)


def _held(thing: Any) -> list[Any]:
    """What a function or an object of the user's holds."""
    if isinstance(thing, functools.partial):
        return [thing.func, *thing.args, *thing.keywords.values()]
    if isinstance(thing, types.MethodType):
        return [thing.__func__, thing.__self__]
    if isinstance(thing, types.FunctionType):
        held = inspect.getclosurevars(thing)
        return [*held.nonlocals.values(), *held.globals.values()]
    if isinstance(thing, types.ModuleType | type) or type(thing).__module__.startswith(("torch", "numpy", "builtins")):
        return []
    return list(getattr(thing, "__dict__", {}).values())


@contextmanager
def _session(cuda: torch.device | None, *, full_precision: bool) -> Iterator[None]:
    """No gradients; on a CUDA device, which is made the current one, float32 products with all their bits if wanted.

    TF32 keeps 10 bits of the mantissa: a difference f(x + t u) - f(x) below a thousandth of f would be rounding.
    """
    found: Any = torch.backends
    switches = [found.cuda.matmul, found.cudnn.conv] if cuda is not None and full_precision else []
    before = [switch.fp32_precision for switch in switches]
    try:
        for switch in switches:
            switch.fp32_precision = "ieee"
        with torch.inference_mode(False), torch.no_grad(), nullcontext() if cuda is None else torch.cuda.device(cuda):
            yield
    finally:
        for switch, value in zip(switches, before, strict=True):
            switch.fp32_precision = value


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

    def __init__(self, program: Any, inputs: Any, carry: Any, noise: DeviceNoise) -> None:
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
            noise = DeviceNoise(mine.everyone, mine.d, mine.dtype, mine.sample_xi, self.k)
            carry, sound, self.evaluations[first] = self.program.iterate(carry, self.k, first, noise, self.inputs)
            if isinstance(sound, Tensor):
                self.sound.logical_and_(sound)
            for record, column in zip(self.records, carry.seen, strict=True):
                record.index_copy_(0, self.i, column[None])
            self.k += 1
            if self.records:
                self.i += 1
        _copy(_flat(self.carry), _flat(carry))

    def _capture(self, first: bool, times: int = 1) -> torch.cuda.CUDAGraph:
        tensors = [*_flat(self.carry), self.k, self.i, self.sound]
        before = [tensor.clone() for tensor in tensors]
        stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        try:
            with torch.cuda.stream(stream):
                for _ in range(2):
                    self._iterate(first)
        except RuntimeError as error:
            if isinstance(self.program.functions.fun, Mapped):
                raise Uncapturable(f"torch.func.vmap cannot map fun ({_first_line(error)})") from error
            raise
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        try:
            with warnings.catch_warnings(), torch.cuda.graph(graph):
                warnings.filterwarnings("ignore", "The CUDA Graph is empty")
                self._iterate(first, times)
        except RuntimeError as error:
            torch.cuda.synchronize()
            raise Uncapturable(f"fun cannot be captured in a CUDA graph ({_first_line(error)})") from error
        for tensor, value in zip(tensors, before, strict=True):
            tensor.copy_(value)
        return graph

    def advance(self, carry: Any, k: int, n: int, stride: int) -> tuple[Any, Records, int]:
        mine = _flat(self.carry)
        _copy(mine, _flat(carry))
        before = [] if self.program.careful else [tensor.clone() for tensor in mine]
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

    def careful(self, carry: Any) -> CudaGraph:
        return CudaGraph(replace(self.program, careful=True), self.inputs, carry, self.noise)


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0]
