"""Second field: the attack on the MNIST network, all images at once. Values are tuned on separate images."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from coco_study.records import code_digest, drop_incomplete_lines
from numpy.typing import NDArray

from ablation_study.axes import Composition
from ablation_study.building import Field, Values, build, first_radius
from ablation_study.grids import Chosen, Grid, digest
from slgh.attack import attack
from slgh.attack.homotopy import default_parameters
from slgh.attack.loss import AttackObjective
from slgh.attack.model import QueriedModel
from slgh.attack.result import QUERIES_AFTER, QUERIES_BEFORE
from slgh.paper.networks.datasets import ImageSet, shipped_images
from slgh.protocols import Array, Estimate, Leaves, Update

TUNING_IMAGES = 10
"""Values are tuned on the last ten of the hundred images that come with the package."""

QUERIES_PER_ITERATION = 21
"""Queries per iteration: f(x) and the ten pairs of "auto" for images."""

GRID = Grid(
    first=(0.25, 0.025, 0.0025),
    fall=(5e-3,),  # rounding dominates differences of pairs in float32 below this, so "auto" stops there too
    eta=(1e-3, 1e-2, 1e-1),
    sharpness=(10.0, 100.0, 1000.0),
    step=(0.3, 0.1, 0.03, 0.01, 0.003),
)
"""The unit of lengths is four times the first t of "auto" for these images, so that t_1 equals it."""

WEIGHT, KAPPA = 10.0, 1e-10
"""Defaults of `attack`."""

BROKEN_RUN_LOSS = WEIGHT * math.log(1 + 1e10)
"""Total loss of an image whose run broke down: about that of a network that is certain."""

SPREAD_POINTS = 64
"""Number of points around each image for the standard deviation of f."""


@dataclass(frozen=True, kw_only=True)
class StepsByRow:
    """An update with a different step for each problem, so that a whole grid of steps is one run.

    All updates but scale_free move x by their step times something that does not depend on it.
    """

    name: ClassVar[str] = "steps_by_row"

    update: Update
    factors: tuple[float, ...]

    def init(self, x: Array, xp: Any) -> Leaves:
        return xp.asarray(self.factors, dtype=x.dtype), *self.update.init(x, xp)

    def apply(self, x: Array, seen: Estimate, t: Array, state: Leaves, xp: Any) -> tuple[Array, Leaves]:
        factors, *own = state
        move, after = self.update.apply(xp.zeros_like(x), seen, t, tuple(own), xp)
        return x + factors[:, None] * move, (factors, *after)


@dataclass(frozen=True, kw_only=True)
class Scene:
    """The network, and the images on its device that it classifies correctly, with the number of queries for each."""

    model: Any
    pixels: Any
    labels: NDArray[np.int64]
    ids: tuple[int, ...]
    queries: int

    @property
    def width(self) -> float:
        """Unit of lengths."""
        return 4 * self._usual("t1")

    def field(self, values: Values, spread: Callable[[float], float]) -> Field:
        """Return the conditions that methods are built for."""
        return Field(
            d=self.pixels[0].numel(),
            width=self.width,
            evaluations=self.queries - QUERIES_BEFORE - QUERIES_AFTER - 1,
            each=QUERIES_PER_ITERATION,
            spread=spread(first_radius(values, 1.0)),
            evaluates_f=True,
            alpha_factor=self._usual("alpha"),
        )

    def _usual(self, name: str) -> float:
        """Return the value that "auto" uses for these images."""
        return float(
            default_parameters(
                self.pixels.reshape(len(self.ids), -1), self.queries - QUERIES_BEFORE - QUERIES_AFTER, None, {}
            )[name]
        )

    def repeated(self, times: int) -> Scene:
        """Repeat all images this many times."""
        return replace(
            self,
            pixels=self.pixels.repeat(times, 1, 1, 1),
            labels=np.tile(self.labels, times),
            ids=self.ids * times,
        )


def refuse_device(device: str) -> None:
    """Raise an error if PyTorch does not have this device."""
    import torch

    if device.startswith("cuda") and not torch.cuda.is_available():
        raise ValueError(f"`device` is {device!r}, but PyTorch finds no GPU. Try --device cpu.")


def scenes(device: str, images: int, queries: int) -> tuple[Scene, Scene]:
    """Return the images to attack (the first ones) and those to tune on (the last ones)."""
    import torch

    from slgh.paper.networks.networks import network, predict

    refuse_device(device)
    everything = shipped_images("mnist")
    if not 1 <= images <= len(everything) - TUNING_IMAGES:
        most = len(everything) - TUNING_IMAGES
        raise ValueError(
            f"`images` must lie in 1 to {most}, since the last {TUNING_IMAGES} are for tuning, got {images}."
        )
    model = network("mnist").to(device)

    def scene(some: ImageSet) -> Scene:
        right = some.take(some.ids[predict(model, some.images) == some.labels])
        pixels = torch.as_tensor(right.pixels(), device=device)
        ids = tuple(map(int, right.ids))
        return Scene(model=model, pixels=pixels, labels=right.labels, ids=ids, queries=queries)

    return scene(everything.take(everything.ids[:images])), scene(everything.take(everything.ids[-TUNING_IMAGES:]))


def spread_of(scene: Scene) -> Callable[[float], float]:
    """Return the standard deviation of f around the images as a function of t in widths: the median over images."""
    import torch

    B, d = len(scene.ids), scene.pixels[0].numel()
    asked = QueriedModel(
        model=scene.model,
        shape=tuple(scene.pixels.shape[1:]),
        low=-0.5,
        high=0.5,
        outputs="logits",
        model_batch_size=None,
    )
    objective = AttackObjective(asked, WEIGHT, KAPPA, targeted=False)
    u = np.random.default_rng(0).standard_normal((B, SPREAD_POINTS, d), dtype=np.float32)
    directions = torch.as_tensor(u, device=scene.pixels.device)
    labels = torch.as_tensor(scene.labels, device=scene.pixels.device)
    a = scene.pixels.reshape(B, 1, d)

    def spread(t: float) -> float:
        with torch.no_grad():
            return float(objective(t * scene.width * directions, a, labels[:, None]).total.std(1).median()) or 1.0

    return spread


def run_attack(scene: Scene, seed: Any, **how: Any) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Attack, and return for each image success and final total loss. Runs are short, so the loop is in Python."""
    found = attack(
        scene.model,
        scene.pixels,
        scene.labels,
        pixels=(-0.5, 0.5),
        max_queries=scene.queries,
        weight=WEIGHT,
        kappa=KAPPA,
        seed=seed,
        history=0,
        compiled=False,
        **how,
    )
    return found.success, np.where(np.isfinite(found.last_total), found.last_total, BROKEN_RUN_LOSS)


def chosen(folder: Path, queries: int) -> Chosen:
    """Return the tuned values of the compositions for a number of queries."""
    return Chosen(
        folder, "attack", GRID, {"queries": queries, "each": QUERIES_PER_ITERATION, "on the last images": TUNING_IMAGES}
    )


def tune(c: Composition, scene: Scene, spread: Callable[[float], float]) -> tuple[dict[str, float], int]:
    """Return the candidate with the lowest mean total loss, and the number of runs per image. Steps share a run."""
    steps = GRID.open(c).get("step", ())
    candidates = GRID.candidates(c)
    losses: list[float] = []
    for first in candidates[:: len(steps) or 1]:  # steps vary fastest
        method = build(c, first, scene.field(first, spread))
        rows = scene.repeated(len(steps) or 1)
        if steps:
            factors = np.repeat(np.array(steps) / steps[0], len(scene.ids))
            method = replace(method, update=StepsByRow(update=method.update, factors=tuple(map(float, factors))))
        _, total = run_attack(rows, list(rows.ids), method=method)
        losses += total.reshape(-1, len(scene.ids)).mean(axis=1).tolist()
    return candidates[int(np.argmin(losses))], len(candidates) * len(scene.ids)


def runs_to_tune(c: Composition) -> int:
    """Return the number of runs that tuning takes. All steps share one run."""
    return len(GRID.candidates(c)) // len(GRID.open(c).get("step", (1.0,)))


@dataclass(frozen=True, kw_only=True)
class AttackRecord:
    """Record of a composition: success and total loss of each image."""

    name: str
    key: str
    code: str
    queries: int
    ids: tuple[int, ...]
    success: tuple[bool, ...]
    total: tuple[float, ...]
    seconds: float

    @property
    def line(self) -> str:
        """Return the record as a line of the file."""
        return json.dumps(vars(self) | {"total": [float(f"{v:.6g}") for v in self.total]}, separators=(",", ":"))


def key_of(values: Values | None, queries: int, ids: Sequence[int]) -> str:
    """Return the key of a run of one composition."""
    return digest([None if values is None else dict(values), queries, list(ids), QUERIES_PER_ITERATION])


def measure(name: str, scene: Scene, values: Values | None, seed: int = 0, **how: Any) -> AttackRecord:
    """Attack, and return the record."""
    begin = time.perf_counter()
    success, total = run_attack(scene, seed, **how)
    return AttackRecord(
        name=name,
        key=key_of(values, scene.queries, scene.ids),
        code=code_digest(),
        queries=scene.queries,
        ids=scene.ids,
        success=tuple(map(bool, success)),
        total=tuple(map(float, total)),
        seconds=round(time.perf_counter() - begin, 3),
    )


def file_of(folder: Path) -> Path:
    """Return the file of the records. It has its own folder, since the records beside it belong to BBOB."""
    return folder / "attack" / "mnist.jsonl"


def append(folder: Path, record: AttackRecord) -> None:
    """Append a record."""
    file = file_of(folder)
    file.parent.mkdir(parents=True, exist_ok=True)
    drop_incomplete_lines(file.parent)
    with open(file, "a") as to:
        to.write(record.line + "\n")


def read(folder: Path) -> list[AttackRecord]:
    """Read all records, except an incomplete last line."""
    file = file_of(folder)
    if not file.exists():
        return []
    whole, _, _ = file.read_text().rpartition("\n")
    tuples: Sequence[str] = ("ids", "success", "total")
    return [
        AttackRecord(**said | {name: tuple(said[name]) for name in tuples})
        for said in map(json.loads, whole.splitlines())
    ]
