"""Search spaces in a run: the engine minimizes over z in the unit cube, and the user sees trees of values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult

from slgh import checks
from slgh.engine.objective import is_closed_form
from slgh.space import Space
from slgh.space.tree import is_tree_of_parameters

POINTS = ("x", "x_best", "xhat")
"""Entries of a Result that are points."""


@dataclass(frozen=True)
class TreeFunction:
    """The user's function of a tree, as a function of z. It is an object so that it can be pickled."""

    fun: Callable[..., Any]
    space: Space

    @classmethod
    def of(cls, fun: Any, space: Space) -> TreeFunction:
        """Return a TreeFunction, or raise if `fun` is not a function."""
        if is_closed_form(fun):
            raise checks.ArgumentTypeError(f"`fun` is not possible with a search space: {WHY_NOT['fun']}")
        if not callable(fun):
            raise checks.ArgumentTypeError(f"`fun` must be callable with a search space, got {fun!r}.")
        return cls(fun, space)

    def __call__(self, z: Any, *args: Any) -> Any:
        return self.fun(self.space.decode(z), *args)


def read_space(x0: Any, start: Any, **others: Any) -> Space | None:
    """Return the search space that x0 is, or None for an array. `others` are arguments that a space excludes."""
    if not (isinstance(x0, Space) or is_tree_of_parameters(x0)):
        if start is not None:
            raise checks.ArgumentValueError(
                "`start` belongs to a search space of slgh.space, but `x0` is none. Pass the start as `x0`."
            )
        return None
    for name, value in others.items():
        if value is not None and value is not False:
            raise checks.ArgumentValueError(f"`{name}` is not possible with a search space: {WHY_NOT[name]}")
    return x0 if isinstance(x0, Space) else Space(x0)


def read_tree_start(space: Space, start: Any) -> Any:
    """Return the relaxed point (d,) of a start: a tree of values, the Result of a search space, or None."""
    if isinstance(start, OptimizeResult):
        if not {"x", "z"} <= start.keys():
            raise checks.ArgumentValueError(
                "`start` must be the result of a search space, but this one has none: its x is an array. Pass a tree "
                "of values like the space."
            )
        start = start.x
    return space.encode_start(start)


WHY_NOT = {
    "bounds": "its parameters have bounds. Omit `bounds`.",
    "grad": "f has no gradient in its relaxed variables. Omit `grad`.",
    "gradients": "f has no gradient in its relaxed variables. Omit `gradients`.",
    "vectorized": "fun gets one tree of values per call. Omit `vectorized`, and use `workers` for parallel calls.",
    "batched": "there is one problem. Omit `batched`, and call minimize once per problem.",
    "starts": "its points are trees of values. Pass one as `start`.",
    "known": "its points are trees of values. Pass one as `start`.",
    "watch": "fun must return one number. Omit `watch`.",
    "fun": "its homotopy is that of the relaxed variables. Pass a function instead of a closed form.",
}
"""Arguments that a search space excludes, with the reason and what to do."""


def with_trees(space: Space | None, entries: dict[str, Any]) -> dict[str, Any]:
    """Return entries of a Result with the points as trees of values, and the relaxed solution as "z"."""
    if space is None:
        return entries
    points = {name: space.decode(entries[name]) for name in POINTS if name in entries}
    return entries | points | {"z": np.asarray(entries["x"])}
