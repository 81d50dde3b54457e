"""Reads what is run from `settings.toml`: the cells of the table, and the methods with their settings."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from coco_study import peers
from coco_study.watched import Run

FILE = Path(__file__).with_name("settings.toml")
FLAGS = ("planned", "linear", "weight")
"""What a method's table says about it; all else are its settings."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A suite in d variables, with budgets in multiples of d; `linear`: only methods whose cost is linear in d."""

    suite: str
    d: int
    budgets: tuple[int, ...]
    linear: bool = False


@dataclass(frozen=True, kw_only=True)
class Method:
    """A function of `peers` with its settings.

    `planned`: it goes about it otherwise with another budget. If not, one run shows all budgets. `linear`: its cost
    an evaluation is linear in d. `weight`: about how many times slower than the others it is, to begin it first.
    """

    name: str
    run: str
    planned: bool
    linear: bool
    weight: float = 1.0
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def ours(self) -> bool:
        """Whether its results depend on this repository's code."""
        return self.run in ("slgh", "paper")

    @property
    def digest(self) -> str:
        """What tells its settings apart."""
        said = json.dumps([self.run, self.settings], sort_keys=True)
        return hashlib.sha256(said.encode()).hexdigest()[:8]

    def bound(self) -> Run:
        """The function to call."""
        return partial(getattr(peers, self.run), **self.settings)


def read_cells(file: Path = FILE) -> list[Cell]:
    """The cells of the table, in its order."""
    return [Cell(**{**cell, "budgets": tuple(cell["budgets"])}) for cell in _read(file)["cells"]]


def read_methods(variants: Iterable[str] = (), file: Path = FILE) -> dict[str, Method]:
    """All methods of the file, and variants of them: TOML such as `mine = {like = "slgh", samples = 3}`."""
    tables = {name: dict(table) for name, table in _read(file)["methods"].items()}
    for text in variants:
        try:
            tables |= tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ValueError(
                f'`variant` must be TOML such as mine = {{like = "slgh"}}, got {text!r}: {error}.'
            ) from None
    methods: dict[str, Method] = {}
    for name, table in tables.items():
        methods[name] = _method(name, table, methods)
    return methods


def _method(name: str, table: dict[str, Any], known: dict[str, Method]) -> Method:
    """The method of a TOML table."""
    if not re.fullmatch(r"[\w.+=@-]+", name):
        raise ValueError(f"A method's name is part of a file's: letters, digits and -_.+=@, got {name!r}.")
    table = dict(table)
    if "like" in table:
        base = pick(known, [table.pop("like")])[0]
        flags = {key: table.pop(key) for key in FLAGS if key in table}
        return replace(base, name=name, settings=base.settings | table, **flags)
    run = table.pop("run", None)
    if run is None or not hasattr(peers, run):
        raise ValueError(f"`run` of {name} must be a function of coco_study/peers.py, or give `like`; got run={run!r}.")
    flags = {key: table.pop(key) for key in FLAGS if key in table}
    return Method(name=name, run=run, settings=table, **flags)


def pick(methods: dict[str, Method], names: Iterable[str]) -> list[Method]:
    """Methods by their names."""
    names = list(names)
    for name in names:
        if name not in methods:
            raise ValueError(f"`methods` has no {name!r}. Choose from {', '.join(methods)}.")
    return [methods[name] for name in names]


def labeled(method: Method, label: str) -> Method:
    """Our method, or a variant of it, under a name that tells which version of the code ran."""
    return replace(method, name=f"{method.name}@{label}") if label and method.run == "slgh" else method


def store(name: str, found: dict[str, Any], file: Path = FILE) -> None:
    """Write values into a method's table, and leave comments and all else as they are."""
    head = f"[methods.{name}]"
    before, _, rest = file.read_text().partition(head)
    table, new_table, after = rest.partition("\n[")
    for key, value in found.items():
        table, changed = re.subn(rf"(?m)^({re.escape(key)} = )[^#\n]*?([ ]*(#.*)?)$", rf"\g<1>{value!r}\g<2>", table)
        if changed != 1:
            raise ValueError(f"`{key}` must stand once in {head} of {file}, found {changed} times.")
    file.write_text(before + head + table + new_table + after)


def _read(file: Path) -> dict[str, Any]:
    return tomllib.loads(file.read_text())
