"""Records of the runs: JSON lines, one file per method."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tuning_study.methods import Watched

FOLDER = Path(__file__).parent.parent / "tuning_records"

Line = dict[str, Any]
Key = tuple[str, int, int]
"""Problem, seed and budget."""


def read(method: str, folder: Path = FOLDER) -> dict[Key, Line]:
    """Return the records of a method."""
    path = folder / f"{method}.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return {(line["problem"], line["seed"], line["budget"]): line for line in lines}


def append(method: str, seed: int, watched: Watched, seconds: float, folder: Path = FOLDER) -> None:
    """Add a record: the best value, and the milliseconds per evaluation that the method and the loss took."""
    line = {
        "problem": watched.problem.name,
        "seed": seed,
        "budget": watched.budget,
        "best": watched.best,
        "evaluations": watched.count,
        "own_ms": round(1e3 * seconds / max(watched.count, 1), 3),
        "loss_ms": round(1e3 * watched.seconds / max(watched.count, 1), 3),
    }
    folder.mkdir(exist_ok=True)
    with (folder / f"{method}.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")
