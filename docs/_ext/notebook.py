"""Block `{notebook} FILE`: show an executed notebook as part of a page, without a notebook server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

BLOCK = re.compile(r"^```\{notebook\} (\S+)\n```$", re.MULTILINE)


def expand(app: Sphinx, docname: str, source: list[str]) -> None:
    """Replace blocks by the cells of their notebooks, as Markdown, before MyST reads the page."""
    folder = Path(app.env.doc2path(docname)).parent

    def cells(block: re.Match[str]) -> str:
        path = (folder / block[1]).resolve()
        app.env.note_dependency(str(path), docname=docname)
        return "\n\n".join(part for cell in json.loads(path.read_text())["cells"] for part in shown(cell))

    source[0] = BLOCK.sub(cells, source[0])


def shown(cell: dict[str, Any]) -> Iterator[str]:
    """Yield a cell and its outputs as Markdown. Of several forms of an output, the richest is shown."""
    text = "".join(cell["source"])
    if cell["cell_type"] != "code":
        yield text
        return
    yield fence("python", text)
    for output in cell["outputs"]:
        data = output.get("data", {"text/plain": output.get("text", "")})
        if "image/png" in data:
            picture = "".join(data["image/png"]).replace("\n", "")
            yield fence("{raw} html", f'<p><img alt="Output of the cell" src="data:image/png;base64,{picture}"></p>')
        elif "text/html" in data:
            yield fence("{raw} html", f'<div class="notebook-output">{"".join(data["text/html"])}</div>')
        else:
            yield fence("output", "".join(data["text/plain"]))


def fence(kind: str, text: str) -> str:
    """Return a fenced block."""
    return f"````{kind}\n{text.rstrip()}\n````"


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("source-read", expand)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
