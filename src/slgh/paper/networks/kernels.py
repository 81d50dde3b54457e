"""Triton kernels for the paper's networks on CUDA: convolutions, each with the ReLU and the pooling that follow.

Inputs and outputs are float32. The tensor cores multiply TF32 numbers, which are a thousand times coarser, so a number
is split into the sum of two TF32 numbers, and a product is the sum of the three larger of their four products. Sums
within a block of channels are rounded by the tensor cores, sums of blocks in float32. The error is of the order of
float32's own rounding: see benchmarks/attack_gpu.md.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

OUTPUTS = 64
"""Outputs of the first convolution per Triton program."""


class Split(NamedTuple):
    """The weights (out, 9 * in) of a convolution as the sum of two TF32 matrices, and its bias."""

    high: Tensor
    low: Tensor
    bias: Tensor


def split(weight: Tensor, bias: Tensor) -> Split:
    """Prepare the weights (out, in, 3, 3) of a convolution for `convolve`."""
    flat = weight.detach().permute(0, 2, 3, 1).reshape(weight.shape[0], -1).contiguous()
    # TF32 keeps 10 bits of the mantissa: add half of the last bit kept, then clear the 13 bits below it.
    high = ((flat.view(torch.int32) + 0x1000) & -0x2000).view(torch.float32)
    return Split(high, flat - high, bias.detach())


@triton.jit
def _round(a):
    """Round to the nearest TF32 number."""
    return ((a.to(tl.uint32, bitcast=True) + 0x1000) & 0xFFFFE000).to(tl.float32, bitcast=True)


@triton.jit
def _convolve(
    out, x, high, low, bias, places,
    SIDE: tl.constexpr, IN: tl.constexpr, OUT: tl.constexpr, POOL: tl.constexpr,
    ROWS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    SIZE: tl.constexpr = SIDE - 2
    place = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    channel = tl.arange(0, OUT)
    there = place < places
    if POOL:  # the four outputs of a window are next to each other, for the maximum at the end
        HALF: tl.constexpr = SIZE // 2
        window, corner = place // 4, place % 4
        image, within = window // (HALF * HALF), window % (HALF * HALF)
        row, column = within // HALF * 2 + corner // 2, within % HALF * 2 + corner % 2
    else:
        image, within = place // (SIZE * SIZE), place % (SIZE * SIZE)
        row, column = within // SIZE, within % SIZE
    origin = (image * SIDE + row) * SIDE + column
    some = tl.arange(0, CHANNELS)
    total = tl.zeros((ROWS, OUT), tl.float32)
    for k in range(9 * (IN // CHANNELS)):
        tap, first = k // (IN // CHANNELS), k % (IN // CHANNELS) * CHANNELS
        at = (origin + tap // 3 * SIDE + tap % 3).to(tl.int64) * IN
        a = tl.load(x + at[:, None] + (first + some)[None, :], mask=there[:, None], other=0.0)
        weights = channel[:, None] * (9 * IN) + (tap * IN + first + some)[None, :]
        b, c = tl.load(high + weights), tl.load(low + weights)
        coarse = _round(a)
        part = tl.dot(a - coarse, b.T, input_precision="tf32")
        part = tl.dot(coarse, c.T, part, input_precision="tf32")
        part = tl.dot(coarse, b.T, part, input_precision="tf32")
        total += part
    if POOL:
        total = tl.max(tl.reshape(total, (ROWS // 4, 4, OUT)), axis=1)
        place = tl.program_id(0) * (ROWS // 4) + tl.arange(0, ROWS // 4)
        there = place < places // 4
    total = tl.maximum(total + tl.load(bias + channel)[None, :], 0.0)
    tl.store(out + place.to(tl.int64)[:, None] * OUT + channel[None, :], total, mask=there[:, None])


def convolve(x: Tensor, weights: Split, *, pool: bool) -> Tensor:
    """ReLU of the 3 x 3 convolution of x (N, S, S, in), with `pool` followed by 2 x 2 max pooling: (N, S', S', out)."""
    N, side, _, channels = x.shape
    out_channels, size = weights.high.shape[0], side - 2
    places = N * size * size
    shape = (N, size // 2, size // 2, out_channels) if pool else (N, size, size, out_channels)
    out = x.new_empty(shape)
    rows = 64 if channels == 64 and out_channels == 64 and not pool else 128
    _convolve[(triton.cdiv(places, rows),)](
        out, x, *weights, places, SIDE=side, IN=channels, OUT=out_channels, POOL=pool, ROWS=rows, CHANNELS=32,
        num_warps=8 if out_channels == 128 else 4, num_stages=3 if channels == 32 else 2,
    )  # fmt: skip
    return out


@triton.jit
def _convolve_first(
    out, x, weight, bias, places, SIDE: tl.constexpr, IN: tl.constexpr, OUT: tl.constexpr, ROWS: tl.constexpr
):
    SIZE: tl.constexpr = SIDE - 2
    place = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    channel = tl.arange(0, OUT)
    there = place < places
    image, within = place // (SIZE * SIZE), place % (SIZE * SIZE)
    origin = image * (IN * SIDE * SIDE) + within // SIZE * SIDE + within % SIZE
    total = tl.zeros((ROWS, OUT), tl.float32)
    for k in tl.static_range(9 * IN):
        offset = k // 9 * (SIDE * SIDE) + k % 9 // 3 * SIDE + k % 3
        a = tl.load(x + origin + offset, mask=there, other=0.0)
        total += a[:, None] * tl.load(weight + k * OUT + channel)[None, :]
    total = tl.maximum(total + tl.load(bias + channel)[None, :], 0.0)
    tl.store(out + place.to(tl.int64)[:, None] * OUT + channel[None, :], total, mask=there[:, None])


def convolve_first(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """ReLU of the 3 x 3 convolution of images (N, in, S, S) with weights (9 * in, out): (N, S - 2, S - 2, out)."""
    N, channels, side, _ = x.shape
    places = N * (side - 2) ** 2
    out = x.new_empty(N, side - 2, side - 2, weight.shape[1])
    _convolve_first[(triton.cdiv(places, OUTPUTS),)](
        out, x, weight, bias, places, SIDE=side, IN=channels, OUT=weight.shape[1], ROWS=OUTPUTS
    )
    return out
