"""Misprints and gaps of the paper, each with its evidence: both readings are run."""

from __future__ import annotations

from collections.abc import Sequence

from slgh.paper.errata import checked, claims, hole, proofs, tables
from slgh.paper.errata.erratum import Erratum
from slgh.paper.experiment import Findings, Job, Record, Study
from slgh.plotting.table import Table

ERRATA: tuple[Erratum, ...] = (*tables.ERRATA, *claims.ERRATA, *hole.ERRATA, *proofs.ERRATA)

HEADINGS = ("where", "the paper says", "we take", "the paper prints", "as it says, we measure", "as we take it")
CHECKED = ("where", "the paper says", "measured")
"""The columns of the two tables."""

NOTE = (
    "Medians over 5 to 200 seeds where a method is random. The gaps of the attack are not here. "
    "docs/errata.md has a section on each."
)


def jobs() -> list[Job]:
    """One for each erratum, and one for what holds; under a minute on one core."""
    return [*(Job(label=it.name, run=it.measure) for it in ERRATA), Job(label="what holds", run=checked.measure)]


def conclude(records: Sequence[Record]) -> Findings:
    """The errata with what they were measured by, and the claims that hold."""
    *measured, holding = records
    rows = [cells(it, record) for it, record in zip(ERRATA, measured, strict=True)]
    return Findings(
        tables=(
            Table(title="Misprints and gaps", headings=HEADINGS, rows=tuple(rows), note=NOTE),
            Table(title="Claims that hold", headings=CHECKED, rows=tuple(checked.tell(holding))),
        ),
        data={it.name: dict(record) for it, record in zip(ERRATA, measured, strict=True)}
        | {"what holds": dict(holding)},
    )


def cells(it: Erratum, record: Record) -> tuple[str, ...]:
    """A row of the table."""
    return (f"{it.where}: {it.name}", it.says, it.takes, it.prints, *it.tell(record))


EXPERIMENT = Study(name="errata", title="Misprints and gaps of the paper", jobs=jobs, conclude=conclude)
