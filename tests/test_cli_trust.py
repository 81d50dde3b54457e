"""What `slgh` does with files that may come from anyone: it runs no code of theirs, and writes where it was told to."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import sys
import unicodedata
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from typer.testing import CliRunner

import slgh
from slgh.cli import app
from slgh.cli.common import console
from slgh.cli.run_file import MAX_BYTES
from slgh.engine import checkpoint
from slgh.paper.attack import ATTACKS
from slgh.paper.attack.row_cache import file_of
from slgh.paper.attack.row_cache import read as read_row
from slgh.paper.attack.run_row import RowRun
from slgh.paper.store import Store

MINE = """
def sphere(x):
    return float(((x - 1.0) ** 2).sum())


def sphere_grad(x):
    return 2 * (x - 1.0)
"""

EVIL = """
open("hacked", "w").close()


def sphere(x):
    return 7.0


sphere_grad = sphere
"""

QUICK = ["--no-plot", "--max-evals", "60", "--seed", "7"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the user's code, and a folder beside it with somebody else's."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "mine.py").write_text(MINE)
    (tmp_path / "theirs").mkdir()
    for name in ("mine.py", "evil.py"):
        (tmp_path / "theirs" / name).write_text(EVIL)
    monkeypatch.chdir(home)
    monkeypatch.setattr(console, "width", 300)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("mine", "evil"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return home


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


def make_run(*arguments: str, place: str = "kept") -> dict[str, Any]:
    """Make a run in a folder; returns its result."""
    result = run("minimize", *arguments, *QUICK, "--run", place, "--json", "-")
    assert result.exit_code in (0, 3), result.output
    return cast(dict[str, Any], json.loads(result.stdout))


@cache
def files_of_a_formula_run() -> dict[str, bytes]:
    make_run("x**2", "--x0", "1", place="made")
    found = {file.name: file.read_bytes() for file in Path("made").iterdir()}
    shutil.rmtree("made")
    return found


def copy_formula_run() -> None:
    """Put a run of a formula into the folder `kept`. It is made once for all tests."""
    content = files_of_a_formula_run()
    Path("kept").mkdir()
    for name, each in content.items():
        Path("kept", name).write_bytes(each)


def edit(changes: dict[str, Any], place: str = "kept", *, finished: bool = False) -> None:
    """Change fields of run.json, named by their path: "job.source.fun". Without a checkpoint the run begins anew."""
    file = Path(place, "run.json")
    content = json.loads(file.read_text())
    for path, value in changes.items():
        *above, name = path.split(".")
        entries = content
        for step in above:
            entries = entries[step]
        entries[name] = value
    file.write_text(json.dumps(content))
    if not finished:
        Path(place, "checkpoint.npz").unlink(missing_ok=True)


def refuse(*arguments: str) -> str:
    """The one line of a refusal."""
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    return str(result.stderr)


def assert_nothing_of_theirs_ran(folder: Path) -> None:
    assert not (folder / "hacked").exists()
    assert not any(str(folder.parent / "theirs") in entry for entry in sys.path)
    assert not any("theirs" in str(getattr(module, "__file__", "")) for module in list(sys.modules.values()))


# --- code


@pytest.mark.parametrize("name", ["evil.py:sphere", "evil:sphere", "{theirs}/evil.py:sphere", "os:system"])
@pytest.mark.parametrize("option", ["fun", "grad"])
@pytest.mark.parametrize("made_from", ["x**2", "ackley"])
def test_resume_imports_no_code_that_a_folder_names(folder: Path, made_from: str, option: str, name: str) -> None:
    make_run(made_from, *(["--x0", "1"] if made_from == "x**2" else []))
    theirs = folder.parent / "theirs"
    named = name.format(theirs=theirs)
    formula = {"job.source.formula": None, "job.source.x0": "1"} if option == "fun" else {}
    edit({**formula, f"job.source.{option}": named, "job.source.folder": str(theirs)})
    assert refuse("resume", "kept") == (
        f"slgh: This run was made with --{option} {named}. Pass --{option} {named} to resume it: slgh does not import "
        "code that a folder names.\n"
    )
    assert_nothing_of_theirs_ran(folder)


@pytest.mark.parametrize("made_from", [["x**4 - 3*x**2 + x", "--x0", "2"], ["ackley", "--d", "3"]])
def test_a_run_of_a_formula_or_a_problem_is_resumed_without_the_users_python(
    made_from: list[str], folder: Path
) -> None:
    first = make_run(*made_from)
    theirs = folder.parent / "theirs"
    (theirs / "sympy.py").write_text(EVIL)
    edit({"job.source.folder": str(theirs)}, finished=True)
    resumed = run("resume", "kept", "--json", "-")
    assert json.loads(resumed.stdout)["x"] == first["x"]
    assert_nothing_of_theirs_ran(folder)


def test_a_python_function_and_its_gradient_are_named_again_to_resume() -> None:
    named = ["--fun", "mine:sphere", "--grad", "mine.py:sphere_grad"]
    first = make_run(*named, "--x0", "3,2")
    for given in ([], named[:2], named[2:]):
        assert "Pass --fun mine:sphere --grad mine.py:sphere_grad to resume it" in refuse("resume", "kept", *given)
    resumed = run("resume", "kept", *named, "--json", "-")
    assert json.loads(resumed.stdout)["x"] == first["x"]
    assert resumed.stderr == ""


def test_the_users_word_counts_where_the_folder_names_another_function(folder: Path) -> None:
    make_run("--fun", "mine:sphere", "--x0", "3,2")
    other = folder / "other.py"
    other.write_text(MINE.replace("1.0", "2.0"))
    Path("kept", "checkpoint.npz").unlink()
    resumed = run("resume", "kept", "--fun", "other.py:sphere", "--no-plot")
    assert resumed.exit_code == 0
    assert "slgh: this run was made with --fun mine:sphere and goes on with --fun other.py:sphere.\n" in resumed.stderr
    assert "again     slgh minimize --fun other.py:sphere" in resumed.stdout
    assert json.loads(Path("kept", "run.json").read_text())["job"]["source"]["fun"] == "other.py:sphere"


def test_modules_are_looked_for_where_the_user_is_and_not_where_the_folder_says(folder: Path) -> None:
    first = make_run("--fun", "mine:sphere", "--x0", "3,2")
    edit({"job.source.folder": str(folder.parent / "theirs")}, finished=True)
    sys.modules.pop("mine")
    resumed = run("resume", "kept", "--fun", "mine:sphere", "--json", "-")
    assert json.loads(resumed.stdout)["x"] == first["x"]
    assert_nothing_of_theirs_ran(folder)


def test_code_that_a_run_was_made_without_is_refused() -> None:
    copy_formula_run()
    assert "--fun: the run in kept was made without --fun. Leave it out." in refuse(
        "resume", "kept", "--fun", "mine:sphere"
    )
    make_run("--fun", "mine:sphere", "--x0", "1", place="other")
    refused = refuse("resume", "other", "--fun", "mine:sphere", "--grad", "mine:sphere_grad")
    assert "--grad: the run in other was made without --grad." in refused


def test_the_command_that_repeats_a_resumed_run_names_no_code_of_the_folders() -> None:
    copy_formula_run()
    edit({"job.typed": ["x**2", "--x0", "1", "--fun", "evil:f", "--fun=evil:f", "--grad", "evil:f"]}, finished=True)
    resumed = run("resume", "kept", "--json", "-")
    assert json.loads(resumed.stdout)["repeat"] == "slgh minimize 'x**2' --x0 1 --seed 7"


@pytest.mark.parametrize(
    ("formula", "fragment"),
    [
        ("__import__('os').system('touch hacked')", "FORMULA: functions are written"),
        ("open('hacked', 'w')", "the functions are"),
        ("x.__class__", "Attribute is not allowed"),
        ("+".join(["x"] * 20_000), "at most 20000 characters"),
        ("sin(" * 70 + "x" + ")" * 70, "nested at most 60 deep"),
        ("x + 10**10**10", "exponents must be at most 64"),
        ("a" * 1_000_000, "at most 20000 characters"),
    ],
)
def test_a_formula_of_a_folder_is_read_as_safely_as_one_that_is_typed(
    formula: str, fragment: str, folder: Path
) -> None:
    copy_formula_run()
    edit({"job.source.formula": formula})
    assert fragment in refuse("resume", "kept")
    assert not (folder / "hacked").exists()


def test_a_folder_starts_at_most_one_worker_per_core(monkeypatch: pytest.MonkeyPatch) -> None:
    make_run("--fun", "mine:sphere", "--x0", "3,2")
    asked = []
    original = slgh.minimize

    def watched(*args: Any, workers: Any, **options: Any) -> Any:
        asked.append(workers)
        return original(*args, **options)

    monkeypatch.setattr(slgh, "minimize", watched)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    for recorded, options, expected in ((10**6, [], 2), (10**6, ["--workers", "5"], 5), (2, [], 2), (None, [], None)):
        edit({"job.workers": recorded})
        assert run("resume", "kept", "--fun", "mine:sphere", *options).exit_code == 0
        assert asked[-1] == expected


# --- the file run.json

HOSTILE: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown field": ({"hook": "evil:f"}, "has an unknown field 'hook'"),
    "an unknown field of the job": ({"job.callback": "evil:f"}, "has an unknown field 'callback'"),
    "an unknown field of the source": ({"job.source.args": [1]}, "has an unknown field 'args'"),
    "a command that is no text": ({"command": ["minimize"]}, "was not written by slgh"),
    "a format that is a flag": ({"format": True}, "format must be of type int, got True"),
    "no source": ({"job.source": None}, "lacks what a run needs"),
    "a formula that is a list": ({"job.source.formula": ["x"]}, "formula must be of type str | None, got ['x']"),
    "x0 that is a number": ({"job.source.x0": 1}, "x0 must be of type str | None, got 1"),
    "x0 of words": ({"job.source.x0": "\x1b]0;x\x07" * 10_000}, "--x0 must be numbers"),
    "d that is a float": ({"job.source.d": 1.5}, "d must be of type int | None, got 1.5"),
    "d that fills the memory": ({"job.source.d": 10**15}, "--d must be at most 100000000, got 1000000000000000"),
    "terms of a formula": ({"job.source.terms": 3}, "--terms goes with --fun"),
    "an unknown fallback": ({"job.source.fallback": "evil"}, "--fallback must be one of"),
    "an unknown method": ({"job.method": "evil:f"}, "--method must be one of"),
    "a method that is a list": ({"job.method": []}, "method must be of type str, got []"),
    "an argument among the parameters": ({"job.params": {"checkpoint": "../x"}}, "checkpoint is no hyperparameter"),
    "a callback among the parameters": ({"job.params": {"callback": "f"}}, "callback is no hyperparameter"),
    "a function among the parameters": ({"job.params": {"fun": "f"}}, "fun is no hyperparameter"),
    "a parameter that is an object": ({"job.params": {"t1": {"a": 1}}}, "t1 must be a number, a text or a flag"),
    "an unknown parameter": ({"job.params": {"__class__": 1}}, "`__class__` is not a parameter"),
    "an unknown part": ({"job.params": {"oracle": "evil:f"}}, "--set oracle"),
    "a huge limit": ({"job.max_evals": 10**400}, "max_evals must be of type int | None, got an integer above 1e308"),
    "a negative limit": ({"job.max_evals": -1}, "--max-evals must be"),
    "a time that is a text": ({"job.max_seconds": "1"}, "max_seconds must be of type float | None"),
    "a target that is no number": ({"job.target": float("nan")}, "--target must be"),
    "a negative seed": ({"job.seed": -1}, "--seed must be an integer >= 0"),
    "a seed that is a flag": ({"job.seed": True}, "seed must be of type int, got True"),
    "workers of a formula": ({"job.workers": 10**6}, "--workers goes with --fun"),
    "workers that are a text": ({"job.workers": "evil:f"}, "workers must be of type int | None"),
    "on_nonfinite": ({"job.on_nonfinite": "evil"}, "--on-nonfinite must be one of"),
    "a history that fills the memory": ({"job.history": 10**15}, "history must be 'x' or 1000, got 1000000000000000"),
    "saves without an end": ({"job.save_every": -1}, "--save-every must be"),
    "a command line that is a text": ({"job.typed": "x**2"}, "typed must be of type tuple[str, ...]"),
    "a command line of numbers": ({"job.typed": [1]}, "typed must be of type tuple[str, ...]"),
    "an unknown status": ({"ended": "HACKED"}, "ended must be a status, got 'HACKED'"),
    "a start value that is a text": ({"fun_x0": "0"}, "fun_x0 must be of type float | None"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_every_field_of_a_folder_is_checked(name: str) -> None:
    changes, fragment = HOSTILE[name]
    copy_formula_run()
    edit(changes)
    before = sorted(Path().rglob("*"))
    line = refuse("resume", "kept")
    assert fragment in line
    assert len(line) < 1000
    assert sorted(Path().rglob("*")) == before


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 1_000_000,
        b'{"command": "minimize", "format": 1, "job": ' + b'{"source": ' * 100_000,
        b'{"command": "minimize", "format": ' + b"1" * 10_000 + b"}",
        b"\xff\xfe\x00",
    ],
    ids=["deep lists", "deep objects", "a long integer", "no text"],
)
def test_a_file_that_is_no_json_of_ours_is_refused_in_one_line(content: bytes) -> None:
    copy_formula_run()
    Path("kept", "run.json").write_bytes(content)
    assert "it is damaged, or no run of slgh" in refuse("resume", "kept")


def test_a_huge_file_is_refused_before_it_is_read() -> None:
    copy_formula_run()
    with open(Path("kept", "run.json"), "r+b") as file:
        file.truncate(2**40)  # a terabyte of holes, which takes no place on the disk
    assert f"must have at most {MAX_BYTES} bytes" in refuse("resume", "kept")


# --- where it writes


def files() -> set[str]:
    return {str(path) for path in Path().rglob("*") if path.is_file() and "__pycache__" not in path.parts}


def test_resume_writes_to_no_path_that_the_folder_names() -> None:
    copy_formula_run()
    asked = ["--json", "a.json", "--plot", "a.png", "--run", "elsewhere", "--out", "there"]
    edit({"job.typed": ["x**2", "--x0", "1", *asked], "job.source.folder": "elsewhere"})
    before = files() | {str(Path("kept", "checkpoint.npz"))}
    assert run("resume", "kept").exit_code == 0
    assert files() == before


@pytest.mark.parametrize("name", ["run.json", "checkpoint.npz", "result.json", "run.json.1234.tmp"])
def test_resume_follows_no_link_out_of_the_folder(name: str, folder: Path) -> None:
    copy_formula_run()
    link, outside = Path("kept", name), folder.parent / "theirs" / "target"
    if link.exists():
        link.rename(outside)
    link.symlink_to(outside)
    before = outside.read_bytes() if outside.exists() else None
    assert f"{link} must not be a symbolic link" in refuse("resume", "kept")
    assert (outside.read_bytes() if outside.exists() else None) == before


# --- what it prints


@pytest.mark.parametrize(
    "changes",
    [
        {"job.typed": ["x**2", "--x0", "1", "--note=\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\ud800\r"]},
        {"command": "\x1b[2J\x07"},
        {"job.method": "\x1b[2J"},
        {"job.source.formula": "x**2 + \x1b[2J"},
        {"job.source.formula": None, "job.source.fun": "\x1b[2J\u202e:f"},
        {"\x1b[2J": 1},
        {"ended": "\x1b[2J"},
    ],
    ids=["typed", "command", "method", "formula", "fun", "a name", "ended"],
)
@pytest.mark.parametrize("options", [[], ["--debug"]], ids=["plain", "debug"])
def test_no_control_character_of_a_folder_reaches_the_terminal(changes: dict[str, Any], options: list[str]) -> None:
    copy_formula_run()
    edit(changes)
    result = run("resume", "kept", *options)
    assert "\\x1b" in result.output
    assert {c for c in result.output if unicodedata.category(c) in ("Cc", "Cf", "Cs")} == {"\n"}


# --- pickles


class Exploit:
    """Pickled, a command that is run when it is loaded."""

    def __reduce__(self) -> Any:
        return os.system, ("touch hacked",)


def write_pickle(file: Path, *names: str) -> None:
    np.savez(file, allow_pickle=True, **dict.fromkeys(names, np.array([Exploit()], dtype=object)))


def test_no_checkpoint_is_unpickled(folder: Path) -> None:
    copy_formula_run()
    write_pickle(Path("kept", "checkpoint.npz"), "header", "a.x")
    assert "checkpoint.npz" in refuse("resume", "kept")
    assert not (folder / "hacked").exists()


@pytest.mark.slow
def test_no_image_weight_or_attack_is_unpickled(folder: Path) -> None:
    pytest.importorskip("torch")
    write_pickle(Path("images.npz"), "images", "labels")
    refused = refuse("attack", "--model", "mine:sphere", "--inputs", "images.npz", "--no-plot")
    assert "is not a whole .npz of numbers" in refused
    attack = ["attack", "--data", "mnist", "--images", "1", "--max-queries", "40", "--no-plot"]
    write_pickle(Path("weights.npz"), "conv1_kernel")
    assert "is not a whole .npz of numbers" in refuse(*attack, "--weights", "weights.npz")
    write_pickle(Path("begun.npz"), "header", "a.x")
    assert "begun.npz" in refuse(*attack, "--run", "begun.npz")
    assert not (folder / "hacked").exists()


def test_a_foreign_file_among_the_finished_jobs_of_reproduce_is_as_good_as_none(folder: Path) -> None:
    store = Store(folder / "unfinished", "seeds=1")
    store.put("hole", "row", {"x": np.ones(3)})
    (file,) = store.folder.iterdir()
    assert store.get("hole", "row") is not None
    write_pickle(file, "header", "a.x")
    assert store.get("hole", "row") is None
    assert not (folder / "hacked").exists()
    checkpoint.write(file, {"plain": {}}, {"x": np.ones(3)})
    assert store.get("hole", "row") is None


def test_a_foreign_file_among_the_rows_of_reproduce_is_as_good_as_none(folder: Path) -> None:
    row = RowRun(paper=ATTACKS["mnist"], name="zosgd", seed=0, images=2, iterations=3)
    for content in ("[" * 100_000, "null", '{"settings": {}}'):
        file_of(row, folder).write_text(content)
        assert read_row(row, folder) is None


def test_the_package_neither_unpickles_nor_evaluates_text() -> None:
    root = Path(slgh.__file__).parent
    found = []
    for file in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and (wrong := forbidden(node)):
                found.append(f"{file.relative_to(root)}:{node.lineno}: {wrong}")
    assert found == []


def forbidden(call: ast.Call) -> str:
    """What is wrong with a call, if anything."""
    name = ast.unparse(call.func)
    if name in ("eval", "exec", "compile", "__import__", "os.system", "torch.load", "marshal.loads", "marshal.load"):
        return name
    if name.startswith("pickle.") and name != "pickle.dumps":
        return name
    options = {option.arg: ast.unparse(option.value) for option in call.keywords}
    return name if name == "np.load" and options.get("allow_pickle") != "False" else ""


def test_the_guarantees_of_the_security_page_name_tests_that_exist() -> None:
    root = Path(__file__).parent.parent
    named = re.findall(r"`(test_\w+)`", (root / "SECURITY.md").read_text())
    assert len(named) > 10
    assert [name for name in named if name not in globals()] == []
