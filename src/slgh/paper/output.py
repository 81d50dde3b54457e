"""Write the output of experiments: figures, tables, a JSON file, and the page."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import slgh
from slgh.files import atomic_write, to_json, write_text
from slgh.paper.experiment import Experiment, Findings
from slgh.plotting.page import Link, Picture, Section, write_page
from slgh.plotting.style import as_bytes

PAPER = "https://papers.nips.cc/paper_files/paper/2022/hash/2e622ac74f66df03b686a12e2e0e4424-Abstract-Conference.html"
DOCUMENTATION = Path(slgh.__file__).parents[2] / "docs" / "experiments.md"
"""In a clone. An installed package has no documentation to link to."""

# The content of the output folder.
PAGE = "index.html"
DATA = "reproduce.json"
FIGURES = "figures"
TABLES = "tables"
UNFINISHED = ".slgh-unfinished"
"""Records of finished jobs, deleted when the run is complete."""


def draw_section(experiment: Experiment, findings: Findings, folder: Path) -> Section:
    """Write each figure as SVG and PNG, and return the experiment's section of the page."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures = []
    for drawing in findings.drawings:
        figure = drawing.draw()
        images = {suffix: as_bytes(figure, suffix) for suffix in ("svg", "png")}
        for suffix, content in images.items():
            with atomic_write(folder / f"{drawing.name}.{suffix}") as file:
                file.write(content)
        pictures.append(Picture(caption=drawing.caption, image=images["svg"]))
    return Section(
        name=experiment.name,
        title=experiment.title,
        tables=findings.tables,
        pictures=tuple(pictures),
        explorer=findings.explore() if findings.explore is not None else None,
        watch=findings.watch,
        reproduced=findings.reproduced,
    )


def write_tables(experiment: Experiment, findings: Findings, folder: Path) -> None:
    """Write the tables in Markdown."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = (part for table in findings.tables for part in (f"**{table.title}**", table.markdown(), table.note) if part)
    write_text(folder / f"{experiment.name}.md", "\n\n".join(parts) + "\n")


def write_sections(file: Path, sections: list[Section]) -> None:
    """Write the page."""
    links = [Link(text="The paper (NeurIPS 2022)", url=PAPER)]
    if DOCUMENTATION.exists():
        url = quote(os.path.relpath(DOCUMENTATION, file.parent).replace(os.sep, "/"))
        links.append(Link(text="Documentation of the experiments", url=url))
    write_page(file, "Single loop Gaussian homotopy: the paper's experiments", sections, links)


def write_data(file: Path, found: Mapping[str, Any]) -> None:
    """Write the JSON file."""
    write_text(file, to_json({"slgh": slgh.__version__, "experiments": found}))
