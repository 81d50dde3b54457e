"""JSON files with one record per image, for each data set, attack and budget."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from slgh.files import write_text

Row = dict[int, dict[str, Any]]
"""Records by the number of the image."""


class Store:
    """A folder of records. Records with another seed or other images are ignored, and replaced.

    Parameters
    ----------
    settings
        What must agree: the seed, and where the images come from.
    about
        What is written down besides: the device and the versions of libraries.
    """

    def __init__(self, folder: Path, settings: dict[str, Any], about: dict[str, Any] | None = None) -> None:
        self.folder, self.settings, self.about = folder, settings, about or {}

    def path(self, data: str, attack: str, budget: int) -> Path:
        return self.folder / data / f"{attack}-{budget}.json"

    def read(self, data: str, attack: str, budget: int) -> Row:
        """Return the records of a row, empty if there are none."""
        path = self.path(data, attack, budget)
        if not path.exists():
            return {}
        stored = json.loads(path.read_text())
        return {int(i): one for i, one in stored["found"].items()} if stored["settings"] == self.settings else {}

    def devices(self) -> list[dict[str, Any]]:
        """Return the distinct descriptions of machines and libraries in the folder."""
        found = [json.loads(path.read_text())["about"] for path in sorted(self.folder.glob("*/*.json"))]
        return [about for i, about in enumerate(found) if about not in found[:i]]

    def add(self, data: str, attack: str, budget: int, row: Row) -> None:
        """Add records to a row."""
        path = self.path(data, attack, budget)
        path.parent.mkdir(parents=True, exist_ok=True)
        found = {str(i): one for i, one in sorted((self.read(data, attack, budget) | row).items())}
        write_text(path, json.dumps({"settings": self.settings, "about": self.about, "found": found}, indent=1) + "\n")
