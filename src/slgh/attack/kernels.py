"""Triton kernels for the attack's loss on CUDA, before and after the call of the model."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra import libdevice

WIDTH = 1024
"""Pixels per block of a program of `perturb`."""

POINTS = 128
"""Points per program of `total_loss`."""


@triton.jit
def _perturb(image, distortion, x, a, n, d, SCALE: tl.constexpr, WIDTH: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    own = row // n
    total = tl.zeros((WIDTH,), tl.float32)
    for start in range(0, d, WIDTH):
        j = start + tl.arange(0, WIDTH)
        there = j < d
        original = tl.load(a + own * d + j, mask=there, other=0.0)
        moved = libdevice.atanh(original * (2 * SCALE)) + tl.load(x + row * d + j, mask=there, other=0.0)
        found = tl.minimum(tl.maximum(libdevice.tanh(moved) * (0.5 / SCALE), -0.5), 0.5)
        tl.store(image + row * d + j, found, mask=there)
        change = tl.where(there, found - original, 0.0)
        total += change * change
    tl.store(distortion + row, tl.sum(total))


def perturb(x: Tensor, a: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Return `loss.perturb` and `loss.distortion_of` of points x (B, n, d) and images a (B, 1, d)."""
    B, n, d = x.shape
    image, distortion = torch.empty_like(x), x.new_empty(B, n)
    _perturb[(B * n,)](image, distortion, x.contiguous(), a.contiguous(), n, d, SCALE=scale, WIDTH=WIDTH)
    return image, distortion


@triton.jit
def _total_loss(
    total, margin, scores, label, distortion, weight, kappa, points, n,
    OFFSET: tl.constexpr, K: tl.constexpr, WIDE: tl.constexpr, SIGN: tl.constexpr, LOGITS: tl.constexpr,
    POINTS: tl.constexpr,
):  # fmt: skip
    point = tl.program_id(0) * POINTS + tl.arange(0, POINTS)
    there = point < points
    kind = tl.arange(0, WIDE)
    inside = there[:, None] & (kind < K)[None, :]
    least = float("-inf") if LOGITS else 0.0
    p = tl.load(scores + point.to(tl.int64)[:, None] * K + kind[None, :], mask=inside, other=least)
    if LOGITS:
        p = tl.exp(p - tl.max(p, axis=1)[:, None])
        p = p / tl.sum(p, axis=1)[:, None]
    own = kind[None, :] == tl.load(label + point // n, mask=there, other=0)[:, None]
    p_own = tl.sum(tl.where(own, p, 0.0), axis=1)
    p_other = tl.max(tl.where(own, 0.0, p), axis=1)
    nothing = 0.0 * tl.sum(p, axis=1)  # NaN if any score is NaN: maxima ignore NaN
    lead = SIGN * (tl.log(p_own + OFFSET) - tl.log(p_other + OFFSET)) + nothing
    tl.store(margin + point, lead, mask=there)
    loss = weight * (tl.maximum(lead, -kappa) + nothing)
    tl.store(total + point, loss + tl.load(distortion + point, mask=there, other=0.0), mask=there)


def total_loss(
    scores: Tensor, label: Tensor, distortion: Tensor, *, weight: float, kappa: float, offset: float, targeted: bool,
    logits: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the total loss of the model's scores (B * n, K) and the distortion (B, n), and the margin: (B, n) each."""
    points, K = scores.shape
    total, margin = torch.empty_like(distortion), torch.empty_like(distortion)
    arguments: Any = (total, margin, scores.contiguous(), label.contiguous(), distortion, weight, kappa, points)
    _total_loss[(triton.cdiv(points, POINTS),)](
        *arguments, distortion.shape[1], OFFSET=offset, K=K, WIDE=triton.next_power_of_2(K),
        SIGN=-1.0 if targeted else 1.0, LOGITS=logits, POINTS=POINTS,
    )  # fmt: skip
    return total, margin
