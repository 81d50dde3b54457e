"""MNIST and CIFAR-10: their format, sets of their images, and the hundred test images of each that ship with slgh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import IO, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slgh import checks
from slgh.paper.data_files import read_toml

SPLITS = ("test", "train")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A public set of square labeled images.

    For each split, `sizes` has the number of images, `parts` the official files in order, and `downloads` the files to
    fetch from `home` with their SHA-256.
    """

    title: str
    channels: int
    side: int
    classes: tuple[str, ...]
    sizes: Mapping[str, int]
    parts: Mapping[str, Sequence[str]]
    home: str
    downloads: Mapping[str, Mapping[str, str]]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of one image, (C, H, W)."""
        return self.channels, self.side, self.side


DATASETS = {
    name: Dataset(**about | {"classes": tuple(about["classes"])})
    for name, about in read_toml("slgh.paper.networks", "datasets.toml").items()
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ImageSet:
    """Images of one of the two sets.

    Parameters
    ----------
    name
        "mnist" or "cifar10".
    images
        (N, C, H, W), uint8.
    labels
        (N,), the class indices.
    ids
        (N,), the positions in the official order of their split, from 0: for the test set, the paper's image IDs.
    """

    name: str
    images: NDArray[np.uint8] = field(repr=False)
    labels: NDArray[np.int64] = field(repr=False)
    ids: NDArray[np.int64] = field(repr=False)

    def __post_init__(self) -> None:
        checks.choice("name", self.name, list(DATASETS))
        check_images(self.name, self.images, self.labels)
        if self.ids.shape != self.labels.shape or self.ids.dtype.kind not in "iu":
            raise checks.ArgumentValueError(
                f"`ids` must be {len(self)} integers, one per image; got {self.ids.dtype} of shape {self.ids.shape}."
            )
        if len(np.unique(self.ids)) < len(self) or self.ids.min(initial=0) < 0:
            raise checks.ArgumentValueError("`ids` must be distinct and not negative, got others.")

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def place(self) -> dict[int, int]:
        """Position in this set of each id."""
        return {int(each): k for k, each in enumerate(self.ids)}

    def pixels(self) -> NDArray[np.float32]:
        """Return the input of the networks: float32 (N, C, H, W) in [-0.5, 0.5], x / 255 - 0.5."""
        return self.images.astype(np.float32) / np.float32(255) - np.float32(0.5)

    def take(self, ids: ArrayLike) -> ImageSet:
        """Return the images with these ids, in this order.

        >>> shipped_images("mnist").take([7, 3]).labels
        array([9, 0])
        """
        wanted = np.atleast_1d(np.asarray(ids))
        if wanted.ndim != 1 or (wanted.size and wanted.dtype.kind not in "iu"):
            raise checks.ArgumentTypeError(f"`ids` must be integers, got {checks.show(ids)}.")
        place = self.place
        missing = [str(each) for each in wanted if int(each) not in place]
        if missing:
            listed = ", ".join(missing[:10]) + (", ..." if len(missing) > 10 else "")
            within = f", which lie between {self.ids.min()} and {self.ids.max()}" if len(self) else ""
            raise checks.ArgumentValueError(
                f"`ids` must be among those of these {len(self)} images{within}; {listed} "
                f"{'is' if len(missing) == 1 else 'are'} not. `load_images({self.name!r})` has the full set."
            )
        rows = [place[int(each)] for each in wanted]
        return ImageSet(name=self.name, images=self.images[rows], labels=self.labels[rows], ids=self.ids[rows])


def check_images(name: str, images: Any, labels: Any) -> None:
    """Raise unless these are labeled uint8 images of the set `name`, (N, C, H, W) and (N,)."""
    dataset = DATASETS[name]
    kinds = [a.dtype if isinstance(a, np.ndarray) else type(a).__name__ for a in (images, labels)]
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8:
        raise checks.ArgumentTypeError(f"`images` must be a NumPy array of uint8, 0 to 255; got {kinds[0]}.")
    if images.shape[1:] != dataset.shape:
        raise checks.ArgumentValueError(
            f"`images` of {dataset.title} must have shape (N, {', '.join(map(str, dataset.shape))}), channels first; "
            f"got {images.shape}."
        )
    if not isinstance(labels, np.ndarray) or labels.dtype.kind not in "iu":
        raise checks.ArgumentTypeError(f"`labels` must be a NumPy array of integers; got {kinds[1]}.")
    if labels.shape != images.shape[:1]:
        raise checks.ArgumentValueError(f"`labels` must be one per image, shape ({len(images)},); got {labels.shape}.")
    outside = labels[(labels < 0) | (labels >= len(dataset.classes))]
    if outside.size:
        raise checks.ArgumentValueError(f"`labels` must lie in 0 to {len(dataset.classes) - 1}, got {outside[0]}.")


def shipped_images(name: str) -> ImageSet:
    """Return the first 100 test images that the shipped network classifies correctly.

    >>> len(shipped_images("cifar10"))
    100
    """
    checks.choice("name", name, list(DATASETS))
    with files("slgh.paper.networks").joinpath("shipped", f"{name}.npz").open("rb") as file:
        found = read_arrays(file, "x", "y", "ids")
    return ImageSet(
        name=name,
        images=channels_first(found["x"]),
        labels=found["y"].astype(np.int64),
        ids=found["ids"].astype(np.int64),
    )


def read_arrays(file: IO[bytes], *names: str) -> dict[str, NDArray[Any]]:
    """Read some arrays of an .npz."""
    with np.load(file, allow_pickle=False) as found:
        return {name: found[name] for name in names}


def channels_first(x: NDArray[Any]) -> NDArray[Any]:
    """Return (N, H, W) or (N, H, W, C) as (N, C, H, W)."""
    return x[:, None] if x.ndim == 3 else np.ascontiguousarray(x.transpose(0, 3, 1, 2))
