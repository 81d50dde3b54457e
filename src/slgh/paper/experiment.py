"""What an experiment is: jobs that can be run one by one, and what they tell together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from slgh.plotting.explorer import Explorer
from slgh.plotting.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Tick: TypeAlias = Callable[[float], None]
"""Called by a job with the share of its work that is done, from 0 to 1, for the progress bar."""

Record: TypeAlias = Mapping[str, Any]
"""What a job found, by name: NumPy arrays, and what JSON can hold. It is kept on disk as soon as the job has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A piece of an experiment that is run as a whole: a row of a table, a cell, an image.

    `kept` is asked first for what the job has found in an earlier run, where that is kept for good.
    """

    label: str
    run: Callable[[Tick], Record]
    kept: Callable[[], Record | None] = lambda: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A figure: its file's name without suffix, what it shows, and a function that draws it with matplotlib."""

    name: str
    caption: str
    draw: Callable[[], Figure]


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What the records of all jobs tell: tables, figures, an explorer, and the same for programs."""

    tables: tuple[Table, ...]
    data: Any
    """For JSON."""
    drawings: tuple[Drawing, ...] = ()
    explore: Callable[[], Explorer] | None = None


class Experiment(Protocol):
    """What the runner needs to know of an experiment."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    def jobs(self) -> Sequence[Job]: ...
    def conclude(self, records: Sequence[Record]) -> Findings: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """An experiment made of two functions."""

    name: str
    title: str
    jobs: Callable[[], Sequence[Job]]
    conclude: Callable[[Sequence[Record]], Findings]
