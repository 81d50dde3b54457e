"""MNIST and CIFAR-10: a hundred test images of each ship with the package; the full sets are downloaded or read."""

from __future__ import annotations

import gzip
import os
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slgh import checks

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
    parts: Mapping[str, tuple[str, ...]]
    home: str
    downloads: Mapping[str, Mapping[str, str]]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of one image, (C, H, W)."""
        return self.channels, self.side, self.side


_CIFAR10_ARCHIVE = {"cifar-10-binary.tar.gz": "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"}

DATASETS: dict[str, Dataset] = {
    "mnist": Dataset(
        title="MNIST",
        channels=1,
        side=28,
        classes=tuple("0123456789"),
        sizes={"test": 10_000, "train": 60_000},
        parts={
            "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
            "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
        },
        home="https://ossci-datasets.s3.amazonaws.com/mnist/",
        downloads={
            "test": {
                "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            },
            "train": {
                "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            },
        },
    ),
    "cifar10": Dataset(
        title="CIFAR-10",
        channels=3,
        side=32,
        classes=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
        sizes={"test": 10_000, "train": 50_000},
        parts={
            "test": ("test_batch.bin",),
            "train": tuple(f"data_batch_{k}.bin" for k in range(1, 6)),
        },
        home="https://www.cs.toronto.edu/~kriz/",
        downloads={"test": _CIFAR10_ARCHIVE, "train": _CIFAR10_ARCHIVE},
    ),
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
            raise ValueError(
                f"`ids` must be {len(self)} integers, one per image; got {self.ids.dtype} of shape {self.ids.shape}."
            )
        if len(np.unique(self.ids)) < len(self) or self.ids.min(initial=0) < 0:
            raise ValueError("`ids` must be distinct and not negative, got others.")

    def __len__(self) -> int:
        return len(self.labels)

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
            raise TypeError(f"`ids` must be integers, got {checks.show(ids)}.")
        place = {int(each): k for k, each in enumerate(self.ids)}
        missing = [str(each) for each in wanted if int(each) not in place]
        if missing:
            listed = ", ".join(missing[:10]) + (", ..." if len(missing) > 10 else "")
            within = f", which lie between {self.ids.min()} and {self.ids.max()}" if len(self) else ""
            raise ValueError(
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
        raise TypeError(f"`images` must be a NumPy array of uint8, 0 to 255; got {kinds[0]}.")
    if images.shape[1:] != dataset.shape:
        raise ValueError(
            f"`images` of {dataset.title} must have shape (N, {', '.join(map(str, dataset.shape))}), channels first; "
            f"got {images.shape}."
        )
    if not isinstance(labels, np.ndarray) or labels.dtype.kind not in "iu":
        raise TypeError(f"`labels` must be a NumPy array of integers; got {kinds[1]}.")
    if labels.shape != images.shape[:1]:
        raise ValueError(f"`labels` must be one per image, shape ({len(images)},); got {labels.shape}.")
    outside = labels[(labels < 0) | (labels >= len(dataset.classes))]
    if outside.size:
        raise ValueError(f"`labels` must lie in 0 to {len(dataset.classes) - 1}, got {outside[0]}.")


def shipped_images(name: str) -> ImageSet:
    """Return the first 100 test images that the shipped network classifies correctly.

    >>> len(shipped_images("cifar10"))
    100
    """
    checks.choice("name", name, list(DATASETS))
    with files("slgh.paper.networks").joinpath("shipped", f"{name}.npz").open("rb") as file:
        found = _arrays(file, "x", "y", "ids")
    return ImageSet(
        name=name,
        images=_channels_first(found["x"]),
        labels=found["y"].astype(np.int64),
        ids=found["ids"].astype(np.int64),
    )


def load_images(name: str, split: str = "test", folder: str | os.PathLike[str] | None = None) -> ImageSet:
    """Return a full set of images, in its official order.

    Parameters
    ----------
    name
        "mnist" or "cifar10".
    split
        "test" or "train".
    folder
        The folder of the official files: for MNIST the four idx files, packed (.gz) or not, for CIFAR-10 the archive of
        the binary version or its .bin files. Or of `{name}_{split}.npz`, with x (N, H, W) or (N, H, W, C) and y (N,).
        By default the files are downloaded once into pooch's cache, and their checksums are verified.
    """
    checks.choice("name", name, list(DATASETS))
    checks.choice("split", split, list(SPLITS))
    dataset = DATASETS[name]
    place = _download(dataset, split) if folder is None else Path(folder)
    if not place.is_dir():
        raise FileNotFoundError(f"`folder` must be a folder with the files of {dataset.title}, got {folder!r}.")
    own = place / f"{name}_{split}.npz"
    images, labels = _read_npz(own) if own.is_file() else _OFFICIAL[name](place, dataset, split)
    try:
        check_images(name, images, labels)
    except (TypeError, ValueError) as error:
        raise ValueError(f"`folder` {str(place)!r} holds a wrong {split} set of {dataset.title}: {error}") from error
    if len(labels) != dataset.sizes[split]:
        raise ValueError(
            f"`folder` {str(place)!r} must hold all {dataset.sizes[split]:,} {split} images of {dataset.title}, "
            f"got {len(labels):,}."
        )
    return ImageSet(name=name, images=images, labels=labels.astype(np.int64), ids=np.arange(len(labels)))


def _download(dataset: Dataset, split: str) -> Path:
    """Download the files that are not in pooch's cache yet, verify them, and return their folder."""
    try:
        import pooch  # type: ignore[import-untyped]
    except ImportError as missing:
        raise ImportError(
            '`load_images` needs pooch for downloads: pip install "slgh[attack]", or pass `folder`.'
        ) from missing
    place = Path(pooch.os_cache("slgh"))
    for file, digest in dataset.downloads[split].items():
        try:
            pooch.retrieve(dataset.home + file, known_hash=f"sha256:{digest}", fname=file, path=place)
        except (OSError, ValueError) as error:
            raise OSError(
                f"`load_images` could not get {dataset.title} from {dataset.home}{file} ({_first_line(error)}). "
                "Download it by other means and pass its `folder`."
            ) from error
    return place


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")


# The readers below trust nothing in a file's header: the expected content is known, down to the number of bytes, and a
# file that differs is refused before more of it is read.


def _read_npz(path: Path) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    try:
        with open(path, "rb") as file:
            found = _arrays(file, "x", "y")
    except (zipfile.BadZipFile, zlib.error, ValueError, TypeError, EOFError, KeyError, MemoryError) as error:
        raise _wrong(path, f"not a whole .npz with x and y ({_first_line(error)})") from error
    if found["x"].ndim not in (3, 4):
        raise _wrong(path, f"x has shape {found['x'].shape}, not (N, H, W) or (N, H, W, C)")
    return _channels_first(found["x"]), found["y"]


def _arrays(file: IO[bytes], *names: str) -> dict[str, NDArray[Any]]:
    with np.load(file, allow_pickle=False) as found:
        return {name: found[name] for name in names}


def _channels_first(x: NDArray[Any]) -> NDArray[Any]:
    """Return (N, H, W) or (N, H, W, C) as (N, C, H, W)."""
    return x[:, None] if x.ndim == 3 else np.ascontiguousarray(x.transpose(0, 3, 1, 2))


def _read_mnist(folder: Path, dataset: Dataset, split: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    paths, absent = [], []
    for part in dataset.parts[split]:
        found = [path for path in (folder / part, folder / f"{part}.gz") if path.is_file()]
        paths += found[:1]
        absent += [] if found else [f"{part}(.gz)"]
    if absent:
        raise _absent(folder, dataset, split, " and ".join(absent))
    n, (images, labels) = dataset.sizes[split], paths
    return _read_idx(images, (n, *dataset.shape[1:])).reshape(n, *dataset.shape), _read_idx(labels, (n,))


def _read_idx(path: Path, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Read an idx file of bytes: two zeros, the type 8, the number of axes, the lengths of the axes, the data."""
    header = struct.pack(f">HBB{len(shape)}I", 0, 8, len(shape), *shape)
    size = len(header) + int(np.prod(shape))
    with _unpacking(path), gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
        content = file.read(size + 1)
    if content[: len(header)] != header:
        raise _wrong(path, f"it must begin with {header.hex(' ', 4)}, got {content[: len(header)].hex(' ', 4)!r}")
    _check_size(path, content, size)
    return np.frombuffer(content, np.uint8, offset=len(header)).reshape(shape)


def _read_cifar10(folder: Path, dataset: Dataset, split: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Read records of 1 + 3072 bytes: the label, then the image, channels first."""
    parts, record = dataset.parts[split], 1 + int(np.prod(dataset.shape))
    size = dataset.sizes[split] // len(parts) * record
    homes = [home for home in (folder, folder / "cifar-10-batches-bin") if (home / parts[0]).is_file()]
    archive = folder / "cifar-10-binary.tar.gz"
    if homes:
        content = []
        for path in (homes[0] / part for part in parts):
            if not path.is_file():
                raise _absent(homes[0], dataset, split, path.name)
            with open(path, "rb") as file:
                content.append(file.read(size + 1))
            _check_size(path, content[-1], size)
    elif archive.is_file():
        content = _read_archive(archive, parts, size)
    else:
        raise _absent(
            folder, dataset, split, f"{archive.name} or {parts[0]} (the Python version is not read: a pickle)"
        )
    records = np.frombuffer(b"".join(content), np.uint8).reshape(-1, record)
    return records[:, 1:].reshape(-1, *dataset.shape), records[:, 0]


def _read_archive(path: Path, parts: Sequence[str], size: int) -> list[bytes]:
    """Read some members of an archive in one pass; nothing is unpacked to disk."""
    found: dict[str, bytes] = {}
    with _unpacking(path), gzip.open(path) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            part = member.name.removeprefix("./").removeprefix("cifar-10-batches-bin/")
            file = archive.extractfile(member) if part in parts else None
            if file is not None:
                found[part] = file.read(size + 1)
        stream.read(1 << 20)  # the padding at the end, after which gzip verifies its checksum
    for part in parts:
        if part not in found:
            raise _wrong(path, f"there is no cifar-10-batches-bin/{part} in it")
        _check_size(path / part, found[part], size)
    return [found[part] for part in parts]


_OFFICIAL: dict[str, Callable[[Path, Dataset, str], tuple[NDArray[np.uint8], NDArray[np.uint8]]]] = {
    "mnist": _read_mnist,
    "cifar10": _read_cifar10,
}


@contextmanager
def _unpacking(path: Path) -> Iterator[None]:
    try:
        yield
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise _wrong(path, f"it cannot be unpacked ({_first_line(error)})") from error


def _check_size(path: Path, content: bytes, size: int) -> None:
    if len(content) != size:
        found = f"{len(content):,} and is cut short" if len(content) < size else "more"
        raise _wrong(path, f"it must have {size:,} bytes unpacked, it has {found}")


def _wrong(path: Path, why: str) -> ValueError:
    return ValueError(f"`folder` holds a wrong or damaged file, {str(path)!r}: {why}.")


def _absent(folder: Path, dataset: Dataset, split: str, what: str) -> FileNotFoundError:
    return FileNotFoundError(
        f"`folder` must hold the official {split} files of {dataset.title}, or an .npz of them; "
        f"{str(folder)!r} lacks {what}."
    )
