"""Compare the measured rows of an attack with the paper's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slgh.paper.attack.printed import IMAGES, VARIANTS, PaperAttack, PrintedRow, substitutes
from slgh.paper.experiment import Record
from slgh.plotting.table import Table

COLUMNS = {
    "success": "success %",
    "iterations": "iterations to 1st success",
    "l2": "L2 of successes",
    "total": "total loss",
}
"""The columns of the paper's table. L2 is the squared norm, at the last iterate."""

FORMATS = {"success": ".1f", "iterations": ".0f", "l2": "#.3g", "total": ".2f"}
"""Formats of the columns, with as many digits as the paper's."""

SUCCESS_TOLERANCE = 10.0
"""Allowed difference of a success rate from the paper's, in percentage points."""

RELATIVE_TOLERANCE = 0.15
"""Allowed relative difference of iterations and L2 from the paper's."""

CHANCE = 2.0
"""Number of standard errors up to which another choice of images explains a difference."""

NOT_JUDGED = "not judged"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sample:
    """The runs of a row: each of `COLUMNS` as (S, N), S seeds and N images, NaN where an image has no value."""

    name: str
    columns: dict[str, NDArray[np.float64]]
    least: NDArray[np.float64]
    """The least distortion of an adversarial iterate, (S, N)."""
    queries: NDArray[np.float64]
    seconds: NDArray[np.float64]
    """(S,)."""

    @property
    def label(self) -> str:
        return VARIANTS[self.name].label

    @staticmethod
    def of(name: str, records: Sequence[Record]) -> Sample:
        """Collect the records of all seeds."""

        def column(key: str) -> NDArray[np.float64]:
            return np.array([record[key] for record in records], float)

        won = column("success") > 0
        return Sample(
            name=name,
            columns={
                "success": 100 * column("success"),
                "iterations": np.where(won, column("first_success"), np.nan),
                "l2": np.where(won, column("last_distortion"), np.nan),
                "total": column("total_loss"),
            },
            least=column("least_distortion"),
            queries=column("queries"),
            seconds=column("seconds"),
        )

    def mean(self, column: str) -> float:
        """Mean over all images and seeds."""
        return mean(self.columns[column])

    def deviation(self, column: str) -> float:
        """Standard deviation over images, of all seeds together."""
        known = known_values(self.columns[column])
        return float(known.std()) if known.size else math.nan

    def images(self, column: str) -> float:
        """Number of images with a value, averaged over seeds."""
        return float(np.isfinite(self.columns[column]).sum(axis=1).mean())

    def of_seeds(self, column: str) -> NDArray[np.float64]:
        """Mean over images for each seed, (S,)."""
        return np.array([mean(of_seed) for of_seed in self.columns[column]])


def known_values(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return values[np.isfinite(values)]


def mean(values: NDArray[np.float64]) -> float:
    """Mean of the values that are not NaN."""
    known = known_values(values)
    return float(known.mean()) if known.size else math.nan


def shown(column: str, value: float) -> str:
    """Format a value of a column.

    >>> shown("success", 75.333), shown("iterations", 1136.2), shown("l2", 0.0831), shown("total", 59.8)
    ('75.3', '1136', '0.0831', '59.80')
    """
    return "none" if math.isnan(value) else f"{value:{FORMATS[column]}}"


def main_table(paper: PaperAttack, samples: Sequence[Sample], *, title: str, note: str, judged: bool) -> Table:
    """Mean and standard deviation over images, with the paper's in square brackets."""
    rows = []
    for sample in samples:
        printed = printed_of(paper, sample)
        cells = []
        for column in COLUMNS:
            ours = with_deviation(column, sample.mean(column), sample.deviation(column))
            cells.append(ours if printed is None else f"{ours} [{getattr(printed, column)}]")
        rows.append((sample.label, *cells, verdict(paper, sample, judged=judged)))
    return Table(
        title=title,
        headings=("method", *COLUMNS.values(), "verdict"),
        rows=tuple(rows),
        note=note,
        optional=tuple(COLUMNS[column] for column in ("total", "iterations", "l2")),
    )


def with_deviation(column: str, middle: float, spread: float) -> str:
    """Format a mean with its standard deviation, which adds nothing to a success rate."""
    return shown(column, middle) if column == "success" or math.isnan(middle) else plus_minus(column, middle, spread)


def plus_minus(column: str, middle: float, spread: float) -> str:
    """Format a mean and a deviation with equal decimals. A deviation of L2 has at least one significant digit.

    >>> plus_minus("l2", 5.0, 0.0284), plus_minus("l2", 0.0826, 2.85e-5), plus_minus("total", 59.8, 0.021)
    ('5.00 ± 0.03', '0.08260 ± 0.00003', '59.80 ± 0.02')
    """
    decimals = len(shown(column, middle).partition(".")[2])
    if column == "l2" and spread > 0:
        decimals = max(decimals, -math.floor(math.log10(spread)))
    return f"{middle:.{decimals}f} ± {spread:.{decimals}f}"


def printed_of(paper: PaperAttack, sample: Sample) -> PrintedRow | None:
    """Return the row of the paper to compare with."""
    name = VARIANTS[sample.name].printed
    return None if name is None else paper.rows[name]


def verdict(paper: PaperAttack, sample: Sample, *, judged: bool) -> str:
    """Return "match", or "differs" with the columns, the differences, and whether chance can explain them."""
    printed = printed_of(paper, sample)
    if printed is None:
        return "not in the paper's table"
    if not judged:
        return NOT_JUDGED
    differences = [text for column in ("success", "iterations", "l2") if (text := differs(printed, sample, column))]
    return f"differs: {'; '.join(differences)}" if differences else "match"


def differs(printed: PrintedRow, sample: Sample, column: str) -> str:
    """Describe a difference from the paper beyond the tolerance; empty if there is none."""
    theirs, ours = printed.mean(column), sample.mean(column)
    if math.isnan(ours):
        return f"no {COLUMNS[column]}, since no image fell"
    off = ours - theirs if column == "success" else ours / theirs - 1
    if abs(off) <= (SUCCESS_TOLERANCE if column == "success" else RELATIVE_TOLERANCE):
        return ""
    by = f"{off:+.0f} points" if column == "success" else f"{off:+.0%}"
    z = abs(ours - theirs) / standard_error(printed, sample, column)
    why = "other images could do that" if z <= CHANCE else "more than other images do; the network is our own training"
    return f"{COLUMNS[column].removesuffix(' %')} {by} ({z:.1f} standard errors: {why})"


def standard_error(printed: PrintedRow, sample: Sample, column: str) -> float:
    """Standard error of the difference between the two means, as if the images were different ones.

    Seeds are not further images, so each image counts once.
    """
    of_paper = IMAGES if column == "success" else round(IMAGES * printed.mean("success") / 100)
    return math.hypot(
        printed.deviation(column) / of_paper**0.5,
        sample.deviation(column) / sample.images(column) ** 0.5,
    )


def spread_table(samples: Sequence[Sample], *, title: str) -> Table:
    """Spread of the means over images from seed to seed, and the cost of the rows."""
    rows = []
    for sample in samples:
        cells = [over_seeds(column, sample.of_seeds(column)) for column in COLUMNS]
        cost = f"{mean(sample.queries):,.0f}", f"{mean(sample.seconds):.3g}"
        rows.append((sample.label, *cells, shown("l2", mean(sample.least)), *cost))
    headings = ("method", *COLUMNS.values(), "least L2 met", "queries per image", "seconds per run")
    optional = ("least L2 met", COLUMNS["total"], COLUMNS["iterations"], "seconds per run")
    return Table(title=title, headings=headings, rows=tuple(rows), optional=optional)


def over_seeds(column: str, of_seeds: NDArray[np.float64]) -> str:
    """Format mean and standard deviation over seeds.

    >>> over_seeds("success", np.array([75.0, 76.0, 77.0]))
    '76.0 ± 1.0'
    """
    known = known_values(of_seeds)
    middle = mean(known)
    return shown(column, middle) if known.size < 2 else plus_minus(column, middle, float(known.std(ddof=1)))


def grid_table(paper: PaperAttack, records: dict[str, Record], *, title: str) -> Table:
    """Predicted class and distortion of the images of the grid, with the paper's in square brackets."""
    first = next(iter(records.values()))
    pairs = substitutes(paper.grid_ids, first["ids"])
    headings = ("method", *(f"ID {k}" + (f" for {i}" if i != k else "") for i, k in pairs))
    rows = [("original", *(first["grid"][str(k)]["original"] for _, k in pairs))]
    for name, printed in paper.grid.items():
        cells = []
        for (i, k), cell in zip(pairs, printed, strict=False):
            found = records[name]["grid"][str(k)]
            ours = f"{seen(found)}, {found['distortion']:.3g}"
            cells.append(f"{ours} [{cell}]" if i == k else ours)
        rows.append((VARIANTS[name].label, *cells))
    return Table(title=title, headings=headings, rows=tuple(rows), optional=headings[:1:-1])


def seen(found: Record) -> str:
    """Predicted class of an image of the grid."""
    return str(found["seen"]) if found["success"] else f"{found['seen']} (fail.)"


def as_dict(paper: PaperAttack, sample: Sample, *, judged: bool) -> dict[str, Any]:
    """Return a row for JSON."""
    printed = printed_of(paper, sample)
    return {
        "row": sample.label,
        "seeds": len(sample.seconds),
        "paper": None if printed is None else printed._asdict(),
        "ours": {
            column: {
                "mean": sample.mean(column),
                "deviation": sample.deviation(column),
                "of_seeds": sample.of_seeds(column),
            }
            for column in COLUMNS
        },
        "least_l2": mean(sample.least),
        "queries": mean(sample.queries),
        "seconds": mean(sample.seconds),
        "verdict": verdict(paper, sample, judged=judged),
    }
