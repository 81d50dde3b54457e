"""Write COCO's own pages from the data of its observer."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from coco_study.suites import SUITES, Place


def folder_of(root: Path, method: str, place: Place) -> Path:
    """Return the folder of a run's observer files. cocopp reads the folder of a method recursively."""
    return root / place.suite / method / f"d{place.d}_f{place.f}_i{place.i}"


def post_process(root: Path, methods: Sequence[str], out: Path) -> list[Path]:
    """Call cocopp for each suite, and return the first page of each."""
    os.environ.setdefault("MPLBACKEND", "Agg")
    import cocopp

    pages = []
    for suite in SUITES:
        folders = [root / suite / name for name in methods if (root / suite / name).is_dir()]
        if folders:
            cocopp.main(["-o", str(out / suite), *map(str, folders)])
            pages.append(out / suite / "index.html")
    return pages
