"""The script of the documentation's pictures writes each of them, light and dark."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

DOCS = Path(__file__).parent.parent / "docs"


def script() -> dict[str, Any]:
    return runpy.run_path(str(DOCS / "pictures.py"))


@pytest.mark.slow
def test_every_picture_is_written_light_and_dark(tmp_path: Path) -> None:
    from matplotlib.image import imread

    it = script()
    it["main"](["--out", str(tmp_path)])
    names = [f"{name}{more}.png" for name in it["PICTURES"] for more in ("", "_dark")]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)
    for name in names:
        corner = imread(tmp_path / name)[0, 0, :3].mean()
        assert corner < 0.2 if "_dark" in name else corner == 1, "the background"
        shown = imread(DOCS / "images" / name)
        assert shown.shape == imread(tmp_path / name).shape, f"run docs/pictures.py again: {name} is of another size"


def test_the_first_picture_contrasts_auto_with_lbfgs() -> None:
    it = script()
    plane, curves, radius = it["auto"](dark=False).axes
    legend = plane.get_legend()
    assert legend is not None
    assert {"start", "best point", "L-BFGS stops: f = 10.1"} <= {text.get_text() for text in legend.get_texts()}
    assert curves.get_ylim()[0] < 1e-6, "auto gets there"
    assert min(np.ptp(axis) for axis in (plane.get_xlim(), plane.get_ylim())) < 12
    assert radius.get_ylabel() == "smoothing radius t"


def test_an_unknown_picture_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        script()["main"](["nothing"])
    assert "NAME must be one of auto" in capsys.readouterr().err


@pytest.mark.slow
def test_the_site_shows_a_dark_variant_where_there_is_one(tmp_path: Path) -> None:
    from sphinx.application import Sphinx

    source = tmp_path / "source"
    source.mkdir()
    for name in ("both", "both_dark", "alone"):
        (source / f"{name}.png").write_bytes((DOCS / "images" / "auto.png").read_bytes())
    (source / "index.rst").write_text("Title\n=====\n\n.. image:: both.png\n\n.. image:: alone.png\n")
    (source / "conf.py").write_text(f"import sys\nsys.path.insert(0, {str(DOCS / '_ext')!r})\n")
    site, options = tmp_path / "site", {"extensions": "dark_pictures"}
    Sphinx(source, source, site, tmp_path / "doctrees", "html", options, status=None).build()
    shown = re.findall(r"<img[^>]*>", (site / "index.html").read_text())
    kinds = [(re.findall(r"_images/(\w+)", tag)[0], re.findall(r'class="(only-\w+)', tag)) for tag in shown]
    assert kinds == [("both", ["only-light"]), ("both_dark", ["only-dark"]), ("alone", [])]
