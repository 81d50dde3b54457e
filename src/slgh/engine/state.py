"""What one iteration hands to the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from slgh.protocols import Array, Leaves


class State(NamedTuple):
    """The state of B problems: arrays with leading axis B, and tuples of such for the parts' own memory."""

    x: Array
    """(B, d) the iterate."""
    t: Array
    """(B,) the smoothing radius."""
    oracle: Leaves
    schedule: Leaves
    update: Leaves
    floor: Array
    """(B,) the least t."""
    x_best: Array
    """(B, d) the best evaluated point, and f there."""
    f_best: Array
    xhat: Array
    """(B, d) the iterate that the theorems speak of, (B,) its gradient norm, (B,) the index drawn for it."""
    xhat_norm: Array
    xhat_at: Array
    tail: Leaves
    """(B, d) the sum of the last iterates, where their mean is reported; else nothing."""
    bad: Array
    """(B,) iterations in a row that learned nothing."""
    rejected: Array
    """(B,) samples dropped so far."""
    worst: Array
    """(B,) the worst finite value seen."""
    watch: Leaves
    """What the user's Watch remembers."""


def map_leaves(fun: Callable[..., Any], *states: State) -> State:
    """Apply `fun` to the corresponding arrays of states."""
    return State(
        *(
            tuple(fun(*leaves) for leaves in zip(*fields, strict=True))
            if isinstance(fields[0], tuple)
            else fun(*fields)
            for fields in zip(*states, strict=True)
        )
    )


def to_arrays(state: State) -> dict[str, Array]:
    """The arrays of a state by name, those of tuples numbered."""
    named: dict[str, Array] = {}
    for name, field in state._asdict().items():
        if isinstance(field, tuple):
            named |= {f"{name}.{i}": leaf for i, leaf in enumerate(field)}
        else:
            named[name] = field
    return named


def from_arrays(named: dict[str, Array], like: State) -> State:
    """The inverse of `to_arrays`, for a state of the same structure as `like`."""
    return State(
        *(
            tuple(named[f"{name}.{i}"] for i in range(len(field))) if isinstance(field, tuple) else named[name]
            for name, field in like._asdict().items()
        )
    )
