"""Records of finished jobs on disk, so that an interrupted run can be continued."""

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
    """Records of jobs, one file each, kept until the run is complete.

    A file counts only if the same code wrote it for the same job. A file that cannot be read counts as missing.
    """

    def __init__(self, folder: Path, identity: str) -> None:
        self.folder = folder
        self.identity = f"{fingerprint()} {identity}"

    def get(self, experiment: str, label: str) -> Record | None:
        """Return the record of the job, if it has finished before."""
        try:
            found = read(self._file(experiment, label))
        except ValueError:
            return None
        if found is None or found[0].get("identity") != self.identity:
            return None
        meta, arrays = found
        return {**meta["plain"], **arrays}

    def put(self, experiment: str, label: str, record: Record) -> None:
        """Store the record of a job."""
        arrays = {name: value for name, value in record.items() if isinstance(value, np.ndarray)}
        plain = {name: value for name, value in record.items() if name not in arrays}
        self.folder.mkdir(parents=True, exist_ok=True)
        meta: dict[str, Any] = {"identity": self.identity, "label": label, "plain": plain}
        write(self._file(experiment, label), meta, arrays)

    def drop(self, experiment: str, labels: Iterable[str]) -> None:
        """Delete the records of a complete run, so that the next one starts anew."""
        for label in labels:
            self._file(experiment, label).unlink(missing_ok=True)
        with suppress(OSError):  # not empty, or not there
            self.folder.rmdir()

    def _file(self, experiment: str, label: str) -> Path:
        return self.folder / f"{hashlib.sha256(f'{experiment}: {label}'.encode()).hexdigest()[:16]}.npz"


def fingerprint() -> str:
    """Return a digest of the package's source code and of its data files."""
    root = Path(slgh.__file__).parent
    digest = hashlib.sha256()
    for file in sorted(path for path in root.rglob("*") if path.suffix in (".py", ".toml")):
        digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]
