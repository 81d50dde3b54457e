"""PyTorch: eager where Python must see values, on CUDA a graph of whole iterations."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import types
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slgh import checks
from slgh.backends.compiled import COMPILED_CHUNK, Mapped, first_line, seed_words
from slgh.backends.masking import EagerChoice
from slgh.backends.numpy.backend import real_array
from slgh.backends.protocols import Backend, Carry, Inputs, Keys, LoopProgram, NoiseSource
from slgh.backends.torch.arrays import TorchContext, xp
from slgh.backends.torch.loop import CudaGraph, Uncapturable
from slgh.backends.torch.noise import PhiloxNoise, TorchCpuNoise
from slgh.protocols import Context


@dataclass(frozen=True)
class TorchGradient:
    """The gradient of fun with respect to its first argument."""

    fun: Callable[..., Any]

    def __call__(self, x: Tensor, *extra: Any) -> Tensor:
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            value = self.fun(x, *extra)
            followed = isinstance(value, Tensor) and value.requires_grad
            gradient = torch.autograd.grad(value.sum(), x, allow_unused=True)[0] if followed else None
            if gradient is None:
                raise checks.ArgumentTypeError(
                    "`fun` must be differentiable by autograd, but its value does not depend on x that way (a module "
                    "takes other parameters by torch.func.functional_call): pass `grad`, or take a zeroth-order "
                    f"method. It returned {checks.show(value)}."
                )
            return gradient


@dataclass(frozen=True)
class NoGrad:
    """A function without autograd, in any thread or process."""

    fun: Callable[..., Any]

    def __call__(self, *args: Any) -> Any:
        with torch.no_grad():
            value = self.fun(*args)
        return value.detach() if isinstance(value, Tensor) else value


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

    def read_devices(self, device: Any) -> list[Any]:
        try:
            found = [torch.device(one) for one in device] if isinstance(device, list | tuple) else []
        except (RuntimeError, TypeError) as error:
            raise checks.ArgumentValueError(
                f"`device` must be a list of PyTorch devices, got {device!r}: {first_line(error)}."
            ) from None
        if not found:
            raise checks.ArgumentTypeError(
                f"`device` must be a list of PyTorch devices, got {device!r}. For one device, put x0 there."
            )
        kinds = sorted({self.device.type, *(one.type for one in found)})
        if len(kinds) > 1:
            raise checks.ArgumentValueError(
                f"`device` must name devices of x0's kind, since noise depends on it; got {' and '.join(kinds)}."
            )
        return found

    def move(self, thing: Any, device: Any) -> Any:
        return _moved(thing, device)

    def read(self, x0: Tensor) -> NDArray[Any]:
        if self.dtype not in (torch.float32, torch.float64):
            raise checks.ArgumentTypeError(f"`x0` must be real, of dtype float32 or float64; got dtype {self.dtype}.")
        return self.host(x0.to(self.dtype))

    def native(self, array: NDArray[Any]) -> Tensor:
        return torch.tensor(array, device=self.device)

    def to_library(self, array: Any) -> Tensor:
        return array.clone() if isinstance(array, Tensor) else self.native(array)

    to_loop = to_library

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
            raise checks.ArgumentTypeError(f"`{name}` must return real numbers, got {checks.show(value)}.")
        return value.detach().to(self.device, self.dtype, copy=_must_copy(value))

    def number(self, value: Any) -> Tensor:
        array = self.real(value, "fun")
        if array.numel() != 1:
            raise checks.ArgumentValueError(f"`fun` must return one number per point, got {checks.show(value)}.")
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
            raise checks.ArgumentValueError("`fun` must not write into its arguments. Copy them first.")

    @contextmanager
    def session(self, *, differences: bool) -> Iterator[None]:
        """Disable gradients and, if `differences`, TF32 on CUDA, and make the device the current one.

        TF32 keeps 10 bits of the mantissa: a difference f(x + t u) - f(x) below a thousandth of f would be rounding.
        """
        cuda, backends = self.device.type == "cuda", cast(Any, torch.backends)
        switches = [backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn] if cuda and differences else []
        before = [switch.fp32_precision for switch in switches]
        device = torch.cuda.device(self.device) if cuda else nullcontext()
        try:
            for switch in switches:
                switch.fp32_precision = "ieee"
            with torch.inference_mode(False), torch.no_grad(), device:
                yield
        finally:
            for switch, value in zip(switches, before, strict=True):
                switch.fp32_precision = value

    def gradient(self, fun: Callable[..., Any], *, vectorized: bool) -> TorchGradient:
        return TorchGradient(fun)

    def mapped(self, fun: Callable[..., Any], *, data: int, xi: bool, vector: bool) -> Mapped:
        return Mapped(fun, data, int(xi), torch.func.vmap, torch.Tensor.detach if vector else _scalar)

    def check_functions(self, functions: tuple[Any, ...], name: str = "fun") -> None:
        for module in modules(functions):
            if module.training:
                raise checks.ArgumentValueError(
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


def _moved(thing: Any, device: torch.device) -> Any:
    """Return a copy of tensors and modules on this device. Python functions keep the tensors that they close over."""
    if isinstance(thing, Tensor):
        return thing.to(device)
    if isinstance(thing, torch.nn.Module):
        return copy.deepcopy(thing).to(device)
    if isinstance(thing, functools.partial):
        words = {name: _moved(value, device) for name, value in thing.keywords.items()}
        return functools.partial(_moved(thing.func, device), *(_moved(one, device) for one in thing.args), **words)
    if type(thing) in (tuple, list):
        return type(thing)(_moved(one, device) for one in thing)
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        fields = {f.name: getattr(thing, f.name) for f in dataclasses.fields(thing) if f.init}
        moved = {name: _moved(value, device) for name, value in fields.items()}
        changed = any(moved[name] is not value for name, value in fields.items())
        return dataclasses.replace(thing, **moved) if changed else thing
    return thing


def _must_copy(value: Tensor) -> bool:
    """Return False while a CUDA graph is captured: the user's function cannot reach its tensors later."""
    return not (value.is_cuda and torch.cuda.is_current_stream_capturing())


def _scalar(value: Tensor) -> Tensor:
    return value.reshape(())


def modules(things: Iterable[Any], depth: int = 3) -> Iterator[torch.nn.Module]:
    """Yield the modules that functions are, hold as attributes or arguments, close over, or name as globals."""
    for thing in things:
        if isinstance(thing, torch.nn.Module):
            yield thing
        elif depth:
            yield from modules(_held(thing), depth - 1)


def _held(thing: Any) -> list[Any]:
    """Return what a function or an object of the user holds."""
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
