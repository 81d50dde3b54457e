"""The list of all targets."""

from __future__ import annotations

import importlib
from importlib.util import find_spec

from fuzz.target import Target

NAMES = (
    *("runs", "auto", "asktell", "resume", "arguments", "probe", "theory", "torch_runs", "jax_runs", "attack"),
    *("kills", "interrupts", "checkpoints", "formulas", "concurrency"),
)
"""Modules of this folder, each with an object TARGET."""


def available() -> list[str]:
    """Return the names of the available targets."""
    return [name for name in NAMES if find_spec(f"fuzz.{name}") is not None]


def load(name: str) -> Target:
    """Import the target `name`."""
    target: Target = importlib.import_module(f"fuzz.{name}").TARGET
    return target
