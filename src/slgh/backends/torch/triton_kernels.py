"""Triton kernels for what touches the most memory: normals, points around x, and sums over directions.

The normals are those of `noise.philox_normal`. The iteration is read from the device, so that graphs can be replayed.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra import libdevice

BLOCK = 256
"""Counters that one program of the noise takes."""

WIDTH = 1024
"""Variables that one program of the other kernels takes."""


@triton.jit
def _uniform(word):
    return (word.to(tl.uint32).to(tl.float32) + 0.5) * 2.3283064365386963e-10


@triton.jit
def _uniform64(high, low):
    return (((high.to(tl.uint64) << 21) | (low.to(tl.uint64) >> 11)).to(tl.float64) + 0.5) * 1.1102230246251565e-16


@triton.jit
def _box_muller(u, v):
    radius, angle = tl.sqrt(-2.0 * tl.log(u)), 6.283185307179586 * v
    return radius * tl.cos(angle), radius * tl.sin(angle)


@triton.jit
def _quick_box_muller(u, v):
    radius, angle = tl.sqrt(-2.0 * tl.log(u)), 6.283185307179586 * (v - 0.5)
    return -radius * libdevice.fast_cosf(angle), -radius * libdevice.fast_sinf(angle)


@triton.jit
def _normal(out, key, iteration, n, tag, SINGLE: tl.constexpr, BLOCK: tl.constexpr):
    b, tile = tl.program_id(0), tl.program_id(1)
    low, high, problem = tl.load(key + 4 * b), tl.load(key + 4 * b + 1), tl.load(key + 4 * b + 2)
    seed = (high << 32) | low
    k = tl.load(iteration) - tl.load(key + 4 * b + 3)
    block = tile * BLOCK + tl.arange(0, BLOCK)
    zero = block * 0
    w0, w1, w2, w3 = tl.philox(
        seed, block.to(tl.uint32), (zero + k).to(tl.uint32), (zero + tag).to(tl.uint32), (zero + problem).to(tl.uint32)
    )
    if SINGLE:
        n0, n1 = _quick_box_muller(_uniform(w0), _uniform(w1))
        n2, n3 = _quick_box_muller(_uniform(w2), _uniform(w3))
        found = tl.interleave(tl.interleave(n0, n2), tl.interleave(n1, n3))
        at = tile * (4 * BLOCK) + tl.arange(0, 4 * BLOCK)
    else:
        n0, n1 = _box_muller(_uniform64(w0, w1), _uniform64(w2, w3))
        found = tl.interleave(n0, n1)
        at = tile * (2 * BLOCK) + tl.arange(0, 2 * BLOCK)
    tl.store(out + b.to(tl.int64) * n + at, found, mask=at < n)


def normal(key: Tensor, k: Tensor, tag: int, n: int, dtype: torch.dtype) -> Tensor:
    """(B, n) standard normals, those of `noise.philox_normal` up to rounding."""
    out = torch.empty(key.shape[0], n, dtype=dtype, device=key.device)
    each = 4 if dtype == torch.float32 else 2
    grid = (key.shape[0], triton.cdiv(n, each * BLOCK))
    _normal[grid](out, key, k, n, tag, SINGLE=dtype == torch.float32, BLOCK=BLOCK)
    return out


@triton.jit
def _sample_points(out, x, t, u, n, at, centers, m, d, WIDTH: tl.constexpr):
    b, i = tl.program_id(0), tl.program_id(1)
    j = tl.program_id(2) * WIDTH + tl.arange(0, WIDTH)
    found = tl.load(x + b * d + j, mask=j < d)
    if i >= centers:
        row = b.to(tl.int64) * m + i - centers
        found += tl.load(t + b) * tl.load(u + row * d + j, mask=j < d)
    tl.store(out + (b.to(tl.int64) * n + at + i) * d + j, found, mask=j < d)


def sample_points(x: Tensor, t: Tensor, directions: list[Tensor], centers: int) -> Tensor:
    """`centers` copies of x (B, d), then x + t*u for each u of the `directions`: (B, n, d)."""
    B, d = x.shape
    n, at = centers + sum(u.shape[1] for u in directions), 0
    out = x.new_empty(B, n, d)
    for u in directions:
        m = u.shape[1]
        grid = (B, centers + m, triton.cdiv(d, WIDTH))
        _sample_points[grid](out, x, t, u.contiguous(), n, at, centers, m, d, WIDTH=WIDTH)
        at, centers = at + centers + m, 0
    return out


@triton.jit
def _weighted_sum(out, weights, u, m, d, WIDTH: tl.constexpr):
    b = tl.program_id(0)
    j = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    total = tl.zeros((WIDTH,), out.dtype.element_ty)
    for i in range(m):
        row = b.to(tl.int64) * m + i
        total += tl.load(weights + row) * tl.load(u + row * d + j, mask=j < d)
    tl.store(out + b.to(tl.int64) * d + j, total, mask=j < d)


def weighted_sum(weights: Tensor, u: Tensor) -> Tensor:
    """Sum over the samples of weight times direction: (B, m) and (B, m, d) give (B, d)."""
    B, m, d = u.shape
    out = u.new_empty(B, d)
    _weighted_sum[B, triton.cdiv(d, WIDTH)](out, weights.contiguous(), u.contiguous(), m, d, WIDTH=WIDTH)
    return out
