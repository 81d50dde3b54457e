"""The two networks that the paper attacks, with weights trained for this project."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slgh import checks
from slgh.files import atomic_write
from slgh.paper.networks.datasets import DATASETS
from slgh.paper.networks.fused import FusedNetwork, kernels_for

try:
    import torch
    from torch import Tensor, nn
except ImportError as missing:
    raise ImportError('`slgh.paper.networks.networks` needs PyTorch: pip install "slgh[attack]".') from missing

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSpec:
    """What a network reads, `channels` images of `side` x `side`, and how wide its layers are."""

    title: str
    channels: int
    side: int
    c1: int
    c2: int
    h: int
    classes: tuple[str, ...]

    @staticmethod
    def of(name: str, *, c1: int, c2: int, h: int) -> NetworkSpec:
        """A network for the images of the set `name`."""
        read = DATASETS[name]
        return NetworkSpec(
            title=read.title, channels=read.channels, side=read.side, c1=c1, c2=c2, h=h, classes=read.classes
        )

    @property
    def last_side(self) -> int:
        """The side of what is flattened: each pair of convolutions takes 4 pixels, each pooling half of them."""
        return ((self.side - 4) // 2 - 4) // 2


NETWORKS: dict[str, NetworkSpec] = {
    "mnist": NetworkSpec.of("mnist", c1=32, c2=64, h=200),
    "cifar10": NetworkSpec.of("cifar10", c1=64, c2=128, h=256),
}


class Network(nn.Module):
    """Four convolutions and three dense layers: images (N, C, H, W), float32 in [-0.5, 0.5], to logits (N, 10).

    References
    ----------
    N. Carlini, D. Wagner, Toward evaluating the robustness of neural networks, IEEE Symposium on Security and Privacy,
    2017, Table 1, with the widths of their published code.
    """

    def __init__(self, spec: NetworkSpec) -> None:
        super().__init__()
        self.spec = spec
        self.conv1 = nn.Conv2d(spec.channels, spec.c1, 3)
        self.conv2 = nn.Conv2d(spec.c1, spec.c1, 3)
        self.conv3 = nn.Conv2d(spec.c1, spec.c2, 3)
        self.conv4 = nn.Conv2d(spec.c2, spec.c2, 3)
        self.pool = nn.MaxPool2d(2)
        self.dense1 = nn.Linear(spec.c2 * spec.last_side**2, spec.h)
        self.dropout = nn.Dropout(0.5)
        self.dense2 = nn.Linear(spec.h, spec.h)
        self.dense3 = nn.Linear(spec.h, len(spec.classes))
        self._fused: FusedNetwork | None = None

    def forward(self, x: Tensor) -> Tensor:
        fits = not self.training and x.shape[1:] == (self.spec.channels, self.spec.side, self.spec.side)
        if (kernels := kernels_for(x) if fits else None) is not None:
            if self._fused is None or not self._fused.of(self):
                self._fused = FusedNetwork(self, kernels)
            return self._fused(x)
        x = self.pool(self.conv2(self.conv1(x).relu()).relu())
        x = self.pool(self.conv4(self.conv3(x).relu()).relu())
        x = self.dropout(self.dense1(x.flatten(1)).relu())
        logits: Tensor = self.dense3(self.dense2(x).relu())
        return logits


def network(name: str, *, weights: str | os.PathLike[str] | None = None) -> Network:
    """One of the paper's networks, ready to be asked: in eval mode, float32, without gradients.

    Parameters
    ----------
    name
        "mnist" or "cifar10".
    weights
        A file instead of the weights that come with the package: safetensors with the names of `Network`, as
        `save_weights` writes it, or an .npz in Keras' layout (`conv1_kernel`, height x width x in x out;
        `dense1_kernel`, in x out; flattened with the channels last).

    >>> network("mnist")(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 10])
    """
    checks.choice("name", name, list(NETWORKS))
    if weights is None:
        shipped = files("slgh.paper.networks").joinpath("shipped", f"{name}.safetensors")
        return _filled(name, _read_safetensors(shipped.read_bytes()))
    path = Path(weights)
    if not path.is_file():
        raise FileNotFoundError(f"`weights` must be a file, got {str(path)!r}, which is none.")
    return _filled(name, _read_weights(path, name))


def usable_device(device: str | torch.device | None) -> str:
    """Return the name of an available device; by default CUDA if there is one, otherwise the CPU."""
    if device is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        kind, index = (made := torch.device(device)).type, made.index or 0
    except (RuntimeError, TypeError):
        kind, index = "unknown", 0
    if kind not in ("cpu", "cuda"):
        raise ValueError(f"`device` must be 'cpu', 'cuda', 'cuda:1', ...; got {device!r}.")
    if kind == "cuda" and index >= torch.cuda.device_count():
        raise ValueError(
            f"`device` must be there, got {str(device)!r} with {torch.cuda.device_count()} CUDA devices: pass 'cpu'."
        )
    return str(device)


def scale(images: Tensor) -> Tensor:
    """Images of uint8 as the networks read them, x / 255 - 0.5."""
    return images.float() / 255 - 0.5


@torch.no_grad()
def predict(network: nn.Module, images: NDArray[np.uint8], *, batch: int = 500) -> NDArray[np.int64]:
    """The class (N,) that a network sees in each image, uint8 (N, C, H, W), without dropout."""
    checks.count("batch", batch)
    device, training = next(network.parameters()).device, network.training
    network.eval()
    try:
        chunks = (torch.tensor(images[k : k + batch], device=device) for k in range(0, len(images), batch))
        found = [network(scale(chunk)).argmax(1).cpu() for chunk in chunks]
    finally:
        network.train(training)
    return torch.cat(found).numpy() if len(images) else np.zeros(0, np.int64)


def save_weights(network: Network, path: str | os.PathLike[str], *, dtype: str = "float16") -> None:
    """Write the weights as safetensors, which `network(..., weights=path)` reads; the file is whole or not there.

    "float16" halves the file; it changes the logits of our networks by about a thousandth.
    """
    checks.choice("dtype", dtype, ["float16", "float32"])
    kept = {name: tensor.to("cpu", getattr(torch, dtype)).contiguous() for name, tensor in network.state_dict().items()}
    for name, tensor in kept.items():
        if not tensor.isfinite().all():
            raise ValueError(f"`network` has weights that {dtype} cannot hold as finite numbers, in {name}.")
    with atomic_write(path) as file:
        file.write(_safetensors().torch.save(kept))


def blank(name: str) -> Network:
    """A network without memory for its weights, for which no random numbers are drawn either."""
    with torch.device("meta"):
        return Network(NETWORKS[name])


def _filled(name: str, state: Mapping[str, Tensor]) -> Network:
    made = blank(name)
    made.load_state_dict({name: _laid_out(tensor.float()) for name, tensor in state.items()}, assign=True)
    return made.eval().requires_grad_(False)


def _laid_out(tensor: Tensor) -> Tensor:
    """Kernels of convolutions with their channels last in memory, with which a CPU takes half the time."""
    return tensor.contiguous(memory_format=torch.channels_last) if tensor.ndim == 4 else tensor


def _shapes(name: str) -> Shapes:
    return {key: tuple(tensor.shape) for key, tensor in blank(name).state_dict().items()}


def _safetensors() -> Any:
    try:
        import safetensors.torch
    except ImportError as missing:
        raise ImportError('`weights` need safetensors: pip install "slgh[attack]".') from missing
    return safetensors


def _read_safetensors(content: bytes) -> dict[str, Tensor]:
    found: dict[str, Tensor] = _safetensors().torch.load(content)
    return found


def _read_weights(path: Path, name: str) -> dict[str, Tensor]:
    """The weights of the network `name` from a user's file, checked."""
    content = path.read_bytes()
    if content[:2] == b"PK":  # an .npz is a zip archive
        found = _read_npz(path)
        _check_weights(path, name, found, {each: _keras_shapes(_shapes(each)) for each in NETWORKS})
        return _from_keras(found, NETWORKS[name])
    try:
        found = _read_safetensors(content)
    except _safetensors().SafetensorError as error:
        raise ValueError(
            f"`weights` must be a safetensors file or an .npz, whole; {str(path)!r} is neither ({error})."
        ) from error
    _check_weights(path, name, found, {each: _shapes(each) for each in NETWORKS})
    return found


def _read_npz(path: Path) -> dict[str, Tensor]:
    try:
        with open(path, "rb") as handle, np.load(handle, allow_pickle=False) as file:
            return {key: torch.from_numpy(file[key]) for key in file.files}
    except (zipfile.BadZipFile, zlib.error, ValueError, TypeError, EOFError, MemoryError) as error:
        raise ValueError(f"`weights` {str(path)!r} is not a whole .npz of numbers ({error}).") from error


def _check_weights(path: Path, name: str, found: Mapping[str, Tensor], expected: Mapping[str, Shapes]) -> None:
    """Raise unless a file holds exactly the tensors of one network, and finite floats."""
    shapes, file = expected[name], f"`weights` {str(path)!r}"
    for wrong, what in ((shapes.keys() - found.keys(), "lacks"), (found.keys() - shapes.keys(), "has unknown")):
        if wrong:
            raise ValueError(f"{file} {what} {', '.join(sorted(wrong))}; it must hold {', '.join(sorted(shapes))}.")
    given = {key: tuple(tensor.shape) for key, tensor in found.items()}
    for key, shape in shapes.items():
        if given[key] != shape:
            fits = [other for other in NETWORKS if given == expected[other]]
            hint = f" It holds the network {fits[0]!r}." if fits else ""
            raise ValueError(f"{file}: {key} must have shape {shape} for {name!r}, got {given[key]}.{hint}")
        if not found[key].is_floating_point():
            raise ValueError(f"{file}: {key} must be floats, got {found[key].dtype}.")
        if not found[key].isfinite().all():
            raise ValueError(f"{file}: {key} must be finite, got NaN or infinity.")


def _keras_name(key: str) -> str:
    """`conv1.weight` is `conv1_kernel` in Keras, `conv1.bias` is `conv1_bias`."""
    return key.replace(".weight", "_kernel").replace(".bias", "_bias")


def _keras_shapes(shapes: Shapes) -> Shapes:
    """Keras has the axes of kernels the other way round: height, width, in, out and in, out."""
    return {_keras_name(key): (*shape[2:], *shape[1::-1]) for key, shape in shapes.items()}


def _from_keras(found: Mapping[str, Tensor], spec: NetworkSpec) -> dict[str, Tensor]:
    """Our layout. The first dense layer there reads height, width, channel, and ours channel, height, width."""
    side = spec.last_side
    ours: dict[str, Tensor] = {}
    for layer in ("conv1", "conv2", "conv3", "conv4", "dense1", "dense2", "dense3"):
        kernel = found[f"{layer}_kernel"]
        if layer == "dense1":
            kernel = kernel.reshape(side, side, spec.c2, spec.h)
        ours[f"{layer}.weight"] = kernel.permute(3, 2, 0, 1) if kernel.ndim == 4 else kernel.T
        ours[f"{layer}.bias"] = found[f"{layer}_bias"]
    ours["dense1.weight"] = ours["dense1.weight"].flatten(1)
    return {key: tensor.contiguous() for key, tensor in ours.items()}
