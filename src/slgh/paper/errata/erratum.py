"""What an erratum is: a place of the paper, how we read it, and a measurement of both readings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from slgh.paper.experiment import Record, Tick
from slgh.paper.table import PaperTable, Row, run
from slgh.result import Result, Status

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Erratum:
    """A misprint or a gap of the paper, with its evidence.

    `measure` runs what the paper says and what we take; `tell` puts what it found into two cells, for the paper's
    reading and for ours. `random`: its last digits depend on the seeds.
    """

    name: str
    where: str
    says: str
    takes: str
    measure: Callable[[Tick], Record]
    tell: Callable[[Record], tuple[str, str]]
    prints: str = ""
    """The figures that the paper prints, where there are any."""
    random: bool = False


def row_of(table: PaperTable, label: str) -> Row:
    """The row of a table by its label."""
    return next(row for row in table.rows if row.label == label)


def run_variant(table: PaperTable, label: str, *, seeds: int = 1, **changes: Any) -> Result:
    """A row of the paper's table with some of its parameters changed, over so many seeds."""
    return whole(run(replace(table, seeds=seeds), row_of(table, label), **{"history": 0} | changes))


def whole(result: Result) -> Result:
    """The result, unless Ctrl-C cut it short."""
    if np.any(np.asarray(result.status) == Status.INTERRUPTED):
        raise KeyboardInterrupt
    return result


def ticked(items: Sequence[Item], tick: Tick) -> Iterator[Item]:
    """The items one by one, and the share of them that is done."""
    for i, item in enumerate(items):
        tick(i / len(items))
        yield item


def listed(values: Iterable[float], form: str = ".4g") -> str:
    """Figures side by side.

    >>> listed([12.632, 0.5])
    '12.63 / 0.5'
    """
    return " / ".join(f"{value:{form}}" for value in values)
