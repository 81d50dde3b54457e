"""The code passes ruff and mypy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


COMMANDS = [
    ["ruff", "check", "--no-cache"],
    ["ruff", "format", "--check", "--no-cache"],
    pytest.param(["mypy"], marks=pytest.mark.slow),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_style(command: list[str]) -> None:
    found = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
