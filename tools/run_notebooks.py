"""Execute notebooks, and store their outputs without what changes from run to run: times, versions and counters.

python tools/run_notebooks.py executes all notebooks of examples/notebooks in place. It needs nbclient,
ipykernel and what the notebooks import: the extra "dev" installs all of it.
"""

from __future__ import annotations

import argparse
import base64
import io
import os
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from PIL import Image

FOLDER = Path(__file__).parent.parent / "examples" / "notebooks"

SECONDS_PER_CELL = 120

COLORS = 256
"""Colors of a stored picture."""


def execute(source: Path, target: Path) -> None:
    """Execute a notebook in its folder and write it. An exception in a cell is raised here."""
    notebook = nbformat.read(source, as_version=4)
    # A backend chosen in the environment, such as Agg, would draw nothing.
    os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"
    client = NotebookClient(
        notebook,
        timeout=SECONDS_PER_CELL,
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(source.parent)}},
    )
    client.execute()
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for number, cell in enumerate(notebook.cells):
        cell.id, cell.metadata = f"cell-{number}", {}
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                output.data["image/png"] = _smaller(output.data["image/png"])
    nbformat.write(notebook, target)


def _smaller(picture: str) -> str:
    """Return a PNG (base64) with a palette, without metadata.

    Maximum coverage keeps colors true: on the contours of a run, no channel changes by more than 14 of 255. The median
    cut changes some by 60.
    """
    image = Image.open(io.BytesIO(base64.b64decode(picture))).convert("RGB")
    stored = io.BytesIO()
    image.quantize(COLORS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(stored, "PNG", optimize=True)
    return base64.b64encode(stored.getvalue()).decode()


def main(arguments: list[str]) -> None:
    """Execute the notebooks named on the command line, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("notebooks", nargs="*", type=Path, default=sorted(FOLDER.glob("*.ipynb")))
    parser.add_argument("--to", type=Path, help="folder to write to, instead of replacing the notebooks")
    options = parser.parse_args(arguments)
    for source in options.notebooks:
        execute(source, source if options.to is None else options.to / source.name)
        print(source.name)


if __name__ == "__main__":
    main(sys.argv[1:])
