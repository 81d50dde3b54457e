"""The black-box attack of the paper's Section 5: two experiments, whose rows can be run one at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from slgh import checks
from slgh.paper.attack import cifar10, mnist
from slgh.paper.attack import row_cache as kept
from slgh.paper.attack.printed import IMAGES, PaperAttack
from slgh.paper.attack.run_row import usable_device
from slgh.paper.attack.table import SEEDS, AttackTable
from slgh.paper.experiment import Record

ATTACKS: dict[str, PaperAttack] = {module.ATTACK.data: module.ATTACK for module in (mnist, cifar10)}
"""What the paper prints, by the images' name."""

REDUCED: dict[str, AttackTable] = {
    "mnist": AttackTable(paper=mnist.ATTACK, images=4, iterations=2000),
    "cifar10": AttackTable(paper=cifar10.ATTACK, images=2, iterations=1000),
}
"""Experiments that a CPU ends within some minutes."""


__all__ = ["ATTACKS", "REDUCED", "AttackTable", "run_rows"]


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
    tell: Callable[[str], None] = print,
) -> list[Record]:
    """Run rows of an attack that are not kept yet, one after the other, and keep them. It needs no extra but PyTorch.

    Parameters
    ----------
    data
        "mnist" or "cifar10".
    rows
        The folder in which they are kept.
    methods
        Some of `KINDS`; by default all that this experiment has.
    seeds
        How many, or which.
    device
        By default CUDA where there is one.
    weights, folder, images, iterations
        As in `AttackTable`; by default the shipped network, and the paper's numbers.
    tell
        Called with a line about each row.
    """
    checks.choice("data", data, list(ATTACKS))
    paper = ATTACKS[data]
    for name in methods or ():
        checks.choice("methods", name, paper.kinds)
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
    kept.make_folder(Path(rows))
    device = usable_device(device)
    found = []
    for run in table.runs():
        if run.seed not in wanted or run.name not in (methods or paper.kinds):
            continue
        record = kept.read(run, table.rows)
        before = record is not None
        if record is None:
            record = kept.run_and_keep(run, device, table.rows, lambda share: None)
        won = 100 * sum(record["success"]) / len(record["success"])
        tell(f"{data}: {run.label}: {won:.0f} % in {record['seconds']:g} s{', kept before' if before else ''}")
        found.append(record)
    return found
