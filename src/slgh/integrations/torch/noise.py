"""Normal noise on the parameters of a PyTorch model: added in place, and generated again from its key when needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

CHUNK = 1 << 20
"""Maximum number of elements of noise in memory, unless a parameter is not dense."""


def noise_key(*numbers: int) -> int:
    """Return the 64-bit key of the noise for a seed, a step, a sample and a worker."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))


class Piece(NamedTuple):
    """Elements `start` to `stop` of a parameter in the order of its memory, or if `order` is None, all as they are."""

    parameter: int
    order: tuple[int, ...] | None
    start: int
    stop: int

    def of(self, tensor: Tensor) -> Tensor:
        """Return these elements of the parameter, or of a tensor of its shape."""
        if self.order is None:
            return tensor
        return tensor.permute(self.order).reshape(-1)[self.start : self.stop]


class Block(NamedTuple):
    """Pieces on one device, of one type, whose noise is generated at once."""

    pieces: list[Piece]
    views: list[Tensor]
    """Elements of the parameters, as views."""
    size: int

    def split(self, noise: Tensor) -> list[Tensor]:
        """Return the noise of each piece in the piece's shape."""
        if len(self.views) == 1:
            return [noise.view(self.views[0].shape)]
        parts = torch.split(noise, [view.numel() for view in self.views])
        return [part.view(view.shape) for part, view in zip(parts, self.views, strict=True)]


class ParameterNoise:
    """Directions u ~ N(0, I) in the space of some parameters. Only one block of u is in memory at a time.

    The noise depends on the key, the device, and the sizes and types of the parameters. It is float32, or float64 for
    float64 parameters.

    Parameters
    ----------
    parameters
        Parameters that get noise. Their memory may move between two sweeps.
    """

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self.parameters = list(parameters)
        self._blocks: list[Block] = []
        self._made_for: list[tuple[int, torch.device, torch.dtype]] | None = None

    def blocks(self) -> list[Block]:
        """Return the blocks for the memory where the parameters are now."""
        places = [(p.data_ptr(), p.device, p.dtype) for p in self.parameters]
        if places != self._made_for:
            self._blocks, self._made_for = _blocks(self.parameters), places
        return self._blocks

    def sweep(self, key: int) -> Iterator[tuple[Block, Tensor]]:
        """Yield each block with its noise. The noise is valid until the next one."""
        generators: dict[torch.device, torch.Generator] = {}
        buffers: dict[tuple[torch.device, torch.dtype], Tensor] = {}
        largest = max((block.size for block in self.blocks()), default=0)
        for block in self.blocks():
            device = block.views[0].device
            dtype = torch.promote_types(block.views[0].dtype, torch.float32)
            if device not in generators:
                generators[device] = torch.Generator(device).manual_seed(key)
            if (device, dtype) not in buffers:
                buffers[device, dtype] = torch.empty(largest, device=device, dtype=dtype)
            yield block, buffers[device, dtype][: block.size].normal_(generator=generators[device])

    def add(self, key: int, factors: Sequence[float]) -> None:
        """Add factor times noise to each parameter."""
        for block, noise in self.sweep(key):
            add_noise(block, block.split(noise), factors)

    def dot(self, key: int, tensors: Sequence[Tensor | None], factors: Sequence[float]) -> float:
        """Return the sum over the parameters of factor times the dot product of noise and tensor. None counts as 0."""
        total = 0.0
        sums: dict[torch.device, Tensor] = {}
        for block, noise in self.sweep(key):
            for piece, part in zip(block.pieces, block.split(noise), strict=True):
                tensor = tensors[piece.parameter]
                if tensor is not None and factors[piece.parameter]:
                    product = (piece.of(tensor).to(part.dtype) * part).sum(dtype=torch.float64)
                    weighted = factors[piece.parameter] * product
                    sums[part.device] = sums[part.device] + weighted if part.device in sums else weighted
        for value in sums.values():
            total += value.item()
        return total

    def square(self, key: int, factors: Sequence[float]) -> tuple[float, int]:
        """Return u·u and the number of elements, of the parameters with a factor other than 0."""
        sums: dict[torch.device, Tensor] = {}
        count = 0
        for block, noise in self.sweep(key):
            for piece, part in zip(block.pieces, block.split(noise), strict=True):
                if factors[piece.parameter]:
                    count += part.numel()
                    value = (part * part).sum(dtype=torch.float64)
                    sums[part.device] = sums[part.device] + value if part.device in sums else value
        return sum(value.item() for value in sums.values()), count


def add_noise(block: Block, noise: list[Tensor], factors: Sequence[float]) -> None:
    """Add factor times noise to the parameters of a block. It may change the noise."""
    scales = [factors[piece.parameter] for piece in block.pieces]
    if all(scale == scales[0] for scale in scales):
        torch._foreach_add_(block.views, noise, alpha=scales[0])
    else:
        torch._foreach_mul_(noise, scales)
        torch._foreach_add_(block.views, noise)


def _order(tensor: Tensor) -> tuple[int, ...] | None:
    """Return the axes from the largest to the smallest stride if the elements fill their memory, else None."""
    strides = tensor.stride()
    order = tuple(sorted(range(tensor.ndim), key=lambda axis: (-strides[axis], axis)))
    return order if tensor.permute(order).is_contiguous() else None


def _blocks(parameters: Sequence[Tensor]) -> list[Block]:
    """Divide the parameters into blocks of at most CHUNK elements: cut the large ones, and put small ones together."""
    blocks: list[Block] = []
    for index, parameter in enumerate(parameters):
        data, order = parameter.detach(), _order(parameter)
        n = data.numel()
        if order is None:
            cuts = [Piece(index, None, 0, n)]
        else:
            cuts = [Piece(index, order, start, min(start + CHUNK, n)) for start in range(0, n, CHUNK)]
        for piece in cuts:
            size, view = piece.stop - piece.start, piece.of(data)
            last = blocks[-1] if blocks else None
            if (
                last is not None
                and last.size + size <= CHUNK
                and (last.views[0].device, last.views[0].dtype) == (view.device, view.dtype)
            ):
                blocks[-1] = Block([*last.pieces, piece], [*last.views, view], last.size + size)
            else:
                blocks.append(Block([piece], [view], size))
    return blocks
