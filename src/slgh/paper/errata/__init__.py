"""Misprints and gaps of the paper, each with evidence: both readings are run."""

from __future__ import annotations

from collections.abc import Sequence

from slgh.paper.errata import claims, confirmed, hole, proofs, tables
from slgh.paper.errata.erratum import Erratum
from slgh.paper.experiment import Findings, Job, Record, Study
from slgh.plotting.table import Table

ERRATA: tuple[Erratum, ...] = (*tables.ERRATA, *claims.ERRATA, *hole.ERRATA, *proofs.ERRATA)

HEADINGS = ("where", "the paper says", "we take", "the paper prints", "as it says, we measure", "as we take it")
CONFIRMED_HEADINGS = ("where", "the paper says", "measured")

NOTE = (
    "Medians over 5 to 200 seeds where a method is random. The gaps of the attack are not here. "
    "docs/errata.md has a section on each."
)


def jobs() -> list[Job]:
    """One job per erratum, and one for the confirmed claims; under a minute on one core."""
    return [*(Job(label=it.name, run=it.record) for it in ERRATA), Job(label="what holds", run=confirmed.measure)]


def conclude(records: Sequence[Record]) -> Findings:
    """Return the table of errata and the table of confirmed claims."""
    *measured, holding = records
    pairs = list(zip(ERRATA, measured, strict=True))
    return Findings(
        tables=(
            Table(title="Misprints and gaps", headings=HEADINGS, rows=tuple(cells(*pair) for pair in pairs), note=NOTE),
            Table(title="Claims that hold", headings=CONFIRMED_HEADINGS, rows=tuple(confirmed.rows(holding))),
        ),
        data={it.name: record["found"] for it, record in pairs} | {"what holds": dict(holding)},
    )


def cells(it: Erratum, record: Record) -> tuple[str, ...]:
    """Return a row of the table."""
    return (f"{it.where}: {it.name}", it.says, it.takes, it.prints, record["as_printed"], record["as_taken"])


EXPERIMENT = Study(name="errata", title="Misprints and gaps of the paper", jobs=jobs, conclude=conclude)
