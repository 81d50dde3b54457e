"""Show NAME_dark.png in place of NAME.png in dark mode, where that file exists."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx


def pair_pictures(app: Sphinx, doctree: nodes.document) -> None:
    """Add the dark variant after each picture that has one. The theme shows the one that fits."""
    for light in list(doctree.findall(nodes.image)):
        uri = PurePosixPath(light["uri"])
        dark_uri = uri.with_stem(uri.stem + "_dark")
        if "://" in light["uri"] or not (app.srcdir / app.env.relfn2path(str(dark_uri))[0]).exists():
            continue
        dark = light.deepcopy()
        dark["uri"] = str(dark_uri)
        light["classes"].append("only-light")
        dark["classes"].append("only-dark")
        light.parent.insert(light.parent.index(light) + 1, dark)


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("doctree-read", pair_pictures, priority=100)  # before Sphinx collects the images
    return {"parallel_read_safe": True}
