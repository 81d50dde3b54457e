"""Imports point one way, and `import slgh` is light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import slgh

SOURCE = Path(slgh.__file__).parent

# Each layer may import itself and the layers below it.
LAYERS = [
    {"cli", "__main__"},
    {"paper"},
    {"integrations"},
    {"plotting"},
    {"attack"},
    {"probe"},
    {"minimize", "optimizer"},
    {"auto"},
    {"engine", "result", "result_files"},
    {"backends", "smoothing"},
    {"theory"},
    {"method"},
    {"oracles", "schedules", "updates", "problems"},
    {"parameters", "space"},
    {"protocols", "checks", "files", "display"},
]
LEVEL = {name: i for i, layer in enumerate(LAYERS) for name in layer}


def imported_modules(file: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def test_imports_point_one_way() -> None:
    for file in SOURCE.rglob("*.py"):
        own = file.relative_to(SOURCE).parts[0].removesuffix(".py")
        if own == "__init__":
            continue
        for module in imported_modules(file):
            parts = module.split(".")
            if parts[0] == "slgh" and len(parts) > 1 and parts[1] in LEVEL:
                assert LEVEL[own] <= LEVEL[parts[1]], f"{file} imports {module}"


# The commands `reproduce`, `attack --data` and `attack train`.
MAY_IMPORT_THE_PAPER = {"reproduce", "options", "attack_input", "attack_output", "train"}


def test_only_the_commands_that_reproduce_the_paper_import_it() -> None:
    for file in SOURCE.rglob("*.py"):
        folder, *_ = file.relative_to(SOURCE).parts
        if folder == "paper" or (folder == "cli" and file.stem in MAY_IMPORT_THE_PAPER):
            continue
        assert not [m for m in imported_modules(file) if f"{m}.".startswith("slgh.paper.")], file


def test_every_module_has_its_layer() -> None:
    names = {p.name.removesuffix(".py") for p in SOURCE.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    assert names - {"__init__"} == set(LEVEL)


MAY_IMPORT_TORCH_OR_JAX = ("backends", "attack", "paper", "integrations/optax", "integrations/torch")


def test_only_backends_and_optimizers_may_import_torch_or_jax() -> None:
    for file in SOURCE.rglob("*.py"):
        if file.relative_to(SOURCE).as_posix().startswith(MAY_IMPORT_TORCH_OR_JAX):
            continue
        assert not {"torch", "jax"} & {module.split(".")[0] for module in imported_modules(file)}, file


HEAVY = ["torch", "jax", "sympy", "matplotlib", "scipy"]


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import slgh", [*HEAVY, "numpy", "rich", "typer"]),
        ("import slgh; slgh.minimize", [*HEAVY[:-1], "rich", "typer"]),
        ("import slgh.cli", [*HEAVY, "numpy", "slgh.method", "slgh.paper"]),
        ("import slgh.cli.lists", [*HEAVY, "slgh.engine", "slgh.paper"]),
    ],
)
def test_what_is_not_needed_yet_is_not_imported(statement: str, absent: list[str]) -> None:
    code = f"{statement}; import sys; print(*[m for m in {absent} if m in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == ""


def test_functions_are_not_hidden_by_modules_of_the_same_name() -> None:
    code = "import slgh.minimize, slgh.probe, slgh; print(callable(slgh.minimize), callable(slgh.probe))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.split() == ["True", "True"]


def test_all_exports_and_submodules_are_found() -> None:
    code = "import slgh; print(*[hasattr(slgh, n) for n in (*slgh.__all__, 'engine', 'attack', 'nothing')])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.split() == ["True"] * (len(slgh.__all__) + 2) + ["False"]
    assert set(slgh.__all__) <= set(dir(slgh))


def test_what_all_tests_import_loads_neither_jax_nor_pytorch() -> None:
    code = "import sys, conftest, cases, libraries; print(*[m for m in ('jax', 'torch') if m in sys.modules])"
    command = [sys.executable, "-c", code]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parent).stdout
    assert loaded.strip() == ""


def test_test_modules_do_not_import_each_other() -> None:
    for file in Path(__file__).parent.glob("*.py"):
        assert not [module for module in imported_modules(file) if module.startswith("test_")], file
