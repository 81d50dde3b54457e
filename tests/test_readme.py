"""The README's code and commands run, its table is what the command printed, and what it names is there."""

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


@pytest.mark.slow
def test_the_code_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    assert len(blocks) >= 4
    assert (tmp_path / "run.npz").exists()
    assert (tmp_path / "hole.png").exists()


@pytest.mark.slow
@pytest.mark.parametrize("line", [line for line in SHELL if line.startswith("slgh ")])
def test_a_command_of_the_readme_works(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = CliRunner().invoke(app, shlex.split(line)[1:])
    assert outcome.exit_code == 0, outcome.output


def test_the_two_commands_are_the_ones_that_are_tested() -> None:
    """`tests/test_cli_reproduce.py` runs the first command's job, and `.ci/run` runs the second command."""
    install, test = (line for line in SHELL if line.startswith(("pip ", "tools/")))
    assert install.endswith("&& slgh reproduce")
    assert test in (ROOT / ".ci" / "run").read_text().splitlines()
    assert os.access(ROOT / test, os.X_OK)


TABLES = ROOT / "docs" / "reproduced" / "tables"


def judged(lines: list[str]) -> list[list[str]]:
    """The cells of the rows of tables that end with a verdict."""
    rows = [line for line in lines if line.endswith((" match |", "within interval |"))]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]


def test_the_attacks_table_is_that_of_the_documentation() -> None:
    shown = [row for row in judged(README.splitlines()) if len(row) == 7]
    written = [
        [title, *row]
        for title, name in (("CIFAR-10", "cifar10"), ("MNIST", "mnist"))
        for row in judged((TABLES / f"{name}.md").read_text().splitlines())
    ]
    assert shown == written
    assert len(shown) == 12


def test_the_ranks_are_those_of_the_documentation() -> None:
    page = (ROOT / "docs" / "coco.md").read_text()
    table = page.split("## Mean rank, test functions\n\n")[1].split("\n\n")[0]
    assert table.count("\n") > 10
    assert table in README


def test_the_table_is_that_of_the_documentation() -> None:
    rows = [row for row in judged(README.splitlines()) if len(row) == 5]
    shown = {(function, label, paper, ours) for function, label, paper, ours, _ in rows}
    written = set()
    for name in ("rosenbrock", "himmelblau", "ackley", "hole"):
        for line in (TABLES / f"{name}.md").read_text().splitlines():
            if line.startswith("| ") and "paper f" not in line:
                label, _, paper, _, ours, _ = (cell.strip() for cell in line.strip("|").split(" | "))
                written.add((name, label, paper, ours.replace("  ", " ")))
    assert shown == written


def test_the_pictures_of_the_readme_are_there() -> None:
    pictures = re.findall(r"\]\((docs/[^)]*\.png)\)", README)
    assert pictures
    assert all((ROOT / picture).is_file() for picture in pictures)


def test_the_files_it_names_are_there() -> None:
    linked = re.findall(r"\]\(((?:docs|benchmarks)/[\w./]*)\)", README)
    for name in [*re.findall(r"`((?:src|docs|examples|benchmarks|tests|tools)/[\w./-]*)`", README), *linked]:
        assert (ROOT / name).exists(), name
