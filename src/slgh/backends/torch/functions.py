"""The user's functions on PyTorch: their gradients, their values without gradients, and the modules they use."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from slgh import checks


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
                raise TypeError(
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
