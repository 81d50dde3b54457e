"""Train the paper's networks with the published recipe of their authors."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slgh import checks
from slgh.engine import checkpoint as files
from slgh.paper.networks.datasets import check_images
from slgh.paper.networks.networks import NETWORKS, Network, blank, lay_out, predict, scale, usable_device

try:
    import torch
    from torch import Tensor, nn
except ImportError as missing:
    raise checks.MissingLibraryError(
        'A network of the paper needs PyTorch. Install: pip install "slgh[attack]".'
    ) from missing

# The recipe of Carlini and Wagner's published code.
RATE = 0.01
DECAY = 1e-6
MOMENTUM = 0.9


def learning_rate(updates: int) -> float:
    """Return the learning rate after a number of updates, 0.01 / (1 + 1e-6 updates).

    >>> learning_rate(0), learning_rate(1_000_000)
    (0.01, 0.005)
    """
    return RATE / (1 + DECAY * updates)


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """One pass over the training images.

    Attributes
    ----------
    epoch
        Its number, from 1.
    loss
        Mean cross-entropy of its batches during training, with dropout.
    held_out_accuracy
        Share of the held-out images classified correctly after it; None if none are held out.
    """

    epoch: int
    loss: float
    held_out_accuracy: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """A trained network, in eval mode on the CPU and without gradients, and the log of its training."""

    network: Network
    log: tuple[Epoch, ...]


def train(
    name: str,
    images: NDArray[np.uint8],
    labels: NDArray[Any],
    *,
    epochs: int = 50,
    held_out: int = 5000,
    batch: int = 128,
    seed: int = 0,
    device: str | torch.device | None = None,
    progress: Callable[[Epoch], None] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Training:
    """Train one of the paper's networks from random weights.

    Stochastic gradient descent on the cross-entropy with Nesterov's momentum 0.9 and the learning rate of
    `learning_rate`, dropout 0.5 after the first dense layer, Glorot's uniform weights, biases 0, no augmentation.

    Parameters
    ----------
    name
        "mnist" or "cifar10".
    images, labels
        The training set, uint8 (N, C, H, W) and (N,), as returned by `load_images(name, "train")`.
    epochs, batch
        Number of passes over the images, each in a new order, and of images per update; the last batch of an epoch may
        be smaller.
    held_out
        Number of images, the first ones, that are not trained on. The accuracy on them is measured after each epoch.
    seed
        Determines the initial weights, the orders and the dropout. On the CPU the same seed gives the same weights, bit
        for bit; CUDA's own kernels add in varying order.
    device
        "cpu", "cuda", "cuda:1", ...; by default CUDA if available.
    progress
        Called after each epoch with its entry of the log.
    checkpoint
        A file in which the training is saved after each epoch. If it holds this training, the training is continued;
        `epochs` may be larger than before.

    Notes
    -----
    The momentum is PyTorch's, which applies the current learning rate to the whole velocity; Keras' velocity contains
    the past rates. They differ by the change of the rate over some ten updates, a hundred thousandth.
    """
    checks.choice("name", name, list(NETWORKS))
    checks.count("epochs", epochs)
    checks.count("held_out", held_out, 0)
    checks.count("batch", batch)
    checks.count("seed", seed, 0)
    images, labels = np.ascontiguousarray(images), np.asarray(labels)
    check_images(name, images, labels)
    if len(images) <= held_out:
        raise checks.ArgumentValueError(
            f"`held_out` must be less than the number of images, {len(images)}, so that some are left to train on; "
            f"got held_out={held_out}."
        )
    run = _Run(name, images, labels, held_out, batch, seed, torch.device(usable_device(device)), checkpoint)
    if len(run.log) > epochs:
        raise checks.ArgumentValueError(
            f"`epochs` must be at least those in {str(checkpoint)!r}, {len(run.log)}; got epochs={epochs}."
        )
    while len(run.log) < epochs:
        line = run.epoch()
        if progress is not None:
            progress(line)
    trained = lay_out(run.network.cpu(), torch.contiguous_format)
    return Training(network=trained.eval().requires_grad_(False), log=tuple(run.log))


def accuracy(network: nn.Module, images: NDArray[np.uint8], labels: NDArray[Any]) -> float:
    """Return the share of images, uint8 (N, C, H, W), that a network classifies correctly, without dropout."""
    if not len(images):
        raise checks.ArgumentValueError("`images` must be one at least, got none.")
    return float((predict(network, images) == labels).mean())


def fresh(name: str, seed: int) -> Network:
    """Return a network with Glorot's uniform weights, U(-a, a) with a^2 = 6 / (fan in + fan out), and biases 0."""
    made = blank(name).to_empty(device="cpu")
    generator = torch.Generator().manual_seed(seed)
    for parameter in made.parameters():
        if parameter.ndim > 1:
            nn.init.xavier_uniform_(parameter, generator=generator)
        else:
            nn.init.zeros_(parameter)
    return made


class _Run:
    """State of a training: everything on the device, and the path of the checkpoint."""

    def __init__(
        self,
        name: str,
        images: NDArray[np.uint8],
        labels: NDArray[Any],
        held_out: int,
        batch: int,
        seed: int,
        device: torch.device,
        checkpoint: str | os.PathLike[str] | None,
    ) -> None:
        self.batch, self.seed, self.device = batch, seed, device
        self.held_images, self.held_labels = images[:held_out], labels[:held_out]
        # Bytes take a quarter of the memory of floats: 150 MB for CIFAR-10. Scaling a batch is cheap.
        self.images = torch.tensor(images[held_out:], device=device)
        self.labels = torch.tensor(labels[held_out:].astype(np.int64), device=device)
        # With the channels last an update takes 0.07 s instead of 0.10 s on two cores.
        self.network = lay_out(fresh(name, seed), torch.channels_last).to(device)
        self.optimizer = torch.optim.SGD(
            self.network.parameters(), lr=RATE, momentum=MOMENTUM, nesterov=True, fused=True
        )
        self.log: list[Epoch] = []
        self.path = None if checkpoint is None else files.resolve(checkpoint)
        if self.path is not None:
            digest = hashlib.sha256(images.data)
            digest.update(labels.astype(np.int64).data)
            self.identity = {
                "training of": name,
                "images": digest.hexdigest()[:16],
                "held_out": held_out,
                "batch": batch,
                "seed": seed,
            }
            self._resume(self.path)

    def epoch(self) -> Epoch:
        """Train for one epoch, and save the checkpoint."""
        number = len(self.log) + 1
        # Each epoch has its own random numbers, so a checkpoint needs no state of a generator.
        noise = np.random.default_rng([self.seed, number])
        order = torch.split(torch.from_numpy(noise.permutation(len(self.labels))).to(self.device), self.batch)
        total = torch.zeros((), device=self.device)
        self.network.train()
        with _seeded(int(noise.integers(2**63)), self.device):
            for k, rows in enumerate(order, (number - 1) * len(order)):
                total += self._update(k, self.images[rows], self.labels[rows]) * len(rows)
        loss = float(total) / len(self.labels)
        if not math.isfinite(loss):
            raise checks.NonfiniteError(
                f"`train` lost its way: the loss of epoch {number} is {loss}. Pass another seed, or check the labels."
            )
        right = accuracy(self.network, self.held_images, self.held_labels) if len(self.held_labels) else None
        self.log.append(Epoch(epoch=number, loss=loss, held_out_accuracy=right))
        if self.path is not None:
            self._save(self.path)
        return self.log[-1]

    def _update(self, k: int, images: Tensor, labels: Tensor) -> Tensor:
        self.optimizer.param_groups[0]["lr"] = learning_rate(k)
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.network(scale(images)), labels)
        torch.autograd.backward(loss)
        self.optimizer.step()
        return loss.detach()

    def _save(self, path: Path) -> None:
        arrays = {name: tensor.cpu().numpy() for name, tensor in self.network.state_dict().items()}
        for name, parameter in self.network.named_parameters():
            arrays[f"{name}.momentum"] = self.optimizer.state[parameter]["momentum_buffer"].cpu().numpy()
        files.write(path, {"identity": self.identity, "log": [asdict(line) for line in self.log]}, arrays)

    def _resume(self, path: Path) -> None:
        if (found := files.read(path)) is None:
            return
        meta, arrays = found
        with files.refuse_damaged(path):
            files.refuse_other_run(path, meta["identity"], self.identity)
            self.log = [Epoch(**line) for line in meta["log"]]
            for name, parameter in self.network.named_parameters():
                parameter.data.copy_(torch.from_numpy(arrays[name]))
                momentum = torch.from_numpy(arrays[f"{name}.momentum"])
                self.optimizer.state[parameter]["momentum_buffer"] = torch.empty_like(parameter.data).copy_(momentum)


@contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed PyTorch's generator, used by dropout, and restore it afterwards."""
    cuda = device.type == "cuda"
    with torch.random.fork_rng(devices=[device] if cuda else []):
        if cuda:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        else:
            torch.default_generator.manual_seed(seed)
        yield
