"""Our figures beside the paper's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slgh.paper.attack.printed import IMAGES, KINDS, Cell, Figures, PaperAttack, placed
from slgh.paper.experiment import Record
from slgh.plotting.table import Table

COLUMNS = {
    "success": "success %",
    "iterations": "iterations to 1st success",
    "l2": "L2 of successes",
    "total": "total loss",
}
"""The columns of the paper's table. L2 is the squared norm, at the last iterate."""

POINTS = 10.0
"""By how many points a success rate may differ from the paper's."""

SHARE = 0.15
"""By how much iterations and L2 may differ from the paper's."""

CHANCE = 2.0
"""A difference of so many standard errors is more than another choice of images makes."""

NOT_JUDGED = "not judged"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sample:
    """The runs of a row: each of `COLUMNS` as (S, N), S seeds and N images, NaN where an image has no such figure."""

    name: str
    columns: dict[str, NDArray[np.float64]]
    least: NDArray[np.float64]
    """The least distortion of an adversarial iterate, (S, N)."""
    queries: NDArray[np.float64]
    seconds: NDArray[np.float64]
    """(S,)."""

    @property
    def label(self) -> str:
        return KINDS[self.name].label

    @staticmethod
    def of(name: str, records: Sequence[Record]) -> Sample:
        """From what the runs found."""
        success, first, distortion, least, total, queries = (
            np.array([record[column] for record in records], float)
            for column in ("success", "first_success", "last_distortion", "least_distortion", "total_loss", "queries")
        )
        won = success > 0
        return Sample(
            name=name,
            columns={
                "success": 100 * success,
                "iterations": np.where(won, first, np.nan),
                "l2": np.where(won, distortion, np.nan),
                "total": total,
            },
            least=least,
            queries=queries,
            seconds=np.array([record["seconds"] for record in records], float),
        )

    def mean(self, column: str) -> float:
        """Over all images and seeds."""
        return mean(self.columns[column])

    def deviation(self, column: str) -> float:
        """The standard deviation over images, of all seeds together."""
        return deviation(self.columns[column])

    def images(self, column: str) -> float:
        """How many images have such a figure, on average over seeds."""
        return float(np.isfinite(self.columns[column]).sum(axis=1).mean())

    def of_seeds(self, column: str) -> NDArray[np.float64]:
        """The mean over images of each seed, (S,)."""
        return np.array([mean(of_seed) for of_seed in self.columns[column]])


def mean(values: NDArray[np.float64]) -> float:
    """Of those that are not NaN."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else math.nan


def deviation(values: NDArray[np.float64]) -> float:
    """The standard deviation of those that are not NaN."""
    known = values[np.isfinite(values)]
    return float(known.std()) if known.size else math.nan


def shown(column: str, value: float) -> str:
    """A figure with as many digits as the paper's have.

    >>> shown("success", 75.333), shown("iterations", 1136.2), shown("l2", 0.0831), shown("total", 59.8)
    ('75.3', '1136', '0.0831', '59.80')
    """
    if math.isnan(value):
        return "none"
    return f"{value:{ {'success': '.1f', 'iterations': '.0f', 'l2': '#.3g', 'total': '.2f'}[column] }}"


def main_table(paper: PaperAttack, samples: Sequence[Sample], *, title: str, note: str, judged: bool) -> Table:
    """Mean and standard deviation over images, and the paper's in square brackets."""
    rows = []
    for sample in samples:
        printed = printed_of(paper, sample)
        cells = []
        for column in COLUMNS:
            ours = with_deviation(column, sample.mean(column), sample.deviation(column))
            cells.append(ours if printed is None else f"{ours} [{getattr(printed, column)}]")
        rows.append((sample.label, *cells, verdict(paper, sample, judged=judged)))
    return Table(title=title, headings=("method", *COLUMNS.values(), "verdict"), rows=tuple(rows), note=note)


def with_deviation(column: str, middle: float, spread: float) -> str:
    """A mean with its standard deviation; that of a success rate says nothing more."""
    text = shown(column, middle)
    return text if column == "success" or math.isnan(middle) else f"{text} ± {shown(column, spread)}"


def printed_of(paper: PaperAttack, sample: Sample) -> Figures | None:
    """The row of the paper to compare with."""
    name = KINDS[sample.name].printed
    return None if name is None else paper.rows[name]


def verdict(paper: PaperAttack, sample: Sample, *, judged: bool) -> str:
    """ "match", or "differs" with what differs, by how much, and whether chance can explain it."""
    printed = printed_of(paper, sample)
    if printed is None:
        return "not in the paper's table"
    if not judged:
        return NOT_JUDGED
    differences = [text for column in ("success", "iterations", "l2") if (text := differs(printed, sample, column))]
    if not differences:
        return "match"
    remark = paper.remarks.get(sample.name, "")
    return f"differs: {'; '.join(differences)}{f'. {remark}' if remark else ''}"


def differs(printed: Figures, sample: Sample, column: str) -> str:
    """How a figure differs from the paper's by more than it may, and why; nothing if it does not."""
    theirs, ours = printed.mean(column), sample.mean(column)
    if math.isnan(ours):
        return f"no {COLUMNS[column]}, since no image fell"
    off = ours - theirs if column == "success" else ours / theirs - 1
    if abs(off) <= (POINTS if column == "success" else SHARE):
        return ""
    by = f"{off:+.0f} points" if column == "success" else f"{off:+.0%}"
    z = abs(ours - theirs) / standard_error(printed, sample, column)
    why = "other images could do that" if z <= CHANCE else "more than other images do; the network is our own training"
    return f"{COLUMNS[column].removesuffix(' %')} {by} ({z:.1f} standard errors: {why})"


def standard_error(printed: Figures, sample: Sample, column: str) -> float:
    """Of the difference between two means over images, ours and the paper's, as if the images were different ones.

    Seeds are no further images: ours count once.
    """
    of_paper = IMAGES if column == "success" else round(IMAGES * printed.mean("success") / 100)
    return math.hypot(
        printed.deviation(column) / of_paper**0.5,
        sample.deviation(column) / sample.images(column) ** 0.5,
    )


def spread_table(samples: Sequence[Sample], *, title: str) -> Table:
    """How much the means over images change with the seed, and what the rows cost."""
    rows = []
    for sample in samples:
        cells = [over_seeds(column, sample.of_seeds(column)) for column in COLUMNS]
        cost = f"{mean(sample.queries):,.0f}", f"{mean(sample.seconds):.3g}"
        rows.append((sample.label, *cells, shown("l2", mean(sample.least)), *cost))
    headings = ("method", *COLUMNS.values(), "least L2 met", "queries an image", "seconds a run")
    return Table(title=title, headings=headings, rows=tuple(rows))


def over_seeds(column: str, of_seeds: NDArray[np.float64]) -> str:
    """Mean and standard deviation over seeds, if there are several.

    >>> over_seeds("success", np.array([75.0, 76.0, 77.0]))
    '76.0 ± 1.0'
    """
    known = of_seeds[np.isfinite(of_seeds)]
    text = shown(column, mean(known))
    return text if known.size < 2 else f"{text} ± {shown(column, float(known.std(ddof=1)))}"


def grid_table(paper: PaperAttack, records: dict[str, Record], *, title: str) -> Table:
    """What the network sees in the images of the grid, and their distortion; the paper's in square brackets."""
    ids = next(iter(records.values()))["ids"]
    pairs = placed(paper.grid_ids, ids)
    headings = ("method", *(f"ID {shown_id}" + (f" for {i}" if i != shown_id else "") for i, shown_id in pairs))
    rows = [("original", *(next(iter(records.values()))["grid"][str(k)]["original"] for _, k in pairs))]
    for name, cells in paper.grid.items():
        found = records[name]["grid"]
        rows.append(
            (
                KINDS[name].label,
                *(_cell(found[str(k)], cell if i == k else None) for (i, k), cell in zip(pairs, cells, strict=False)),
            )
        )
    return Table(title=title, headings=headings, rows=tuple(rows))


def _cell(found: Record, printed: Cell | None) -> str:
    ours = f"{seen(found)}, {found['distortion']:.3g}"
    return ours if printed is None else f"{ours} [{printed.seen}, {printed.distortion}]"


def seen(found: Record) -> str:
    """What the network sees in an image of the grid."""
    return str(found["seen"]) if found["success"] else f"{found['seen']} (fail.)"


def as_dict(paper: PaperAttack, sample: Sample, *, judged: bool) -> dict[str, Any]:
    """A row for JSON."""
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
