"""Images of a folder: PNG and JPEG files, with classes from subfolders or from the file labels.csv."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slgh.checks import MissingLibraryError
from slgh.cli.errors import fail

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg")
FORMATS = ("PNG", "JPEG")
"""Pillow's decoders that may read the files, whatever their suffix."""

LABELS, CLASSES = "labels.csv", "classes.txt"
COLUMNS = ("file", "label")

GRAY_MODES = ("1", "L", "LA")
"""Pillow's modes of gray images with at most 8 bits."""

COLOR_MODES = ("RGB", "RGBA", "P", "PA", "CMYK", "YCbCr")
"""Pillow's modes of colored images with 8 bits per channel."""


class ImageFolder(NamedTuple):
    """Images (N, C, H, W) of bytes, with one or three channels, their classes (N,) and files."""

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    files: tuple[str, ...]
    classes: tuple[str, ...] | None
    """Names of the classes, if known."""


def read_folder(folder: Path) -> ImageFolder:
    """Read the images of a folder.

    The class of an image is the name of its subfolder, or the label in `labels.csv`: a number or a name. Names are
    numbered in the order of the file `classes.txt`, one name per line, or in alphabetical order.
    """
    files, given = _listed(folder) if (folder / LABELS).is_file() else _in_subfolders(folder)
    classes = _read_classes(folder, given)
    labels = [_number(label, classes, file) for file, label in zip(files, given, strict=True)]
    return ImageFolder(_read_images(folder, files), np.array(labels, np.int64), tuple(files), classes)


def _in_subfolders(folder: Path) -> tuple[list[str], list[str]]:
    """Return the image files in the subfolders, and the names of these."""
    found = sorted(
        file for file in folder.glob("*/*") if file.suffix.lower() in IMAGE_SUFFIXES and not file.name.startswith(".")
    )
    if not found:
        fail(
            f"--inputs: {folder} has no images in subfolders. Put PNG or JPEG files into one subfolder per class, "
            f"or list them in {LABELS} with the columns file and label."
        )
    return [file.relative_to(folder).as_posix() for file in found], [file.parent.name for file in found]


def _listed(folder: Path) -> tuple[list[str], list[str]]:
    """Return the files and labels of labels.csv."""
    path = folder / LABELS
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, skipinitialspace=True)
            rows, headings = list(reader), reader.fieldnames or ()
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        fail(f"--inputs: {path} cannot be read: {error}. Write it as UTF-8, with the columns file and label.")
    if missing := [name for name in COLUMNS if name not in headings]:
        fail(f"--inputs: {path} lacks the column {' and '.join(missing)}. Its first line must be: file,label")
    files, labels = ([(row[name] or "").strip() for row in rows] for name in COLUMNS)
    if not files:
        fail(f"--inputs: {path} lists no images. Add a line per image.")
    for name in files:
        if Path(name).is_absolute() or ".." in Path(name).parts:
            fail(f"--inputs: {path} lists {name!r}, which is outside of {folder}. List only files in that folder.")
        if not (folder / name).is_file():
            fail(f"--inputs: {path} lists {name!r}, which is not a file in {folder}.")
    return files, labels


def _read_classes(folder: Path, given: Sequence[str]) -> tuple[str, ...] | None:
    """Return the names of classes.txt, or else the given names in alphabetical order, or None if all are numbers."""
    path = folder / CLASSES
    if path.is_file():
        try:
            lines = path.read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            fail(f"--inputs: {path} cannot be read: {error}. Write one class name per line, as UTF-8.")
        return tuple(line.strip() for line in lines if line.strip())
    return None if all(label.isdecimal() for label in given) else tuple(sorted(set(given)))


def _number(label: str, classes: tuple[str, ...] | None, file: str) -> int:
    if classes is not None and label in classes:
        return classes.index(label)
    if not label.isdecimal():
        fail(f"--inputs: the class {label!r} of {file} is not in {CLASSES}. Add it, or use the number of the class.")
    return int(label)


def _read_images(folder: Path, files: Sequence[str]) -> NDArray[np.uint8]:
    """Return the images (N, C, H, W): gray if all are gray, else in color."""
    try:
        from PIL import Image, ImageOps
    except ImportError as missing:
        raise MissingLibraryError('--inputs with image files needs Pillow: pip install "slgh[images]".') from missing

    opened: list[Any] = []
    for file in files:
        try:
            with Image.open(folder / file, formats=FORMATS) as image:
                opened.append(_opaque(ImageOps.exif_transpose(image), folder / file))
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            text = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
            fail(
                f"--inputs: {folder / file} is not a complete PNG or JPEG image: {text}. Remove it, or write it again."
            )
    sizes = {image.size for image in opened}
    if len(sizes) > 1:
        (w, h), (w2, h2) = opened[0].size, next(image.size for image in opened if image.size != opened[0].size)
        fail(
            f"--inputs: the images must have one size, got {w} x {h} and {w2} x {h2} pixels. Crop or resize them to "
            "what the model reads."
        )
    mode = "L" if all(image.mode in GRAY_MODES for image in opened) else "RGB"
    pixels = np.stack([np.asarray(image.convert(mode)) for image in opened])
    return pixels[:, None] if mode == "L" else pixels.transpose(0, 3, 1, 2)


def _opaque(image: Any, file: Path) -> Any:
    """Return an image of 8 bits per channel without transparency, or refuse it."""
    if image.mode not in (*GRAY_MODES, *COLOR_MODES):
        fail(f"--inputs: {file} has Pillow's mode {image.mode}. Write it with 8 bits per channel.")
    if image.has_transparency_data and image.convert("RGBA").getchannel("A").getextrema()[0] < 255:
        fail(f"--inputs: {file} is transparent. Write it with the background that the model should see.")
    image.load()
    return image
