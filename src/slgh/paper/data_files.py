"""Read the data files that ship with the package."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Any


def read_toml(package: str, name: str) -> dict[str, Any]:
    """Return the content of a TOML file in the folder of a package."""
    return tomllib.loads(files(package).joinpath(name).read_text(encoding="utf-8"))
