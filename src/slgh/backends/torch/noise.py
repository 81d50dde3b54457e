"""Noise on PyTorch: NumPy's on the CPU, Philox elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slgh.backends.keyed_noise import KeyedNoise
from slgh.backends.numpy.noise import NumpyNoise, draw_xi
from slgh.backends.torch import philox
from slgh.backends.torch.arrays import triton_kernels


class TorchCpuNoise(NumpyNoise):
    """On the CPU the noise is NumPy's, so that runs agree with those of NumPy arrays."""

    def normal(self, m: int, stream: int = 0) -> Any:
        return torch.from_numpy(super().normal(m, stream))

    def _sample(self, generators: Any, m: int) -> Any:
        return torch.from_numpy(super()._sample(generators, m))

    def every_xi(self, start: int, stop: int) -> Any:
        return torch.from_numpy(super().every_xi(start, stop).copy())


class PhiloxNoise(KeyedNoise):
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
        keys = key.cpu().numpy()
        generators = [np.random.Generator(np.random.SFC64([*key[:3], int(self.k) - key[3], tag])) for key in keys]
        return torch.from_numpy(draw_xi(self.sample_xi, generators, m)).to(key.device)

    def every_xi(self, start: int, stop: int) -> Tensor:
        return torch.arange(start, stop, device=self.key.device).expand(self.key.shape[0], stop - start)

    def rows(self, key: Tensor, rows: NDArray[Any]) -> Tensor:
        return key[torch.as_tensor(rows, device=key.device)]

    def assign(self, rows: NDArray[Any], began: NDArray[Any]) -> None:
        self.key = self.keys_from(rows, torch.as_tensor(began, device=self.key.device))

    def append(self, rows: NDArray[Any], k: int) -> None:
        self.key = torch.cat([self.key, self.keys_from(rows, k)])

    def keys_from(self, rows: NDArray[Any], began: int | Tensor) -> Tensor:
        """Keys of these problems, which begin in iteration `began`."""
        keys = self.rows(self.all_keys, rows)
        keys[:, 3] = began
        return keys

    def mark(self, k: int) -> None:
        super().mark(k)
        self.k = torch.tensor(k, device=self.key.device)
