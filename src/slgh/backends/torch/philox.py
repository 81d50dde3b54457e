"""Noise on PyTorch devices: Philox, keyed by (seed, problem, iteration, call), so that it needs no state.

Salmon, Moraes, Dror, Shaw. Parallel random numbers: as easy as 1, 2, 3. SC 2011. Four words come of one counter,
(block, iteration, call, problem), under the key of the seed. Here in tensor operations, which run anywhere;
`triton_kernels` has the same numbers in one kernel.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

M0, M1, W0, W1 = 0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85
MASK = 0xFFFFFFFF


def philox(counter: list[Any], key: tuple[Any, Any], rounds: int = 10) -> list[Any]:
    """Four words of 32 bits, each in an int64 tensor, from four words of counter and two of key."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(rounds):
        a, b = c0 * M0, c2 * M1
        c0, c1, c2, c3 = (b >> 32 & MASK) ^ c1 ^ k0, b & MASK, (a >> 32 & MASK) ^ c3 ^ k1, a & MASK
        k0, k1 = k0 + W0 & MASK, k1 + W1 & MASK
    return [c0, c1, c2, c3]


def words(key: Tensor, k: Tensor, tag: int, blocks: int) -> list[Tensor]:
    """Four words (B, blocks) each for the problems with `key` (B, 4).

    Its columns are two words of the seed, the problem's number, and the iteration k in which the problem began: its
    noise is that of its own k-th iteration.
    """
    block = torch.arange(blocks, device=key.device)[None, :]
    problem, own = key[:, 2:3], k - key[:, 3:]
    counter = [block + torch.zeros_like(problem), own + torch.zeros_like(block), torch.full_like(block, tag), problem]
    return philox(counter, (key[:, :1], key[:, 1:2]))


def normal(key: Tensor, k: Tensor, tag: int, n: int, dtype: torch.dtype) -> Tensor:
    """(B, n) standard normals by Box and Muller: four of a block in float32, two in float64, which takes more bits."""
    single = dtype == torch.float32
    each = 4 if single else 2
    a, b, c, d = words(key, k, tag, -(-n // each))
    if single:
        uniforms = [(w.to(dtype) + 0.5) * 2.0**-32 for w in (a, b, c, d)]
    else:
        uniforms = [((high << 21 | low >> 11).to(dtype) + 0.5) * 2.0**-53 for high, low in ((a, b), (c, d))]
    pairs = zip(uniforms[::2], uniforms[1::2], strict=True)
    found = [part for u, v in pairs for part in _box_muller(u, v)]
    return torch.stack(found, dim=-1).flatten(1)[:, :n]


def _box_muller(u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    radius, angle = torch.sqrt(-2 * torch.log(u)), (2 * torch.pi) * v
    return radius * torch.cos(angle), radius * torch.sin(angle)


def index(key: Tensor, k: Tensor, tag: int, n: int, terms: int) -> Tensor:
    """(B, n) numbers from 0 to terms - 1, with terms below 2^31."""
    found = torch.stack(words(key, k, tag, -(-n // 4)), dim=-1).flatten(1)[:, :n]
    return found * terms >> 32
