"""Read the cells of the tables and the methods with their settings from `settings.toml`."""

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
FLAGS = ("planned", "linear", "weight", "max_d", "max_evals")
"""Keys of a method's table that describe it. All other keys are its settings."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A suite in d variables, with budgets in multiples of d.

    Parameters
    ----------
    linear
        Run only methods whose cost is linear in d.
    instances
        Run only these instances. By default all.
    """

    suite: str
    d: int
    budgets: tuple[int, ...]
    linear: bool = False
    instances: tuple[int, ...] | None = None

    def among(self, instances: Iterable[int]) -> tuple[int, ...]:
        """Return those of the instances that the cell has."""
        return tuple(i for i in instances if self.instances is None or i in self.instances)


@dataclass(frozen=True, kw_only=True)
class Method:
    """A function of `peers` with its settings.

    Parameters
    ----------
    planned
        The method behaves differently with another budget. If False, one run covers all budgets.
    linear
        The cost per evaluation is linear in d.
    weight
        Approximate slowdown relative to the other methods. Slow methods are started first.
    max_d, max_evals
        Largest dimension, and largest budget in evaluations. By default there is no limit.
    """

    name: str
    run: str
    planned: bool
    linear: bool
    weight: float = 1.0
    max_d: int | None = None
    max_evals: int | None = None
    settings: dict[str, Any] = field(default_factory=dict)

    def runs_in(self, cell: Cell) -> bool:
        """Return True if the method can run in the dimension of a cell."""
        return (self.linear or not cell.linear) and (self.max_d is None or cell.d <= self.max_d)

    @property
    def depends_on_slgh(self) -> bool:
        """True if the results depend on the code of this repository."""
        return self.run in ("slgh", "paper")

    @property
    def digest(self) -> str:
        """Digest of the settings."""
        said = json.dumps([self.run, self.settings], sort_keys=True)
        return hashlib.sha256(said.encode()).hexdigest()[:8]

    def bound(self) -> Run:
        """Return the function to call."""
        return partial(getattr(peers, self.run), **self.settings)


def read_cells(file: Path = FILE) -> list[Cell]:
    """Read the cells of the tables, in their order."""
    return [Cell(**_with_tuples(cell)) for cell in _read(file)["cells"]]


def _with_tuples(table: dict[str, Any]) -> dict[str, Any]:
    """Replace lists by tuples."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}


def read_methods(variants: Iterable[str] = (), file: Path = FILE) -> dict[str, Method]:
    """Read all methods of the file, and variants of them: TOML such as `mine = {like = "slgh", samples = 3}`."""
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
    """Return the method that a TOML table describes."""
    if not re.fullmatch(r"[\w.+=@-]+", name):
        raise ValueError(
            f"A method's name may contain letters, digits and -_.+=@, because files are named after it, got {name!r}."
        )
    table = dict(table)
    if "like" in table:
        base = pick(known, [table.pop("like")])[0]
        flags = {key: table.pop(key) for key in FLAGS if key in table}
        return replace(base, name=name, settings=base.settings | table, **flags)
    run = table.pop("run", None)
    if run is None or not hasattr(peers, run):
        raise ValueError(
            f"`run` of {name} must be a function of coco_study/peers.py, got {run!r}. For a variant, set `like`."
        )
    flags = {key: table.pop(key) for key in FLAGS if key in table}
    return Method(name=name, run=run, settings=table, **flags)


def pick(methods: dict[str, Method], names: Iterable[str]) -> list[Method]:
    """Return the methods with these names."""
    names = list(names)
    for name in names:
        if name not in methods:
            raise ValueError(f"`methods` has no {name!r}. Choose from {', '.join(methods)}.")
    return [methods[name] for name in names]


def labeled(method: Method, label: str) -> Method:
    """Return slgh, or a variant of it, with the version in its name. Other methods are returned unchanged."""
    return replace(method, name=f"{method.name}@{label}") if label and method.run == "slgh" else method


def store(name: str, found: dict[str, Any], file: Path = FILE) -> None:
    """Write values into a method's table. Comments and everything else stay unchanged."""
    head = f"[methods.{name}]"
    before, _, rest = file.read_text().partition(head)
    table, new_table, after = rest.partition("\n[")
    for key, value in found.items():
        table, changed = re.subn(rf"(?m)^({re.escape(key)} = )[^#\n]*?([ ]*(#.*)?)$", rf"\g<1>{value!r}\g<2>", table)
        if changed != 1:
            raise ValueError(f"`{key}` must occur once in {head} of {file}, but it occurs {changed} times.")
    file.write_text(before + head + table + new_table + after)


def _read(file: Path) -> dict[str, Any]:
    return tomllib.loads(file.read_text())
