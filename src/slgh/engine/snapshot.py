"""Content of a checkpoint: how a run is saved, checked and loaded.

The header (`Meta`) has numbers. The arrays come in groups: "state" is the state of all problems, and every other group
belongs to an object that saves and loads itself.
"""

from __future__ import annotations

import logging
import math
import os
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from slgh.checks import ArgumentFileError, ArgumentTypeError
from slgh.engine.checkpoint import Arrays, Checkpoint, expect, read, refuse_damaged, refuse_other_run, resolve, write
from slgh.engine.config import RunConfig
from slgh.engine.state import RunState, from_arrays, to_arrays
from slgh.engine.termination import LARGEST_LIMIT, Status
from slgh.files import remove_stale

logger = logging.getLogger(__name__)

COUNTS = ("status", "counts", "began")
"""Arrays of a RunState over all problems."""


class Meta(NamedTuple):
    """Header of a checkpoint."""

    identity: dict[str, Any]
    """Properties that the run must share."""
    seed: Any
    k: int
    nfev: int
    njev: int
    seconds: float
    stride: int
    """Distance between two rows of the history."""
    masked: bool
    """True if a compiled loop has met a value that is not finite."""


class Snapshot(NamedTuple):
    """Content of a checkpoint."""

    name: str
    """Name of the file, for messages."""
    meta: Meta
    arrays: Arrays


# The header comes from a file that is not trusted: `type(...) is int` excludes bool.


def _is_count(value: Any, least: int = 0) -> bool:
    return type(value) is int and least <= value <= LARGEST_LIMIT


def _is_seed(value: Any) -> bool:
    seeds = value if type(value) is list else [value]
    return all(type(seed) is int and seed >= 0 for seed in seeds)


def _is_identity(value: Any) -> bool:
    batch_size = value.get("batch_size")
    return batch_size is None or _is_count(batch_size["problems"], 1)


META_RULES: dict[str, Callable[[Any], bool]] = {
    "identity": _is_identity,
    "seed": _is_seed,
    "k": _is_count,
    "nfev": _is_count,
    "njev": _is_count,
    "seconds": lambda value: type(value) in (int, float) and 0 <= value < math.inf,
    "stride": lambda value: _is_count(value, 1),
    "masked": lambda value: type(value) is bool,
}
"""Checks of the entries of Meta."""


def read_meta(found: dict[str, Any]) -> Meta:
    """Return the header of a checkpoint file, or raise ValueError if one of its entries is invalid."""
    for name, rule in META_RULES.items():
        if not rule(found[name]):
            raise ValueError(f"its header says {name} = {found[name]!r}")
    return Meta(**{name: found[name] for name in Meta._fields})


class Saver:
    """Writer of a run's checkpoints."""

    def __init__(self, settings: Checkpoint) -> None:
        self.settings = settings
        self.name = os.fsdecode(settings.path)
        """The path as the user wrote it, for messages."""
        self.path = resolve(settings.path)
        self.found: Snapshot | None = None
        """The checkpoint that was there at the beginning."""
        if (found := read(settings.path)) is not None:
            with refuse_damaged(self.name):
                self.found = Snapshot(self.name, read_meta(found[0]), found[1])
        self.last_time = time.monotonic()
        self.last_k = 0
        self.warned = False
        self.failure = ""
        """Why the last attempt to save failed, if it did."""
        remove_stale(self.path)

    def due(self, k: int) -> bool:
        """Return True if it is time to save after iteration k."""
        every = self.settings.every_iterations
        return (every is not None and k - self.last_k >= every) or (
            time.monotonic() - self.last_time >= self.settings.every_seconds
        )

    def save(self, meta: Meta, arrays: Arrays, *, first: bool = False) -> bool:
        """Write a checkpoint, and return True if that succeeded.

        If the `first` one fails, raise OSError. If a later one fails, warn once, and let the run continue.
        """
        self.failure = ""
        try:
            write(self.path, meta._asdict(), arrays)
        except OSError as error:
            if first:
                # The file in the error is a temporary one, which means nothing to the user.
                why = (
                    f"{self.path.parent} is not a folder" if not self.path.parent.is_dir() else error.strerror or error
                )
                raise ArgumentFileError(
                    f"`checkpoint` must be a file that can be written, got {self.name!r}: {why}."
                ) from error
            self.failure = str(error)
            if not self.warned:
                self.warned = True
                _warn(
                    f"The checkpoint {self.name!r} could not be written ({error}); the run goes on and the last "
                    "complete checkpoint stays."
                )
        if not self.failure:
            logger.info("Saved iteration %d in %s", meta.k, self.name)
        self.last_time, self.last_k = time.monotonic(), meta.k
        return not self.failure


def _warn(message: str) -> None:
    """Warn, but never raise: a checkpoint that cannot be written must cost neither the result nor fun's exception."""
    try:
        warnings.warn(message, RuntimeWarning, stacklevel=3)
    except RuntimeWarning:  # the user has turned warnings into errors
        print(f"RuntimeWarning: {message}", file=sys.stderr)


def read_settings(checkpoint: Any) -> Checkpoint:
    """Return a Checkpoint from one, or from a path."""
    if isinstance(checkpoint, Checkpoint):
        return checkpoint
    if not isinstance(checkpoint, str | os.PathLike):
        raise ArgumentTypeError(f"`checkpoint` must be a path or a Checkpoint, got {checkpoint!r}.")
    return Checkpoint(path=checkpoint)


def open_checkpoint(checkpoint: Any) -> Saver:
    """Return the Saver of a path or a Checkpoint."""
    return Saver(read_settings(checkpoint))


def collect(state: RunState, groups: dict[str, Arrays]) -> Arrays:
    """Return all arrays of a checkpoint. `state.full` must be up to date."""
    return {
        **{f"state.{name}": a for name, a in to_arrays(state.full).items()},
        "active": state.active,
        **{name: getattr(state, name) for name in COUNTS},
        **{f"{group}.{name}": a for group, arrays in groups.items() for name, a in arrays.items()},
    }


def group_of(arrays: Arrays, group: str) -> Arrays:
    """Return the arrays of one group."""
    prefix = f"{group}."
    return {name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)}


def load_state(meta: Meta, arrays: Arrays, state: RunState) -> RunState:
    """Return the saved state, for a run whose first state is `state`. Only host arrays are set."""
    active = arrays["active"]
    named: dict[str, Any] = {name: arrays[name] for name in COUNTS}
    named |= {"k": meta.k, "nfev": meta.nfev, "njev": meta.njev}
    full = from_arrays(group_of(arrays, "state"), like=state.full)
    return state._replace(full=full, members=active, active=active, **named)


def check_arrays(arrays: Arrays, fresh: Arrays) -> None:
    """Raise ValueError unless a checkpoint has the names and shapes of `fresh`, the arrays of this run's start."""
    optional = ("ended.", "answers.")
    if odd := {n for n in fresh.keys() ^ arrays.keys() if not n.startswith(optional)}:
        raise ValueError(f"its arrays are not those of this run: {', '.join(sorted(odd))}")
    for name, like in fresh.items():
        if name.startswith(("state.", "position.")) or name in COUNTS:
            # A part of the user's own may change the dtype of its memory.
            own = name.startswith("state.") and name.count(".") > 1
            expect(arrays, name, like.shape, "biuf" if own else like.dtype.kind)
    active, status = expect(arrays, "active", (None,), "i"), arrays["status"]
    if not np.isin(status, list(Status)).all() or (arrays["counts"] < 0).any() or (arrays["began"] < 0).any():
        raise ValueError("its status or counts of the problems are invalid")
    running = np.flatnonzero(status == Status.RUNNING)
    if np.unique(active).size < active.size or not np.isin(active, running).all():
        raise ValueError("its active problems are not those that run")


def is_begun(meta: Meta, config: RunConfig, name: str) -> bool:
    """Return True to continue a checkpoint. Raise OtherRun if it belongs to another run.

    A checkpoint without any iteration whose batch_size differs is not continued: the run starts again.
    """
    before = meta.identity.get("batch_size")
    begun = meta.k > 0 or before == config.identity["batch_size"]
    current = config.identity if begun else config.identity | {"batch_size": before}
    refuse_other_run(name, meta.identity, current)
    return begun


def saved_batch_size(path: str | os.PathLike[str]) -> int | None:
    """Return the `batch_size` of the run saved in a checkpoint, or None if there is no file or it had no limit."""
    found = read(path)
    if found is None:
        return None
    with refuse_damaged(path):
        saved = read_meta(found[0]).identity.get("batch_size")
        return None if saved is None else int(saved["problems"])
