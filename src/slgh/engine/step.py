"""One iteration as a generator: it yields queries, receives values, and returns the next state."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from slgh.backends.masking import Masked
from slgh.engine import bad_values
from slgh.engine.bounds import Box
from slgh.method import Method
from slgh.protocols import Array, Context, Estimate, Leaves, Noise, Query, Sight, StepState, Watch

if TYPE_CHECKING:
    from slgh.engine.termination import Tolerances


@dataclass(frozen=True, slots=True, kw_only=True)
class StepConfig:
    """Everything that stays the same from one iteration to the next."""

    method: Method
    ctx: Context
    ops: Masked
    box: Box | None = None
    on_nonfinite: str = "reject"
    """Bad-value policy."""
    asynchronous: bool = False
    """True if an iteration may be closed before all values have arrived."""
    tail_from: Any = None
    """Iteration from which iterates are summed for their mean."""
    watch: Watch | None = None
    tolerances: Tolerances | None = None
    """Changes of f and x by which problems converge. None: they do not."""
    picks: frozenset[int] | None = None
    """Iterations whose iterate is xhat of some problem. None: check in every iteration."""

    @property
    def exact(self) -> bool:
        """True if g is the gradient itself, so that its norm picks xhat."""
        return self.method.oracle.exact and not self.ctx.stochastic


def map_leaves(fun: Callable[..., Any], *states: StepState) -> StepState:
    """Apply `fun` to the corresponding arrays of states."""
    return StepState(
        *(
            tuple(fun(*leaves) for leaves in zip(*fields, strict=True))
            if isinstance(fields[0], tuple)
            else fun(*fields)
            for fields in zip(*states, strict=True)
        )
    )


class Info(NamedTuple):
    """Observations of one iteration."""

    x: Array
    """(B, d) iterate before the step."""
    t: Array
    """(B,) radius before the step."""
    f: Array | None
    """(B,) f(x) or, if the oracle does not evaluate it, the mean of f around x. None: the oracle estimates neither."""
    ok: Array | None
    """(B,) False for problems without a usable value. None: all have one."""
    watched: Array | None = None
    """(B,) True for problems that the Watch ends. None: it never ends one."""

    def known_f(self, xp: Any) -> Array:
        """Return f (B,), NaN for problems without a usable value, or for all if the oracle does not estimate it."""
        f = xp.full_like(self.t, xp.nan) if self.f is None else self.f
        return f if self.ok is None else xp.where(self.ok, f, xp.nan)


def step(
    state: StepState, k: Any, first: bool, noise: Noise, config: StepConfig
) -> Generator[Query, Array, tuple[StepState, Info]]:
    """Do iteration k of all problems: estimate, move x, move t. Yield queries inside the box, receive raw values.

    `first` is True in the first iteration of the oracle's period. k may be an array without dimensions, or (B,). The
    loop updates the counters: see `termination.counted`.
    """
    method, xp, ops = config.method, config.ctx.xp, config.ops
    x, t = state.x, state.t
    estimate, oracle_state, best, worst, sight = yield from _observe(state, k, first, noise, config)
    new_x, update_state = method.update.apply(x, estimate, t, state.update, xp)
    if config.box is not None and method.oracle.asks == "closed form":
        new_x = config.box.clip(new_x, xp)
    if "F_next" in config.ctx.needs:
        values = yield Query("F", new_x[:, None, :], t=t[:, None])
        estimate = estimate._replace(F_next=values[:, 0])
    new_t, schedule_state = method.schedule.next(t, estimate, state.schedule, state.floor, xp)
    ok = estimate.ok
    # A problem whose step is not finite stays where it was, and counts a bad iteration.
    if not (ops.all_finite(new_x) and ops.all_finite(new_t)):
        moved = xp.isfinite(xp.sum(new_x, axis=1) + new_t)
        ok = moved if ok is None else ok & moved
    memories = oracle_state, schedule_state, update_state
    if ok is not None:
        new_x, new_t, memories = _hold(ok, (new_x, new_t), memories, state, ops)
    xhat, xhat_norm = state.xhat, state.xhat_norm
    if config.exact or config.picks is None or k in config.picks:
        g = estimate.g if estimate.grad_f is None else estimate.grad_f
        xhat, xhat_norm = _pick_xhat(state, x, g, ok, k, config)
    memory, watched = state.watch, None
    if config.watch is not None:
        assert sight is not None
        memory = config.watch.see(state.watch, sight, xp)
        watched = config.watch.done(memory, xp) if config.watch.ends else None
    return StepState(
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
        tail=() if config.tail_from is None else (state.tail[0] + new_x * _late(k, config.tail_from),),
        rejected=state.rejected if estimate.rejected is None else state.rejected + estimate.rejected,
        worst=worst,
        watch=memory,
        counters=state.counters,
    ), Info(x, t, estimate.F if estimate.f is None else estimate.f, ok, watched)


def _observe(
    state: StepState, k: Any, first: bool, noise: Noise, config: StepConfig
) -> Generator[Query, Array, tuple[Estimate, Leaves, Leaves, Array, Sight | None]]:
    """Pass on the oracle's queries, reflected into the box, and answer them with values cleaned of bad ones.

    Returns the estimate, the oracle's memory, the best point so far and its value, the worst value so far, and the
    values at x for the Watch, if there is one.
    """
    xp, ops = config.ctx.xp, config.ops
    best, worst, sight = (state.x_best, state.f_best), state.worst, None
    conversation = config.method.oracle.observe(state.x, state.t, state.oracle, first, noise, config.ctx)
    dropped: Any = 0
    try:
        query = next(conversation)
        while True:
            inside, sign = _reflect(query, config.box, xp)
            values, more = (yield inside), None
            if config.watch is not None and query.what == "fun":
                # The first value of the last axis is f, the others are for the Watch.
                if query.centers:
                    sight = Sight(k, inside.points[:, 0, :], values[:, 0, 0], values[:, 0, 1:], *best)
                values, more = values[..., 0], values[..., 1:]
            values = values if sign is None else values * sign
            finite = None if ops.all_finite(values) else xp.isfinite(values)
            if query.what == "fun" and not config.ctx.stochastic:
                best = _better(best, inside.points, values, finite, ops)
            policy = config.on_nonfinite if query.what == "fun" else "reject"
            missing = bad_values.find_missing(values, query, xp) if config.asynchronous and finite is not None else None
            if missing is not None:
                dropped = dropped + xp.astype(bad_values.count_dropped(missing, query, xp), worst.dtype)
            answer, worst = bad_values.clean(values, finite, worst, policy, xp, missing)
            if more is not None:
                # A bad value spoils the numbers that belong to it.
                answer = answer._replace(more=more if finite is None else xp.where(finite[..., None], more, 0.0))
            query = conversation.send(answer)
    except StopIteration as end:
        estimate, oracle_state = end.value
    if estimate.rejected is not None and config.asynchronous:
        estimate = estimate._replace(rejected=estimate.rejected - dropped)
    sight = None if sight is None else sight._replace(x_best=best[0], f_best=best[1])
    return estimate, oracle_state, best, worst, sight


def _late(k: Any, tail_from: Any) -> Any:
    """Return 1 if iteration k belongs to the tail, else 0; a column (B, 1) if every problem has its own k."""
    late = 1.0 * (k >= tail_from)  # a Python float if k is an integer, else an array
    return late[:, None] if getattr(late, "ndim", 0) else late


def _reflect(query: Query, box: Box | None, xp: Any) -> tuple[Query, Array | None]:
    """Return the query at points inside the box and, for gradients, the derivative of the reflection."""
    if box is None or query.what not in ("fun", "grad"):
        return query, None
    points, sign = box.reflect(query.points, xp)
    return query._replace(points=points), sign if query.what == "grad" else None


def _hold(
    ok: Array, new: Leaves, memories: tuple[Leaves, Leaves, Leaves], state: StepState, ops: Masked
) -> tuple[Array, Array, tuple[Leaves, Leaves, Leaves]]:
    """Return the new x, t and memories of the parts, or the old ones where `ok` is False."""
    old = state.oracle, state.schedule, state.update
    x, t, *leaves = ops.choose(ok, lambda: (*new, *chain(*memories)), (state.x, state.t, *chain(*old)))
    rest = iter(leaves)  # `choose` takes one flat tuple: give each part its share of it back
    oracle, schedule, update = (tuple(islice(rest, len(m))) for m in memories)
    return x, t, (oracle, schedule, update)


def _better(best: Leaves, points: Array, values: Array, finite: Array | None, ops: Masked) -> Leaves:
    """Return the best point and its value: one of `points`, or `best` if none is lower."""
    xp = ops.xp
    values = values if finite is None else xp.where(finite, values, xp.inf)
    lowest = xp.min(values, axis=1)

    def found() -> Leaves:
        at = xp.argmin(values, axis=1)
        return xp.take_along_axis(points, at[:, None, None], axis=1)[:, 0, :], lowest

    return ops.choose(lowest < best[1], found, best)


def _pick_xhat(state: StepState, x: Array, g: Array, ok: Array | None, k: Any, config: StepConfig) -> Leaves:
    """Return xhat and its gradient norm: the iterate with the smallest norm so far, or that of iteration `xhat_at`."""
    xp = config.ctx.xp
    if config.exact:
        norm = xp.sqrt(xp.vecdot(g, g))
        less = norm < state.xhat_norm
        return config.ops.choose(less if ok is None else ok & less, lambda: (x, norm), (state.xhat, state.xhat_norm))
    return config.ops.choose(state.xhat_at == k, lambda: (x, state.xhat_norm), (state.xhat, state.xhat_norm))
