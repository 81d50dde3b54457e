"""Records: one JSON line per run, in one file per suite and method. Runs can be resumed and tables redrawn from them.

Keys of a line (short, because there are thousands of lines):

    m  method        k  digest of its settings      c  digest of the slgh source, for methods of slgh
    d  dimension     f  function    i  instance     b  budgets that the record covers; the run had the last one
    v  f - fopt at each of these budgets            t  the evaluation that reached COCO's 1st, 2nd, ... target
    n  evaluations used, fewer than the budget if the last target was reached         s  CPU seconds
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from coco_study.settings import Method
from coco_study.suites import Place
from coco_study.watched import Outcome

FOLDER = Path(__file__).parents[1] / "coco_records"
SOURCE = Path(__file__).parents[2] / "src" / "slgh"


@dataclass(frozen=True, kw_only=True)
class Record:
    """Outcome of one run of a method on a problem."""

    method: str
    digest: str
    code: str
    place: Place
    budgets: tuple[int, ...]
    at: tuple[float, ...]
    hits: tuple[int, ...]
    evaluations: int
    seconds: float

    @property
    def key(self) -> tuple[str, str, Place]:
        """Key of the run, without the budgets."""
        return self.method, self.digest, self.place

    def line(self) -> str:
        """Return the record as a line of its file."""
        p = self.place
        where = {"m": self.method, "k": self.digest, "c": self.code, "d": p.d, "f": p.f, "i": p.i}
        found = {"b": self.budgets, "v": [float(f"{v:.10g}") for v in self.at], "t": self.hits}
        used = {"n": self.evaluations, "s": round(self.seconds, 3)}
        return json.dumps(where | found | used, separators=(",", ":"))


def record_of(method: Method, place: Place, budgets: tuple[int, ...], outcome: Outcome, seconds: float) -> Record:
    """Return the record of a run."""
    return Record(
        method=method.name,
        digest=method.digest,
        code=code_digest() if method.depends_on_slgh else "",
        place=place,
        budgets=budgets,
        at=tuple(outcome.at),
        hits=tuple(outcome.hits),
        evaluations=outcome.evaluations,
        seconds=seconds,
    )


def append(folder: Path, record: Record) -> None:
    """Append a record to its file. The file is closed before this returns."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f"{record.place.suite}.{record.method}.jsonl", "a") as file:
        file.write(record.line() + "\n")


def drop_incomplete_lines(folder: Path) -> None:
    """Remove incomplete last lines, which a killed run leaves, before records are appended."""
    for file in folder.glob("*.jsonl"):
        whole, newline, cut = file.read_bytes().rpartition(b"\n")
        if cut:
            file.write_bytes(whole + newline)


def read(folder: Path) -> list[Record]:
    """Read all records of a folder, except incomplete last lines."""
    return [record for file in sorted(folder.glob("*.jsonl")) for record in _read(file)]


def _read(file: Path) -> Iterator[Record]:
    suite = file.name.split(".", 1)[0]
    whole, _, _ = file.read_text().rpartition("\n")
    return (_parse(suite, json.loads(line)) for line in whole.splitlines())


def _parse(suite: str, said: dict[str, Any]) -> Record:
    return Record(
        method=said["m"],
        digest=said["k"],
        code=said["c"],
        place=Place(suite=suite, d=said["d"], f=said["f"], i=said["i"]),
        budgets=tuple(said["b"]),
        at=tuple(said["v"]),
        hits=tuple(said["t"]),
        evaluations=said["n"],
        seconds=said["s"],
    )


def recorded_budgets(records: Iterable[Record]) -> set[tuple[str, str, Place, int]]:
    """Return the runs and budgets that have a record."""
    return {(*record.key, budget) for record in records for budget in record.budgets}


@lru_cache
def code_digest(source: Path = SOURCE) -> str:
    """Return a digest of the source files that a run uses, without the command line and the plots.

    It is computed once per process, because a process keeps using the code that it has loaded.
    """
    parts = ("engine", "auto", "oracles", "schedules", "updates", "backends", "method.py", "minimize.py")
    files = (file for part in parts for file in [source / part, *sorted((source / part).rglob("*.py"))])
    digest = hashlib.sha256()
    for file in files:
        if file.is_file():
            digest.update(file.read_bytes())
    return digest.hexdigest()[:8]
