"""The README's code and commands run, and the files that it names exist."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from slgh.cli import app

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
SHELL = [line for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL) for line in block.splitlines()]


MAX_LINES = 150


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= MAX_LINES


@pytest.mark.slow
def test_the_code_of_the_readme_prints_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    assert len(blocks) >= 4
    assert capsys.readouterr().out == "".join(re.findall(r"```output\n(.*?)```", README, re.DOTALL))


@pytest.mark.slow
@pytest.mark.parametrize("line", [line for line in SHELL if line.startswith("slgh ")])
def test_a_command_of_the_readme_works(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = CliRunner().invoke(app, shlex.split(line)[1:])
    assert outcome.exit_code == 0, outcome.output


def test_the_two_commands_are_the_ones_that_are_tested() -> None:
    """`tests/test_cli_reproduce.py` runs the first command, and `.ci/run` runs the second."""
    install, test = (line for line in SHELL if line.startswith(("pip ", "tools/")))
    assert install.endswith("&& slgh reproduce")
    assert test in (ROOT / ".ci" / "run").read_text().splitlines()
    assert os.access(ROOT / test, os.X_OK)


def test_the_pictures_of_the_readme_are_there() -> None:
    pictures = re.findall(r"docs/[\w/]*\.png", README)
    assert pictures
    assert all((ROOT / picture).is_file() for picture in pictures)


def test_the_files_it_names_are_there() -> None:
    linked = re.findall(r"\]\(((?:docs|benchmarks|examples)/[\w./]*|[A-Z]+\.md)\)", README)
    for name in [*re.findall(r"`((?:src|docs|examples|benchmarks|tests|tools)/[\w./-]*)`", README), *linked]:
        assert (ROOT / name).exists(), name
