"""Records: one JSON line per run, in one file per suite and method.

Keys of a line (short, because there are thousands of lines):

    m  method            w  workers            c  digest of the slgh source, for slgh
    d  dimension         f  function, or number of atoms                             i  instance, or start
    b  budgets in multiples of d that the record covers
    v  f - fopt after each of these budgets in evaluations
    r  f - fopt after the rounds that each budget allows
    n  evaluations       q  rounds             s  CPU seconds
    t  f - fopt after 1, 2, 3, 5, 7, 10, 20, ... rounds
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from coco_study.records import code_digest
from coco_study.suites import Place
from coco_study.watched import Spent

from parallel_study.methods import Method
from parallel_study.problems import Cluster, Somewhere, evaluations_allowed, problem_at
from parallel_study.rounds import Rounds

FOLDER = Path(__file__).parents[1] / "parallel_records"

Key = tuple[str, int, Somewhere, int]
"""Method, workers, problem, and budget in multiples of d."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """Outcome of one run."""

    method: str
    workers: int
    code: str
    place: Somewhere
    budgets: tuple[int, ...]
    by_evaluations: tuple[float, ...]
    by_rounds: tuple[float, ...]
    evaluations: int
    rounds: int
    curve: tuple[float, ...]
    seconds: float

    @property
    def keys(self) -> list[Key]:
        """Keys of the runs that the record covers."""
        return [(self.method, self.workers, self.place, budget) for budget in self.budgets]

    def line(self) -> str:
        """Return the record as a line of its file."""
        p = self.place
        where = {"m": self.method, "w": self.workers, "c": self.code, "d": p.d, "f": p.f, "i": p.i, "b": self.budgets}
        found = {"v": _short(self.by_evaluations), "r": _short(self.by_rounds), "t": _short(self.curve)}
        used = {"n": self.evaluations, "q": self.rounds, "s": round(self.seconds, 3)}
        return json.dumps(where | found | used, separators=(",", ":"))


def _short(values: Iterable[float]) -> list[float]:
    return [float(f"{value:.6g}") for value in values]


def _parse(suite: str, said: dict[str, Any]) -> Record:
    where = {key: said[key] for key in "dfi"}
    return Record(
        method=said["m"],
        workers=said["w"],
        code=said["c"],
        place=Cluster(**where) if suite == "clusters" else Place(suite=suite, **where),
        budgets=tuple(said["b"]),
        by_evaluations=tuple(said["v"]),
        by_rounds=tuple(said["r"]),
        curve=tuple(said["t"]),
        evaluations=said["n"],
        rounds=said["q"],
        seconds=said["s"],
    )


def read(*folders: Path) -> dict[Key, Record]:
    """Read the records, except incomplete last lines. Later folders and later lines replace earlier ones."""
    found = {}
    for file in (file for folder in folders for file in sorted(folder.glob("*.jsonl"))):
        whole, _, _ = file.read_text().rpartition("\n")
        for line in whole.splitlines():
            record = _parse(file.name.split(".", 1)[0], json.loads(line))
            found.update(dict.fromkeys(record.keys, record))
    return found


@dataclass(frozen=True, kw_only=True)
class Job:
    """Run of a method on a problem with W workers, for budgets in multiples of d."""

    method: Method
    workers: int
    place: Somewhere
    budgets: tuple[int, ...]

    @property
    def keys(self) -> list[Key]:
        """Keys of the runs that the job covers."""
        return [(self.method.name, self.workers, self.place, budget) for budget in self.budgets]

    def __call__(self) -> Record:
        """Run the job in this process."""
        begin, evaluations = time.process_time(), [budget * self.place.d for budget in self.budgets]
        with problem_at(self.place) as problem, warnings.catch_warnings(), np.errstate(all="ignore"), suppress(Spent):
            warnings.simplefilter("ignore")
            budgets = None if self.method.planned else evaluations
            fun = Rounds(problem.fun, fopt=self.place.fopt, workers=self.workers, budgets=budgets)
            most = evaluations[-1] if self.method.planned else evaluations_allowed(evaluations[-1], self.workers)
            self.method.run(fun, problem, most)
        return Record(
            method=self.method.name,
            workers=self.workers,
            code=source_digest() if self.method.is_slgh else "",
            place=self.place,
            budgets=self.budgets,
            by_evaluations=tuple(map(fun.by_evaluations, evaluations)),
            by_rounds=tuple(map(fun.by_rounds, evaluations)),
            evaluations=fun.evaluations,
            rounds=fun.rounds,
            curve=tuple(fun.curve()),
            seconds=time.process_time() - begin,
        )


def source_digest() -> str:
    """Return the digest of the slgh that is imported, which may be another checkout."""
    import slgh

    return code_digest(Path(slgh.__file__).parent)
