"""The command line as a whole: lists, help, completion, and what all commands share."""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import slgh
from messages import error_message
from slgh import paper
from slgh.cli import app, declaration
from slgh.cli.declaration import PASSED, Role, declared
from slgh.cli.errors import print_error
from slgh.cli.group import Commands
from slgh.cli.lists import read_docstring
from slgh.cli.options import (
    ALL_EXPERIMENTS,
    ATTACK_METHODS,
    DEFAULT_EXPERIMENTS,
    AttackOptions,
    MinimizeOptions,
    ProbeOptions,
)
from slgh.cli.output import console
from slgh.cli.parameters import parts_of
from slgh.cli.unicode_math import to_unicode
from slgh.method import SLOTS
from slgh.paper.attack import settings

run = CliRunner().invoke


def test_methods_lists_all_of_them_and_how_to_read_on(tmp_path: Path) -> None:
    result = run(app, ["methods", "--json", str(tmp_path / "m.json")])
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert [line.split()[0] for line in lines[: len(slgh.METHODS)]] == list(slgh.METHODS)
    assert all(len(line) <= 80 for line in lines)
    assert "slgh methods NAME explains a method" in lines[-1]
    assert set(json.loads((tmp_path / "m.json").read_text())) == set(slgh.METHODS)


@pytest.mark.parametrize("name", slgh.METHODS)
def test_a_method_is_explained_with_the_equations_and_all_fields_of_its_parts(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "width", 80)
    result = run(app, ["methods", name])
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    for part in parts_of(name).values():
        equation = re.search(r"\.\. math::\s+(.*)", part.__doc__)
        assert equation is not None
        assert to_unicode(equation[1]).splitlines()[0][:40] in result.output
        for field in dataclasses.fields(part):
            assert any(re.match(rf"  {field.name} +\S", line) for line in lines), field.name
    assert "`" not in result.output
    assert "\\" not in result.output
    assert all(len(line) <= 80 for line in lines[:-1])
    assert f"--method {name}" in lines[-1]
    assert "--sharpness" not in lines[-1], "there is no such option"
    assert list(json.loads(run(app, ["methods", name, "--json", "-"]).stdout)) == [name]


def test_what_a_method_needs_is_marked_and_the_default_of_the_method_shown() -> None:
    assert "  step        (required) β, the step size of x." in run(app, ["methods", "slgh_r"]).output
    assert "  gamma       (0.5) γ, the factor by which t falls." in run(app, ["methods", "gradopt_hazan"]).output
    assert "  n0          (100)" in run(app, ["methods", "gradopt_hazan"]).output


def test_every_field_of_every_part_is_explained() -> None:
    for parts in SLOTS.values():
        for part in parts.values():
            assert [field.name for field in dataclasses.fields(part)] == list(read_docstring(part).fields)


def test_a_docstring_may_list_types_and_several_fields_at_once() -> None:
    class Part:
        r"""Move.

        .. math::
            x_{k+1} = x_k

        Parameters
        ----------
        step : float
            :math:`\beta`, the
            length.
        beta1, beta2 : float, optional
            Decay.
        """

    about = read_docstring(Part)
    assert about.equations == ["xₖ₊₁ = xₖ"]
    assert about.fields == {"step": "β, the length.", "beta1": "Decay.", "beta2": "Decay."}


def test_an_unknown_method_is_one_line() -> None:
    result = run(app, ["methods", "slgr_r"])
    assert result.exit_code == 2
    assert "There is no method 'slgr_r'" in result.stderr
    assert "Did you mean slgh_r?" in result.stderr
    assert error_message(result.stderr)


def test_problems_lists_all_of_them_with_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "width", 80)
    result = run(app, ["problems"])
    assert result.exit_code == 0
    assert all(len(line) <= 80 for line in result.stdout.splitlines())
    assert "rosenbrock    --t1 1.5 --step 0.0001 --max-iter 20000\n" in result.stdout
    assert "0 at (3, 2) and 3 more" in result.stdout
    found = json.loads(run(app, ["problems", "--json", "-"]).stdout)
    assert set(found) == set(slgh.problems.PROBLEMS)
    assert found["rosenbrock"]["parameters"] == {"t1": 1.5, "step": 1e-4, "max_iter": 20000}
    assert [name for name, entry in found.items() if not entry["closed_form"]] == ["ackley", "hole"]
    assert [name for name, entry in found.items() if not entry["any_d"]] == ["himmelblau"]


@pytest.mark.slow
def test_the_examples_under_the_problems_can_be_copied_and_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown = [line for line in run(app, ["problems"]).stdout.splitlines() if line.startswith("slgh ")]
    assert shown[0] == "slgh minimize rosenbrock --method slgh_r --t1 1.5 --step 0.0001 --max-iter 20000"
    assert len(shown) == 2
    for line in shown:
        assert run(app, [*shlex.split(line)[1:], "--quiet"]).exit_code == 0


@pytest.mark.parametrize("command", ["methods", "problems"])
def test_quiet_lists_names_alone(command: str) -> None:
    names = slgh.METHODS if command == "methods" else slgh.problems.PROBLEMS
    assert run(app, [command, "--quiet"]).stdout.split() == list(names)


def test_a_file_that_cannot_be_written_is_one_line() -> None:
    for command in (["methods"], ["problems"], ["reproduce", "complexity"], ["probe", "x**2", "--x0", "1"]):
        result = run(app, [*command, "--json", "/no/such/folder/m.json"])
        assert result.exit_code == 2
        assert "cannot be written" in result.stderr
        assert error_message(result.stderr)


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_the_version(flag: str) -> None:
    assert run(app, [flag]).output.strip() == slgh.__version__


ALL_COMMANDS = [
    [],
    ["minimize"],
    ["probe"],
    ["methods"],
    ["problems"],
    ["reproduce"],
    ["attack"],
    ["attack", "train"],
]


@pytest.mark.parametrize("command", ALL_COMMANDS, ids=" ".join)
def test_h_is_help(command: list[str]) -> None:
    result = run(app, [*command, "-h"])
    assert result.exit_code == 0
    assert result.output == run(app, [*command, "--help"]).output


def test_a_formula_of_the_variable_h_goes_behind_two_dashes() -> None:
    result = run(app, ["minimize", "--x0", "1", "--bounds", "0:2", "--max-evals", "50", "--quiet", "--", "-h"])
    assert result.exit_code == 0, result.output
    assert result.output.startswith("-2.0 ")


@pytest.mark.parametrize("command", ["minimize", "probe", "methods", "problems", "reproduce"])
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
    assert all(name in result.output for name in ("minimize", "probe", "methods", "problems", "reproduce"))


@pytest.mark.parametrize("command", ["minimize", "probe"])
def test_help_shows_subscripts_and_not_markup(command: str) -> None:
    assert "sum(x[i]**2 for i in range(d))" in " ".join(run(app, [command, "--help"]).output.replace("│", "").split())


@pytest.mark.slow
@pytest.mark.parametrize(("command", "examples"), [("minimize", 2), ("probe", 1)])
def test_the_examples_of_the_help_run(
    command: str, examples: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = run(app, [command, "--help"], env={"COLUMNS": "80"}).output
    lines = [line.strip() for line in text.splitlines() if line.startswith(f" slgh {command} ")]
    complete = [shlex.split(line) for line in lines if ".py" not in line]
    assert len(complete) == examples
    for words in complete:
        result = run(app, [*words[1:], "--quiet"])
        assert result.exit_code == 0, result.output


@pytest.mark.parametrize("command", ALL_COMMANDS, ids=" ".join)
def test_help_shows_no_type_beside_flags(command: list[str]) -> None:
    text = run(app, [*command, "--help"]).output
    assert "--help" in text
    assert "bool" not in text.lower()


def test_an_unknown_command_is_one_line() -> None:
    result = run(app, ["minimze"], prog_name="slgh")
    assert result.exit_code == 2
    expected = "error: No such command 'minimze'.\ntip: Did you mean 'minimize'? Try 'slgh --help'.\n"
    assert result.stderr == expected


def test_another_spelling_of_a_command_is_recognized() -> None:
    result = run(app, ["minimise", "x**2", "--x0", "1"], prog_name="slgh")
    assert result.exit_code == 2
    assert "Did you mean 'minimize'?" in result.stderr


@pytest.mark.parametrize(
    ("terminal", "no_color", "colored"), [(True, "", True), (True, "1", False), (False, "", False)]
)
def test_messages_are_colored_on_a_terminal_unless_no_color_is_set(
    terminal: bool, no_color: str, colored: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    print_error("f is \x1b[2J wrong.", "Try g.")
    text = capsys.readouterr().err
    assert re.sub(r"\x1b\[[\d;]*m", "", text) == "error: f is \\x1b[2J wrong.\ntip: Try g.\n"
    assert ("\x1b[1;31merror:\x1b[0m " in text) is colored
    assert ("\x1b[" in text) is colored


def test_names_in_the_help_are_those_of_the_paper() -> None:
    assert ("auto", *settings.METHODS) == ATTACK_METHODS
    assert (tuple(paper.EXPERIMENTS), paper.DEFAULT) == (ALL_EXPERIMENTS, DEFAULT_EXPERIMENTS)


COMMANDS = [
    ["minimize", "x**2 + y**2", "--x0", "1,2"],
    ["minimize", "x**2", "--x0", "1", "--json", "-", "--history"],
    ["--help"],
    ["methods"],
]


@pytest.mark.slow
@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_closed_pipe_ends_the_command_quietly(arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)  # nobody reads the pipe
    try:
        done = subprocess.run(
            [sys.executable, "-m", "slgh", *arguments], stdout=writer, stderr=subprocess.PIPE, text=True, check=False
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def complete(line: str) -> list[str]:
    """Return the completions of the shell for an unfinished line."""
    words = line.split(" ")
    environment = {
        **os.environ,
        "_SLGH_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    done = subprocess.run([sys.executable, "-m", "slgh"], env=environment, capture_output=True, text=True, check=False)
    return done.stdout.split()


@pytest.mark.slow
def test_the_shell_completes_commands_methods_and_problems() -> None:
    assert complete("slgh pro") == ["probe", "problems"]
    assert complete("slgh minimize x --method zoslgh") == ["zoslgh_r", "zoslgh_d"]
    assert complete("slgh minimize ros") == ["rosenbrock"]


def test_python_m_slgh_is_the_command_and_prints_a_script_for_the_shell() -> None:
    # Typer finds the shell among the parent processes, unless this makes it read the argument.
    environment = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    command = [sys.executable, "-m", "slgh", "--show-completion", "bash"]
    shown = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert "_SLGH_COMPLETE" in shown.stdout, shown


MIRRORS = [
    (MinimizeOptions, slgh.minimize, PASSED),
    (ProbeOptions, slgh.probe, (Role.ARGUMENT,)),
    (AttackOptions, slgh.attack.attack, PASSED),
]


@pytest.mark.parametrize(("options", "function", "roles"), MIRRORS, ids=["minimize", "probe", "attack"])
def test_options_that_are_passed_on_mirror_arguments(options: Any, function: Any, roles: tuple[Role, ...]) -> None:
    passed = {each.argument for each in declared(options).values() if each.role in roles}
    assert "seed" in passed
    assert passed <= inspect.signature(function).parameters.keys()


@pytest.mark.parametrize(
    "line",
    [
        "minimize 'x**2' --x0 1",
        "minimize 'sum(x[i] for i in range(d))' --x0 -3,2 --bounds -5:5 --method slgh_r --t1 1.5 --step 0.0001",
        "minimize --x0 0 --d 10 --fun m.py:f --vectorized --workers 4 --set update=adam --set beta1=0.5",
        "minimize --x0 1 --step theory --max-seconds 1e-05 --seed 3 --plot a.png -- '-x**2'",
        "attack --data mnist --images 4 --max-queries 500 --stop first-success --target 9",
    ],
)
def test_the_words_of_options_are_the_command_they_were_read_from(line: str) -> None:
    name, *typed = shlex.split(line)
    read: list[Any] = []
    kinds = {"minimize": MinimizeOptions, "attack": AttackOptions}
    one = typer.Typer(cls=Commands)
    one.command(name)(declaration.command(kinds[name], read.append))
    one.command("other")(lambda: None)
    assert run(one, [name, *typed]).exit_code == 0
    assert declaration.words(read[0], hidden=()) == typed
