"""The command line."""

from __future__ import annotations

import dataclasses
import json
from functools import partial
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


def test_reproduce_prints_ours_beside_the_papers(tmp_path: Path) -> None:
    result = run(app, ["reproduce", "himmelblau", "--json", str(tmp_path / "r.json")])
    assert result.exit_code == 0
    assert result.output.count("match") == 5
    rows = json.loads((tmp_path / "r.json").read_text())["himmelblau"]
    assert [row["verdict"] for row in rows] == ["match"] * 5
    assert rows[0]["paper"] == ["2.998", "2.003", "1.6e-4"]


def test_an_unknown_experiment_is_one_line_and_exit_code_2() -> None:
    result = run(app, ["reproduce", "everything"])
    assert result.exit_code == 2
    assert "There is no experiment 'everything'; choose from rosenbrock" in result.output


def test_a_file_that_cannot_be_written_is_one_line() -> None:
    for command in (["methods"], ["reproduce", "complexity"]):
        result = run(app, [*command, "--json", "/no/such/folder/m.json"])
        assert result.exit_code == 2
        assert "cannot be written" in result.output


def test_the_version() -> None:
    assert run(app, ["--version"]).output.strip() == slgh.__version__


@pytest.mark.parametrize("arguments", [[], ["--help"], ["reproduce", "--help"]])
def test_there_is_help(arguments: list[str]) -> None:
    assert "Usage" in run(app, arguments).output


def test_ctrl_c_ends_the_command_without_a_false_row(monkeypatch: pytest.MonkeyPatch) -> None:
    import slgh.reproduce.experiment as module

    original = module.run_row

    def interrupted(*args: object, **options: object) -> object:
        outcome = original(*args, max_iter=5)
        outcome.result.status[:] = slgh.Status.INTERRUPTED
        return outcome

    monkeypatch.setattr(module, "run_row", interrupted)
    result = run(app, ["reproduce", "himmelblau"])
    assert result.exit_code == 130
    assert "differs" not in result.output


def test_a_study_is_printed_drawn_and_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from slgh.reproduce import STUDIES, complexity

    small = complexity.TABLE[0]
    quick = dataclasses.replace(
        STUDIES["complexity"],
        jobs=lambda: [("Theorem 3.4", partial(complexity.measure, small, "wells", d)) for d in (2, 4)],
        conclude=lambda measured: complexity.complexity(measured, [small]),
    )
    monkeypatch.setitem(STUDIES, "complexity", quick)
    arguments = ["reproduce", "complexity", "--figures", str(tmp_path), "--json", str(tmp_path / "c.json")]
    result = run(app, arguments)
    assert result.exit_code == 0, result.output
    assert "wells" in result.output
    assert "coincide" in result.output
    assert (tmp_path / "complexity.png").stat().st_size > 10_000
    assert {fit["theorem"] for fit in json.loads((tmp_path / "c.json").read_text())["complexity"]["fits"]} == {"3.4"}
