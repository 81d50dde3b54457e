"""Normal noise on the parameters of a PyTorch model: added in place, and generated again from its key when needed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from slgh.engine.interrupts import deferred_interrupts

CHUNK = 1 << 20
"""Maximum number of elements of noise in memory for a small model, unless a parameter is not dense."""

PART = 20
"""A block of a large model has at most 1 / PART of all parameters. Smaller blocks save memory and need more kernel
launches: with 1/100, a step for 10^8 parameters on an H200 took three times as long."""

FOREACH_FROM = 8
"""Number of views from which, on a GPU, one call for all of them takes less time than a call for each."""


def noise_key(*numbers: int) -> int:
    """Return the 63-bit key of the noise for a seed, a step, a sample and a worker."""
    digest = hashlib.blake2b(repr(numbers).encode(), digest_size=8).digest()
    return int.from_bytes(digest) >> 1


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
    noise: Tensor
    """Memory of the noise, shared with other blocks."""
    parts: list[Tensor]
    """Noise of each piece, in the piece's shape, as views."""


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
        self._made_for: list[int] | None = None
        self._generators: dict[torch.device, torch.Generator] = {}

    def blocks(self) -> list[Block]:
        """Return the blocks for the memory where the parameters are now."""
        places = [p.data_ptr() for p in self.parameters]
        if places != self._made_for:
            self._blocks, self._made_for = _blocks(self.parameters), places
            self._generators = {p.device: torch.Generator(p.device) for p in self.parameters}
        return self._blocks

    def sweep(self, key: int) -> Iterator[Block]:
        """Fill the noise of each block, and yield the block. The noise is valid until the next one."""
        blocks = self.blocks()
        for position, generator in enumerate(self._generators.values()):
            generator.manual_seed(key if position == 0 else noise_key(key, position))
        for block in blocks:
            block.noise.normal_(generator=self._generators[block.noise.device])
            yield block

    def add(self, key: int, factors: Sequence[float]) -> None:
        """Add factor times noise to each parameter."""
        for block in self.sweep(key):
            scales = [factors[piece.parameter] for piece in block.pieces]
            if block.noise.is_cuda and len(scales) >= FOREACH_FROM:
                torch._foreach_mul_(block.parts, scales)
                torch._foreach_add_(block.views, block.parts)
            else:
                for view, part, scale in zip(block.views, block.parts, scales, strict=True):
                    view.add_(part, alpha=scale)

    def dot(self, key: int, tensors: Sequence[Tensor | None], factors: Sequence[float]) -> float:
        """Return the sum over the parameters of factor times the dot product of noise and tensor. None counts as 0."""
        total = 0.0
        sums: dict[torch.device, Tensor] = {}
        for block in self.sweep(key):
            for piece, part in zip(block.pieces, block.parts, strict=True):
                tensor = tensors[piece.parameter]
                if tensor is not None and factors[piece.parameter]:
                    product = (piece.of(tensor).to(part.dtype) * part).sum(dtype=sum_type(part))
                    weighted = factors[piece.parameter] * product
                    sums[part.device] = sums[part.device] + weighted if part.device in sums else weighted
        for value in sums.values():
            total += value.item()
        return total

    def square(self, key: int, factors: Sequence[float]) -> tuple[float, int]:
        """Return u·u and the number of elements, of the parameters with a factor other than 0."""
        sums: dict[torch.device, Tensor] = {}
        count = 0
        for block in self.sweep(key):
            for piece, part in zip(block.pieces, block.parts, strict=True):
                if factors[piece.parameter]:
                    count += part.numel()
                    value = (part * part).sum(dtype=sum_type(part))
                    sums[part.device] = sums[part.device] + value if part.device in sums else value
        return sum(value.item() for value in sums.values()), count


class Excursion:
    """A move of the parameters from x along the noise of a key, and back to x.

    Ctrl-C waits until a move is complete, so that `back` always knows where the parameters are.

    Parameters
    ----------
    noise
        Noise on the parameters.
    exact
        True: restore x from a copy, bit for bit. False: by arithmetic.
    """

    def __init__(self, noise: ParameterNoise, *, exact: bool) -> None:
        noise.blocks()  # allocates memory, which must not fail halfway
        self._noise = noise
        self._copies = [p.detach().clone() for p in noise.parameters] if exact else None
        self._key: int | None = None
        self._factors: Sequence[float] = ()

    def go(self, key: int, factors: Sequence[float]) -> None:
        """Set the parameters to x plus factor times the noise of a key."""
        with deferred_interrupts():
            if self._copies is not None:
                self._restore(self._copies)
                self._noise.add(key, factors)
            elif key == self._key:
                self._noise.add(key, [new - old for new, old in zip(factors, self._factors, strict=True)])
            else:
                self._subtract()
                self._noise.add(key, factors)
            self._key, self._factors = key, factors

    def back(self) -> None:
        """Set the parameters to x."""
        with deferred_interrupts():
            if self._copies is not None:
                self._restore(self._copies)
            else:
                self._subtract()
            self._key = None

    def add_at(self, factors: dict[int, list[float]], keep: Sequence[float]) -> None:
        """Set the parameters to x times `keep` plus the sum over keys of factors times noise, at once."""
        with deferred_interrupts():
            if self._copies is not None:
                self._restore(self._copies)
            elif self._key is not None:  # merge the way back with the noise of that key
                own = factors.get(self._key, [0.0] * len(keep))
                merged = [f - k * old for f, k, old in zip(own, keep, self._factors, strict=True)]
                factors = {**factors, self._key: merged}
            if any(k != 1 for k in keep):
                torch._foreach_mul_([p.detach() for p in self._noise.parameters], list(keep))
            for key, each in factors.items():
                self._noise.add(key, each)
            self._key = None
            self._copies = None

    def _restore(self, copies: list[Tensor]) -> None:
        torch._foreach_copy_([p.detach() for p in self._noise.parameters], copies)

    def _subtract(self) -> None:
        if self._key is not None:
            self._noise.add(self._key, [-factor for factor in self._factors])


def sum_type(tensor: Tensor) -> torch.dtype:
    """Return the type of long sums: float64, where the device has it."""
    return torch.float32 if tensor.device.type == "mps" else torch.float64


def _order(tensor: Tensor) -> tuple[int, ...] | None:
    """Return the axes from the largest to the smallest stride if the elements fill their memory, else None."""
    strides = tensor.stride()
    order = tuple(sorted(range(tensor.ndim), key=lambda axis: (-strides[axis], axis)))
    return order if tensor.permute(order).is_contiguous() else None


def _blocks(parameters: Sequence[Tensor]) -> list[Block]:
    """Divide the parameters into blocks of limited size: cut the large ones, and put small ones together."""
    most = max(CHUNK, sum(p.numel() for p in parameters) // PART)
    groups: list[list[tuple[Piece, Tensor]]] = []
    room = 0
    for index, parameter in enumerate(parameters):
        data, order = parameter.detach(), _order(parameter)
        n = data.numel()
        if order is None:
            cuts = [Piece(index, None, 0, n)]
        else:
            cuts = [Piece(index, order, start, min(start + most, n)) for start in range(0, n, most)]
        for piece in cuts:
            view = piece.of(data)
            same = bool(groups) and (groups[-1][0][1].device, groups[-1][0][1].dtype) == (view.device, view.dtype)
            if same and view.numel() <= room:
                groups[-1].append((piece, view))
            else:
                groups.append([(piece, view)])
                room = most
            room -= view.numel()
    buffers: dict[tuple[torch.device, torch.dtype], Tensor] = {}
    blocks = []
    for group in sorted(groups, key=lambda group: -sum(view.numel() for _, view in group)):  # the largest buffer first
        view = group[0][1]
        dtype = torch.promote_types(view.dtype, torch.float32)
        sizes = [view.numel() for _, view in group]
        if (view.device, dtype) not in buffers:
            buffers[view.device, dtype] = torch.empty(sum(sizes), device=view.device, dtype=dtype)
        noise = buffers[view.device, dtype][: sum(sizes)]
        parts = [part.view(view.shape) for part, (_, view) in zip(noise.split(sizes), group, strict=True)]  # type: ignore[no-untyped-call]
        blocks.append(Block([piece for piece, _ in group], [view for _, view in group], noise, parts))
    return blocks
