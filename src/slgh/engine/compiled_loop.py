"""The compiled loop: blocks of iterations, which the host sees when they come back."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slgh.backends.protocols import Loop, Records
from slgh.engine.compiled_step import Advance, Carry, Inputs, Program
from slgh.engine.history import Row
from slgh.engine.objective import Pointwise, Vectorized
from slgh.engine.slots import places_of, rows_of, waiting
from slgh.engine.static_args import split
from slgh.protocols import Array
from slgh.result import Status

if TYPE_CHECKING:
    from slgh.engine.run import Run

BLOCK_SECONDS = 0.05
"""About how long a block takes: limits in seconds, Ctrl-C and the progress bar wait for its end."""


def compile_loop(
    run: Run, functions: Vectorized | Pointwise, data: tuple[Array, ...], *, compiled: bool | None, python: str
) -> Vectorized | Pointwise:
    """Have the run go on in a compiled loop where there is one, and return the functions as it calls them.

    `compiled` True demands it, False forbids it; `python` is a reason against it, where there is one.
    """
    if compiled is not None and not isinstance(compiled, bool):
        raise TypeError(f"`compiled` must be True, False or None, got {compiled!r}.")
    if compiled is False or (compiled is None and not run.backend.compiles):
        return functions
    found: Loop | str = python or f"{run.backend.name} arrays have no compiled loop"
    if run.backend.compiles and not python:
        run.members, run.data = places_of(run), data
        carry, mapped = rows_of(run, run.members), functions
        run.noise.seat(run.members, run.began[0, run.members])  # type: ignore[attr-defined]
        if run.batch_size is not None:
            at = run.backend.index(run.members)
            data = tuple(a[at] for a in data)
        if isinstance(mapped, Pointwise):
            mapped = mapped.mapped(data=len(data), xi=run.plan.ctx.stochastic)
        found = run.backend.compile(*_program(run, mapped, data), carry, run.noise)
        if not isinstance(found, str):
            run.loop, run.carry, run.state = found, carry, carry.state
            run.engine = found.engine
            return mapped if run.portfolio is None else found.asked_often(mapped)
        run.members = run.active
        run.noise.seat(run.members, run.began[0, run.members])  # type: ignore[attr-defined]
    if compiled:
        raise ValueError(f"`compiled=True` is not possible here: {found}.")
    run.why = f"In a Python loop: {found}."
    return functions


def _program(run: Run, functions: Vectorized, data: tuple[Array, ...]) -> tuple[Program, Inputs]:
    """What to compile, and the numbers it takes."""
    plan = run.plan
    method = plan.method
    if method.planned:
        assert run.iterations is not None
        method = method.over(float(run.iterations))
    structure, numbers = split((method, functions.args))
    program = Program(
        structure=structure,
        functions=dataclasses.replace(functions, args=()),
        ctx=plan.ctx,
        watch=plan.watch,
        columns=run.recorded,
        penalize=plan.penalize,
        period=method.oracle.period,
        careful=run.careful,
        limit=None if run.batch_size is None else run.limit,
        ends=run.batch_size is not None
        or run.limits.target is not None
        or run.active.size < run.status.size
        or (plan.watch is not None and plan.watch.ends),
    )
    return program, Inputs(tuple(numbers), data, plan.box, run.limits.target, plan.tail_from, run.iterations)


def advance(run: Run) -> Generator[Advance, Any, None]:
    """A block of iterations of all problems, and what follows from it."""
    loop, carry, k = run.loop, run.carry, run.k
    assert loop is not None
    assert carry is not None
    n, began, host = _fitting(run, loop, carry), time.monotonic(), run.backend.host
    stood = host(carry.state.x) if run.callback else None
    after, records, sound = yield Advance(carry, k, n, run.history.stride)
    if sound < n:
        n = sound
        if n:
            after, records, _ = yield Advance(carry, k, n, run.history.stride)
        run.careful, run.loop = True, loop.careful(after if n else carry)
    if not n:
        return
    carry = after
    status, nit = host(carry.status), host(carry.nit)
    taken = time.monotonic() - began
    run.pace = int(min(max(BLOCK_SECONDS * n / max(taken, 1e-9), run.pace / 2), 2 * run.pace)) or 1
    used = _evaluations(run, loop, k, k + n)
    members, live = run.members, run.status[run.members] == Status.RUNNING
    upto = nit + run.began[0, members]
    run.k = int(upto[live].max())
    run.nfev, run.njev = (int(number) for number in used[run.k - k - 1])
    run.carry, run.state = carry, carry.state
    run.mark()
    _record(run, k, used, records)
    for name, column in zip(run.history.columns, carry.seen, strict=False):
        last = run.inside(host(column)) if name == "x" else host(column)
        there = run.history.ended.get(name, np.zeros((run.status.size, *last.shape[1:]), last.dtype))
        run.history.ended[name] = run.spread(there, last)
    run.history.closed[members] = True
    over = live & (status != Status.RUNNING)
    ended = members[over]
    run.status[ended] = status[over]
    run.counts[0, ended], run.counts[1:, ended] = nit[over], used[upto[over] - k - 1].T - run.began[1:, ended]
    stopped, iterated = False, run.active
    run.active = run.rows = np.sort(members[status == Status.RUNNING])
    if stood is not None:
        x = run.seen["x"].copy()
        x[iterated] = stood[iterated]
        stopped = run.called_back(x, *(host(column) for column in carry.seen[:2]))
    if not run.active.size:
        run.gather()
    run.after_contact(stopped=stopped)


def _fitting(run: Run, loop: Loop, carry: Carry) -> int:
    """How many iterations to do before the host looks again: one that fits is known to fit."""
    if run.callback is not None:
        return 1
    n = min(run.pace, loop.longest(carry, run.k, run.history.stride))
    limits = run.limits
    together = run.batch_size is None
    if not together and waiting(run).size and run.active.size != run.batch_size:
        n = min(n, run.history.stride - run.k % run.history.stride)
    if together and limits.max_iter is not None:
        n = min(n, limits.max_iter - run.k)
    if together and limits.max_evals is not None:
        used = _evaluations(run, loop, run.k, run.k + n).sum(axis=1)
        n = int(np.searchsorted(used, limits.max_evals - run.reserve, side="right"))
    if run.portfolio is not None and run.portfolio.until is not None:
        n = min(n, run.portfolio.until - run.k)
    if run.saver and run.saver.settings.every_iterations is not None:
        n = min(n, run.saver.last_k + run.saver.settings.every_iterations - run.k)
    return max(n, 1)


def _evaluations(run: Run, loop: Loop, start: int, stop: int) -> NDArray[np.int64]:
    """nfev and njev after each of the iterations start..stop-1, (stop - start, 2)."""
    kinds = loop.evaluations
    first = np.arange(start, stop) % run.plan.method.oracle.period == 0
    each = np.where(first[:, None], kinds[True], kinds.get(False, kinds[True]))
    return np.asarray(np.cumsum(each, axis=0) + np.array([run.nfev, run.njev]))


def _record(run: Run, k: int, used: NDArray[np.int64], records: Records) -> None:
    """Put the rows of a block that began with iteration k into the history."""
    history = run.history
    wanted = list(range(-k % history.stride, run.k - k, history.stride))
    if not wanted or not history.limit:
        return
    for i, *row in zip(wanted, *records(wanted), strict=True):
        if history.wants(k + i):
            figures = dict(zip(history.columns, row, strict=True))
            if history.with_x:
                figures["x"] = run.inside(figures["x"])
            history.record(Row(k + i, int(used[i, 0]), run.members, figures))
