"""One JSON line a run, in a file for each suite and method, so that a killed run goes on and tables are redrawn.

A line, keys short since there are thousands:

    m  method        k  digest of its settings      c  digest of our code that ran, of our own methods
    d  dimension     f  function    i  instance     b  the budgets that the run shows; it was run for the last
    v  f - fopt at each of these budgets            t  the evaluation that reached COCO's 1st, 2nd, ... target
    n  evaluations used, less than the budget where the last target was reached       s  seconds of the processor
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
    """What a run of a method on a problem showed."""

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
        """What tells runs apart but for their budgets."""
        return self.method, self.digest, self.place

    def line(self) -> str:
        """The record as a line of its file."""
        p = self.place
        where = {"m": self.method, "k": self.digest, "c": self.code, "d": p.d, "f": p.f, "i": p.i}
        found = {"b": self.budgets, "v": [float(f"{v:.10g}") for v in self.at], "t": self.hits}
        used = {"n": self.evaluations, "s": round(self.seconds, 3)}
        return json.dumps(where | found | used, separators=(",", ":"))


def record_of(method: Method, place: Place, budgets: tuple[int, ...], outcome: Outcome, seconds: float) -> Record:
    """What a run showed, with what was run."""
    return Record(
        method=method.name,
        digest=method.digest,
        code=code_digest() if method.ours else "",
        place=place,
        budgets=budgets,
        at=tuple(outcome.at),
        hits=tuple(outcome.hits),
        evaluations=outcome.evaluations,
        seconds=seconds,
    )


def append(folder: Path, record: Record) -> None:
    """Add a record to its file, which is closed before this returns."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f"{record.place.suite}.{record.method}.jsonl", "a") as file:
        file.write(record.line() + "\n")


def mend(folder: Path) -> None:
    """Take off last lines that a kill cut short, before more are added."""
    for file in folder.glob("*.jsonl"):
        whole, newline, cut = file.read_bytes().rpartition(b"\n")
        if cut:
            file.write_bytes(whole + newline)


def read(folder: Path) -> list[Record]:
    """All records of a folder, but for last lines that a kill cut short."""
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


def shown(records: Iterable[Record]) -> set[tuple[str, str, Place, int]]:
    """Which budgets of which runs there are."""
    return {(*record.key, budget) for record in records for budget in record.budgets}


@lru_cache
def code_digest(source: Path = SOURCE) -> str:
    """What tells versions of our code apart: what a run goes through, not the commands or the pictures.

    Taken once a process, since a process goes on with the code that it began with.
    """
    parts = ("engine", "auto", "oracles", "schedules", "updates", "backends", "method.py", "minimize.py")
    files = (file for part in parts for file in [source / part, *sorted((source / part).rglob("*.py"))])
    digest = hashlib.sha256()
    for file in files:
        if file.is_file():
            digest.update(file.read_bytes())
    return digest.hexdigest()[:8]
