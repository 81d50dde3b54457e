"""The attack on a set of images as an experiment: rows and seeds as jobs, tables and figures as what they tell."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from slgh.paper.attack import row_cache as kept
from slgh.paper.attack.claims import claims_table, shared_table
from slgh.paper.attack.compare import CHANCE, POINTS, SHARE, Sample, as_dict, grid_table, main_table, spread_table
from slgh.paper.attack.figures import drawings
from slgh.paper.attack.printed import IMAGES, KINDS, PaperAttack
from slgh.paper.attack.run_row import RowRun, check_sizes, usable_device, weights_of
from slgh.paper.experiment import Findings, Job, Record

SEEDS = 3
"""How many runs a row has in a full run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackTable:
    """The paper's attack on one set of images, run by us.

    Parameters
    ----------
    paper
        What the paper prints of it.
    images, iterations, seeds
        The first so many images, iterations of each, and runs of each row.
    device
        "cpu", "cuda", ...
    weights, folder
        A file with another network's weights, and where the whole test set lies: see `RowRun`.
    rows
        A folder in which rows are kept for good.
    """

    paper: PaperAttack
    images: int
    iterations: int
    seeds: int = 1
    device: str = "cpu"
    weights: Path | None = None
    folder: Path | None = None
    rows: Path | None = None

    def __post_init__(self) -> None:
        check_sizes(self.paper, self.images, self.iterations, self.seeds)

    @property
    def name(self) -> str:
        """That of the data; with the network's where it is another one."""
        return self.paper.data if self.weights is None else f"{self.paper.data}-{self.weights.stem}"

    @property
    def title(self) -> str:
        return f"Black-box attack on {self.paper.title}"

    @property
    def reduced(self) -> bool:
        """Whether it is less than the paper's."""
        return (self.images, self.iterations) != (IMAGES, self.paper.T)

    @property
    def scope(self) -> str:
        """What differs from the paper's run, to be said in every title; nothing if it is the same."""
        less = f"reduced: {self.images} images, {self.iterations:,} iterations" if self.reduced else ""
        other = f"weights: {self.weights.name}" if self.weights is not None else ""
        return "; ".join(part for part in (less, other) if part)

    def identity(self) -> dict[str, Any]:
        """What its jobs depend on."""
        sizes = {"images": self.images, "iterations": self.iterations}
        return sizes | {"weights": weights_of(self.paper.data, self.weights)}

    def asked(
        self,
        *,
        seeds: int | None = None,
        images: int | None = None,
        iterations: int | None = None,
        device: str | None = None,
        weights: Path | None = None,
        folder: Path | None = None,
        rows: Path | None = None,
    ) -> AttackTable:
        """This experiment as a user asks for it.

        What is not said is the paper's, if its rows are kept already or if there is a GPU to run them; else it is this
        experiment's own, reduced one.
        """
        full = dataclasses.replace(
            self,
            seeds=SEEDS if seeds is None else seeds,
            images=IMAGES if images is None else images,
            iterations=self.paper.T if iterations is None else iterations,
            weights=weights,
            folder=folder,
            rows=rows,
        )
        if full.missing() == 0:
            return full
        if weights is not None:
            full.runs()[0].chosen()  # what is wrong with the files is to be told before anything is run
        device = usable_device(device)
        if device != "cpu":
            return dataclasses.replace(full, device=device)
        return dataclasses.replace(
            full,
            seeds=self.seeds if seeds is None else seeds,
            images=self.images if images is None else images,
            iterations=self.iterations if iterations is None else iterations,
        )

    def runs(self) -> list[RowRun]:
        """All rows with all seeds, the first seed of all first."""
        return [
            RowRun(
                paper=self.paper,
                name=name,
                seed=seed,
                images=self.images,
                iterations=self.iterations,
                weights=self.weights,
                folder=self.folder,
            )
            for seed in range(self.seeds)
            for name in self.paper.kinds
            if seed < (KINDS[name].seeds or self.seeds)
        ]

    def missing(self) -> int:
        """How many of them are not kept yet."""
        return sum(kept.read(run, self.rows) is None for run in self.runs())

    def lacking(self) -> str:
        """What a full run still lacks of which some rows are kept; nothing if it is complete, or not begun."""
        full = dataclasses.replace(self, images=IMAGES, iterations=self.paper.T, seeds=SEEDS)
        missing, rows = full.missing(), len(full.runs())
        if missing in (0, rows):
            return ""
        return f"{missing} of {rows} rows of the full run of {self.name} are not in {self.rows} yet"

    def jobs(self) -> list[Job]:
        """One for each row and seed."""
        return [
            Job(
                label=run.label,
                run=partial(kept.run_and_keep, run, self.device, self.rows),
                kept=partial(kept.read, run, self.rows),
            )
            for run in self.runs()
        ]

    def conclude(self, records: Sequence[Record]) -> Findings:
        """Ours beside the paper's, the claims, the two versions of ZOSLGH_d, and the figures."""
        of: dict[str, list[Record]] = {name: [] for name in self.paper.kinds}
        for run, record in zip(self.runs(), records, strict=True):
            of[run.name].append(record)
        samples = {name: Sample.of(name, found) for name, found in of.items()}
        first = {name: found[0] for name, found in of.items()}
        # Another network has other figures, but the orderings are to hold for it too.
        like_paper, ordered = not self.scope, not self.reduced
        claims, claimed = claims_table(samples, title=self.titled("the paper's claims"))
        shared, compared = shared_table(
            samples, title=self.titled("ZOSLGH_d with shared samples beside two sets of them"), judged=ordered
        )
        main = main_table(
            self.paper,
            list(samples.values()),
            title=self.titled(f"Table {self.paper.table}: mean ± standard deviation over images [the paper's]"),
            note=f"{self.judged()} {made(records)}",
            judged=like_paper,
        )
        spread = spread_table(list(samples.values()), title=self.titled("the same over seeds, and what it takes"))
        grid = grid_table(
            self.paper,
            first,
            title=self.titled(f"Table {self.paper.grid_table}: class and L2 distortion, seed 0 [the paper's]"),
        )
        return Findings(
            tables=(main, *((claims,) if ordered else ()), shared, spread, grid),
            data={
                **self.identity(),
                "reduced": self.reduced,
                "rows": [as_dict(self.paper, sample, judged=like_paper) for sample in samples.values()],
                "claims": claimed if ordered else [],
                "shared samples": compared,
            },
            drawings=drawings(self.paper, first, name=self.name, scope=self.scope, why=self.why()),
        )

    def titled(self, text: str) -> str:
        """A table's title, which says what was run."""
        parts = [f"{self.paper.title}, {text}", f"{self.images} images, {self.iterations:,} iterations", self.scope]
        if self.reduced:  # then the scope says so
            del parts[1]
        return "; ".join([*filter(None, parts), f"seeds: {self.seeds}"])

    def judged(self) -> str:
        """How the table is judged."""
        if self.reduced:
            return "A reduced run cannot reach the paper's figures: nothing is judged, and no claim is tested."
        if self.weights is not None:
            return "Another network has other figures: only the orderings, the claims, are judged."
        return (
            f"Match: success within {POINTS:g} points of the paper's, iterations and L2 within {SHARE:.0%}; total loss "
            f"is not judged. Up to {CHANCE:g} standard errors, another hundred images could differ as much."
        )

    def why(self) -> str:
        """Why an image that the paper shows may not be there."""
        if self.images < IMAGES:
            return f"Not among the {self.images} images attacked"
        return "Misclassified by this network to begin with, so not attacked"


def made(records: Sequence[Record]) -> str:
    """With what the rows were made."""
    ways = {"{device} ({engine}, PyTorch {torch}, slgh {slgh})".format(**record["made"]) for record in records}
    return f"Made on {'; '.join(sorted(ways))}."
