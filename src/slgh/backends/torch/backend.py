"""PyTorch: eager where Python must see values, on CUDA a graph of whole iterations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slgh import checks
from slgh.backends.compiled import COMPILED_CHUNK, Mapped, seed_words
from slgh.backends.masking import EagerChoice
from slgh.backends.numpy.backend import real_array
from slgh.backends.protocols import Backend, Carry, Inputs, Keys, LoopProgram, NoiseSource
from slgh.backends.torch.arrays import TorchContext, xp
from slgh.backends.torch.functions import NoGrad, TorchGradient, modules
from slgh.backends.torch.loop import CudaGraph, Uncapturable
from slgh.backends.torch.noise import PhiloxNoise, TorchCpuNoise
from slgh.protocols import Context


def make_backend(x0: Tensor) -> TorchBackend:
    floating = x0.is_floating_point() or x0.is_complex()
    return TorchBackend(x0.dtype if floating else torch.get_default_dtype(), x0.device)


class TorchBackend(Backend):
    """PyTorch on x0's device."""

    xp = xp
    ops = EagerChoice(xp)
    differentiates = True
    can_refill = True
    forks = False
    engine = "torch eager"

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        self.dtype, self.device = dtype, device
        self.name = f"torch {device.type}"
        self.compiles = device.type == "cuda"

    def read(self, x0: Tensor) -> NDArray[Any]:
        if self.dtype not in (torch.float32, torch.float64):
            raise TypeError(f"`x0` must be real, of dtype float32 or float64; got dtype {self.dtype}.")
        return self.host(x0.to(self.dtype))

    def native(self, array: NDArray[Any]) -> Tensor:
        return torch.tensor(array, device=self.device)

    def to_library(self, array: Any) -> Tensor:
        return array.clone() if isinstance(array, Tensor) else self.native(array)

    def to_function(self, array: Tensor) -> Tensor:
        return array.clone() if _must_copy(array) else array

    def host(self, array: Tensor) -> NDArray[Any]:
        return array.detach().cpu().numpy()

    def data(self, array: Any) -> Tensor:
        if isinstance(array, Tensor):
            return array.detach().to(self.device, copy=True)
        tensor = torch.tensor(np.asarray(array), device=self.device)
        return tensor.to(self.dtype) if tensor.is_floating_point() else tensor

    def index(self, rows: NDArray[Any]) -> Tensor:
        return torch.as_tensor(rows, device=self.device)

    def context(self, needs: frozenset[str], *, stochastic: bool) -> Context:
        chunk = {"chunk": COMPILED_CHUNK} if self.compiles else {}
        return TorchContext(xp=xp, needs=needs, stochastic=stochastic, **chunk)

    def noise(self, keys: Keys, d: int, sample_xi: Any, *, samples: int) -> NoiseSource:
        if self.device.type == "cpu":
            dtype = torch.zeros(0, dtype=self.dtype, device="cpu").numpy().dtype
            return TorchCpuNoise(keys, d, dtype, sample_xi, samples=samples)
        seeds, problems = seed_words(keys)
        began = np.zeros_like(problems)
        key = torch.tensor(np.column_stack([seeds, problems, began]).astype(np.int64), device=self.device)
        return PhiloxNoise(key, d, self.dtype, sample_xi, torch.tensor(0, device=self.device))

    def real(self, value: Any, name: str) -> Tensor:
        if isinstance(value, list | tuple) and any(isinstance(one, Tensor) for one in value):
            value = torch.stack([self.real(one, name) for one in value])
        if not isinstance(value, Tensor):
            return torch.tensor(real_array(value, name), dtype=self.dtype, device=self.device)
        if value.is_complex():
            raise TypeError(f"`{name}` must return real numbers, got {checks.show(value)}.")
        return value.detach().to(self.device, self.dtype, copy=_must_copy(value))

    def number(self, value: Any) -> Tensor:
        array = self.real(value, "fun")
        if array.numel() != 1:
            raise ValueError(f"`fun` must return one number per point, got {checks.show(value)}.")
        return array.reshape(())

    def without_gradients(self, fun: Callable[..., Any]) -> NoGrad:
        return NoGrad(fun)

    def stack(self, items: list[Any]) -> Tensor:
        return torch.stack(items)

    @contextmanager
    def guard_arguments(self, *arrays: Tensor) -> Iterator[None]:
        before = [array._version for array in arrays]
        yield
        if [array._version for array in arrays] != before:
            raise ValueError("`fun` must not write into its arguments. Copy them first.")

    def session(self, *, differences: bool) -> AbstractContextManager[None]:
        return _session(self.device if self.device.type == "cuda" else None, full_precision=differences)

    def gradient(self, fun: Callable[..., Any], *, vectorized: bool) -> TorchGradient:
        return TorchGradient(fun)

    def mapped(self, fun: Callable[..., Any], *, data: int, xi: bool, vector: bool) -> Mapped:
        return Mapped(fun, data, int(xi), torch.func.vmap, torch.Tensor.detach if vector else _scalar)

    def check_functions(self, functions: tuple[Any, ...], name: str = "fun") -> None:
        for module in modules(functions):
            if module.training:
                raise ValueError(
                    f"`{name}` uses a {type(module).__name__} in training mode, whose values change from call to call "
                    "(dropout) and depend on the batch (batch norm); call its .eval() first."
                )

    def compile(self, program: LoopProgram, inputs: Inputs, carry: Carry, noise: Any) -> CudaGraph | str:
        if callable(noise.sample_xi):
            return "sample_xi draws on the host"
        try:
            return CudaGraph(program, inputs, carry, noise)
        except Uncapturable as error:
            return str(error)


def _must_copy(value: Tensor) -> bool:
    """Return False while a CUDA graph is captured: the user's function cannot reach its tensors later."""
    return not (value.is_cuda and torch.cuda.is_current_stream_capturing())


def _scalar(value: Tensor) -> Tensor:
    return value.reshape(())


@contextmanager
def _session(cuda: torch.device | None, *, full_precision: bool) -> Iterator[None]:
    """Disable gradients, make `cuda` the current device, and if `full_precision` disable TF32 on it.

    TF32 keeps 10 bits of the mantissa: a difference f(x + t u) - f(x) below a thousandth of f would be rounding.
    """
    backends: Any = torch.backends
    switches = []
    if cuda is not None and full_precision:
        switches = [backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn]
    before = [switch.fp32_precision for switch in switches]
    try:
        for switch in switches:
            switch.fp32_precision = "ieee"
        with torch.inference_mode(False), torch.no_grad(), nullcontext() if cuda is None else torch.cuda.device(cuda):
            yield
    finally:
        for switch, value in zip(switches, before, strict=True):
            switch.fp32_precision = value
