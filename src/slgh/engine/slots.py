"""Some problems at a time (`batch_size`): those that wait begin in the places of those that have ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slgh.engine.compiled_step import Carry
from slgh.engine.state import map_leaves
from slgh.result import Status

if TYPE_CHECKING:
    from slgh.engine.run import Run


def waiting(run: Run) -> NDArray[np.intp]:
    """The problems that have not begun, in their order."""
    if run.batch_size is None:
        return run.active[:0]
    running = np.flatnonzero(run.status == Status.RUNNING)
    return running[~np.isin(running, run.active)]


def refill(run: Run) -> None:
    """Have problems that wait begin, in the places of those that have ended.

    They begin where a row of the history is due, so that every problem's rows are of the same of its iterations.
    """
    if run.batch_size is None or run.active.size == run.batch_size:
        return
    new = waiting(run)[: run.batch_size - run.active.size]
    if not new.size:
        return
    if not run.active.size:
        run.k += -run.k % run.history.stride
    if run.k % run.history.stride:
        return
    run.began[:, new] = np.array([[run.k], [run.nfev - run.looked], [run.njev]])
    if run.loop is not None:
        _seat(run, new)
    else:
        _append(run, new)
    run.mark()


def _append(run: Run, new: NDArray[np.intp]) -> None:
    """In the Python loop a batch may have any size: these problems come behind the others."""
    rows, concat = map_leaves(lambda leaf: run.backend.native(leaf[new]), run.whole), run.plan.ctx.xp.concat
    run.state = map_leaves(lambda there, more: concat([there, more], axis=0), run.state, rows)
    run.noise.join(new, run.k)
    run.members = run.active = run.rows = np.concatenate([run.members, new])


def _seat(run: Run, new: NDArray[np.intp]) -> None:
    """In a compiled loop the places stay: what is in them is overwritten, state, data and noise."""
    run.gather()
    slots = np.flatnonzero(run.status[run.members] != Status.RUNNING)[: new.size]
    run.members = run.members.copy()
    run.members[slots] = new
    run.active = run.rows = np.sort(np.concatenate([run.active, new]))
    at = run.backend.index(new)
    noise: Any = run.noise
    key = noise.rows(noise.everyone, new)
    key[:, 3] = run.k
    loop: Any = run.loop
    run.carry = loop.refill(slots, rows_of(run, new), tuple(a[at] for a in run.data), key)
    run.state = run.carry.state


def places_of(run: Run) -> NDArray[np.intp]:
    """The problems in a compiled loop: all; or one a place, those that have ended where there are too few others."""
    if run.batch_size is None:
        return np.arange(run.status.size)
    ended = np.flatnonzero(run.status != Status.RUNNING)
    return np.concatenate([run.active, ended[: run.batch_size - run.active.size]])


def rows_of(run: Run, rows: NDArray[np.intp]) -> Carry:
    """These of all problems of a run, for a compiled loop."""
    give = run.backend.give
    ended = run.history.ended
    columns = {"fun": run.seen["fun"], "t": run.seen["t"], "fun_best": run.whole.f_best, "x": run.seen["x"]}
    if run.plan.watch is not None:
        columns |= dict(zip(run.plan.watch.names, run.whole.watch, strict=True))
    nit = np.where(run.status == Status.RUNNING, run.k - run.began[0], run.counts[0])
    return Carry(
        map_leaves(lambda leaf: give(leaf[rows]), run.whole),
        give(run.status[rows].astype(np.int32)),
        give(nit[rows].astype(np.int32)),
        tuple(give(ended.get(name, columns[name])[rows]) for name in run.recorded),
    )
