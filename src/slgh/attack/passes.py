"""One homotopy after another, each for the images that those before have not fooled."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slgh.attack.memory import within_memory
from slgh.attack.plan import Pass
from slgh.backends import backend_of
from slgh.engine.checkpoint import Checkpoint
from slgh.engine.snapshot import open_checkpoint
from slgh.result import Result, Status

CUT_SHORT = (Status.INTERRUPTED, Status.MAX_SECONDS, Status.CALLBACK)
"""Ends after which nothing more is begun."""


class Passed(NamedTuple):
    """A pass that has ended: which of the images it had, what became of them, and what is to be said of its memory."""

    rows: NDArray[np.intp]
    run: Result
    remark: str


def go_through(
    passes: Sequence[Pass],
    minimize_rows: Callable[..., Result],
    rows: NDArray[np.intp],
    *,
    batch_size: int | None,
    max_seconds: float | None,
    seed: Any,
    checkpoint: str | os.PathLike[str] | Checkpoint | None,
) -> list[Passed]:
    """Call minimize_rows(rows, ...) for each pass, as long as there are images that were not fooled."""
    ended = list[Passed]()
    for one, keeps in zip(passes, _checkpoints(checkpoint, len(passes)), strict=True):
        attempt = partial(
            minimize_rows,
            rows,
            max_evals=one.max_evals,
            max_iter=one.max_iter,
            max_seconds=max_seconds,
            seed=seed if np.ndim(seed) == 0 else [seed[i] for i in rows],
            checkpoint=keeps,
            **one.params,
        )
        run, remark = within_memory(attempt, min(batch_size or _kept_at_once(keeps) or rows.size, rows.size))
        ended.append(Passed(rows, run, remark))
        if np.isin(run.status, CUT_SHORT).any():
            break
        rows = rows[(backend_of(run.x).host(run.watched["first"]) < 0) & (run.status != Status.NONFINITE)]
        if not rows.size:
            break
        seed = run.seed if seed is None else seed
        max_seconds = None if max_seconds is None else max(max_seconds - run.seconds, 0.0)
    return ended


def _checkpoints(checkpoint: str | os.PathLike[str] | Checkpoint | None, n: int) -> list[Checkpoint | None]:
    """Those of n passes: the first has the file that is given, the second one beside it, and so on."""
    saver = open_checkpoint(checkpoint)
    if saver is None:
        return [None] * n
    path = Path(os.path.abspath(saver.settings.path))
    files = [path, *(path.with_name(f"{path.stem}.{number}{path.suffix}") for number in range(2, n + 1))]
    if not saver.found and (left := [str(file) for file in files[1:] if file.exists()]):
        raise ValueError(
            f"`checkpoint` {str(path)!r} does not exist, but {left[0]!r}, which belongs to it, does. Move it away as "
            "well to start anew."
        )
    return [dataclasses.replace(saver.settings, path=file) for file in files]


def _kept_at_once(checkpoint: Checkpoint | None) -> int | None:
    """How many images at a time the run in a checkpoint had, where memory did not suffice for all."""
    saver = open_checkpoint(checkpoint)
    kept = saver.found[0].identity.get("batch_size") if saver and saver.found else None
    return None if kept is None else int(kept["problems"])
