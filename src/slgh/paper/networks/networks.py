"""The two networks that the paper attacks, with weights trained for this project."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slgh import checks
from slgh.attack.loss import fits_kernels
from slgh.files import atomic_write
from slgh.paper.networks.datasets import DATASETS, Dataset

try:
    import torch
    from torch import Tensor, nn
except ImportError as missing:
    raise checks.MissingLibraryError(
        'A network of the paper needs PyTorch. Install: pip install "slgh[attack]".'
    ) from missing

from slgh.paper.networks.weights import read_weights, safetensors


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSpec:
    """The images that a network classifies, and the widths of its layers."""

    dataset: Dataset
    c1: int
    c2: int
    h: int

    @property
    def last_side(self) -> int:
        """Side of the last feature map: each pair of convolutions removes 4 pixels, each pooling halves the rest."""
        return ((self.dataset.side - 4) // 2 - 4) // 2


NETWORKS: dict[str, NetworkSpec] = {
    "mnist": NetworkSpec(dataset=DATASETS["mnist"], c1=32, c2=64, h=200),
    "cifar10": NetworkSpec(dataset=DATASETS["cifar10"], c1=64, c2=128, h=256),
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
        self.conv1 = nn.Conv2d(spec.dataset.channels, spec.c1, 3)
        self.conv2 = nn.Conv2d(spec.c1, spec.c1, 3)
        self.conv3 = nn.Conv2d(spec.c1, spec.c2, 3)
        self.conv4 = nn.Conv2d(spec.c2, spec.c2, 3)
        self.pool = nn.MaxPool2d(2)
        self.dense1 = nn.Linear(spec.c2 * spec.last_side**2, spec.h)
        self.dropout = nn.Dropout(0.5)
        self.dense2 = nn.Linear(spec.h, spec.h)
        self.dense3 = nn.Linear(spec.h, len(spec.dataset.classes))
        self._fused: FusedNetwork | None = None

    def forward(self, x: Tensor) -> Tensor:
        if not self.training and x.shape[1:] == self.spec.dataset.shape and fits_kernels(x):
            if self._fused is None or self._fused.version != self.version():
                self._fused = FusedNetwork(self)
            return self._fused(x)
        x = self.pool(self.conv2(self.conv1(x).relu()).relu())
        x = self.pool(self.conv4(self.conv3(x).relu()).relu())
        x = self.dropout(self.dense1(x.flatten(1)).relu())
        logits: Tensor = self.dense3(self.dense2(x).relu())
        return logits

    def version(self) -> list[tuple[int, int]]:
        """Return a value that changes when weights are replaced or written to, except through `.data`."""
        return [(tensor.data_ptr(), tensor._version) for tensor in self.parameters()]


class FusedNetwork:
    """A network on CUDA in Triton kernels: each convolution is one kernel, with its ReLU and the pooling that follows.

    The kernels have channels last, so the weights of the first dense layer are reordered once.
    """

    def __init__(self, network: Network) -> None:
        from slgh.paper.networks import kernels  # needs Triton

        self.network, self.kernels, self.version = network, kernels, network.version()
        first: Any = network.conv1
        others: Any = (network.conv2, True), (network.conv3, False), (network.conv4, True)
        spec = network.spec
        self.first = first.weight.detach().permute(1, 2, 3, 0).reshape(-1, spec.c1).contiguous(), first.bias.detach()
        self.convolutions = [(kernels.split(layer.weight, layer.bias), pool) for layer, pool in others]
        flat = network.dense1.weight.detach().view(spec.h, spec.c2, spec.last_side, spec.last_side)
        self.dense1 = flat.permute(0, 2, 3, 1).reshape(spec.h, -1).contiguous()

    def __call__(self, x: Tensor) -> Tensor:
        x = self.kernels.convolve_first(x.contiguous(), *self.first)
        for weights, pool in self.convolutions:
            x = self.kernels.convolve(x, weights, pool=pool)
        network = self.network
        x = (x.flatten(1) @ self.dense1.T + network.dense1.bias).relu_()
        logits: Tensor = network.dense3(network.dense2(x).relu_())
        return logits


def network(name: str, *, weights: str | os.PathLike[str] | None = None) -> Network:
    """Return one of the paper's networks in eval mode, float32, without gradients.

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
    state: Mapping[str, Tensor]
    if weights is None:
        shipped = files("slgh.paper.networks").joinpath("shipped", f"{name}.safetensors")
        state = safetensors().torch.load(shipped.read_bytes())
    else:
        path = Path(weights)
        if not path.is_file():
            raise checks.MissingFileError(f"`weights` must be a file, got {str(path)!r}, which is none.")
        tensors = {each: blank(each).state_dict() for each in NETWORKS}
        shapes = {each: {key: tuple(tensor.shape) for key, tensor in own.items()} for each, own in tensors.items()}
        state = read_weights(path, name, shapes)
    made = blank(name)
    made.load_state_dict({key: tensor.float() for key, tensor in state.items()}, assign=True)
    # With the channels last a CPU takes half the time.
    return lay_out(made, torch.channels_last).eval().requires_grad_(False)


def lay_out(network: Network, layout: torch.memory_format) -> Network:
    """Store the kernels of the network's convolutions in this memory format, and return it.

    `Module.to` would also change the strides of kernels with one channel, and with them the last bits of the outputs.
    """
    for parameter in network.parameters():
        if parameter.ndim == 4:
            parameter.data = parameter.data.contiguous(memory_format=layout)
    return network


def blank(name: str) -> Network:
    """Return a network without memory for its weights. No random numbers are drawn for them either."""
    with torch.device("meta"):
        return Network(NETWORKS[name])


def usable_device(device: str | torch.device | None) -> str:
    """Return the name of an available device; by default CUDA if there is one, otherwise the CPU."""
    if device is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        kind, index = (made := torch.device(device)).type, made.index or 0
    except (RuntimeError, TypeError):
        kind, index = "unknown", 0
    if kind not in ("cpu", "cuda"):
        raise checks.ArgumentValueError(f"`device` must be 'cpu', 'cuda', 'cuda:1', ...; got {device!r}.")
    if kind == "cuda" and index >= torch.cuda.device_count():
        raise checks.ArgumentValueError(
            f"`device` must be there, got {str(device)!r} with {torch.cuda.device_count()} CUDA devices: pass 'cpu'."
        )
    return str(device)


def scale(images: Tensor) -> Tensor:
    """Scale uint8 images to the input range of the networks, x / 255 - 0.5."""
    return images.float() / 255 - 0.5


@torch.no_grad()
def predict(network: nn.Module, images: NDArray[np.uint8], *, batch: int = 500) -> NDArray[np.int64]:
    """Return the predicted class (N,) of each image, uint8 (N, C, H, W), without dropout."""
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
    """Write the weights atomically as safetensors, which `network(..., weights=path)` reads.

    "float16" halves the file; it changes the logits of the shipped networks by about a thousandth.
    """
    checks.choice("dtype", dtype, ["float16", "float32"])
    kept = {name: tensor.to("cpu", getattr(torch, dtype)).contiguous() for name, tensor in network.state_dict().items()}
    for name, tensor in kept.items():
        if not tensor.isfinite().all():
            raise checks.ArgumentValueError(
                f"`network` has weights that {dtype} cannot hold as finite numbers, in {name}."
            )
    with atomic_write(path) as file:
        file.write(safetensors().torch.save(kept))
