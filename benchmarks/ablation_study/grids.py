"""The grid of the open values, and the tuned values in JSON files beside the records."""

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
    """Candidates for the open values, in the units of `building`.

    Parameters
    ----------
    first
        t_1 in widths, for schedules that do not decay by a given factor (constant, power_law).
    fall
        t_end / t_1 of the other schedules.
    eta
        Rate of the decay of t along F (derivative): the first change of t in units of t_1.
    sharpness
        N of the exponential oracle, in units of 1/s.
    step
        Length of the first step in diagonals of the box, for all updates but scale_free, which has none.
    """

    first: tuple[float, ...]
    fall: tuple[float, ...]
    eta: tuple[float, ...]
    sharpness: tuple[float, ...]
    step: tuple[float, ...]

    def open(self, c: Composition) -> dict[str, tuple[float, ...]]:
        """Return the open values of a composition with their candidates."""
        names = ["first" if c.schedule in ("constant", "power_law") else "fall"]
        names += ["eta"] * (c.schedule == "derivative")
        names += ["sharpness"] * (c.oracle == "exponential")
        names += ["step"] * (c.update != "scale_free")
        return {name: getattr(self, name) for name in names}

    def candidates(self, c: Composition) -> list[dict[str, float]]:
        """Return all combinations."""
        tried = self.open(c)
        return [dict(zip(tried, values, strict=True)) for values in product(*tried.values())]

    def edges(self, c: Composition, values: Mapping[str, float]) -> list[str]:
        """Return the names of the values at an end of the grid, where a larger grid might find better ones."""
        return [
            name for name, tried in self.open(c).items() if len(tried) > 1 and values[name] in (tried[0], tried[-1])
        ]


def digest(said: Any) -> str:
    """Return a digest of the settings."""
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:8]


class Chosen:
    """Tuned values for one field ("bbob" or "attack"). Values from another grid are ignored.

    Parameters
    ----------
    how
        Conditions of the tuning besides the grid: the budget and the problems.
    """

    def __init__(self, folder: Path, field: str, grid: Grid, how: Mapping[str, Any]) -> None:
        self.file, self.grid = folder / f"chosen_{field}.json", grid
        self.how = json.loads(json.dumps({**how, "grid": asdict(grid)}))

    def read(self) -> dict[str, dict[str, Any]]:
        """Return by composition: `values`, the number of tuning `runs`, and the values at the `edges` of the grid."""
        said = json.loads(self.file.read_text()) if self.file.exists() else {}
        return dict(said["cells"]) if said.get("how") == self.how else {}

    def add(self, c: Composition, values: Mapping[str, float], runs: int) -> None:
        """Store tuned values. The file is replaced atomically."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        cells = self.read() | {c.name: {"values": dict(values), "runs": runs, "edges": self.grid.edges(c, values)}}
        write_text(self.file, to_json({"how": self.how, "cells": cells}))
