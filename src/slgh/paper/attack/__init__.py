"""The black-box attack of the paper's Section 5: two experiments, whose rows can be run one at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from slgh import checks
from slgh.paper.attack import row_cache
from slgh.paper.attack.printed import ATTACKS, IMAGES
from slgh.paper.attack.table import ATTACK_TABLES, SEEDS, AttackTable
from slgh.paper.experiment import Record

__all__ = ["ATTACKS", "ATTACK_TABLES", "AttackTable", "run_rows"]


def run_rows(
    data: str,
    *,
    rows: str | os.PathLike[str],
    methods: Sequence[str] | None = None,
    seeds: int | Sequence[int] = SEEDS,
    device: str | None = None,
    weights: str | os.PathLike[str] | None = None,
    folder: str | os.PathLike[str] | None = None,
    images: int = IMAGES,
    iterations: int | None = None,
    progress: Callable[[str], None] = print,
) -> list[Record]:
    """Run the rows of an attack that are not in the cache yet, and store them. Needs no extra but PyTorch.

    Parameters
    ----------
    data
        "mnist" or "cifar10".
    rows
        The folder of the row cache.
    methods
        Names among `VARIANTS`; by default all rows of this experiment.
    seeds
        Number of seeds, or a list of them.
    device
        By default CUDA if available.
    weights, folder, images, iterations
        As in `AttackTable`; by default the shipped network, and the paper's sizes.
    progress
        Called with one line per row.
    """
    checks.choice("data", data, list(ATTACKS))
    paper = ATTACKS[data]
    for name in methods or ():
        checks.choice("methods", name, paper.variants)
    if isinstance(seeds, int):
        checks.count("seeds", seeds)
    wanted = range(seeds) if isinstance(seeds, int) else seeds
    table = AttackTable(
        paper=paper,
        images=images,
        iterations=paper.T if iterations is None else iterations,
        seeds=max(wanted, default=0) + 1,
        weights=None if weights is None else Path(weights),
        folder=None if folder is None else Path(folder),
        rows=Path(rows),
    )
    row_cache.make_folder(Path(rows))
    from slgh.paper.networks.networks import usable_device

    device = usable_device(device)
    found = []
    for run in table.runs():
        if run.seed not in wanted or run.name not in (methods or paper.variants):
            continue
        kept = row_cache.read(run, table.rows)
        record = kept or row_cache.run_and_keep(run, device, table.rows, lambda share: None)
        won = 100 * sum(record["success"]) / len(record["success"])
        progress(f"{data}: {run.label}: {won:.0f} % in {record['seconds']:g} s{', kept before' if kept else ''}")
        found.append(record)
    return found
