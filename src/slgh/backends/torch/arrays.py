"""PyTorch as the engine computes with it: a namespace that graphs can hold, and points written in place."""

from __future__ import annotations

import functools
from importlib.util import find_spec
from typing import Any

import array_api_compat.torch as compat
import torch
from torch import Tensor

from slgh.protocols import Context


class TorchNamespace:
    """PyTorch as an array-API namespace, without functions that turn Python numbers into tensors.

    Such a tensor is a copy to the device, which a CUDA graph cannot hold.
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
    def maximum(a: Any, b: Any) -> Tensor:
        a, b = (a, b) if isinstance(a, Tensor) else (b, a)
        return torch.maximum(a, b) if isinstance(b, Tensor) else torch.clamp(a, min=b)

    @staticmethod
    def minimum(a: Any, b: Any) -> Tensor:
        a, b = (a, b) if isinstance(a, Tensor) else (b, a)
        return torch.minimum(a, b) if isinstance(b, Tensor) else torch.clamp(a, max=b)

    @staticmethod
    def isfinite(a: Tensor) -> Tensor:
        return torch.abs(a) < torch.inf


xp = TorchNamespace()


KERNEL_MIN_VARIABLES = 256
"""Minimum number of variables for which the Triton kernels are faster than PyTorch's."""


@functools.cache
def triton_kernels() -> Any:
    """Return the module of Triton kernels, or None if Triton is not installed."""
    if find_spec("triton") is None:
        return None
    from slgh.backends.torch import triton_kernels

    return triton_kernels


def _kernels(x: Tensor) -> Any:
    return triton_kernels() if x.is_cuda and x.shape[-1] >= KERNEL_MIN_VARIABLES else None


class TorchContext(Context):
    """A Context that writes points in place, without intermediate arrays."""

    def sample_points(self, x: Tensor, t: Tensor, directions: list[Tensor], centers: int) -> Tensor:
        if (kernels := _kernels(x)) is not None:
            found: Tensor = kernels.sample_points(x, t, directions, centers)
            return found
        (B, d), m = x.shape, [u.shape[1] for u in directions]
        points = x.new_empty(B, centers + sum(m), d)
        origin, radius, at = x[:, None, :], t[:, None, None], centers
        if centers:
            points[:, :centers] = origin
        for u, size in zip(directions, m, strict=True):
            torch.addcmul(origin, u, radius, out=points[:, at : at + size])
            at += size
        return points

    def weighted_sum(self, weights: Tensor, u: Tensor) -> Tensor:
        kernels = _kernels(u)
        found: Tensor = super().weighted_sum(weights, u) if kernels is None else kernels.weighted_sum(weights, u)
        return found
