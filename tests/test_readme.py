"""The README's code runs, and its commands are the ones that are tested."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_the_code_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    assert len(blocks) >= 4
    assert (tmp_path / "run.npz").exists()


def test_the_pictures_of_the_readme_are_there() -> None:
    pictures = re.findall(r"\]\((docs/[^)]*\.png)\)", README)
    assert pictures
    assert all((ROOT / picture).is_file() for picture in pictures)


def test_the_files_it_names_are_there() -> None:
    for name in re.findall(r"`((?:src|docs|examples|benchmarks|tests)/[\w./]*)`", README):
        assert (ROOT / name).exists(), name
