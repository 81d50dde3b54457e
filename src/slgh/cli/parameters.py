"""The parts of a method and their hyperparameters."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from slgh.cli.declaration import Role, flags, values_of
from slgh.cli.errors import fail
from slgh.cli.options import RunOptions
from slgh.cli.parse import read_value
from slgh.method import METHODS, SLOTS

PAPER_PROBLEMS = ("ackley", "himmelblau", "hole", "rosenbrock")
"""Test problems of the paper's experiments, which have its parameters."""


def parts_of(method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the classes of a method's parts by slot, with the replacements in `params` that have a name."""
    chosen = {slot: (params or {}).get(slot, getattr(METHODS[method], slot)) for slot in SLOTS}
    return {slot: SLOTS[slot][name] for slot, name in chosen.items() if name in SLOTS[slot]}


def fields_of(method: str, params: Mapping[str, Any]) -> set[str]:
    """Return the hyperparameters that the parts of a method take."""
    return {field.name for part in parts_of(method, params).values() for field in dataclasses.fields(part)}


def read_parameters(options: RunOptions, function: Callable[..., Any]) -> dict[str, Any]:
    """Return the hyperparameters: those with an option, and those of --set.

    --set does not take the other arguments of the library's function.
    """
    params = {name: value for name, value in values_of(options, Role.PARAMETER).items() if value is not None}
    for setting in options.settings:
        name, sign, text = setting.partition("=")
        name = name.strip()
        if not (sign and name.isidentifier() and text.strip()):
            fail(f"--set must be NAME=VALUE, such as --set update=adam; got {setting!r}.")
        if name in params:
            fail(f"--set {name}: {name} is given twice. Remove one.")
        if name in inspect.signature(function).parameters:
            own = flags(type(options))
            instead = f"Pass {own[name]}" if name in own else "The command line does not support it"
            fail(f"--set {name}: {name} is not a hyperparameter. {instead}.")
        params[name] = read_value(text.strip())
    return params
