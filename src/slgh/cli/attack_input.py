"""What is attacked: images of a public set or of the user's, and our network or the user's model."""

from __future__ import annotations

import traceback
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import slgh
from slgh.attack import model as asking
from slgh.cli import attack_settings as usual
from slgh.cli.common import fail
from slgh.cli.start import read_numbers
from slgh.cli.user_code import UserCodeFailed, failed, load
from slgh.paper.networks.datasets import DATASETS, ImageSet, load_images, shipped_images

OUR_PIXELS = (-0.5, 0.5)
"""The range that our networks read."""

ARRAYS = ("images", "labels")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What the command line says of images and model, as it was typed."""

    data: str | None = None
    images: int | None = None
    ids: str | None = None
    folder: Path | None = None
    download: bool = False
    weights: Path | None = None
    model: str | None = None
    inputs: Path | None = None
    pixels: str | None = None
    outputs: str | None = None
    device: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Attacked:
    """Images (N, ...) with their labels and ids (N,), and the model that is to be fooled."""

    about: str
    """What it is, for the reader."""
    title: str
    model: Callable[..., Any]
    model_name: str
    ours: bool
    """Whether the model is ours and not the user's."""
    images: NDArray[Any]
    labels: NDArray[Any]
    ids: NDArray[Any]
    pixels: tuple[float, float]
    outputs: str
    classes: tuple[str, ...] | None
    """The names of the classes, where they are known."""

    @property
    def d(self) -> int:
        """The number of pixels of an image."""
        return int(np.prod(self.images.shape[1:]))

    def name(self, label: int) -> str:
        """What a class is called."""
        return str(label) if self.classes is None else self.classes[label]


def read_attacked(source: Source, target: str | None) -> tuple[Attacked, int | None]:
    """The images and the model, and the class that is wanted, if any."""
    _refuse_what_does_not_go_together(source)
    if source.inputs is not None:
        images, labels, ids = _read_inputs(source.inputs)
        pixels, classes = _read_pixels(source.pixels), None
        about, title = f"of {source.inputs}", source.inputs.name
    else:
        data = read_data(source.data or usual.DATA)
        whole = _read_set(data, source)
        pixels = OUR_PIXELS if source.model is None else _read_pixels(source.pixels)
        images, labels, ids, classes = _scaled(whole, pixels), whole.labels, whole.ids, DATASETS[data].classes
        about, title = f"of the test set of {DATASETS[data].title}", DATASETS[data].title
    wanted = _read_target(target, classes)
    rows = _choose(source, ids, labels, wanted)
    model, name = _our_network(source) if source.model is None else _own_model(source.model, source.device)
    it = Attacked(
        about=f"{len(rows)} image{'s' * (len(rows) != 1)} {about}, seen by {name}",
        title=title,
        model=model,
        model_name=name,
        ours=source.model is None,
        images=images[rows],
        labels=labels[rows],
        ids=ids[rows],
        pixels=pixels,
        outputs=source.outputs or "logits",
        classes=classes,
    )
    return it, wanted


def _refuse_what_does_not_go_together(source: Source) -> None:
    if source.model is None:
        for name in ("inputs", "pixels", "outputs"):
            if getattr(source, name) is not None:
                fail(f"--{name} goes with --model FILE.py:NAME; our networks read their own images.")
    else:
        if source.weights is not None:
            fail("--weights are another training of our network; --model has its own.")
        if (source.inputs is None) == (source.data is None):
            given = "got both" if source.data else "got neither"
            fail(f"Pass with --model either --inputs FILE.npz or --data, the images it is asked about; {given}.")
    if source.inputs is not None:
        for name in ("folder", "download"):
            if getattr(source, name):
                fail(f"--{name} goes with --data; --inputs holds the images.")
    if source.folder is not None and source.download:
        fail("Pass one of --folder and --download.")
    if source.images is not None and source.ids is not None:
        fail("Pass one of --images and --ids.")
    if source.images is not None and source.images < 1:
        fail(f"--images must be an integer >= 1, got {source.images}.")
    if source.outputs is not None and source.outputs not in asking.OUTPUTS:
        fail(f"--outputs must be one of {', '.join(asking.OUTPUTS)}; got {source.outputs!r}.")


def read_data(name: str) -> str:
    """The name of a public set, or a refusal."""
    if name not in DATASETS:
        fail(f"--data must be one of {', '.join(DATASETS)}; got {name!r}. Other images go with --model and --inputs.")
    return name


def _read_set(data: str, source: Source) -> ImageSet:
    if source.folder is None and not source.download:
        return shipped_images(data)
    return load_images(data, "test", source.folder)


def _scaled(images: ImageSet, pixels: tuple[float, float]) -> NDArray[np.float32]:
    """The images with pixels in this range, which a model reads."""
    if pixels == OUR_PIXELS:
        return images.pixels()
    low, high = map(np.float32, pixels)
    found: NDArray[np.float32] = np.clip(
        images.images.astype(np.float32) / np.float32(255) * (high - low) + low, low, high
    )
    return found


def _read_inputs(file: Path) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Images, labels and ids of a user's file; without ids the images are numbered from 0."""
    if not file.is_file():
        fail(f"--inputs: there is no file {str(file)!r}.")
    try:
        with open(file, "rb") as handle:
            found = np.load(handle, allow_pickle=False)
            if isinstance(found, np.ndarray):
                fail(f"--inputs: {file} holds one array; an .npz with images and labels is needed (numpy.savez).")
            if missing := [name for name in ARRAYS if name not in found.files]:
                there = ", ".join(found.files) or "nothing"
                fail(f"--inputs: {file} lacks {' and '.join(missing)}; it holds {there}.")
            images, labels = found["images"], found["labels"]
            ids = found["ids"] if "ids" in found.files else np.arange(len(images))
    except (zipfile.BadZipFile, zlib.error, ValueError, TypeError, EOFError, OSError, MemoryError) as error:
        text = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        fail(f"--inputs: {file} is not a whole .npz of numbers ({text}).")
    if images.ndim < 2 or 0 in images.shape:
        fail(f"--inputs: images must have shape (N, ...), at least one image of one pixel; got {images.shape}.")
    for name, column in {"labels": labels, "ids": ids}.items():
        if column.shape != images.shape[:1] or column.dtype.kind not in "iu":
            fail(
                f"--inputs: {name} must be {len(images)} integers, one an image; got {column.dtype} of shape "
                f"{column.shape}."
            )
    return images, labels, ids


def _read_pixels(text: str | None) -> tuple[float, float]:
    """The range of the pixels, as low,high."""
    if text is None:
        return 0.0, 1.0
    found = read_numbers(text, "--pixels")
    if len(found) != 2 or not (np.isfinite(found).all() and found[0] < found[1]):
        fail(f"--pixels must be two numbers low,high with low < high, such as 0,1 or 0,255; got {text!r}.")
    return found[0], found[1]


def _read_target(text: str | None, classes: tuple[str, ...] | None) -> int | None:
    """The class that is wanted, by its number or its name."""
    if text is None:
        return None
    if classes is not None and text in classes:
        return classes.index(text)
    if not text.isdecimal() or (classes is not None and int(text) >= len(classes)):
        known = (
            "the number of a class" if classes is None else f"one of {', '.join(classes)}, or 0 to {len(classes) - 1}"
        )
        fail(f"--target must be {known}; got {text!r}.")
    return int(text)


def _choose(source: Source, ids: NDArray[Any], labels: NDArray[Any], wanted: int | None) -> list[int]:
    """The rows that are attacked: those of --ids, or the first --images that are not of the wanted class already."""
    more = (
        "" if source.inputs or source.folder or source.download else " --folder or --download has the whole test set."
    )
    if source.ids is None:
        rows = [i for i in range(len(ids)) if labels[i] != wanted]
        n = source.images or (len(rows) if source.inputs else usual.IMAGES)
        if n > len(rows) or not rows:
            other = f" of other classes than {wanted}" if wanted is not None else ""
            fail(f"--images must be at most {len(rows)}, all images there are{other}; got {n}.{more}")
        return rows[:n]
    numbers = read_numbers(source.ids, "--ids")
    if len(set(numbers)) < len(numbers):
        fail(f"--ids must be different from each other, got {source.ids!r}.")
    place = {int(each): i for i, each in enumerate(ids)}
    if absent := [f"{each:g}" for each in numbers if each not in place]:
        fail(
            f"--ids must be among those of the {len(ids)} images, {ids.min()} to {ids.max()}; {', '.join(absent)} "
            f"{'is' if len(absent) == 1 else 'are'} not.{more}"
        )
    rows = [place[int(each)] for each in numbers]
    if already := [str(ids[i]) for i in rows if labels[i] == wanted]:
        fail(f"--target {wanted} is the class of {', '.join(already)} already; leave that out of --ids.")
    return rows


def _our_network(source: Source) -> tuple[Callable[..., Any], str]:
    """One of the paper's networks, on the device that was asked for."""
    from slgh.paper.networks.networks import network

    made = network(source.data or usual.DATA, weights=source.weights)
    name = "our network" if source.weights is None else f"our network with {source.weights}"
    return _placed(made, source.device or "cpu"), name


def _placed(module: Any, device: str) -> Any:
    try:
        return module.to(device)
    except (RuntimeError, AssertionError) as error:
        fail(
            f"--device must be cpu or cuda, and there; {device!r} is refused: {str(error).splitlines()[0].rstrip('.')}."
        )


def _own_model(name: str, device: str | None) -> tuple[Callable[..., Any], str]:
    """A function or a PyTorch module of the user's."""
    model = load("--model", name, Path.cwd())
    if isinstance(model, type):
        fail(f"--model: {name} is a class; name a function of images, or an instance with its weights.")
    if device is not None:
        if not hasattr(model, "to"):
            fail(f"--device goes with a PyTorch module; {name} is a {type(model).__name__}.")
        model = _placed(model, device)
    return model, name


@contextmanager
def blamed(it: Attacked) -> Iterator[None]:
    """Around an attack: what the user's model raises becomes UserCodeFailed, told from what the library refuses."""
    try:
        yield
    except Exception as error:
        if it.ours or not _raised_by_the_model(error):
            raise
        told: UserCodeFailed = failed(error, it.model_name)
        for note in getattr(error, "__notes__", ()):
            told.add_note(note)
        raise told from error


def _raised_by_the_model(error: Exception) -> bool:
    """Whether the last of our own lines that an exception came through is the one that asks the model."""
    ours = str(Path(slgh.__file__).parent)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(ours)]
    return frames[-1].filename == asking.__file__ and not str(error).startswith("`")
