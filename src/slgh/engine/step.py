"""One iteration, as a pure conversation: it asks for values and returns the next state. It draws and calls nothing."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, NamedTuple, Protocol

from slgh.engine.bounds import Box
from slgh.engine.state import State
from slgh.method import Method
from slgh.protocols import Answer, Array, Context, Leaves, Noise, Query, Sight, Watch

PATIENCE = 10
"""After so many iterations in a row that learned nothing, a problem is given up."""


class Ops(Protocol):
    """What the step needs of a backend beyond the array API."""

    xp: Any

    def all_finite(self, x: Array) -> bool: ...
    def choose(self, mask: Array, new: Callable[[], Leaves], old: Leaves) -> Leaves: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What stays the same from one iteration to the next."""

    method: Method
    ctx: Context
    ops: Ops
    box: Box | None = None
    penalize: bool = False
    tail_from: Any = None
    """The iteration from which iterates are summed for their mean."""
    watch: Watch | None = None
    picks: frozenset[int] | None = None
    """The iterations whose iterate is some problem's xhat; None: look at each."""

    @property
    def exact(self) -> bool:
        """Whether g is the gradient itself, so that its norm picks xhat."""
        return self.method.oracle.exact and not self.ctx.stochastic


class Info(NamedTuple):
    """What an iteration observed.

    Where it stood; f there (B,), or where it is not evaluated the mean of f around it; whether it learned anything,
    None if all did; and which problems the Watch ends, None if it never does.
    """

    x: Array
    t: Array
    f: Array | None
    ok: Array | None
    done: Array | None = None


def step(state: State, k: Any, first: bool, noise: Noise, plan: Plan) -> Generator[Query, Array, tuple[State, Info]]:
    """Iteration k of all problems: observe, move x, move t. Yields queries inside the box, is sent raw values.

    `first` tells whether it is the first of the oracle's period; k itself may be an array, without dimensions or (B,).
    """
    method, xp, ops = plan.method, plan.ctx.xp, plan.ops
    x, t = state.x, state.t
    best = state.x_best, state.f_best
    worst = state.worst
    sight = None
    talk = method.oracle.observe(x, t, state.oracle, first, noise, plan.ctx)
    answer: Answer | None = None
    while True:
        try:
            query = talk.send(answer) if answer is not None else next(talk)
        except StopIteration as end:
            seen, oracle_state = end.value
            break
        asked, sign = _inside(query, plan.box, xp)
        values = yield asked
        if plan.watch is not None and query.what == "fun":
            if query.centers:
                sight = Sight(k, asked.points[:, 0, :], values[:, 0, 0], values[:, 0, 1:])
            values = values[..., 0]
        values = values if sign is None else values * sign
        finite = None if ops.all_finite(values) else xp.isfinite(values)
        if query.what == "fun" and not plan.ctx.stochastic:
            best = _better(best, asked.points, values, finite, ops)
        answer, worst = _clean(values, finite, worst, query, plan)
    new_x, update_state = method.update.apply(x, seen, t, state.update, xp)
    if plan.box is not None and method.oracle.asks == "closed form":
        new_x = plan.box.clip(new_x, xp)
    if "F_next" in plan.ctx.needs:
        values = yield Query("F", new_x[:, None, :], t=t[:, None])
        seen = seen._replace(F_next=values[:, 0])
    new_t, schedule_state = method.schedule.next(t, seen, state.schedule, state.floor, xp)
    ok = seen.ok
    if not (ops.all_finite(new_x) and ops.all_finite(new_t)):
        moved = xp.isfinite(xp.sum(new_x, axis=1) + new_t)
        ok = moved if ok is None else ok & moved
    bad = xp.zeros_like(t)
    memories = oracle_state, schedule_state, update_state
    if ok is not None:
        new_x, new_t, bad, memories = _hold(ok, (new_x, new_t, bad), memories, state, ops)
    xhat, xhat_norm = state.xhat, state.xhat_norm
    if plan.exact or plan.picks is None or k in plan.picks:
        g = seen.g if seen.grad_f is None else seen.grad_f
        xhat, xhat_norm = _pick_xhat(state, x, g, ok, k, plan)
    watched, done = state.watch, None
    if plan.watch is not None:
        assert sight is not None
        watched = plan.watch.see(state.watch, sight, xp)
        done = plan.watch.done(watched, xp) if plan.watch.ends else None
    return State(
        x=new_x,
        t=new_t,
        oracle=memories[0],
        schedule=memories[1],
        update=memories[2],
        floor=state.floor,
        x_best=best[0],
        f_best=best[1],
        xhat=xhat,
        xhat_norm=xhat_norm,
        xhat_at=state.xhat_at,
        tail=() if plan.tail_from is None else (state.tail[0] + new_x * _late(k, plan.tail_from),),
        bad=bad,
        rejected=state.rejected if seen.rejected is None else state.rejected + seen.rejected,
        worst=worst,
        watch=watched,
    ), Info(x, t, seen.F if seen.f is None else seen.f, ok, done)


def _late(k: Any, tail_from: Any) -> Any:
    """1 where iteration k belongs to the tail, else 0; as a column where every problem has its own k."""
    late = 1.0 * (k >= tail_from)
    return late[:, None] if getattr(late, "ndim", 0) else late


def _inside(query: Query, box: Box | None, xp: Any) -> tuple[Query, Array | None]:
    """The query at the reflected points, and for gradients the derivative of the reflection."""
    if box is None or query.what not in ("fun", "grad"):
        return query, None
    points, sign = box.reflect(query.points, xp)
    return query._replace(points=points), sign if query.what == "grad" else None


def _hold(
    ok: Array, new: Leaves, memories: tuple[Leaves, Leaves, Leaves], state: State, ops: Ops
) -> tuple[Array, Array, Array, tuple[Leaves, Leaves, Leaves]]:
    """The new x, t, count of bad iterations and memories of the parts, or where nothing was learned the old ones."""
    old = state.oracle, state.schedule, state.update
    x, t, bad, *leaves = ops.choose(
        ok, lambda: (*new, *chain(*memories)), (state.x, state.t, state.bad + 1.0, *chain(*old))
    )
    rest = iter(leaves)
    oracle, schedule, update = (tuple(islice(rest, len(m))) for m in memories)
    return x, t, bad, (oracle, schedule, update)


def _clean(values: Array, finite: Array | None, worst: Array, query: Query, plan: Plan) -> tuple[Answer, Array]:
    """Values with the bad ones put to 0 and marked, or replaced by the worst finite value so far."""
    xp = plan.ctx.xp
    penalize = plan.penalize and query.what == "fun"
    if finite is None:
        return Answer(values), xp.maximum(worst, xp.max(values, axis=1)) if penalize else worst
    if values.ndim == 3:
        whole = xp.all(finite, axis=-1)
        return Answer(xp.where(whole[..., None], values, 0.0), xp.astype(whole, values.dtype)), worst
    if penalize:
        worst = xp.maximum(worst, xp.max(xp.where(finite, values, -xp.inf), axis=1))
        known = xp.isfinite(worst)
        values = xp.where(finite, values, xp.where(known, worst, 0.0)[:, None])
        finite = finite | known[:, None]
    return Answer(xp.where(finite, values, 0.0), xp.astype(finite, values.dtype)), worst


def _better(best: Leaves, points: Array, values: Array, finite: Array | None, ops: Ops) -> Leaves:
    """The best of the points and what was best before."""
    xp = ops.xp
    values = values if finite is None else xp.where(finite, values, xp.inf)
    lowest = xp.min(values, axis=1)

    def found() -> Leaves:
        at = xp.argmin(values, axis=1)
        return xp.take_along_axis(points, at[:, None, None], axis=1)[:, 0, :], lowest

    return ops.choose(lowest < best[1], found, best)


def _pick_xhat(state: State, x: Array, g: Array, ok: Array | None, k: Any, plan: Plan) -> Leaves:
    """The iterate with the least gradient norm so far, or the one whose index was drawn beforehand."""
    xp = plan.ctx.xp
    if plan.exact:
        norm = xp.sqrt(xp.vecdot(g, g))
        less = norm < state.xhat_norm
        return plan.ops.choose(less if ok is None else ok & less, lambda: (x, norm), (state.xhat, state.xhat_norm))
    return plan.ops.choose(state.xhat_at == k, lambda: (x, state.xhat_norm), (state.xhat, state.xhat_norm))
