"""Columns of the tables and figures: the recorded runs of one suite, dimension and budget."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from coco_study.records import Record
from coco_study.settings import Cell, Method
from coco_study.suites import INSTANCES, Place, functions, is_training

Chosen = Mapping[str, Sequence[Record]]
"""Records of each method. All records of a method have the same settings."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """One suite, dimension and budget, with the methods and functions that were run."""

    suite: str
    d: int
    times: int
    functions: tuple[int, ...]
    instances: tuple[int, ...]
    chosen: Chosen

    @property
    def budget(self) -> int:
        """Number of evaluations."""
        return self.times * self.d

    @property
    def title(self) -> str:
        """Heading of the column."""
        noisy = ", noisy" if self.suite == "bbob-noisy" else ""
        return f"{self.d}-D, {self.times:,} d{noisy}"

    @cached_property
    def places(self) -> list[Place]:
        """Problems of the column."""
        return [Place(suite=self.suite, d=self.d, f=f, i=i) for f in self.functions for i in self.instances]

    @cached_property
    def runs(self) -> dict[tuple[str, Place], Record]:
        """Record of each method on each problem. If a run was repeated, the last one counts."""
        wanted = set(self.places)
        return {
            (name, record.place): record
            for name, records in self.chosen.items()
            for record in records
            if record.place in wanted and self.budget in record.budgets
        }

    def count(self, name: str) -> int:
        """Return the number of problems that a method was run on."""
        return sum((name, place) in self.runs for place in self.places)

    @cached_property
    def methods(self) -> list[str]:
        """Methods that were run on all problems. Only these are compared."""
        return [name for name in self.chosen if self.places and self.count(name) == len(self.places)]


def columns_of(
    cells: Iterable[Cell], chosen: Chosen, *, training: bool | None, instances: tuple[int, ...] = INSTANCES
) -> list[Column]:
    """Return the columns for the training functions, for the test functions, or (None) for all."""
    return [
        Column(
            suite=cell.suite,
            d=cell.d,
            times=times,
            functions=tuple(f for f in functions(cell.suite) if training in (None, is_training(f))),
            instances=cell.among(instances),
            chosen=chosen,
        )
        for cell in cells
        for times in cell.budgets
    ]


def choose(records: Iterable[Record], methods: Iterable[Method]) -> tuple[Chosen, list[str]]:
    """Return the records of these methods with their current settings, and notes about unusual records."""
    kept: dict[str, list[Record]] = {method.name: [] for method in methods}
    digests = {method.name: method.digest for method in methods}
    others: dict[str, int] = {}
    for record in records:
        if record.digest == digests.get(record.method):
            kept[record.method].append(record)
        elif record.method in kept:
            others[record.method] = others.get(record.method, 0) + 1
    notes = [f"{name}: {number} records with other settings are left out." for name, number in others.items()]
    for name, of in kept.items():
        codes = {record.code for record in of}
        if len(codes) > 1:
            notes.append(
                f"{name}: its records come from {len(codes)} versions of the slgh source ({', '.join(sorted(codes))})."
            )
    return kept, notes
