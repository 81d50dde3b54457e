"""Permanent cache of rows: one JSON file per row and seed."""

from __future__ import annotations

import json
import os
import re
import warnings
from pathlib import Path

from slgh.checks import ArgumentFileError
from slgh.files import to_json, write_text
from slgh.paper.attack.printed import IMAGES
from slgh.paper.attack.run_row import RowRun, run_row
from slgh.paper.experiment import Record, Tick


def make_folder(folder: Path) -> None:
    """Create the folder for rows, so that it fails before the work and not after it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ArgumentFileError(
            f"`rows` must be a folder, or one that can be made, got {str(folder)!r}: {error}."
        ) from error
    if not os.access(folder, os.W_OK):
        raise ArgumentFileError(f"`rows` must be a folder that can be written to, got {str(folder)!r}.")


def file_of(run: RowRun, folder: Path) -> Path:
    """Return the file of a row. Reduced runs and other networks have names of their own, beside the full ones."""
    parts = [run.paper.data, run.name, f"seed{run.seed}"]
    if run.weights is not None:
        parts.insert(1, re.sub(r"\W+", "_", run.weights.stem))
    if (run.images, run.iterations) != (IMAGES, run.paper.T):
        parts.append(f"{run.images}x{run.iterations}")
    return folder / f"{'-'.join(parts)}.json"


def read(run: RowRun, folder: Path | None) -> Record | None:
    """Return the record of a run with the same settings. A file that cannot be read counts as missing."""
    if folder is None:
        return None
    wanted = json.loads(to_json(run.settings()))
    try:
        found: Record = json.loads(file_of(run, folder).read_text())
        return found if found["settings"] == wanted else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def run_and_keep(run: RowRun, device: str, folder: Path | None, tick: Tick) -> Record:
    """Run a row, and store its record if there is a folder for it."""
    found = run_row(run, device, tick)
    if folder is not None:
        try:
            write_text(file_of(run, folder), to_json(found))
        except OSError as error:  # a full disk must not lose the record
            warnings.warn(f"{run.label} is not kept in {folder}: {error}.", RuntimeWarning, stacklevel=2)
    return found
