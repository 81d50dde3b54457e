"""Records: one JSON line per run, in one file per comparison and method. Runs can be resumed and tables redrawn.

Keys of a line: `method`, `role` (0: reported, 1: for tuning), `seed`, `settings` (in units of `methods.SPACES`), `f`
(lowest value above the minimum), `error`, `values` and `gradients` (numbers of evaluations), `seconds` (CPU),
`budget`, `code` (digest of the slgh source), and `versions` of the libraries.
"""

from __future__ import annotations

import dataclasses
import json
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from coco_study.records import code_digest

from successors_study.methods import Outcome, Settings

FOLDER = Path(__file__).parents[1] / "successors_records"

LIBRARIES = ("numpy", "cma", "torch")

Line = dict[str, Any]


@lru_cache
def versions() -> dict[str, str]:
    """Return the versions of the libraries that are installed."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def path(comparison: str, method: str) -> Path:
    return FOLDER / f"{comparison}.{method.replace(', ', '-')}.jsonl"


def read(comparison: str, method: str) -> list[Line]:
    """Read the records of a method, except an incomplete last line, which a killed run leaves."""
    file = path(comparison, method)
    if not file.exists():
        return []
    whole, _, _ = file.read_text().rpartition("\n")
    return [json.loads(line) for line in whole.splitlines()]


def find(lines: list[Line], role: int, seed: int, settings: Settings, budget: int) -> Line | None:
    """Return the record of a run, or None."""
    wanted = (role, seed, settings, budget)
    return next((x for x in lines if (x["role"], x["seed"], x["settings"], x["budget"]) == wanted), None)


def append(comparison: str, method: str, role: int, seed: int, settings: Settings, budget: int, out: Outcome) -> Line:
    """Append the record of a run, after removing an incomplete last line."""
    file = path(comparison, method)
    file.parent.mkdir(parents=True, exist_ok=True)
    found = {k: float(f"{v:.8g}") if isinstance(v, float) else v for k, v in dataclasses.asdict(out).items()}
    found["seconds"] = round(out.seconds, 3)
    line: Line = {"method": method, "role": role, "seed": seed, "settings": settings, **found}
    line |= {"budget": budget, "code": code_digest(), "versions": versions()}
    whole, newline, _ = (file.read_text() if file.exists() else "").rpartition("\n")
    file.write_text(whole + newline + json.dumps(line) + "\n")
    return line
