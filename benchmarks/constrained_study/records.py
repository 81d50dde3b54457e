"""Records of the runs: JSON lines, one file per method."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from constrained_study.watched import Watched

FOLDER = Path(__file__).parent.parent / "constrained_records"

Line = dict[str, Any]


def read(method: str) -> dict[tuple[str, int], Line]:
    """Return the records of a method, by problem and seed."""
    path = FOLDER / f"{method}.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return {(line["problem"], line["seed"]): line for line in lines}


def append(method: str, problem: str, seed: int, watched: Watched, claims: dict[str, Any], seconds: float) -> None:
    """Add a record. No feasible point is a gap of null."""
    at = [[gap if gap < float("inf") else None, violation] for gap, violation in watched.outcome()]
    line = {
        "problem": problem,
        "seed": seed,
        "budgets": watched.budgets,
        "at": at,
        "evaluations": watched.count,
        "seconds": round(seconds, 2),
        **claims,
    }
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / f"{method}.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")
