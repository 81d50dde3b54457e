"""What is tried for what a composition leaves open, and what was chosen, in JSON files beside the records."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

from ablation_study.axes import Composition
from slgh.files import to_json, write_text


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The values tried, in the units of `building`.

    Parameters
    ----------
    first
        t_1 in widths, of schedules that do not fall by a given factor (constant, power_law).
    fall
        t_end / t_1 of the others.
    eta
        How fast t falls along F (derivative), as the first change of t in units of t_1.
    sharpness
        N of the exponential oracle, in units of 1/s.
    step
        The length of the first step in diagonals of the box, for all updates but scale_free, which has none.
    """

    first: tuple[float, ...]
    fall: tuple[float, ...]
    eta: tuple[float, ...]
    sharpness: tuple[float, ...]
    step: tuple[float, ...]

    def open(self, c: Composition) -> dict[str, tuple[float, ...]]:
        """What a composition leaves open, and what is tried for it."""
        names = ["first" if c.schedule in ("constant", "power_law") else "fall"]
        names += ["eta"] * (c.schedule == "derivative")
        names += ["sharpness"] * (c.oracle == "exponential")
        names += ["step"] * (c.update != "scale_free")
        return {name: getattr(self, name) for name in names}

    def candidates(self, c: Composition) -> list[dict[str, float]]:
        """All combinations."""
        tried = self.open(c)
        return [dict(zip(tried, values, strict=True)) for values in product(*tried.values())]

    def edges(self, c: Composition, values: Mapping[str, float]) -> list[str]:
        """Which values stand at an end of what was tried: a larger grid may have found better ones."""
        return [
            name for name, tried in self.open(c).items() if len(tried) > 1 and values[name] in (tried[0], tried[-1])
        ]


def digest(said: Any) -> str:
    """What tells settings apart."""
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:8]


class Chosen:
    """What was chosen for one field ("bbob" or "attack") and how; nothing, if that was on another grid.

    Parameters
    ----------
    how
        What the choice depends on besides the grid: the budget, and on what it was made.
    """

    def __init__(self, folder: Path, field: str, grid: Grid, how: Mapping[str, Any]) -> None:
        self.file, self.grid = folder / f"chosen_{field}.json", grid
        self.how = json.loads(json.dumps({**how, "grid": asdict(grid)}))

    def read(self) -> dict[str, dict[str, Any]]:
        """By compositions' names: `values`, the `runs` that it took, and which values stand at `edges` of the grid."""
        said = json.loads(self.file.read_text()) if self.file.exists() else {}
        return dict(said["cells"]) if said.get("how") == self.how else {}

    def add(self, c: Composition, values: Mapping[str, float], runs: int) -> None:
        """Keep a choice; the file is whole at any time."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        cells = self.read() | {c.name: {"values": dict(values), "runs": runs, "edges": self.grid.edges(c, values)}}
        write_text(self.file, to_json({"how": self.how, "cells": cells}))
