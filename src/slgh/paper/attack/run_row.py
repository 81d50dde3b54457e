"""A row with one seed: what it is, and what comes of running it."""

from __future__ import annotations

import base64
import hashlib
import json
import multiprocessing
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import slgh
from slgh import checks
from slgh.attack import AttackResult, attack
from slgh.attack.loss import perturb
from slgh.backends import backend_of
from slgh.files import to_json
from slgh.paper.attack.printed import IMAGES, KINDS, Kind, PaperAttack, placed
from slgh.paper.attack.settings import PAPER
from slgh.paper.experiment import Record, Tick
from slgh.paper.networks.datasets import DATASETS, ImageSet, load_images, shipped_images
from slgh.result import Status

PIXELS = (-0.5, 0.5)
"""What the networks read."""

FIXED: dict[str, Any] = {"stop": "end", "weight": 10.0, "kappa": 1e-10}
"""What all rows have in common."""

KEPT = 200
"""How many points of a curve are kept."""

DIGITS = 6
"""The digits of a kept figure; those of curves are `COARSE`."""
COARSE = 4

AT_A_TIME = 500
"""How many images are looked through at a time for those that a network classifies correctly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRun:
    """A row of the table with one seed.

    `weights`: a file instead of the shipped ones; then the images are the first that this network classifies
    correctly, out of the whole test set in `folder` (by default it is downloaded).
    """

    paper: PaperAttack
    name: str
    seed: int
    images: int
    iterations: int
    weights: Path | None = None
    folder: Path | None = None

    @property
    def kind(self) -> Kind:
        return KINDS[self.name]

    @property
    def label(self) -> str:
        """For people."""
        return f"{self.kind.label}, seed {self.seed}"

    @property
    def parameters(self) -> dict[str, Any]:
        """The method's."""
        return PAPER[self.paper.data].parameters(self.kind.method) | dict(self.kind.changes)

    def settings(self) -> dict[str, Any]:
        """All that the outcome depends on, as JSON has it."""
        return {
            "data": self.paper.data,
            "weights": weights_of(self.paper.data, self.weights),
            "row": self.name,
            "seed": self.seed,
            "images": self.images,
            "iterations": self.iterations,
            "method": self.kind.method,
            "parameters": self.parameters,
            **FIXED,
        }

    def chosen(self) -> ImageSet:
        """The images to attack: the first that the network classifies correctly."""
        data = self.paper.data
        if self.weights is None:
            shipped = shipped_images(data)
            return shipped.take(shipped.ids[: self.images])
        from slgh.paper.networks.networks import network, predict

        asked, whole = network(data, weights=self.weights), load_images(data, "test", self.folder)
        right: list[int] = []
        for start in range(0, len(whole), AT_A_TIME):
            seen = predict(asked, whole.images[start : start + AT_A_TIME])
            right += (start + np.flatnonzero(seen == whole.labels[start : start + AT_A_TIME])).tolist()
            if len(right) >= self.images:
                break
        return whole.take(right[: self.images])


def weights_of(data: str, weights: Path | None) -> dict[str, str]:
    """What tells one network from another: the name of its file, and a digest of it."""
    return {"file": "shipped" if weights is None else weights.name, "sha256": _digest(data, weights)}


@cache
def _digest(data: str, weights: Path | None) -> str:
    if weights is None:
        return _sha256(files("slgh.paper.networks").joinpath("shipped", f"{data}.safetensors").read_bytes())
    if not weights.is_file():
        raise FileNotFoundError(f"`weights` must be a file, got {str(weights)!r}, which is none.")
    return _sha256(weights.read_bytes())


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def usable_device(device: str | None) -> str:
    """A device that is there; without a name, CUDA where there is one, else the CPU."""
    torch = _torch()
    if device is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    kind, _, number = device.partition(":")
    if kind not in ("cpu", "cuda") or not (number or "0").isdigit():
        raise ValueError(f"`device` must be 'cpu', 'cuda', 'cuda:1', ...; got {device!r}.")
    if kind == "cuda" and int(number or 0) >= torch.cuda.device_count():
        raise ValueError(
            f"`device` must be there, got {device!r} with {torch.cuda.device_count()} CUDA devices: pass 'cpu'."
        )
    return device


def _torch() -> Any:
    """PyTorch, which `slgh.paper.networks.networks` imports, or says what to install."""
    import_module("slgh.paper.networks.networks")
    return sys.modules["torch"]


def run_row(run: RowRun, device: str, tick: Tick) -> Record:
    """Attack the images. What is found is what JSON can hold, the same as if it had been kept in a file."""
    from slgh.paper.networks.networks import network

    torch = _torch()
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
        method=run.kind.method,
        max_iter=run.iterations,
        seed=run.seed,
        **FIXED,
        **run.parameters,
    )
    seconds = time.perf_counter() - began
    if not (result.before == chosen.labels).all():
        wrong = ", ".join(map(str, chosen.ids[result.before != chosen.labels]))
        raise ValueError(f"`images` must be classified correctly, but on {device} those with the IDs {wrong} are not.")
    (ran,) = result.runs
    if (np.asarray(ran.status) == Status.INTERRUPTED).any():
        raise KeyboardInterrupt
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
        record["curves"] = curves(run, chosen.ids, result)
        record["grid"] = grid(run.paper, chosen, result, model)
    found: Record = json.loads(to_json(record))
    return found


def rounded(values: ArrayLike, digits: int) -> list[float]:
    """To so many digits, which makes files short.

    >>> rounded([123.456, 0.00123456], 4)
    [123.5, 0.001235]
    """
    return [float(f"{value:.{digits}g}") for value in np.asarray(values, float).ravel()]


def curves(run: RowRun, ids: NDArray[np.int64], result: AttackResult) -> dict[str, Any]:
    """Total loss and distortion over the iterations, of the images that the figures show, the end included."""
    recorded = result.history["iteration"]
    keep = np.unique(np.linspace(0, len(recorded) - 1, KEPT).round().astype(int))
    place = {int(each): k for k, each in enumerate(ids)}
    ends = {"total": result.last_total, "distortion": result.last_distortion}
    return {"iteration": [*recorded[keep].tolist(), run.iterations]} | {
        column: {
            str(each): rounded(np.append(result.history[column][keep, place[each]], end[place[each]]), COARSE)
            for each in run.paper.of_column(column, ids.tolist())
        }
        for column, end in ends.items()
    }


def grid(paper: PaperAttack, chosen: ImageSet, result: AttackResult, model: Any) -> dict[str, Any]:
    """The images of the grid: the original, and the least distorted adversarial one or else the last iterate.

    Pixels are bytes in base 64.
    """
    classes = DATASETS[paper.data].classes
    place = {int(each): k for k, each in enumerate(chosen.ids)}
    rows = [place[shown] for _, shown in placed(paper.grid_ids, chosen.ids.tolist())]
    adversarial = backend_of(result.images).host(result.images)
    last, last_seen = last_images(chosen, result, model, rows)
    found = {}
    for i, k in enumerate(rows):
        won = bool(result.success[k])
        found[str(chosen.ids[k])] = {
            "success": won,
            "original": classes[chosen.labels[k]],
            "seen": classes[result.after[k] if won else last_seen[i]],
            "distortion": rounded([(result.distortion if won else result.last_distortion)[k]], COARSE)[0],
            "original_pixels": _text(chosen.images[k]),
            "pixels": _text(_bytes(adversarial[k] if won else last[i])),
        }
    return found


def last_images(
    chosen: ImageSet, result: AttackResult, model: Any, rows: Sequence[int]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The last iterates as images, and what the model sees in them."""
    (ran,) = result.runs
    x = ran.x[rows]
    pixels = _torch().as_tensor(chosen.pixels()[rows], device=x.device)
    images = perturb(x, pixels.flatten(1)).reshape(pixels.shape)
    host = backend_of(x).host
    return host(images), host(model(images)).argmax(axis=1)


def _bytes(pixels: NDArray[Any]) -> NDArray[np.uint8]:
    return np.clip(np.rint((pixels - PIXELS[0]) * 255), 0, 255).astype(np.uint8)


def _text(image: NDArray[np.uint8]) -> str:
    return base64.b64encode(image.tobytes()).decode()


def image_of(data: str, text: str) -> NDArray[np.uint8]:
    """A kept image, for drawing: (H, W) or (H, W, 3)."""
    pixels = np.frombuffer(base64.b64decode(text), np.uint8).reshape(DATASETS[data].shape)
    return pixels[0] if pixels.shape[0] == 1 else pixels.transpose(1, 2, 0)


def check_sizes(paper: PaperAttack, images: int, iterations: int, seeds: int) -> None:
    """Raise unless there can be so many."""
    for name, value, most in (("images", images, IMAGES), ("iterations", iterations, paper.T)):
        checks.count(name, value)
        if value > most:
            raise ValueError(f"`{name}` must be at most the paper's {most:,}, got {value}.")
    checks.count("seeds", seeds)
