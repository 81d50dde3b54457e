"""The attack on a set of images as an experiment: rows and seeds are jobs, their records make tables and figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from slgh import checks
from slgh.paper.attack import row_cache
from slgh.paper.attack.claims import claims_table, shared_table
from slgh.paper.attack.compare import (
    CHANCE,
    RELATIVE_TOLERANCE,
    SUCCESS_TOLERANCE,
    Sample,
    as_dict,
    grid_table,
    main_table,
    spread_table,
)
from slgh.paper.attack.figures import drawings
from slgh.paper.attack.printed import ATTACKS, IMAGES, VARIANTS, PaperAttack
from slgh.paper.attack.run_row import RowRun, weights_of
from slgh.paper.experiment import Findings, Job, Record

SEEDS = 3
"""Number of runs of each row in a full run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackTable:
    """The paper's attack on one set of images, run with slgh.

    Parameters
    ----------
    paper
        The printed results.
    images, iterations, seeds
        Number of images, of iterations per image, and of runs per row.
    device
        "cpu", "cuda", ...
    weights, folder
        A file with another network's weights, and the folder of the full test set: see `RowRun`.
    rows
        The folder of the permanent row cache.
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
        for name, value, most in (("images", self.images, IMAGES), ("iterations", self.iterations, self.paper.T)):
            checks.count(name, value)
            if value > most:
                raise checks.ArgumentValueError(f"`{name}` must be at most the paper's {most:,}, got {value}.")
        checks.count("seeds", self.seeds)

    @property
    def name(self) -> str:
        """Name of the data, with that of another network."""
        return self.paper.data if self.weights is None else f"{self.paper.data}-{self.weights.stem}"

    @property
    def title(self) -> str:
        return f"Black-box attack on {self.paper.title}"

    @property
    def reduced(self) -> bool:
        """True if the run is smaller than the paper's."""
        return (self.images, self.iterations) != (IMAGES, self.paper.T)

    @property
    def scope(self) -> str:
        """Differences from the paper's run, to be said in every title; empty if there are none."""
        less = f"reduced: {self.images} images, {self.iterations:,} iterations" if self.reduced else ""
        other = f"weights: {self.weights.name}" if self.weights is not None else ""
        return "; ".join(filter(None, (less, other)))

    def identity(self) -> dict[str, Any]:
        """Settings that the jobs depend on."""
        sizes = {"images": self.images, "iterations": self.iterations}
        return sizes | {"weights": weights_of(self.paper.data, self.weights)}

    def full(self, **given: Any) -> AttackTable:
        """Return this experiment at the paper's size, apart from what is given."""
        return replace(self, **{"images": IMAGES, "iterations": self.paper.T, "seeds": SEEDS} | given)

    def asked(self, *, device: str | None = None, **options: Any) -> AttackTable:
        """Return this experiment with a user's options, where None means not given.

        Sizes (`seeds`, `images`, `iterations`) that are not given are the paper's if its rows are in the cache or if
        there is a GPU to run them; otherwise they are those of this reduced experiment.
        """
        given = {name: value for name, value in options.items() if value is not None}
        own, full = replace(self, **given), self.full(**given)
        if full.missing() == 0:
            return full
        if full.weights is not None:
            full.runs()[0].chosen()  # report bad files before anything is run
        from slgh.paper.networks.networks import usable_device

        device = usable_device(device)
        return own if device == "cpu" else replace(full, device=device)

    def runs(self) -> list[RowRun]:
        """All rows with all seeds: the first seed of all rows first."""
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
            for name in self.paper.variants
            if seed < (VARIANTS[name].seeds or self.seeds)
        ]

    def missing(self) -> int:
        """Number of runs that are not in the cache."""
        return sum(row_cache.read(run, self.rows) is None for run in self.runs())

    def lacking(self) -> str:
        """Describe what a full run lacks if some of its rows are in the cache; empty if none or all are."""
        full = self.full()
        missing, rows = full.missing(), len(full.runs())
        if missing in (0, rows):
            return ""
        return f"{missing} of {rows} rows of the full run of {self.name} are not in {self.rows} yet"

    def jobs(self) -> list[Job]:
        """One job per row and seed."""
        return [
            Job(
                label=run.label,
                run=partial(row_cache.run_and_keep, run, self.device, self.rows),
                kept=partial(row_cache.read, run, self.rows),
            )
            for run in self.runs()
        ]

    def conclude(self, records: Sequence[Record]) -> Findings:
        """Return the comparison with the paper, the claims, the two versions of ZOSLGH_d, and the figures."""
        of: dict[str, list[Record]] = {name: [] for name in self.paper.variants}
        for run, record in zip(self.runs(), records, strict=True):
            of[run.name].append(record)
        samples = {name: Sample.of(name, found) for name, found in of.items()}
        first = {name: found[0] for name, found in of.items()}
        # Another network has other numbers, but the orderings should hold for it too.
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
        """Return the title of a table, which says what was run."""
        # The scope of a reduced run states the sizes.
        sizes = "" if self.reduced else f"{self.images} images, {self.iterations:,} iterations"
        return "; ".join(filter(None, (f"{self.paper.title}, {text}", sizes, self.scope, f"seeds: {self.seeds}")))

    def judged(self) -> str:
        """Explain the verdicts of the table."""
        if self.reduced:
            return "A reduced run cannot reach the paper's figures: nothing is judged, and no claim is tested."
        if self.weights is not None:
            return "Another network has other figures: only the orderings, the claims, are judged."
        return (
            f"Match: success within {SUCCESS_TOLERANCE:g} points of the paper's, iterations and L2 within "
            f"{RELATIVE_TOLERANCE:.0%}; total loss is not judged. Up to {CHANCE:g} standard errors, another hundred "
            "images could differ as much."
        )

    def why(self) -> str:
        """Explain why an image that the paper shows may be missing."""
        if self.images < IMAGES:
            return f"Not among the {self.images} images attacked"
        return "Misclassified by this network to begin with, so not attacked"


def made(records: Sequence[Record]) -> str:
    """Describe the devices and versions that made the rows."""
    ways = {"{device} ({engine}, PyTorch {torch}, slgh {slgh})".format(**record["made"]) for record in records}
    return f"Made on {'; '.join(sorted(ways))}."


ATTACK_TABLES: dict[str, AttackTable] = {
    "mnist": AttackTable(paper=ATTACKS["mnist"], images=4, iterations=2000),
    "cifar10": AttackTable(paper=ATTACKS["cifar10"], images=2, iterations=1000),
}
"""The attacks at a size that a CPU finishes within some minutes.

With a GPU, or with rows run on one, they have the paper's size: see `AttackTable.asked`.
"""
