"""Write the comparison in Markdown from the recorded outcomes."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

from .cases import HOLDS, NOT_OFFERED
from .libraries import LIBRARIES
from .rows import ROWS

BEGIN, END = "<!-- bad_values: begin -->", "<!-- bad_values: end -->"


def comparison(record: dict[str, Any]) -> str:
    """Return the tables, with the notes under each."""
    lines = [f"Versions: {', '.join(f'{name} {number}' for name, number in record['versions'].items())}.", ""]
    for section, rows in groupby(ROWS, lambda row: row.section):
        lines += [f"### {section}", "", header(section)]
        notes = []
        for row in rows:
            cells = record["rows"][row.name]
            lines.append(f"| {row.situation} | {' | '.join(word(cells[name]['verdict']) for name in LIBRARIES)} |")
            notes.append(f"- **{row.situation}**. Holds: {row.holds}")
            notes += [
                f"  - {library.title}, {cells[name]['verdict']}: {quoted(cells[name]['note'])}"
                for name, library in LIBRARIES.items()
                if cells[name]["note"] and cells[name]["verdict"] != HOLDS
            ]
        lines += ["", *notes, ""]
    return "\n".join([*lines, *counts(record), ""])


def header(first: str) -> str:
    """Return the first two lines of a table."""
    titles = [library.title for library in LIBRARIES.values()]
    return f"| {first} | {' | '.join(titles)} |\n|---|{'---|' * len(titles)}"


def word(verdict: str) -> str:
    """Return a verdict as it appears in a table: bold unless it holds or is not offered."""
    return verdict if verdict in (HOLDS, NOT_OFFERED) else f"**{verdict}**"


def quoted(note: str) -> str:
    """Return a note as code, so that no character of it is markup."""
    return "`" + note.replace("`", "'") + "`"


def counts(record: dict[str, Any]) -> list[str]:
    """Return a table that counts the verdicts."""
    words = list(dict.fromkeys(c["verdict"] for cells in record["rows"].values() for c in cells.values()))
    words.sort(key=lambda w: (w != HOLDS, w == NOT_OFFERED, w))
    lines = ["### All rows", "", header("verdict")]
    for verdict in words:
        numbers = [sum(record["rows"][row.name][name]["verdict"] == verdict for row in ROWS) for name in LIBRARIES]
        lines.append(f"| {verdict} | {' | '.join(map(str, numbers))} |")
    return lines


def calls() -> str:
    """Return how each library is called."""
    return "\n".join(f"- {library.title}: {library.call}." for library in LIBRARIES.values())


def rewrite(page: Path, record: dict[str, Any]) -> None:
    """Replace the text between the marks on the page."""
    text = page.read_text()
    before, rest = text.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    page.write_text(f"{before}{BEGIN}\n\n{calls()}\n\n{comparison(record)}\n{END}{after}")
