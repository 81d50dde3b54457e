"""Finished jobs on disk, so that a run that was broken off goes on where it stopped."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import slgh
from slgh.engine.checkpoint import read, write
from slgh.paper.experiment import Record


class Store:
    """What jobs found, one file each, until the whole run has ended.

    A file counts only if the same code wrote it for the same job: figures of another version are no result of this
    one. A file that cannot be read is as good as none.
    """

    def __init__(self, folder: Path, identity: str) -> None:
        self.folder = folder
        self.identity = f"{fingerprint()} {identity}"

    def get(self, experiment: str, label: str) -> Record | None:
        """What the job found, if it has ended before."""
        try:
            found = read(self._file(experiment, label))
        except ValueError:
            return None
        if found is None or found[0].get("identity") != self.identity:
            return None
        meta, arrays = found
        return {**meta["plain"], **arrays}

    def put(self, experiment: str, label: str, record: Record) -> None:
        """Keep what the job found."""
        arrays = {name: value for name, value in record.items() if isinstance(value, np.ndarray)}
        plain = {name: value for name, value in record.items() if name not in arrays}
        self.folder.mkdir(parents=True, exist_ok=True)
        meta: dict[str, Any] = {"identity": self.identity, "label": label, "plain": plain}
        write(self._file(experiment, label), meta, arrays)

    def drop(self, experiment: str, labels: Iterable[str]) -> None:
        """These jobs' run is complete: the next one begins anew."""
        for label in labels:
            self._file(experiment, label).unlink(missing_ok=True)
        with suppress(OSError):  # there are others, or none
            self.folder.rmdir()

    def _file(self, experiment: str, label: str) -> Path:
        return self.folder / f"{hashlib.sha256(f'{experiment}: {label}'.encode()).hexdigest()[:16]}.npz"


def fingerprint() -> str:
    """What this code is: a digest of the package's modules."""
    root = Path(slgh.__file__).parent
    digest = hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]
