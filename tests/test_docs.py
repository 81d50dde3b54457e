"""The site builds without warnings, its code runs and prints what it shows, and its commands work.

In a page, a fence `output` directly after a fence `python` is what that block prints (`...` matches anything). Lines of
a fence `sh` that begin with `slgh` are run.
"""

from __future__ import annotations

import contextlib
import doctest
import inspect
import io
import json
import re
import shlex
import subprocess
import sys
import zlib
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from sphinx.search import en as english
from typer.testing import CliRunner

import slgh
import slgh.attack
from slgh.cli import app
from slgh.method import METHODS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(page for page in DOCS.rglob("*.md") if "reproduced" not in page.parts)
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SHOWN = re.compile(r"\s*^```output\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """Block of code, its first line in the page, and the output shown for it."""

    kind: str
    code: str
    line: int
    shown: str | None


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text()
    for fence in FENCE.finditer(text):
        shown = SHOWN.match(text, fence.end())
        yield Block(fence[1], fence[2], text.count("\n", 0, fence.start(2)), None if shown is None else shown[1])


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    from matplotlib import pyplot as plt

    monkeypatch.chdir(tmp_path)
    plt.switch_backend("Agg")
    yield
    plt.close("all")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_the_code_of_a_page_runs_and_prints_what_it_shows(page: Path) -> None:
    names: dict[str, object] = {}
    for block in blocks(page):
        if block.kind == "python":
            printed = run_python("\n" * block.line + block.code, page, names)
            options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
            agrees = block.shown is None or doctest.OutputChecker().check_output(block.shown, printed, options)
            assert agrees, f"{page.name}, line {block.line + 1}, prints\n{printed}"
        elif block.kind in ("sh", "console"):
            for line in block.code.splitlines():
                run_command(line.removeprefix("$ "))


def run_python(code: str, page: Path, names: dict[str, object]) -> str:
    """Run a block with the names of the previous blocks of the page. Return its output."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(code, str(page), "exec"), names)
    return printed.getvalue()


def run_command(line: str) -> None:
    """Run a line of a shell block if it is an slgh command."""
    words = shlex.split(line, comments=True)
    if words[:1] == ["slgh"]:
        outcome = CliRunner().invoke(app, words[1:], catch_exceptions=False)
        assert outcome.exit_code == 0, f"{line}\n{outcome.output}"


def test_the_blocks_that_look_like_code_are_run() -> None:
    """Every block of code and every output has one of the names that are tested."""
    for page in PAGES:
        text = page.read_text()
        found = list(blocks(page))
        kinds = {block.kind for block in found if not block.kind.startswith("{")}
        assert kinds <= {"python", "sh", "console", "text", "bibtex", "output"}, page
        assert text.count("```output") == sum(block.shown is not None for block in found if block.kind == "python"), (
            page
        )


def test_every_method_is_explained() -> None:
    page = (DOCS / "choosing_a_method.md").read_text()
    assert [name for name in METHODS if f"`{name}`" not in page] == []


def test_the_files_that_pages_link_to_are_there() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", FENCE.sub("", page.read_text())):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_files_that_pages_name_are_there() -> None:
    for page in PAGES:
        for name in re.findall(r"`((?:src|docs|examples|benchmarks|tests)/[\w./]*)`", page.read_text()):
            assert (ROOT / name).exists(), f"{page.name}: {name}"


def test_the_ranks_on_the_benchmarks_page_are_those_of_coco() -> None:
    table = (DOCS / "coco.md").read_text().split("## Mean rank, test functions\n\n")[1].split("\n\n")[0]
    assert table.count("\n") > 10
    assert table in (DOCS / "benchmarks.md").read_text()


def test_the_rows_at_a_glance_are_those_of_the_tables() -> None:
    rows = re.findall(
        r"^\| (\w+) \| (.+?) \| (.+?) \| (.+?) \| .+ \|$", (DOCS / "experiments.md").read_text(), re.MULTILINE
    )
    written = set()
    for name in ("rosenbrock", "himmelblau", "ackley", "hole"):
        for line in (DOCS / "reproduced" / "tables" / f"{name}.md").read_text().splitlines():
            if line.startswith("| ") and "paper f" not in line:
                label, _, paper, _, ours, _ = (cell.strip() for cell in line.strip("|").split(" | "))
                written.add((name, label, paper, ours.replace("  ", " ")))
    assert set(rows[1:]) == written
    assert len(written) == 18


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    command = ["sphinx", "-W", "--keep-going", "-n", "-q", "-b", "html", "-d", str(tmp_path / "doctrees")]
    found = subprocess.run(
        [sys.executable, "-m", *command, str(DOCS), str(tmp_path / "site")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert public_names() - documented_names(tmp_path / "site") == set()
    assert {"citing"} <= pages_found("cite", tmp_path / "site")
    assert {"citing"} <= pages_found("bibtex", tmp_path / "site")
    assert {"faq", "recipes"} <= pages_found("noisy", tmp_path / "site")


def public_objects() -> list[Any]:
    """Return the public classes and functions, without exceptions and enumerations, which are not called by users."""
    modules = [slgh, slgh.attack, *(m for name in slgh.__all__ if isinstance(m := getattr(slgh, name), ModuleType))]
    found = {id(each): each for m in modules for name in m.__all__ if callable(each := getattr(m, name))}
    return [o for o in found.values() if not (isinstance(o, type) and issubclass(o, Exception | Enum))]


@pytest.mark.parametrize("documented", public_objects(), ids=lambda each: each.__name__)
def test_every_public_parameter_is_documented(documented: Any) -> None:
    """The site adds types and defaults from the signature. Fields of a result are listed as attributes."""
    lines = (inspect.getdoc(documented) or "").splitlines()
    listed = {name.strip().lstrip("\\*") for line in lines if line[:1].strip() for name in line.split(",")}
    # A class that another test has made an actor of Ray keeps a parameter of Ray.
    assert set(inspect.signature(documented).parameters) - {"entries", "_ray_trace_ctx"} <= listed


def public_names() -> set[str]:
    """Return the names that `slgh` and its public modules list in __all__."""
    names = {f"slgh.{name}" for name in slgh.__all__}
    modules = [module for name in slgh.__all__ if isinstance(module := getattr(slgh, name), ModuleType)]
    inside = {f"{m.__name__}.{name}" for m in modules for name in m.__all__ if name not in slgh.__all__}
    return names | inside


def documented_names(site: Path) -> set[str]:
    """Return the names in the site's inventory: four lines of text, then compressed ones."""
    listed = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    return {line.split()[0] for line in zlib.decompress(listed).decode().splitlines()}


def pages_found(word: str, site: Path) -> set[str]:
    """Pages that the site's search lists for a word. The search compares stems, in titles and in the text."""
    stem = english.SearchEnglish({}).stem(word)
    index = json.loads((site / "searchindex.js").read_text().removeprefix("Search.setIndex(").removesuffix(")"))
    hits = [index[where].get(stem, []) for where in ("titleterms", "terms")]
    return {index["docnames"][page] for found in hits for page in (found if isinstance(found, list) else [found])}
