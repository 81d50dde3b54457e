"""The images and the model to attack: of a public set and our network, or the user's own."""

from __future__ import annotations

import math
import traceback
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import slgh
from slgh.attack import model as asking
from slgh.checks import is_about_argument
from slgh.cli.declaration import refuse
from slgh.cli.errors import fail
from slgh.cli.options import AttackOptions
from slgh.cli.parameters import fields_of
from slgh.cli.parse import read_numbers
from slgh.cli.user_code import failed, load
from slgh.paper.attack.settings import METHODS as PAPER_METHODS
from slgh.paper.attack.settings import PAPER
from slgh.paper.networks.datasets import DATASETS, ImageSet, shipped_images
from slgh.paper.networks.image_files import load_images

OUR_PIXELS = (-0.5, 0.5)
"""The range that our networks read."""

ARRAYS = ("images", "labels")

DEFAULT_DATA = "mnist"
DEFAULT_IMAGES = 4

PER_PIXEL = ("step", "eta")
"""Steps, which the paper divides by the number of pixels."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AttackInput:
    """Images (N, ...) with their labels and ids (N,), and the model that is to be fooled."""

    about: str
    """A description for the reader."""
    title: str
    model: Callable[..., Any]
    model_name: str
    is_paper_network: bool
    """True if the model is slgh's and not the user's."""
    images: NDArray[Any]
    labels: NDArray[Any]
    ids: NDArray[Any]
    pixels: tuple[float, float]
    outputs: str
    classes: tuple[str, ...] | None
    """The names of the classes, where they are known."""
    wanted: int | None
    """The class that the model is to see; None is any wrong one."""

    @property
    def d(self) -> int:
        """The number of pixels of an image."""
        return int(np.prod(self.images.shape[1:]))

    def name(self, label: int) -> str:
        """Return the name of a class."""
        return str(label) if self.classes is None else self.classes[label]


def read_input(options: AttackOptions) -> AttackInput:
    """Return the images and the model, and refuse what does not go together."""
    _refuse_what_does_not_go_together(options)
    if options.inputs is not None:
        images, labels, ids = _read_inputs(options.inputs)
        pixels, classes = _read_pixels(options.pixels), None
        about, title = f"of {options.inputs}", options.inputs.name
    else:
        data = read_data(options.data)
        shipped = options.folder is None and not options.download
        all_images = shipped_images(data) if shipped else load_images(data, "test", options.folder)
        pixels = OUR_PIXELS if options.model is None else _read_pixels(options.pixels)
        images, labels, ids = _scaled(all_images, pixels), all_images.labels, all_images.ids
        classes, title = DATASETS[data].classes, DATASETS[data].title
        about = f"of the test set of {title}"
    wanted = _read_target(options.target, classes)
    rows = _choose(options, ids, labels, wanted)
    model, name = _our_network(options) if options.model is None else _own_model(options.model, options.device)
    return AttackInput(
        about=f"{len(rows)} image{'s' * (len(rows) != 1)} {about}, seen by {name}",
        title=title,
        model=model,
        model_name=name,
        is_paper_network=options.model is None,
        images=images[rows],
        labels=labels[rows],
        ids=ids[rows],
        pixels=pixels,
        outputs=options.outputs or "logits",
        classes=classes,
        wanted=wanted,
    )


def _refuse_what_does_not_go_together(options: AttackOptions) -> None:
    if options.model is None:
        because = "goes with --model FILE.py:NAME; our networks read their own images."
        refuse(options, "inputs", "pixels", "outputs", because=because)
    else:
        refuse(options, "weights", because="are another training of our network; --model has its own.")
        if (options.inputs is None) == (options.data is None):
            given = "got both" if options.data else "got neither"
            fail(f"Pass with --model either --inputs FILE.npz or --data, the images it is asked about; {given}.")
    if options.inputs is not None:
        refuse(options, "folder", "download", because="goes with --data; --inputs holds the images.")
    if options.folder is not None and options.download:
        fail("Pass one of --folder and --download.")
    if options.images is not None and options.ids is not None:
        fail("Pass one of --images and --ids.")
    if options.images is not None and options.images < 1:
        fail(f"--images must be an integer >= 1, got {options.images}.")


def read_data(name: str | None) -> str:
    """Return the name of a public set, or refuse it."""
    name = name or DEFAULT_DATA
    if name not in DATASETS:
        fail(f"--data must be one of {', '.join(DATASETS)}; got {name!r}. Other images go with --model and --inputs.")
    return name


def _scaled(images: ImageSet, pixels: tuple[float, float]) -> NDArray[np.float32]:
    """Return the images with pixels in the range that a model reads."""
    if pixels == OUR_PIXELS:
        return images.pixels()
    low, high = map(np.float32, pixels)
    scaled: NDArray[np.float32] = images.images.astype(np.float32) / np.float32(255) * (high - low) + low
    return scaled.clip(low, high)


def _read_inputs(file: Path) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return images, labels and ids of a user's file. Without ids the images are numbered from 0."""
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
    for name, column in {"labels": labels, "ids": ids}.items():
        if column.shape != images.shape[:1] or column.dtype.kind not in "iu":
            got = f"{column.dtype} of shape {column.shape}"
            fail(f"--inputs: {name} must be {len(images)} integers, one an image; got {got}.")
    return images, labels, ids


def _read_pixels(text: str | None) -> tuple[float, float]:
    """Read the range of the pixels, low,high."""
    if text is None:
        return 0.0, 1.0
    found = read_numbers(text, "--pixels")
    if len(found) != 2 or not (np.isfinite(found).all() and found[0] < found[1]):
        fail(f"--pixels must be two numbers low,high with low < high, such as 0,1 or 0,255; got {text!r}.")
    return found[0], found[1]


def _read_target(text: str | None, classes: tuple[str, ...] | None) -> int | None:
    """Return the class that is wanted, by its number or its name."""
    if text is None:
        return None
    if classes is not None and text in classes:
        return classes.index(text)
    if not text.isdecimal() or (classes is not None and int(text) >= len(classes)):
        known = f"one of {', '.join(classes)}, or 0 to {len(classes) - 1}" if classes else "the number of a class"
        fail(f"--target must be {known}; got {text!r}.")
    return int(text)


def _choose(options: AttackOptions, ids: NDArray[Any], labels: NDArray[Any], wanted: int | None) -> list[int]:
    """Return the rows to attack: those of --ids, or the first --images that are not of the wanted class already."""
    complete = options.inputs or options.folder or options.download
    more = "" if complete else " --folder or --download has the whole test set."
    if options.ids is None:
        rows = [i for i in range(len(ids)) if labels[i] != wanted]
        n = options.images or (len(rows) if options.inputs else DEFAULT_IMAGES)
        if n > len(rows) or not rows:
            other = f" of other classes than {wanted}" if wanted is not None else ""
            fail(f"--images must be at most {len(rows)}, all images there are{other}; got {n}.{more}")
        return rows[:n]
    numbers = read_numbers(options.ids, "--ids")
    if len(set(numbers)) < len(numbers):
        fail(f"--ids must be different from each other, got {options.ids!r}.")
    place = {int(each): i for i, each in enumerate(ids)}
    if absent := [f"{each:g}" for each in numbers if each not in place]:
        are_not = f"{', '.join(absent)} {'is' if len(absent) == 1 else 'are'} not"
        fail(f"--ids must be among those of the {len(ids)} images, {ids.min()} to {ids.max()}; {are_not}.{more}")
    rows = [place[int(each)] for each in numbers]
    if already := [str(ids[i]) for i in rows if labels[i] == wanted]:
        fail(f"--target {wanted} is the class of {', '.join(already)} already; leave that out of --ids.")
    return rows


def _our_network(options: AttackOptions) -> tuple[Callable[..., Any], str]:
    """Return one of the paper's networks, on the device that was asked for."""
    from slgh.paper.networks.networks import network

    made = network(options.data or DEFAULT_DATA, weights=options.weights)
    name = "our network" if options.weights is None else f"our network with {options.weights}"
    return _placed(made, options.device or "cpu"), name


def _placed(module: Any, device: str) -> Any:
    try:
        return module.to(device)
    except (RuntimeError, AssertionError) as error:
        why = str(error).splitlines()[0].rstrip(".")
        fail(f"--device must be cpu or cuda, and there; {device!r} is refused: {why}.")


def _own_model(name: str, device: str | None) -> tuple[Callable[..., Any], str]:
    """Return a function or a PyTorch module of the user's."""
    model = load("--model", name, Path.cwd())
    if isinstance(model, type):
        fail(f"--model: {name} is a class; name a function of images, or an instance with its weights.")
    if device is not None:
        if not hasattr(model, "to"):
            fail(f"--device goes with a PyTorch module; {name} is a {type(model).__name__}.")
        model = _placed(model, device)
    return model, name


@contextmanager
def blamed(attacked: AttackInput) -> Iterator[None]:
    """Turn what the user's model raises into UserCodeFailed, and let errors of the library pass."""
    try:
        yield
    except Exception as error:
        if attacked.is_paper_network or not _raised_by_the_model(error):
            raise
        blame = failed(error, attacked.model_name)
        for note in getattr(error, "__notes__", ()):
            blame.add_note(note)
        raise blame from error


def _raised_by_the_model(error: Exception) -> bool:
    """Return True if the last of slgh's lines that an exception came through is the one that calls the model."""
    package = str(Path(slgh.__file__).parent)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(package)]
    return frames[-1].filename == asking.__file__ and not is_about_argument(error)


def nearest(d: int) -> str:
    """Return the data set whose images are nearest in their number of pixels.

    >>> nearest(28 * 28), nearest(3 * 224 * 224)
    ('mnist', 'cifar10')
    """
    return min(DATASETS, key=lambda name: abs(math.log(d / size_of(name))))


def size_of(data: str) -> int:
    """Return the number of pixels, times channels, of an image."""
    return math.prod(DATASETS[data].shape)


def paper_parameters(method: str, d: int, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the hyperparameters for images of d pixels: those given, and for the paper's methods its own.

    Its own are left out where a part that was swapped does not take them. "auto" chooses for itself.
    """
    if method not in PAPER_METHODS:
        return dict(given)
    data = nearest(d)
    paper = PAPER[data].parameters(method)
    paper |= {name: paper[name] * size_of(data) / d for name in PER_PIXEL if name in paper}
    taken = {"floor", *fields_of(method, given)}
    return {name: value for name, value in paper.items() if name in taken} | dict(given)
