"""An erratum: a place in the paper, our reading of it, and a measurement of both readings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

from slgh.paper.data_files import read_toml
from slgh.paper.experiment import Record, Tick, require_complete
from slgh.paper.experiments.paper_table import PaperTable, run_row
from slgh.result import Result

Item = TypeVar("Item")

TEXTS: dict[str, dict[str, Any]] = read_toml("slgh.paper.errata", "errata.toml")
"""Texts of the errata by name."""


class Measurement(NamedTuple):
    """Numbers found, for JSON, and two table cells: the result of the paper's reading, and of slgh's."""

    found: dict[str, Any]
    as_printed: str
    as_taken: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Erratum:
    """A misprint or a gap of the paper, with its evidence. `random`: the last digits depend on the seeds."""

    name: str
    where: str
    says: str
    takes: str
    measure: Callable[..., Measurement]
    prints: str = ""
    """The printed numbers, if there are any."""
    random: bool = False

    def record(self, tick: Tick) -> Record:
        """Measure both readings, as a job does."""
        return self.measure(tick)._asdict()


def erratum(name: str) -> Callable[[Callable[..., Measurement]], Erratum]:
    """Decorator: make an `Erratum` of the function that measures it, with the texts of this name."""
    return lambda measure: Erratum(name=name, measure=measure, **TEXTS[name])


def run_variant(table: PaperTable, label: str, *, seeds: int = 1, **changes: Any) -> Result:
    """Run a row of the paper's table with some of its parameters changed."""
    return require_complete(run_row(replace(table, seeds=seeds), table.row(label), **{"history": 0} | changes))


def ticked(items: Sequence[Item], tick: Tick) -> Iterator[Item]:
    """Iterate over the items and report the share that is done."""
    for i, item in enumerate(items):
        tick(i / len(items))
        yield item


def listed(values: Iterable[float], form: str = ".4g") -> str:
    """Join numbers by slashes.

    >>> listed([12.632, 0.5])
    '12.63 / 0.5'
    """
    return " / ".join(f"{value:{form}}" for value in values)
