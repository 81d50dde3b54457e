"""The command line as a whole: lists, help, completion, and what all commands have in common."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import slgh
from slgh.cli import app

run = CliRunner().invoke


def test_methods_lists_all_of_them_with_their_equations(tmp_path: Path) -> None:
    result = run(app, ["methods", "--json", str(tmp_path / "m.json")])
    assert result.exit_code == 0
    assert all(name in result.output for name in ("zoslgh_d", "scale_free", r"\tilde g_x", "slope_from"))
    assert set(json.loads((tmp_path / "m.json").read_text())) == set(slgh.METHODS)


def test_problems_lists_all_of_them_with_what_is_known() -> None:
    result = run(app, ["problems"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    assert "rosenbrock" in result.stdout
    assert "0 at (3, 2) and 3 more" in result.stdout
    found = json.loads(run(app, ["problems", "--json", "-"]).stdout)
    assert set(found) == set(slgh.problems.PROBLEMS)
    assert found["rosenbrock"]["parameters"] == {"t1": 1.5, "step": 1e-4, "max_iter": 20000}
    assert [name for name, entry in found.items() if not entry["closed_form"]] == ["ackley", "hole"]
    assert [name for name, entry in found.items() if not entry["any_d"]] == ["himmelblau"]


@pytest.mark.parametrize("command", ["methods", "problems"])
def test_quiet_lists_names_alone(command: str) -> None:
    names = slgh.METHODS if command == "methods" else slgh.problems.PROBLEMS
    assert run(app, [command, "--quiet"]).stdout.split() == list(names)


def test_a_file_that_cannot_be_written_is_one_line() -> None:
    for command in (["methods"], ["problems"], ["reproduce", "complexity"], ["probe", "x**2", "--x0", "1"]):
        result = run(app, [*command, "--json", "/no/such/folder/m.json"])
        assert result.exit_code == 2
        assert "cannot be written" in result.stderr
        assert result.stderr.count("\n") == 1


def test_the_version() -> None:
    assert run(app, ["--version"]).output.strip() == slgh.__version__


@pytest.mark.parametrize("command", ["minimize", "resume", "probe", "methods", "problems", "reproduce"])
def test_there_is_help(command: str) -> None:
    result = run(app, [command, "--help"])
    assert result.exit_code == 0
    assert f"Usage: slgh {command}" in run(app, [command, "--help"], prog_name="slgh").output
    assert "--debug" in result.output
    assert "--json" in result.output


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_the_help_lists_the_commands(arguments: list[str]) -> None:
    result = run(app, arguments)
    assert result.exit_code == 0
    assert all(name in result.output for name in ("minimize", "resume", "probe", "methods", "problems", "reproduce"))


def test_help_shows_subscripts_and_not_markup() -> None:
    assert "x[i]**2" in " ".join(run(app, ["minimize", "--help"]).output.split())


def test_an_unknown_command_is_one_line() -> None:
    result = run(app, ["minimise"])
    assert result.exit_code == 2
    assert "Did you mean 'minimize'?" in result.stderr
    assert result.stderr.count("\n") == 1


def complete(line: str) -> list[str]:
    """What the shell offers for an unfinished line."""
    words = line.split(" ")
    environment = {
        **os.environ,
        "_SLGH_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    done = subprocess.run([sys.executable, "-m", "slgh"], env=environment, capture_output=True, text=True, check=False)
    return done.stdout.split()


def test_the_shell_completes_commands_methods_and_problems() -> None:
    assert complete("slgh pro") == ["probe", "problems"]
    assert complete("slgh minimize x --method zoslgh") == ["zoslgh_r", "zoslgh_d"]
    assert complete("slgh minimize ros") == ["rosenbrock"]


def test_python_m_slgh_is_the_command_and_prints_a_script_for_the_shell() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "slgh", "--show-completion", "bash"], capture_output=True, text=True, check=False
    )
    assert "_SLGH_COMPLETE" in shown.stdout, shown
