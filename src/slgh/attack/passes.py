"""Run one homotopy after another, each on the images that are not yet fooled, and on as many as fit in memory."""

from __future__ import annotations

import dataclasses
import gc
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slgh.attack.plan import PlannedHomotopy
from slgh.backends import backend_of
from slgh.engine.checkpoint import Checkpoint
from slgh.engine.snapshot import saved_batch_size
from slgh.result import Result, Status

CUT_SHORT = (Status.INTERRUPTED, Status.MAX_SECONDS, Status.CALLBACK)
"""After these ends no further homotopy is started."""


class FinishedHomotopy(NamedTuple):
    """The image numbers of a homotopy, its result, and a remark on memory (empty if there was enough)."""

    rows: NDArray[np.intp]
    run: Result
    remark: str


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
        raise ValueError(
            f"`checkpoint` {str(path)!r} does not exist, but {left[0]!r}, which belongs to it, does. Move it away as "
            "well to start anew."
        )
    return [dataclasses.replace(checkpoint, path=file) for file in files]


def within_memory(attempt: Callable[..., Result], n: int) -> tuple[Result, str]:
    """Return attempt(batch_size=n) and a remark. If GPU memory runs out, halve the batch size and try again.

    Memory runs out in the first iterations, if at all, so that little work is repeated.
    """
    torch: Any = sys.modules.get("torch")
    for size in (n >> i for i in range(n.bit_length() - 1)):
        try:
            return attempt(batch_size=size), _memory_remark(size, n)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
        # Outside of the except clause, since the exception's traceback holds the arrays of the failed attempt.
        gc.collect()
        if torch is not None and torch.cuda.is_available():
            torch.cuda.empty_cache()
    return attempt(batch_size=1), _memory_remark(1, n)


def _memory_remark(size: int, n: int) -> str:
    return "" if size == n else f"The GPU's memory sufficed for {size} images at a time, not for {n}."


def is_out_of_memory(error: Exception) -> bool:
    """Return True if PyTorch found too little memory on the GPU."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(error, torch.OutOfMemoryError)
