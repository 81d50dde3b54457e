"""Weight files of the networks: safetensors, or an .npz in Keras' layout."""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from slgh.checks import ArgumentValueError, MissingLibraryError

Shapes: TypeAlias = Mapping[str, tuple[int, ...]]
"""Shapes of a network's tensors by name."""


def safetensors() -> Any:
    """Return the library, or raise an error that names the extra."""
    try:
        import safetensors.torch
    except ImportError as missing:
        raise MissingLibraryError('`weights` need safetensors: pip install "slgh[attack]".') from missing
    return safetensors


def read_weights(path: Path, name: str, networks: Mapping[str, Shapes]) -> dict[str, Tensor]:
    """Read and check the weights of the network `name`, one of `networks`, from a user's file."""
    content = path.read_bytes()
    found: dict[str, Tensor]
    if content[:2] == b"PK":  # an .npz is a zip archive
        found = _read_npz(path)
        _check_weights(path, name, found, {each: _keras_shapes(shapes) for each, shapes in networks.items()})
        return _from_keras(found, networks[name])
    try:
        found = safetensors().torch.load(content)
    except safetensors().SafetensorError as error:
        raise ArgumentValueError(
            f"`weights` must be a safetensors file or an .npz, and complete; {str(path)!r} is neither ({error})."
        ) from error
    _check_weights(path, name, found, networks)
    return found


def _read_npz(path: Path) -> dict[str, Tensor]:
    try:
        with open(path, "rb") as handle, np.load(handle, allow_pickle=False) as file:
            return {key: torch.from_numpy(file[key]) for key in file.files}
    except (zipfile.BadZipFile, zlib.error, ValueError, TypeError, EOFError, MemoryError) as error:
        raise ArgumentValueError(f"`weights` {str(path)!r} is not a complete .npz of numbers ({error}).") from error


def _check_weights(path: Path, name: str, found: Mapping[str, Tensor], expected: Mapping[str, Shapes]) -> None:
    """Raise unless a file holds exactly the tensors of the network `name`, with finite floats."""
    shapes, file = expected[name], f"`weights` {str(path)!r}"
    for wrong, what in ((shapes.keys() - found.keys(), "lacks"), (found.keys() - shapes.keys(), "has unknown")):
        if wrong:
            raise ArgumentValueError(
                f"{file} {what} {', '.join(sorted(wrong))}; it must hold {', '.join(sorted(shapes))}."
            )
    given = {key: tuple(tensor.shape) for key, tensor in found.items()}
    for key, shape in shapes.items():
        if given[key] != shape:
            fits = [other for other in expected if given == expected[other]]
            hint = f" It holds the network {fits[0]!r}." if fits else ""
            raise ArgumentValueError(f"{file}: {key} must have shape {shape} for {name!r}, got {given[key]}.{hint}")
        if not found[key].is_floating_point():
            raise ArgumentValueError(f"{file}: {key} must be floats, got {found[key].dtype}.")
        if not found[key].isfinite().all():
            raise ArgumentValueError(f"{file}: {key} must be finite, got NaN or infinity.")


def _keras_name(key: str) -> str:
    """Keras' name of a tensor: `conv1_kernel` for `conv1.weight`, `conv1_bias` for `conv1.bias`."""
    return key.replace(".weight", "_kernel").replace(".bias", "_bias")


def _keras_shapes(shapes: Shapes) -> Shapes:
    """Shapes in Keras, where the axes of kernels are height, width, in, out; or in, out."""
    return {_keras_name(key): (*shape[2:], *shape[1::-1]) for key, shape in shapes.items()}


def _from_keras(found: Mapping[str, Tensor], shapes: Shapes) -> dict[str, Tensor]:
    """Return tensors in PyTorch's layout.

    Keras' first dense layer reads height, width, channel; PyTorch's reads channel, height, width.
    """
    channels, (h, inputs) = shapes["conv4.weight"][0], shapes["dense1.weight"]
    side = math.isqrt(inputs // channels)
    ours: dict[str, Tensor] = {}
    for key in shapes:
        tensor = found[_keras_name(key)]
        if key == "dense1.weight":
            tensor = tensor.reshape(side, side, channels, h).permute(3, 2, 0, 1).flatten(1)
        elif key.endswith(".weight"):
            tensor = tensor.permute(3, 2, 0, 1) if tensor.ndim == 4 else tensor.T
        ours[key] = tensor.contiguous()
    return ours
