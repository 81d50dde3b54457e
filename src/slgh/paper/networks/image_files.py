"""Read the full sets of images: from pooch's cache, into which they are downloaded once, or from a folder."""

from __future__ import annotations

import gzip
import os
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slgh import checks
from slgh.paper.networks.datasets import (
    DATASETS,
    SPLITS,
    Dataset,
    ImageSet,
    channels_first,
    check_images,
    read_arrays,
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
        raise checks.MissingFileError(f"`folder` must be a folder with the files of {dataset.title}, got {folder!r}.")
    own = place / f"{name}_{split}.npz"
    images, labels = _read_npz(own) if own.is_file() else _OFFICIAL[name](place, dataset, split)
    try:
        check_images(name, images, labels)
    except (TypeError, ValueError) as error:
        raise checks.ArgumentValueError(
            f"`folder` {str(place)!r} holds a wrong {split} set of {dataset.title}: {error}"
        ) from error
    if len(labels) != dataset.sizes[split]:
        raise checks.ArgumentValueError(
            f"`folder` {str(place)!r} must hold all {dataset.sizes[split]:,} {split} images of {dataset.title}, "
            f"got {len(labels):,}."
        )
    return ImageSet(name=name, images=images, labels=labels.astype(np.int64), ids=np.arange(len(labels)))


def _download(dataset: Dataset, split: str) -> Path:
    """Download the files that are not in pooch's cache yet, verify them, and return their folder."""
    try:
        import pooch  # type: ignore[import-untyped]
    except ImportError as missing:
        raise checks.MissingLibraryError(
            '`load_images` needs pooch for downloads: pip install "slgh[attack]", or pass `folder`.'
        ) from missing
    place = Path(pooch.os_cache("slgh"))
    for file, digest in dataset.downloads[split].items():
        try:
            pooch.retrieve(dataset.home + file, known_hash=f"sha256:{digest}", fname=file, path=place)
        except (OSError, ValueError) as error:
            raise checks.ArgumentFileError(
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
            found = read_arrays(file, "x", "y")
    except (zipfile.BadZipFile, zlib.error, ValueError, TypeError, EOFError, KeyError, MemoryError) as error:
        raise _wrong(path, f"not a complete .npz with x and y ({_first_line(error)})") from error
    if found["x"].ndim not in (3, 4):
        raise _wrong(path, f"x has shape {found['x'].shape}, not (N, H, W) or (N, H, W, C)")
    return channels_first(found["x"]), found["y"]


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
    content = _read_start(path, size)
    if content[: len(header)] != header:
        raise _wrong(path, f"it must begin with {header.hex(' ', 4)}, got {content[: len(header)].hex(' ', 4)!r}")
    return np.frombuffer(_of_size(path, content, size), np.uint8, offset=len(header)).reshape(shape)


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
            content.append(_of_size(path, _read_start(path, size), size))
    elif archive.is_file():
        content = _read_archive(archive, parts, size)
    else:
        why = "(the Python version is not read: a pickle)"
        raise _absent(folder, dataset, split, f"{archive.name} or {parts[0]} {why}")
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
        _of_size(path / part, found[part], size)
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


def _read_start(path: Path, size: int) -> bytes:
    """Read one byte more than `size` of a file, packed (.gz) or not."""
    with _unpacking(path), gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
        return file.read(size + 1)


def _of_size(path: Path, content: bytes, size: int) -> bytes:
    """Return the content of a file, or raise if it is shorter or longer than it must be."""
    if len(content) != size:
        found = f"{len(content):,} and is cut short" if len(content) < size else "more"
        raise _wrong(path, f"it must have {size:,} bytes unpacked, it has {found}")
    return content


def _wrong(path: Path, why: str) -> ValueError:
    return checks.ArgumentValueError(f"`folder` holds a wrong or damaged file, {str(path)!r}: {why}.")


def _absent(folder: Path, dataset: Dataset, split: str, what: str) -> FileNotFoundError:
    return checks.MissingFileError(
        f"`folder` must hold the official {split} files of {dataset.title}, or an .npz of them; "
        f"{str(folder)!r} lacks {what}."
    )
