"""Noise on PyTorch: NumPy's on the CPU, and Philox on other devices.

Philox turns a counter of four words, here (block, iteration, call, problem), into four random words, under a key of two
words, here those of the seed. It needs no state. The functions below use tensor operations, which run anywhere.
`triton_kernels` draws the same normals in one kernel.

Salmon, Moraes, Dror, Shaw. Parallel random numbers: as easy as 1, 2, 3. SC 2011.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slgh.backends.compiled import KeyedNoise
from slgh.backends.numpy.noise import NumpyNoise, draw_xi
from slgh.backends.torch.arrays import triton_kernels

M0, M1, W0, W1 = 0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85
MASK = 0xFFFFFFFF


def philox(counter: list[Any], key: tuple[Any, Any], rounds: int = 10) -> list[Any]:
    """Return four words of 32 bits, each in an int64 tensor, from four words of counter and two of key."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(rounds):
        a, b = c0 * M0, c2 * M1
        c0, c1, c2, c3 = (b >> 32 & MASK) ^ c1 ^ k0, b & MASK, (a >> 32 & MASK) ^ c3 ^ k1, a & MASK
        k0, k1 = k0 + W0 & MASK, k1 + W1 & MASK
    return [c0, c1, c2, c3]


def philox_words(key: Tensor, k: Tensor, tag: int, blocks: int) -> list[Tensor]:
    """Return four tensors of random 32-bit words, (B, blocks) each, for iteration k of the problems with `key` (B, 4).

    The columns of `key` are two words of the seed, the problem's number, and the iteration in which the problem began.
    Iterations are counted from there, so the words do not depend on when the problem began.
    """
    block = torch.arange(blocks, device=key.device)[None, :]
    problem, own = key[:, 2:3], k - key[:, 3:]
    counter = [block + torch.zeros_like(problem), own + torch.zeros_like(block), torch.full_like(block, tag), problem]
    return philox(counter, (key[:, :1], key[:, 1:2]))


def philox_normal(key: Tensor, k: Tensor, tag: int, n: int, dtype: torch.dtype) -> Tensor:
    """Return (B, n) standard normals by Box and Muller: four per block in float32, two in float64."""
    single = dtype == torch.float32
    each = 4 if single else 2
    a, b, c, d = philox_words(key, k, tag, -(-n // each))
    if single:
        uniforms = [(w.to(dtype) + 0.5) * 2.0**-32 for w in (a, b, c, d)]
    else:  # 53 bits of mantissa take two words
        uniforms = [((high << 21 | low >> 11).to(dtype) + 0.5) * 2.0**-53 for high, low in ((a, b), (c, d))]
    pairs = zip(uniforms[::2], uniforms[1::2], strict=True)
    found = [part for u, v in pairs for part in _box_muller(u, v)]
    return torch.stack(found, dim=-1).flatten(1)[:, :n]


def _box_muller(u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    radius, angle = torch.sqrt(-2 * torch.log(u)), (2 * torch.pi) * v
    return radius * torch.cos(angle), radius * torch.sin(angle)


def philox_index(key: Tensor, k: Tensor, tag: int, n: int, terms: int) -> Tensor:
    """Return (B, n) numbers from 0 to terms - 1; terms must be below 2^31."""
    found = torch.stack(philox_words(key, k, tag, -(-n // 4)), dim=-1).flatten(1)[:, :n]
    return found * terms >> 32


class TorchCpuNoise(NumpyNoise):
    """NumPy's noise as CPU tensors, so that runs agree with those of NumPy arrays."""

    def normal(self, m: int, stream: int = 0) -> Any:
        return torch.from_numpy(super().normal(m, stream))

    def _sample(self, generators: Any, m: int) -> Any:
        return torch.from_numpy(super()._sample(generators, m))

    def every_xi(self, start: int, stop: int) -> Any:
        return torch.from_numpy(super().every_xi(start, stop).copy())


class PhiloxNoise(KeyedNoise):
    """Philox, on any device; normals come from one Triton kernel if there is Triton."""

    def __init__(self, key: Tensor, d: int, dtype: torch.dtype, sample_xi: Any, k: Any) -> None:
        super().__init__(key, d, sample_xi, k)
        self.dtype = dtype
        kernels = triton_kernels() if key.is_cuda else None
        self._normal: Any = philox_normal if kernels is None else kernels.normal

    def draw_normal(self, key: Tensor, tag: int, m: int) -> Tensor:
        drawn: Tensor = self._normal(key, self.k, tag, m * self.d, self.dtype)
        return drawn.view(-1, m, self.d)

    def draw_xi(self, key: Tensor, tag: int, m: int) -> Tensor:
        if isinstance(self.sample_xi, int):
            return philox_index(key, self.k, tag, m, self.sample_xi)
        keys = key.cpu().numpy()
        generators = [np.random.Generator(np.random.SFC64([*key[:3], int(self.k) - key[3], tag])) for key in keys]
        return torch.from_numpy(draw_xi(self.sample_xi, generators, m)).to(key.device)

    def every_xi(self, start: int, stop: int) -> Tensor:
        return torch.arange(start, stop, device=self.key.device).expand(self.key.shape[0], stop - start)

    def mark(self, k: int) -> None:
        super().mark(torch.tensor(k, device=self.key.device))

    def rows(self, key: Tensor, rows: NDArray[Any]) -> Tensor:
        return key[torch.as_tensor(rows, device=key.device)]

    def keys_from(self, rows: NDArray[Any], began: Any) -> Tensor:
        """Return the keys of these problems of the run, which begin in the iteration or iterations `began`."""
        keys = self.rows(self.all_keys, rows)
        keys[:, 3] = torch.as_tensor(began, device=keys.device)
        return keys

    def assign(self, rows: NDArray[Any], began: NDArray[Any]) -> None:
        self.key = self.keys_from(rows, began)

    def append(self, rows: NDArray[Any], k: int) -> None:
        self.key = torch.cat([self.key, self.keys_from(rows, k)])
