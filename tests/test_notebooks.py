"""The notebooks of the gallery run, and are stored with their outputs."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
NAMES = {"attack_a_classifier", "choose_a_method", "first_steps"}

MAX_LINES = 30
"""Maximum number of lines that a cell prints."""

MAX_PICTURE_BYTES = 60_000

MACHINE = re.compile(r"/(home|root|tmp|work|usr|opt|Users)/|[A-Z]:\\|site-packages|0x[0-9a-f]{6}")
"""Traces of the machine that executed a notebook: paths and addresses."""

NUMBER = re.compile(r"[-+]?\d[\d.,]*(?:e[-+]?\d+)?")

every_notebook = pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)


def cells(file: Path) -> list[dict[str, Any]]:
    """Return the cells with code."""
    notebook = json.loads(file.read_text(encoding="utf-8"))
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def texts(cell: dict[str, Any]) -> list[str]:
    """Return what a cell shows as text."""
    found = []
    for output in cell["outputs"]:
        shown = output.get("data", {"text/plain": output.get("text", [])})
        if "image/png" not in shown:
            found += ["".join(lines) for kind, lines in shown.items() if kind.startswith("text/")]
    return found


def pictures(cell: dict[str, Any]) -> list[bytes]:
    """Return the pictures that a cell draws."""
    shown = (output.get("data", {}) for output in cell["outputs"])
    return [base64.b64decode("".join(data["image/png"])) for data in shown if "image/png" in data]


def without_numbers(shown: list[str]) -> list[str]:
    """Return texts with runs of blanks closed and numbers replaced: rounding differs between machines."""
    return [" ".join(NUMBER.sub("#", text).split()) for text in shown]


def test_the_notebooks_are_there() -> None:
    assert {file.stem for file in NOTEBOOKS} == NAMES


@every_notebook
def test_stored_outputs_are_complete_and_small(file: Path) -> None:
    assert not MACHINE.search(re.sub(r'"image/png": "[^"]*"', "", file.read_text(encoding="utf-8")))
    code = cells(file)
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1)), "executed once, from the top"
    assert sum(bool(texts(cell)) for cell in code) >= 3
    assert sum(len(pictures(cell)) for cell in code) >= 2
    for cell in code:
        assert {output["output_type"] for output in cell["outputs"]} <= {"stream", "display_data", "execute_result"}
        assert not [output for output in cell["outputs"] if output.get("name") == "stderr"]
        assert max((text.count("\n") for text in texts(cell)), default=0) <= MAX_LINES
        assert len(pictures(cell)) <= 1, "a picture is drawn once"
        assert max(map(len, pictures(cell)), default=0) < MAX_PICTURE_BYTES


@every_notebook
def test_nothing_volatile_is_stored(file: Path) -> None:
    notebook = json.loads(file.read_text(encoding="utf-8"))
    assert set(notebook["metadata"]) == {"kernelspec", "language_info"}
    assert notebook["metadata"]["language_info"] == {"name": "python"}, "no version"
    assert [cell["id"] for cell in notebook["cells"]] == [f"cell-{i}" for i in range(len(notebook["cells"]))]
    assert not any(cell["metadata"] for cell in notebook["cells"])


@pytest.mark.slow
@every_notebook
def test_a_notebook_runs_and_shows_what_is_stored(file: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "tools" / "run_notebooks.py"), "--to", str(tmp_path), str(file)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    for stored, again in zip(cells(file), cells(tmp_path / file.name), strict=True):
        assert without_numbers(texts(again)) == without_numbers(texts(stored))
