"""The paper's networks computed by Triton kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slgh.attack.loss import fits_kernels
from slgh.protocols import Array

if TYPE_CHECKING:
    from torch import Tensor

    from slgh.paper.networks.networks import Network


def kernels_for(x: Array) -> Any:
    """Return the module of kernels, or None if they cannot take x."""
    if not fits_kernels(x):
        return None
    from slgh.paper.networks import kernels

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
