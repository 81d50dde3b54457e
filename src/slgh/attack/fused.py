"""Whether our own kernels can be used, and the paper's networks computed with them."""

from __future__ import annotations

import functools
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from slgh.parts import Array

if TYPE_CHECKING:
    from torch import Tensor

    from slgh.attack.networks import Network


def kernels_for(x: Array) -> Any:
    """Our kernels, for float32 on CUDA without gradients; None for anything else, and where there is no Triton."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(x, torch.Tensor):
        return None
    if not x.is_cuda or x.dtype != torch.float32 or torch.is_grad_enabled():
        return None
    return _kernels()


@functools.cache
def _kernels() -> Any:
    if find_spec("triton") is None:
        return None
    from slgh.attack import kernels

    return kernels


class FusedNetwork:
    """The paper's networks on CUDA: each convolution is one kernel, with its ReLU and the pooling that follows.

    Channels are last in between, so that the weights of the first dense layer are reordered once. Weights that are
    replaced or written to are read anew, but for writes through `.data`, which leave no trace.
    """

    def __init__(self, network: Network, kernels: Any) -> None:
        self.kernels, self.made_of = kernels, _version(network)
        first: Any = network.conv1
        spec = network.spec
        self.first = first.weight.detach().permute(1, 2, 3, 0).reshape(-1, spec.c1).contiguous(), first.bias.detach()
        self.convolutions = [
            (kernels.split(layer.weight, layer.bias), pool)
            for layer, pool in ((network.conv2, True), (network.conv3, False), (network.conv4, True))
        ]
        flat = network.dense1.weight.detach().view(spec.h, spec.c2, spec.last_side, spec.last_side)
        self.dense1 = flat.permute(0, 2, 3, 1).reshape(spec.h, -1).contiguous()
        self.network = network

    def of(self, network: Network) -> bool:
        """Whether the weights are still those it was made of."""
        return self.made_of == _version(network)

    def __call__(self, x: Tensor) -> Tensor:
        x = self.kernels.convolve_first(x.contiguous(), *self.first)
        for weights, pool in self.convolutions:
            x = self.kernels.convolve(x, weights, pool=pool)
        network = self.network
        x = (x.flatten(1) @ self.dense1.T + network.dense1.bias).relu_()
        logits: Tensor = network.dense3(network.dense2(x).relu_())
        return logits


def _version(network: Network) -> list[tuple[int, int]]:
    """What tells whether weights were replaced or written to."""
    return [(tensor.data_ptr(), tensor._version) for tensor in network.parameters()]
