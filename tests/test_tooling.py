"""The lists of versions agree with each other."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOWEST_EXTRAS = ("plot", "formula", "jax")


def requirements(lines: list[str], separator: str) -> dict[str, str]:
    """Map names to versions. Comments and references to other extras are skipped."""
    found = (re.match(rf"([\w-]+){separator}([\d.]+)", line) for line in lines)
    return {match[1]: match[2] for match in found if match}


def test_the_lowest_tested_versions_are_the_lower_bounds() -> None:
    extras = PROJECT["optional-dependencies"]
    declared = PROJECT["dependencies"] + [line for name in LOWEST_EXTRAS for line in extras[name]]
    pinned = (ROOT / "constraints-lowest.txt").read_text().splitlines()
    assert requirements(pinned, "==") == requirements(declared, ">=")


def test_the_lowest_versions_are_installed_with_their_extras() -> None:
    assert f'".[{",".join(LOWEST_EXTRAS)}]"' in (ROOT / "tools" / "test-lowest").read_text()


def test_every_supported_python_has_a_classifier_and_a_job() -> None:
    versions = [name.rsplit(" ", 1)[1] for name in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", name)]
    assert PROJECT["requires-python"] == f">={versions[0]}"
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text()
    listed = ", ".join(f'"{version}"' for version in versions)
    assert f"python: [{listed}]" in workflow


def test_the_version_to_cite_is_the_version_of_the_package() -> None:
    assert f"\nversion: {PROJECT['version']}\n" in (ROOT / "CITATION.cff").read_text()


@pytest.mark.slow
def test_no_module_of_the_fast_lane_loads_a_heavy_library() -> None:
    command = [sys.executable, "-m", "pytest", "-m", "not slow", "--collect-only", "-q", "-p", "no:cacheprovider"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=250, check=False)
    assert found.returncode == 0, found.stdout[-2000:] + found.stderr[-2000:]
