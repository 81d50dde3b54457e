"""An experiment: jobs that run independently, and the tables and figures made of their records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from slgh.engine.termination import Status
from slgh.plotting.explorer import Explorer
from slgh.plotting.table import Table
from slgh.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Tick: TypeAlias = Callable[[float], None]
"""Progress callback of a job: takes the share of its work that is done, from 0 to 1."""

Record: TypeAlias = Mapping[str, Any]
"""Results of a job by name: NumPy arrays, and values that JSON can hold. Written to disk when the job has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The smallest part of an experiment that is run: a row of a table, a cell, an image.

    `kept` returns the record of an earlier run from a permanent cache, if there is one.
    """

    label: str
    run: Callable[[Tick], Record]
    kept: Callable[[], Record | None] = lambda: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A figure: its file name without suffix, its caption, and a function that draws it with matplotlib."""

    name: str
    caption: str
    draw: Callable[[], Figure]


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Output of an experiment: tables, data for JSON, figures, and an explorer with a hint on what to watch."""

    tables: tuple[Table, ...]
    data: Any
    drawings: tuple[Drawing, ...] = ()
    explore: Callable[[], Explorer] | None = None
    watch: str = ""
    """Hint for the reader: the main thing to see in the explorer."""
    reproduced: tuple[int, int] | None = None
    """Number of the paper's rows that are reproduced, and of all rows."""


class Experiment(Protocol):
    """Interface between an experiment and the runner."""

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


def require_complete(result: Result) -> Result:
    """Return the result, or raise KeyboardInterrupt if Ctrl-C ended the run early."""
    if np.any(np.asarray(result.status) == Status.INTERRUPTED):
        raise KeyboardInterrupt
    return result
