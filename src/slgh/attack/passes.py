"""One homotopy after another, each for the images that those before have not fooled."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slgh.attack.auto import Pass
from slgh.attack.memory import within_memory
from slgh.backends import backend_of
from slgh.engine.checkpoint import Checkpoint
from slgh.engine.door import read_checkpoint
from slgh.result import Result, Status

PLANNED = (Status.COMPLETED, Status.MAX_EVALS)
"""Ends after which an image that was not fooled is tried again."""


class Passed(NamedTuple):
    """A pass that has ended: which of the images it had, what became of them, and what is to be said of its memory."""

    rows: NDArray[np.intp]
    run: Result
    remark: str


def go_through(
    passes: Sequence[Pass],
    minimise: Callable[..., Result],
    rows: NDArray[np.intp],
    *,
    at_once: int | None,
    max_seconds: float | None,
    seed: Any,
    checkpoint: str | os.PathLike[str] | Checkpoint | None,
) -> list[Passed]:
    """Call minimise(rows, ...) for each pass, as long as there are images that were not fooled."""
    ended = list[Passed]()
    for number, one in enumerate(passes, start=1):
        begun, own = time.monotonic(), _own(checkpoint, number)
        attempt = partial(
            minimise,
            rows,
            max_evals=one.max_evals,
            max_iter=one.max_iter,
            max_seconds=max_seconds,
            seed=seed if np.ndim(seed) == 0 else [seed[i] for i in rows],
            checkpoint=own,
            **one.params,
        )
        run, remark = within_memory(attempt, min(at_once or _kept_at_once(own) or rows.size, rows.size))
        ended.append(Passed(rows, run, remark))
        rows = rows[(backend_of(run.x).host(run.watched["first"]) < 0) & np.isin(run.status, PLANNED)]
        seed = run.seed if seed is None else seed
        if max_seconds is not None:
            max_seconds -= time.monotonic() - begun
        if not rows.size or (max_seconds is not None and max_seconds <= 0):
            break
    return ended


def _own(checkpoint: str | os.PathLike[str] | Checkpoint | None, number: int) -> Any:
    """The checkpoint of a pass: the first has the file that is given, the second one beside it, and so on."""
    if checkpoint is None or number == 1:
        return checkpoint
    if isinstance(checkpoint, Checkpoint):
        return dataclasses.replace(checkpoint, path=_own(checkpoint.path, number))
    path = Path(checkpoint)
    return path.with_name(f"{path.stem}.{number}{path.suffix}")


def _kept_at_once(checkpoint: str | os.PathLike[str] | Checkpoint | None) -> int | None:
    """How many images at a time the run in a checkpoint had, where memory did not suffice for all."""
    saver = read_checkpoint(checkpoint)
    kept = saver.found[0]["identity"].get("at_once") if saver and saver.found else None
    return None if kept is None else int(kept["problems"])
