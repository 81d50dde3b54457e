r"""The homotopies of an attack: choose them for images, and run one after another.

"auto" chooses one homotopy, or with many queries a narrow one and then a wide one. A narrow homotopy (small t) finds an
image with little distortion, or none: x hardly leaves the original. A wide one (large t) finds an adversarial image for
every original, but part of the distance that x has covered stays in it. So the narrow one comes first, with two thirds
of the queries, and the wide one gets the images that it did not fool.
"""

from __future__ import annotations

import dataclasses
import gc
import math
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slgh import checks
from slgh.attack.loss import ATANH_SCALE
from slgh.backends import backend_of
from slgh.engine.checkpoint import Checkpoint
from slgh.engine.snapshot import saved_batch_size
from slgh.engine.termination import Status
from slgh.oracles.estimators import zeroth_order_cosine
from slgh.protocols import Array
from slgh.result import Result

MIN_RADIUS = 0.1
"""Lower bound of the first t, for images that are nearly gray."""

SAMPLES = 10
"""Default number of antithetic pairs per iteration."""

MAX_ALPHA = 4.0
"""Upper bound of the step scale."""

WIDE_FALL = 6e-6
"""Last t of a wide homotopy relative to its first: about where differences of values become rounding."""

NARROW_END = 1 / 200
"""Last t of a narrow homotopy: it changes a gray pixel by less than one of 256 levels."""

NARROW_DECAY = 1 / 125
"""Share of a narrow homotopy's iterations after which its t has fallen by a factor of e."""

WIDE_SHARE = 3
"""The wide homotopy of two gets one part in this many of the queries."""

HOMOTOPY_PARAMETERS = frozenset({"oracle", "schedule", "update", "values", "t1", "t_end", "fall", "shape", "alpha"})
"""Parameters that describe a homotopy. If the user sets one, there is only that homotopy."""

CUT_SHORT = (Status.INTERRUPTED, Status.MAX_SECONDS, Status.CALLBACK)
"""After these ends no further homotopy is started."""


class HomotopyStart(NamedTuple):
    """The first t and the step scale of a homotopy."""

    t1: float
    alpha: float


class PlannedHomotopy(NamedTuple):
    """The parameters and limits of one homotopy."""

    params: dict[str, Any]
    max_evals: int | None
    max_iter: int | None


class FinishedHomotopy(NamedTuple):
    """The image numbers of a homotopy, its result, and a remark on memory (empty if there was enough)."""

    rows: NDArray[np.intp]
    run: Result
    remark: str


def first_radii(a: Array) -> tuple[float, float]:
    r"""Return the first t for images a (B, d) in [-0.5, 0.5]: for few queries, and for many.

    x has to be as large as :math:`|\tanh^{-1}(2a)|` to move a pixel through half of its range. Few queries: 0.4 times
    the median of that, which is about 3 for black and white and 0.2 for photographs. Many queries: 0.8 times its root
    mean square, in which the nearly white and black pixels of photographs count too.
    """
    if not a.shape[0]:
        return MIN_RADIUS, MIN_RADIUS
    distance = np.abs(np.arctanh(backend_of(a).host(a) * (2 * ATANH_SCALE))).astype(float)
    near, wide = 0.4 * float(np.median(distance)), 0.8 * float(np.sqrt(np.mean(distance**2)))
    return max(MIN_RADIUS, near), max(MIN_RADIUS, near, wide)


def step_scale(iterations: int, samples: int, d: int) -> float:
    r"""Return the `alpha` with which x can cover the distance that it has to.

    The distance covered is proportional to the number of iterations T times the cosine c between estimate and
    gradient, hence :math:`\alpha = \sqrt{27 / (T c)}`: 1 for 10,000 queries on a photograph of CIFAR-10.
    """
    return min(math.sqrt(27 / (max(1, iterations) * zeroth_order_cosine(samples, d))), MAX_ALPHA)


def homotopy_start(a: Array, iterations: int, samples: int) -> HomotopyStart:
    """Return the first t and alpha of a single homotopy for images a (B, d), given its number of iterations.

    If an alpha below 1 suffices, the spare iterations go into a larger t with a smaller alpha: a large t finds a way
    for every image, and short steps keep the distortion small. Covering the same distance in shorter steps takes half
    as many steps again.
    """
    near, wide = first_radii(a)
    alpha = step_scale(iterations, samples, a.shape[1])
    spare = min(max(0.0, 1 / alpha - 1), 1.0)
    t1 = near ** (1 - spare) * wide**spare
    return HomotopyStart(t1, alpha * near / t1 * (1 + spare / 2))


def narrow_parameters(a: Array, iterations: int, samples: int) -> dict[str, Any]:
    """Return the parameters of a narrow homotopy for images a (B, d).

    Its t falls quickly, so that x soon comes near a first way to another class, and most of the iterations shorten it.
    It uses ranks, so that a pair that happens to lie across the border of a class does not outweigh the others.
    """
    t1 = math.sqrt(math.prod(first_radii(a)))
    shape = math.log(math.log(t1 / NARROW_END)) / -math.log(NARROW_DECAY)
    alpha = step_scale(iterations, samples, a.shape[1])
    return {"t1": t1, "t_end": NARROW_END, "shape": shape, "alpha": alpha, "values": "ranks", "oracle": "antithetic"}


def default_parameters(a: Array, max_evals: int | None, max_iter: int | None, params: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of a single homotopy for images a (B, d): `params`, completed by defaults."""
    samples = _samples(params)
    start = homotopy_start(a, _iterations(max_evals, max_iter, samples), samples)
    chosen = {"samples": samples, "oracle": "antithetic", "t1": start.t1}
    if "schedule" not in params:
        chosen |= {"shape": 1.0, "fall": WIDE_FALL}
    if "update" not in params:
        chosen["alpha"] = start.alpha
    return chosen | params


def plan_homotopies(
    a: Array, max_evals: int | None, max_iter: int | None, params: dict[str, Any], *, reduce_distortion: bool
) -> list[PlannedHomotopy]:
    """Return the homotopies for images a (B, d), each for the images that the one before has not fooled.

    There are two if a third of the iterations suffices for steps of alpha <= 1, unless the attack ends at the first
    success (`reduce_distortion` is False) or `params` describe a homotopy. The wide one has the t of a homotopy with
    all of the queries, and covers the same distance in a third of the steps.
    """
    single = PlannedHomotopy(default_parameters(a, max_evals, max_iter, params), max_evals, max_iter)
    samples = _samples(params)
    iterations = _iterations(max_evals, max_iter, samples)
    suffices = step_scale(iterations // WIDE_SHARE, samples, a.shape[1]) <= 1
    if not (reduce_distortion and suffices) or HOMOTOPY_PARAMETERS & params.keys():
        return [single]
    narrow = narrow_parameters(a, iterations - iterations // WIDE_SHARE, samples) | {"samples": samples} | params
    wide = single.params | {"alpha": WIDE_SHARE * single.params["alpha"]}
    (narrow_evals, wide_evals), (narrow_iter, wide_iter) = _shares(max_evals), _shares(max_iter)
    return [PlannedHomotopy(narrow, narrow_evals, narrow_iter), PlannedHomotopy(wide, wide_evals, wide_iter)]


def _samples(params: dict[str, Any]) -> int:
    samples: int = checks.plain(params.get("samples", SAMPLES))
    checks.count("samples", samples)
    return samples


def _iterations(max_evals: int | None, max_iter: int | None, samples: int) -> int:
    """Return the number of iterations that the limits allow. At least one of them is given."""
    return min(n for n in (max_iter, max_evals and max_evals // (2 * samples + 1)) if n is not None)


def _shares(limit: int | None) -> tuple[int, int] | tuple[None, None]:
    """Split a limit between the narrow and the wide homotopy."""
    return (None, None) if limit is None else (limit - limit // WIDE_SHARE, limit // WIDE_SHARE)


def run_homotopies(
    plans: Sequence[PlannedHomotopy],
    minimize_rows: Callable[..., Result],
    rows: NDArray[np.intp],
    *,
    batch_size: int | None,
    max_seconds: float | None,
    seed: Any,
    checkpoint: str | os.PathLike[str] | Checkpoint | None,
) -> list[FinishedHomotopy]:
    """Call minimize_rows(rows, ...) for each plan, as long as some images are not fooled."""
    finished = list[FinishedHomotopy]()
    for plan, own_checkpoint in zip(plans, _checkpoints(checkpoint, len(plans)), strict=True):
        attempt = partial(
            minimize_rows,
            rows,
            max_evals=plan.max_evals,
            max_iter=plan.max_iter,
            max_seconds=max_seconds,
            seed=seed if np.ndim(seed) == 0 else [seed[i] for i in rows],
            checkpoint=own_checkpoint,
            **plan.params,
        )
        # A resumed run keeps the batch size to which memory limited it before.
        saved = saved_batch_size(own_checkpoint.path) if isinstance(own_checkpoint, Checkpoint) else None
        run, remark = within_memory(attempt, min(batch_size or saved or rows.size, rows.size))
        finished.append(FinishedHomotopy(rows, run, remark))
        if np.isin(run.status, CUT_SHORT).any():
            break
        rows = rows[(backend_of(run.x).host(run.watched["first"]) < 0) & (run.status != Status.NONFINITE)]
        if not rows.size:
            break
        seed = run.seed if seed is None else seed
        max_seconds = None if max_seconds is None else max(max_seconds - run.seconds, 0.0)
    return finished


def _checkpoints(checkpoint: Any, n: int) -> list[Any]:
    """Return a checkpoint per homotopy: the first has the given file, the second one next to it, and so on."""
    if isinstance(checkpoint, str | os.PathLike):
        checkpoint = Checkpoint(path=checkpoint)
    if not isinstance(checkpoint, Checkpoint) or Path(checkpoint.path).is_dir():  # None, or refused by `minimize`
        return [checkpoint] * n
    path = Path(os.path.abspath(checkpoint.path))
    files = [path, *(path.with_name(f"{path.stem}.{number}{path.suffix}") for number in range(2, n + 1))]
    if not path.exists() and (left := [str(file) for file in files[1:] if file.exists()]):
        raise checks.ArgumentValueError(
            f"`checkpoint` {str(path)!r} does not exist, but {left[0]!r}, which belongs to it, does. Move it away as "
            "well to start anew."
        )
    return [dataclasses.replace(checkpoint, path=file) for file in files]


def within_memory(attempt: Callable[..., Result], n: int) -> tuple[Result, str]:
    """Return attempt(batch_size=n) and a remark. If GPU memory runs out, halve the batch size and try again.

    Memory runs out in the first iterations, if at all, so that little work is repeated.
    """
    torch: Any = sys.modules.get("torch")
    size, remark = n, ""
    while True:
        try:
            return attempt(batch_size=size), remark
        except Exception as error:
            if size == 1 or not is_out_of_memory(error):
                raise
        # Outside of the except clause, since the exception's traceback holds the arrays of the failed attempt.
        gc.collect()
        if torch is not None and torch.cuda.is_available():
            torch.cuda.empty_cache()
        size //= 2
        remark = f"The GPU's memory sufficed for {size} images at a time, not for {n}."


def is_out_of_memory(error: Exception) -> bool:
    """Return True if PyTorch found too little memory on the GPU."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(error, torch.OutOfMemoryError)
