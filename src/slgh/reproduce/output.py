"""Writes what experiments found: figures, tables, a JSON file, the page."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import slgh
from slgh.report.page import Picture, Section, write_page
from slgh.report.style import as_bytes
from slgh.reproduce.experiment import Experiment, Findings

PAGE, DATA, FIGURES, TABLES, UNFINISHED = "index.html", "reproduce.json", "figures", "tables", "unfinished"
"""What a run leaves in its folder; the last one only until it has ended."""


def draw(findings: Findings, folder: Path) -> list[Picture]:
    """Write each figure as SVG and PNG, and hand them on for the page."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures = []
    for drawing in findings.drawings:
        figure = drawing.draw()
        svg = as_bytes(figure, "svg")
        (folder / f"{drawing.name}.svg").write_bytes(svg)
        (folder / f"{drawing.name}.png").write_bytes(as_bytes(figure, "png"))
        pictures.append(Picture(caption=drawing.caption, image=svg))
    return pictures


def write_tables(experiment: Experiment, findings: Findings, folder: Path) -> None:
    """The tables in Markdown, for a document."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = (part for table in findings.tables for part in (f"**{table.title}**", table.markdown(), table.note) if part)
    (folder / f"{experiment.name}.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def section(experiment: Experiment, findings: Findings, pictures: list[Picture]) -> Section:
    """An experiment's part of the page."""
    return Section(
        name=experiment.name,
        title=experiment.title,
        tables=findings.tables,
        pictures=tuple(pictures),
        explorer=findings.explore() if findings.explore is not None else None,
    )


def write_sections(file: Path, sections: list[Section]) -> None:
    """The page."""
    write_page(file, "Single loop Gaussian homotopy: the paper's experiments", sections)


def write_data(file: Path, found: Mapping[str, Any]) -> None:
    """The JSON file."""
    beside = file.with_name(f"{file.name}.{os.getpid()}.tmp")
    beside.write_text(json.dumps({"slgh": slgh.__version__, "experiments": found}, indent=1) + "\n")
    os.replace(beside, file)
