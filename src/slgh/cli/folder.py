"""The folder of a run that can be gone on with: run.json says what it is, a checkpoint how far it has come."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import warnings
from pathlib import Path
from typing import Any

from slgh.cli.common import fail
from slgh.cli.job import Job, Outcome, run
from slgh.cli.objective import Objective
from slgh.cli.outcome import as_dict, at_start
from slgh.cli.run_file import CHECKPOINT, FORMAT, RESULT, RUN
from slgh.engine.checkpoint import Checkpoint
from slgh.files import to_json, write_text


def begin(folder: Path, job: Job, objective: Objective, *, progress: bool) -> Outcome:
    """Write down what is to be run, and run it. A run that is refused leaves nothing behind."""
    if (folder / RUN).exists() or (folder / CHECKPOINT).exists():
        fail(f"--run: {folder} holds a run already. Go on with slgh resume {folder}, or take another folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write(folder, job)
    except OSError as error:
        fail(f"--run: {folder} cannot be written: {error.strerror}.")
    try:
        return keep(folder, job, objective, progress=progress)
    except BaseException:
        if not (folder / CHECKPOINT).exists():
            with contextlib.suppress(OSError):
                (folder / RUN).unlink()
                folder.rmdir()
        raise


def write(folder: Path, job: Job, **known: Any) -> None:
    """Replace run.json as a whole; known are the status that the run `ended` with, and f(x0) as `fun_x0`."""
    content = {"format": FORMAT, "command": "minimize", "job": dataclasses.asdict(job), **known}
    write_text(folder / RUN, json.dumps(content, indent=1) + "\n")


def keep(
    folder: Path, job: Job, objective: Objective, *, progress: bool, before: dict[str, Any] | None = None
) -> Outcome:
    """Run, or go on, saving how far it has come; at the end the folder holds the result too.

    `before` is what run.json says, where there were sittings before.
    """
    checkpoint = Checkpoint(path=folder / CHECKPOINT, every_seconds=job.save_every)
    outcome = run(job, objective, progress=progress, checkpoint=checkpoint)
    if before is not None:
        outcome = dataclasses.replace(outcome, resumed=True, earlier_start=before.get("fun_x0"))
    try:
        write_text(folder / RESULT, to_json(as_dict(outcome, history=False)))
        write(folder, job, ended=outcome.result.status.name, fun_x0=at_start(outcome))
    except OSError as error:
        warnings.warn(f"{folder} cannot be written any more ({error}).", RuntimeWarning, stacklevel=2)
    return outcome
