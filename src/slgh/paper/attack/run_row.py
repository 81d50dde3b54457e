"""Run one row of an attack table with one seed."""

from __future__ import annotations

import base64
import hashlib
import json
import multiprocessing
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import slgh
from slgh.attack import AttackResult, attack
from slgh.attack.loss import perturb
from slgh.backends import backend_of
from slgh.checks import ArgumentValueError, MissingFileError
from slgh.files import to_json
from slgh.paper.attack.printed import VARIANTS, MethodVariant, PaperAttack, substitutes
from slgh.paper.attack.settings import PAPER
from slgh.paper.experiment import Record, Tick, require_complete
from slgh.paper.networks.datasets import DATASETS, ImageSet, shipped_images
from slgh.paper.networks.image_files import load_images

PIXELS = (-0.5, 0.5)
"""Range of the networks' inputs."""

FIXED: dict[str, Any] = {"stop": "end", "weight": 10.0, "kappa": 1e-10}
"""Arguments that all rows share."""

CURVE_POINTS = 200
"""Number of points of a stored curve."""

DIGITS = 6
"""Digits of a stored number."""

CURVE_DIGITS = 4
"""Digits of the points of a stored curve."""

CHUNK = 500
"""Number of images classified at a time in the search for correctly classified ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRun:
    """A row of the table with one seed.

    `weights`: a file instead of the shipped weights. Then the images are the first that this network classifies
    correctly, out of the full test set in `folder` (downloaded by default).
    """

    paper: PaperAttack
    name: str
    seed: int
    images: int
    iterations: int
    weights: Path | None = None
    folder: Path | None = None

    @property
    def variant(self) -> MethodVariant:
        return VARIANTS[self.name]

    @property
    def label(self) -> str:
        return f"{self.variant.label}, seed {self.seed}"

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of the method."""
        return PAPER[self.paper.data].parameters(self.variant.method) | dict(self.variant.changes)

    def settings(self) -> dict[str, Any]:
        """All settings that the outcome depends on, for JSON."""
        return {
            "data": self.paper.data,
            "weights": weights_of(self.paper.data, self.weights),
            "row": self.name,
            "seed": self.seed,
            "images": self.images,
            "iterations": self.iterations,
            "method": self.variant.method,
            "parameters": self.parameters,
            **FIXED,
        }

    def chosen(self) -> ImageSet:
        """Return the images to attack: the first that the network classifies correctly."""
        data = self.paper.data
        if self.weights is None:
            shipped = shipped_images(data)
            return shipped.take(shipped.ids[: self.images])
        from slgh.paper.networks.networks import network, predict

        model, full = network(data, weights=self.weights), load_images(data, "test", self.folder)
        right: list[int] = []
        for start in range(0, len(full), CHUNK):
            some = slice(start, start + CHUNK)
            right += (start + np.flatnonzero(predict(model, full.images[some]) == full.labels[some])).tolist()
            if len(right) >= self.images:
                break
        return full.take(right[: self.images])


def weights_of(data: str, weights: Path | None) -> dict[str, str]:
    """Return what identifies a network: the name of its file, and a digest of the content."""
    return {"file": "shipped" if weights is None else weights.name, "sha256": _digest(data, weights)}


@cache
def _digest(data: str, weights: Path | None) -> str:
    if weights is not None and not weights.is_file():
        raise MissingFileError(f"`weights` must be a file, got {str(weights)!r}, which is none.")
    file = files("slgh.paper.networks").joinpath("shipped", f"{data}.safetensors") if weights is None else weights
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]


def run_row(run: RowRun, device: str, tick: Tick) -> Record:
    """Attack the images. The record has the form that JSON gives it, as if read from a file."""
    import torch

    from slgh.paper.networks.networks import network

    if multiprocessing.parent_process() is not None:
        torch.set_num_threads(1)  # there are as many processes as cores
    chosen = run.chosen()
    model = network(run.paper.data, weights=run.weights).to(device)
    began = time.perf_counter()
    result = attack(
        model,
        chosen.pixels(),
        chosen.labels,
        pixels=PIXELS,
        method=run.variant.method,
        max_iter=run.iterations,
        seed=run.seed,
        **FIXED,
        **run.parameters,
    )
    seconds = time.perf_counter() - began
    if not (result.before == chosen.labels).all():
        wrong = ", ".join(map(str, chosen.ids[result.before != chosen.labels]))
        raise ArgumentValueError(
            f"`images` must be classified correctly, but on {device} those with the IDs {wrong} are not."
        )
    ran = result.run
    assert ran is not None
    require_complete(ran)
    tick(1.0)
    record: dict[str, Any] = {
        "settings": run.settings(),
        "made": {
            "slgh": slgh.__version__,
            "torch": version("torch"),
            "numpy": np.__version__,
            "python": platform.python_version(),
            "device": torch.cuda.get_device_name(device) if device.startswith("cuda") else f"CPU, {platform.machine()}",
            "engine": ran.engine,
        },
        "seconds": round(seconds, 2),
        "ids": chosen.ids,
        "labels": chosen.labels,
        "success": result.success,
        "first_success": result.first_success,
        "last_distortion": rounded(result.last_distortion, DIGITS),
        "least_distortion": rounded(result.distortion, DIGITS),
        "total_loss": rounded(result.last_total, DIGITS),
        "queries": result.queries,
    }
    if run.seed == 0:
        record["curves"] = curves(run, chosen, result)
        record["grid"] = grid(run.paper, chosen, result, model)
    found: Record = json.loads(to_json(record))
    return found


def rounded(values: ArrayLike, digits: int) -> list[float]:
    """Round to significant digits, to keep files short.

    >>> rounded([123.456, 0.00123456], 4)
    [123.5, 0.001235]
    """
    return [float(f"{value:.{digits}g}") for value in np.asarray(values, float).ravel()]


def curves(run: RowRun, chosen: ImageSet, result: AttackResult) -> dict[str, Any]:
    """Return total loss and distortion over the iterations, up to the end, of the images shown in the figures."""
    recorded, place = result.history["iteration"], chosen.place
    keep = np.unique(np.linspace(0, len(recorded) - 1, CURVE_POINTS).round().astype(int))
    ends = {"total": result.last_total, "distortion": result.last_distortion}
    return {"iteration": [*recorded[keep].tolist(), run.iterations]} | {
        column: {
            str(each): rounded(np.append(result.history[column][keep, place[each]], end[place[each]]), CURVE_DIGITS)
            for each in run.paper.curve_ids(column, chosen.ids.tolist())
        }
        for column, end in ends.items()
    }


def grid(paper: PaperAttack, chosen: ImageSet, result: AttackResult, model: Any) -> dict[str, Any]:
    """Return the images of the grid: the original, and the least distorted adversarial one or else the last iterate."""
    classes, place = DATASETS[paper.data].classes, chosen.place
    rows = [place[shown] for _, shown in substitutes(paper.grid_ids, chosen.ids.tolist())]
    adversarial = backend_of(result.images).host(result.images)
    last, last_seen = last_images(chosen, result, model, rows)
    found = {}
    for i, k in enumerate(rows):
        won = bool(result.success[k])
        found[str(chosen.ids[k])] = {
            "success": won,
            "original": classes[chosen.labels[k]],
            "seen": classes[result.after[k] if won else last_seen[i]],
            "distortion": rounded([(result.distortion if won else result.last_distortion)[k]], CURVE_DIGITS)[0],
            "original_pixels": encode_image(chosen.images[k]),
            "pixels": encode_image(_bytes(adversarial[k] if won else last[i])),
        }
    return found


def last_images(
    chosen: ImageSet, result: AttackResult, model: Any, rows: Sequence[int]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the last iterates as images, and the classes that the model predicts for them."""
    ran = result.run
    assert ran is not None
    x = ran.x[rows]
    pixels = x.new_tensor(chosen.pixels()[rows])
    images = perturb(x, pixels.flatten(1)).reshape(pixels.shape)
    host = backend_of(x).host
    return host(images), host(model(images)).argmax(axis=1)


def _bytes(pixels: NDArray[Any]) -> NDArray[np.uint8]:
    return np.clip(np.rint((pixels - PIXELS[0]) * 255), 0, 255).astype(np.uint8)


def encode_image(image: NDArray[np.uint8]) -> str:
    """Return the bytes of an image in base 64."""
    return base64.b64encode(image.tobytes()).decode()


def decode_image(data: str, text: str) -> NDArray[np.uint8]:
    """Return a stored image for drawing: (H, W) or (H, W, 3)."""
    pixels = np.frombuffer(base64.b64decode(text), np.uint8).reshape(DATASETS[data].shape)
    return pixels[0] if pixels.shape[0] == 1 else pixels.transpose(1, 2, 0)
