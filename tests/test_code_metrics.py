"""The code metrics count correctly."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def code_metrics() -> ModuleType:
    spec = importlib.util.spec_from_file_location("code_metrics", ROOT / "tools" / "code_metrics.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["code_metrics"] = module  # dataclasses look up their module
    spec.loader.exec_module(module)
    return module


def test_lines_are_code_docstrings_or_comments(code_metrics: ModuleType) -> None:
    source = '"""Two\nlines."""\n\n# Why.\nLIMIT = (\n    1,\n)  # trailing\n"""Maximum."""\n'
    assert code_metrics.count_lines(source) == code_metrics.LineCount(code=3, docstring=3, comment=2, files=1)


def test_folders_of_the_package_are_counted_one_by_one(code_metrics: ModuleType, tmp_path: Path) -> None:
    for name in ("src/slgh/a.py", "src/slgh/engine/b.py", "src/slgh/engine/deep/c.py", "tests/d.py", ".venv/e.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x = 1\n")
    counts = code_metrics.count_by_folder(tmp_path)
    assert {folder: count.code for folder, count in counts.items()} == {
        "src/slgh": 1,
        "src/slgh/engine": 2,
        "tests": 1,
    }


def load(path: Path, source: str, **names: object) -> dict[str, Callable[..., None]]:
    path.write_text(source)
    module: dict[str, Callable[..., None]] = dict(names)  # type: ignore[arg-type]
    exec(compile(source, str(path), "exec"), module)
    return module


def test_a_walk_ends_at_the_users_function(code_metrics: ModuleType, tmp_path: Path) -> None:
    inner = load(tmp_path / "inner.py", "def inner(call):\n    call()\n\ndef after():\n    pass\n")
    source = "def helper():\n    pass\n\ndef outer(call):\n    helper()\n    inner(call)\n    after()\n"
    outer = load(tmp_path / "outer.py", source, **inner)
    walk = code_metrics.record_walk(outer["outer"], package=tmp_path)
    assert walk.calls == ["outer.py", "outer.py", "inner.py"]
    assert walk.files == ["outer.py", "inner.py"]
    assert walk.switches == 1


def test_a_walk_that_never_reaches_the_users_function_is_an_error(code_metrics: ModuleType) -> None:
    with pytest.raises(RuntimeError, match="before it called"):
        code_metrics.record_walk(lambda call: None)
    assert sys.getprofile() is None


@pytest.mark.parametrize("scenario", ["minimize_auto", "attack_images"])
def test_the_walks_start_at_the_public_function(code_metrics: ModuleType, scenario: str) -> None:
    walk = code_metrics.record_walk(getattr(code_metrics, scenario))
    assert walk.files[0] == {"minimize_auto": "minimize.py", "attack_images": "attack/api.py"}[scenario]
    assert "minimize.py" in walk.files
    assert walk.switches >= len(walk.files) - 1


def test_names_list_functions_parameters_and_options(code_metrics: ModuleType) -> None:
    names = {*code_metrics.public_names(), *code_metrics.command_options()}
    assert {"slgh.minimize", "slgh.minimize max_evals", "slgh.METHODS zoslgh_r", "slgh.attack.attack"} <= names
    assert {"slgh minimize", "slgh minimize --x0", "slgh minimize formula", "slgh attack train --data"} <= names
