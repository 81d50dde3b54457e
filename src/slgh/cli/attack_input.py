"""Images and model to attack: those of slgh, or the user's own."""

from __future__ import annotations

import math
import traceback
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import slgh
from slgh import checks
from slgh.attack import model as model_module
from slgh.checks import ArgumentError
from slgh.cli.declaration import refuse
from slgh.cli.errors import fail
from slgh.cli.image_folder import read_folder
from slgh.cli.options import AttackOptions
from slgh.cli.parameters import fields_of
from slgh.cli.parse import read_numbers
from slgh.cli.user_code import failed, load
from slgh.paper.attack.settings import METHODS as PAPER_METHODS
from slgh.paper.attack.settings import PAPER
from slgh.paper.networks.datasets import DATASETS, shipped_images
from slgh.paper.networks.image_files import load_images

NETWORK_PIXELS = (-0.5, 0.5)
"""Range of the pixels that the networks of slgh take."""

ARRAYS = ("images", "labels")

CHANNELS = ("first", "last")
"""Orders of the axes of image files: (N, C, H, W), the default, and (N, H, W, C)."""

DEFAULT_DATA = "mnist"
DEFAULT_IMAGES = 4

PER_PIXEL = ("step", "eta")
"""Step sizes that the paper divides by the number of pixels."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AttackInput:
    """Images (N, ...) with labels and ids (N,), and the model to attack."""

    about: str
    """Short description, for the report."""
    title: str
    model: Callable[..., Any]
    model_name: str
    is_paper_network: bool
    """True for a network of slgh, False for the user's model."""
    images: NDArray[Any]
    labels: NDArray[Any]
    ids: NDArray[Any]
    pixels: tuple[float, float]
    outputs: str
    classes: tuple[str, ...] | None
    """Names of the classes, if known."""
    wanted: int | None
    """Target class. None: any wrong class."""
    files: tuple[str, ...] | None = None
    """Files of the images, if each has its own."""

    @property
    def d(self) -> int:
        """Number of pixels per image."""
        return int(np.prod(self.images.shape[1:]))

    def name(self, label: int) -> str:
        """Return the name of a class. The model may know more classes than have names."""
        return str(label) if self.classes is None or label >= len(self.classes) else self.classes[label]


class GivenImages(NamedTuple):
    """The user's images (N, ...), with classes and ids (N,), and the names of the classes and files, if known."""

    images: NDArray[Any]
    labels: NDArray[Any]
    ids: NDArray[Any]
    classes: tuple[str, ...] | None = None
    files: tuple[str, ...] | None = None


def read_input(options: AttackOptions) -> AttackInput:
    """Return the images and the model, and refuse options that contradict each other."""
    _refuse_contradictions(options)
    files = None
    if options.inputs is not None:
        pixels = _read_pixels(options.pixels)
        images, labels, ids, classes, files = _read_inputs(options, options.inputs, pixels)
        about, title = f"of {options.inputs}", options.inputs.resolve().name
    else:
        data = read_data(options.data)
        shipped = options.folder is None and not options.download
        all_images = shipped_images(data) if shipped else load_images(data, "test", options.folder)
        pixels = NETWORK_PIXELS if options.model is None else _read_pixels(options.pixels)
        images = all_images.pixels() if pixels == NETWORK_PIXELS else _scaled(all_images.images, pixels)
        labels, ids = all_images.labels, all_images.ids
        classes, title = DATASETS[data].classes, DATASETS[data].title
        about = f"of the test set of {title}"
    wanted = _read_target(options.target, classes)
    rows = _choose(options, ids, labels, wanted)
    model, name = _paper_network(options) if options.model is None else _own_model(options.model, options.device)
    return AttackInput(
        about=f"{len(rows)} image{'s' * (len(rows) != 1)} {about}, classified by {name}",
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
        files=None if files is None else tuple(files[i] for i in rows),
    )


def _refuse_contradictions(options: AttackOptions) -> None:
    if options.model is None:
        because = "is for --model, and not for the networks of slgh. Pass --model FILE.py:NAME."
        refuse(options, "inputs", "pixels", "outputs", "channels", because=because)
    else:
        refuse(options, "weights", because="is for the networks of slgh, and not for --model. Remove it.")
        if (options.inputs is None) == (options.data is None):
            given = "got both" if options.data else "got neither"
            fail(f"--model needs images, either --inputs or --data; {given}.")
    if options.inputs is not None:
        refuse(options, "folder", "download", because="is for --data, and not for --inputs. Remove it.")
    if options.folder is not None and options.download:
        fail("Got both --folder and --download. Pass one of them.")
    if options.images is not None and options.ids is not None:
        fail("Got both --images and --ids. Pass one of them.")
    if options.images is not None and options.images < 1:
        fail(f"--images must be an integer >= 1, got {options.images}.")


def read_data(name: str | None) -> str:
    """Return the name of a data set, or refuse it."""
    name = name or DEFAULT_DATA
    if name not in DATASETS:
        fail(f"--data must be one of {', '.join(DATASETS)}; got {name!r}. For other images, pass --model and --inputs.")
    return name


def _scaled(images: NDArray[np.uint8], pixels: tuple[float, float]) -> NDArray[np.float32]:
    """Return images of bytes with pixels scaled to the range of the model."""
    low, high = map(np.float32, pixels)
    scaled: NDArray[np.float32] = images.astype(np.float32) / np.float32(255) * (high - low) + low
    return scaled.clip(low, high)


def _read_inputs(options: AttackOptions, place: Path, pixels: tuple[float, float]) -> GivenImages:
    """Return the images of the user's folder or .npz file."""
    if not place.is_dir():
        refuse(options, "channels", because="is for a folder of image files. Remove it.")
        return _read_arrays(place)
    found = read_folder(place)
    order = options.channels or CHANNELS[0]
    checks.choice("channels", order, CHANNELS)
    images = _scaled(found.images, pixels)
    images = images if order == "first" else np.ascontiguousarray(images.transpose(0, 2, 3, 1))
    return GivenImages(images, found.labels, np.arange(len(images)), found.classes, found.files)


def _read_arrays(file: Path) -> GivenImages:
    """Return images, labels and ids of the user's .npz file. By default, ids count from 0."""
    if not file.is_file():
        fail(f"--inputs: there is no file or folder {str(file)!r}.")
    try:
        with open(file, "rb") as handle:
            found = np.load(handle, allow_pickle=False)
            if isinstance(found, np.ndarray):
                fail(f"--inputs: {file} holds one array instead of images and labels. Write both with numpy.savez.")
            if missing := [name for name in ARRAYS if name not in found.files]:
                there = ", ".join(found.files) or "nothing"
                fail(f"--inputs: {file} lacks {' and '.join(missing)}; it holds {there}.")
            images, labels = found["images"], found["labels"]
            ids = found["ids"] if "ids" in found.files else np.arange(len(images))
    except (zipfile.BadZipFile, zlib.error, ValueError, TypeError, EOFError, OSError, MemoryError) as error:
        # NumPy takes a file of another kind for a pickle, and its message recommends to load it as one.
        text = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        why = "" if "pickle" in text else f" ({text})"
        fail(f"--inputs: {file} is not a complete .npz file of numbers{why}. Write one with numpy.savez.")
    for name, column in {"labels": labels, "ids": ids}.items():
        if column.shape != images.shape[:1] or column.dtype.kind not in "iu":
            got = f"{column.dtype} of shape {column.shape}"
            fail(f"--inputs: {name} must be {len(images)} integers, one per image; got {got}.")
    return GivenImages(images, labels, ids)


def _read_pixels(text: str | None) -> tuple[float, float]:
    """Read the range of the pixels, low,high."""
    if text is None:
        return 0.0, 1.0
    found = read_numbers(text, "--pixels")
    if len(found) != 2 or not (np.isfinite(found).all() and found[0] < found[1]):
        fail(f"--pixels must be two numbers low,high with low < high, such as 0,1 or 0,255; got {text!r}.")
    return found[0], found[1]


def _read_target(text: str | None, classes: tuple[str, ...] | None) -> int | None:
    """Return the number of the target class, given by number or name."""
    if text is None:
        return None
    if classes is not None and text in classes:
        return classes.index(text)
    if not text.isdecimal() or (classes is not None and int(text) >= len(classes)):
        known = f"one of {', '.join(classes)}, or 0 to {len(classes) - 1}" if classes else "the number of a class"
        fail(f"--target must be {known}; got {text!r}.")
    return int(text)


def _choose(options: AttackOptions, ids: NDArray[Any], labels: NDArray[Any], wanted: int | None) -> list[int]:
    """Return the rows to attack: those of --ids, or the first --images that are not of the target class."""
    complete = options.inputs or options.folder or options.download
    more = "" if complete else " Pass --folder or --download for the full test set."
    if options.ids is None:
        rows = [i for i in range(len(ids)) if labels[i] != wanted]
        n = options.images or (len(rows) if options.inputs else DEFAULT_IMAGES)
        if n > len(rows) or not rows:
            other = f" of other classes than {wanted}" if wanted is not None else ""
            fail(f"--images must be at most {len(rows)}, the number of images{other}; got {n}.{more}")
        return rows[:n]
    numbers = read_numbers(options.ids, "--ids")
    if len(set(numbers)) < len(numbers):
        fail(f"--ids must not contain duplicates, got {options.ids!r}.")
    place = {int(each): i for i, each in enumerate(ids)}
    if absent := [f"{each:g}" for each in numbers if each not in place]:
        are_not = f"{', '.join(absent)} {'is' if len(absent) == 1 else 'are'} not"
        fail(f"--ids must be among those of the {len(ids)} images, {ids.min()} to {ids.max()}; {are_not}.{more}")
    rows = [place[int(each)] for each in numbers]
    if already := [str(ids[i]) for i in rows if labels[i] == wanted]:
        fail(f"--target {wanted} is already the class of {', '.join(already)}. Remove that from --ids.")
    return rows


def _paper_network(options: AttackOptions) -> tuple[Callable[..., Any], str]:
    """Return one of the paper's networks on the requested device, and its name."""
    from slgh.paper.networks.networks import network

    made = network(options.data or DEFAULT_DATA, weights=options.weights)
    name = "the network of slgh" if options.weights is None else f"the network of slgh with {options.weights}"
    return _placed(made, options.device or "cpu"), name


def _placed(module: Any, device: str) -> Any:
    try:
        return module.to(device)
    except (RuntimeError, AssertionError) as error:
        why = str(error).splitlines()[0].rstrip(".")
        fail(f"--device must be cpu, or cuda if available; {device!r} failed: {why}.")


def _own_model(name: str, device: str | None) -> tuple[Callable[..., Any], str]:
    """Return the user's function or PyTorch module, and its name."""
    model = load("--model", name, Path.cwd())
    if isinstance(model, type):
        fail(f"--model: {name} is a class. Name a function of images, or an instance with its weights.")
    if device is not None:
        if not hasattr(model, "to"):
            fail(f"--device is for PyTorch modules, and {name} is a {type(model).__name__}. Remove it.")
        model = _placed(model, device)
    return model, name


@contextmanager
def blamed(attacked: AttackInput) -> Iterator[None]:
    """Turn exceptions of the user's model into UserCodeFailed. Errors of slgh pass unchanged."""
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
    """Return True if the innermost frame of slgh in the traceback is the call of the model."""
    package = str(Path(slgh.__file__).parent)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(package)]
    return frames[-1].filename == model_module.__file__ and not isinstance(error, ArgumentError)


def nearest(d: int) -> str:
    """Return the data set with the closest number of pixels per image.

    >>> nearest(28 * 28), nearest(3 * 224 * 224)
    ('mnist', 'cifar10')
    """
    return min(DATASETS, key=lambda name: abs(math.log(d / size_of(name))))


def size_of(data: str) -> int:
    """Return the number of pixels times channels per image."""
    return math.prod(DATASETS[data].shape)


def paper_parameters(method: str, d: int, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the hyperparameters for images of d pixels: the given ones, and the paper's for its methods.

    A hyperparameter of the paper is left out if a replaced part does not take it. "auto" needs none.
    """
    if method not in PAPER_METHODS:
        return dict(given)
    data = nearest(d)
    paper = PAPER[data].parameters(method)
    paper |= {name: paper[name] * size_of(data) / d for name in PER_PIXEL if name in paper}
    taken = {"floor", *fields_of(method, given)}
    return {name: value for name, value in paper.items() if name in taken} | dict(given)
