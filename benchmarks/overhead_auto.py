"""Measure the time that `auto` itself takes per evaluation, compared with pycma and with another version of slgh.

    python benchmarks/overhead_auto.py --markdown benchmarks/overhead_auto.md
    python benchmarks/overhead_auto.py --before ../slgh-before/src       alternate with the source of another version

Times are CPU times of the process without those of the function, so other processes disturb them little. Each version
runs in processes of its own, and the versions take turns.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

SOURCE = Path(__file__).resolve().parents[1] / "src"
ROUNDS = 5
"""Processes per version. The table shows medians."""
SHORT, REPEATS = 20_000, 5
"""Runs of at most SHORT evaluations are repeated REPEATS times in each process. The fastest counts."""
NO_MATRIX_LIMIT = 1.2

Floats = NDArray[np.float64]


def rastrigin(x: Floats) -> float:
    """Rastrigin's function, which has many local minima."""
    return float(10 * x.size + np.sum(x * x - 10 * np.cos(2 * np.pi * x)))


def rosenbrock(x: Floats) -> float:
    """Rosenbrock's function, a curved valley."""
    return float(np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2))


def ellipsoid(x: Floats) -> float:
    """Ellipsoid with a condition number of 1e6."""
    return float(np.sum(10 ** (6 * np.linspace(0, 1, x.size)) * x * x))


FUNCTIONS: dict[str, Callable[[Floats], float]] = {f.__name__: f for f in (rastrigin, rosenbrock, ellipsoid)}

CELLS = (
    ("rastrigin", 10, 20),
    ("rastrigin", 10, 100),
    ("rosenbrock", 10, 100),
    ("rastrigin", 40, 100),
    ("rosenbrock", 40, 100),
    ("rastrigin", 160, 100),
    ("ellipsoid", 160, 100),
    ("rastrigin", 640, 100),
    ("rastrigin", 20, 1000),
    ("ellipsoid", 20, 1000),
)
"""Function, d, and the budget in units of d."""

WITH_MATRIX = 1000
"""From this budget on, in units of d, `auto` learns a matrix in these cells."""


class Clock:
    """A function that counts its points and its CPU time."""

    def __init__(self, f: Callable[[Floats], float]) -> None:
        self.f, self.points, self.seconds = f, 0, 0.0

    def __call__(self, x: Any) -> float:
        begin = time.process_time()
        value = self.f(np.asarray(x))
        self.points += 1
        self.seconds += time.process_time() - begin
        return value


def run_slgh(f: Clock, d: int, budget: int) -> None:
    """Run `auto` in the box [-5, 5]^d."""
    from slgh import minimize

    minimize(f, np.full(d, 2.2), bounds=[(-5, 5)] * d, max_evals=budget, seed=1)


def run_pycma(f: Clock, d: int, budget: int) -> None:
    """Run pycma with its defaults, and restart it until the budget is spent."""
    import cma

    while f.points < budget:
        settings = {"maxfevals": budget - f.points, "verbose": -9, "seed": 1 + f.points}
        cma.CMAEvolutionStrategy(np.full(d, 2.2), 2.5, settings).optimize(f)


def own_time(run: Callable[[Clock, int, int], None], name: str, d: int, per: int) -> float:
    """Return the microseconds per evaluation without those of the function."""
    times = []
    for _ in range(REPEATS if per * d <= SHORT else 1):
        f, begin = Clock(FUNCTIONS[name]), time.process_time()
        run(f, d, per * d)
        times.append((time.process_time() - begin - f.seconds) / f.points * 1e6)
    return min(times)


def measure(optimizer: str) -> list[float | None]:
    """Return one figure per cell. pycma runs only where `auto` learns a matrix."""
    run = {"slgh": run_slgh, "pycma": run_pycma}[optimizer]
    return [own_time(run, *cell) if optimizer == "slgh" or cell[2] >= WITH_MATRIX else None for cell in CELLS]


def in_new_process(optimizer: str, source: Path) -> list[float | None]:
    """Measure with the slgh of this source folder."""
    command = [sys.executable, __file__, "--only", optimizer]
    env = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
    figures: list[float | None] = json.loads(done.stdout)
    return figures


def rows_of(before: Path | None) -> list[tuple[str, str, float, float, float, str]]:
    """Return cell, peer, the two times, their ratio and the target, from alternated processes."""
    sides = {"slgh": ("slgh", SOURCE), "pycma": ("pycma", SOURCE)}
    if before is not None:
        sides["slgh before"] = ("slgh", before)
    found: dict[str, list[list[float | None]]] = {name: [] for name in sides}
    for _ in range(ROUNDS):
        for name, side in sides.items():
            found[name].append(in_new_process(*side))
    rows = []
    for k, (name, d, per) in enumerate(CELLS):
        learns = per >= WITH_MATRIX
        own = statistics.median(figures[k] or 0.0 for figures in found["slgh"])
        for peer in [p for p in sides if p != "slgh" and (p != "pycma" or learns)]:
            other = statistics.median(figures[k] or 0.0 for figures in found[peer])
            target = "< 1" if peer == "pycma" else "" if learns else f"<= {NO_MATRIX_LIMIT}"
            rows.append((f"{name}, d = {d}, {per:,} d evaluations", peer, own, other, own / other, target))
    return rows


def main(
    before: Annotated[Path | None, typer.Option(help="Source folder of another version of slgh.")] = None,
    page: Annotated[Path | None, typer.Option("--markdown", help="Write the page to this file.")] = None,
    only: Annotated[str | None, typer.Option(help="Print the figures of slgh or pycma as JSON.")] = None,
) -> None:
    """Measure, and print the table."""
    if only is not None:
        print(json.dumps(measure(only)))
        return
    rows = rows_of(before)
    names = ("cell", "peer", "slgh, µs", "peer, µs", "ratio", "target")
    lines = [(cell, peer, f"{own:.3g}", f"{other:.3g}", f"{r:.2f}", t) for cell, peer, own, other, r, t in rows]
    table = Table(*names)
    for line in lines:
        table.add_row(*line)
    Console().print(table)
    if page is not None:
        head = "# Time that `auto` itself takes per evaluation\n\nCommand: `python benchmarks/overhead_auto.py`, with"
        head += " `--before` for the rows of an earlier version.\nCPU time without that of the function, medians of"
        head += f" {ROUNDS} processes that take turns. Compare the ratios.\n\n"
        marks = ["| " + " | ".join(line) + " |" for line in (names, ("---",) * len(names), *lines)]
        page.write_text(head + "\n".join(marks) + "\n")


if __name__ == "__main__":
    typer.run(main)
