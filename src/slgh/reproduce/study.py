"""A study: an experiment that is no table of end points. It is measured in parts and drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


class Finding(Protocol):
    """What a study found, for a table, a program and a reader."""

    @property
    def note(self) -> str: ...
    def rows(self) -> list[tuple[str, ...]]: ...
    def as_dict(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """How a study is run: its parts one by one, each with a label, then what they tell together."""

    name: str
    title: str
    headings: tuple[str, ...]
    jobs: Callable[[], list[tuple[str, Callable[[], Sequence[Any]]]]]
    conclude: Callable[[list[Any]], Finding]
    plot: Callable[[Any, Path], None]
