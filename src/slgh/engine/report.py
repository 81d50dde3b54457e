"""The end of a run: the final values are asked for, and the Result is written."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slgh.method import SCALE_FREE
from slgh.protocols import Query, Sight
from slgh.result import Result, Status

if TYPE_CHECKING:
    from slgh.engine.run import Run


OF_THE_PROBLEM = ("x", "fun", "x_best", "fun_best", "xhat", "fun_se", "t")
"""What is returned as arrays of x0's library, on its device; counts and the history are NumPy's."""


BROKEN = [Status.MAX_SECONDS, Status.INTERRUPTED]
"""How problems end that have not begun."""


FAR = 0.1
"""t that fell, but not below this share of t1, is worth a remark."""


def report(run: Run) -> Generator[Query, Any, Result]:
    """Ask for f at each problem's solution where it is not known, then say how the run went."""
    plan, whole, backend = run.plan, run.whole, run.backend
    nit, nfev, njev = run.counts.copy()
    stochastic = plan.ctx.stochastic
    x = _solutions(run)
    fun = np.full_like(whole.f_best, np.nan)
    fun_se = np.zeros_like(fun)
    started = run.batch_size is None or ~((nit == 0) & np.isin(run.status, BROKEN))
    noisy = run.portfolio is not None and run.portfolio.noisy
    known = ~np.isfinite(whole.f_best) if run.portfolio is not None and not noisy else True
    # After Ctrl-C the user's function is not called again.
    interrupted = bool((run.status == Status.INTERRUPTED).any())
    unknown = np.flatnonzero((stochastic | (run.status != Status.TARGET)) & started & known & (not interrupted))
    n = _final_samples(run, int((nfev + njev).max(initial=0)))
    for asked in run.slices(unknown) if n else ():
        run.rows = asked
        points = np.broadcast_to(x[asked][:, None, :], (asked.size, n, x.shape[1]))
        xi = run.noise.last_xi(n, asked) if stochastic else None
        values = backend.host((yield Query("fun", backend.native(points), xi=xi, centers=n)))
        begun = run.answers.begun
        run.answers.complete(values)
        if plan.watch is not None and values.ndim == 3:
            run.watch_end(plan.watch, asked, Sight(nit[asked], x[asked], values[:, 0, 0], values[:, 0, 1:]))
            values = values[..., 0]
        if (run.status[asked] == Status.INTERRUPTED).any():
            nfev[asked] += -(-begun // asked.size)
            break
        fun[asked] = values.mean(axis=1)
        if stochastic:
            fun_se[asked] = values.std(axis=1, ddof=1) / n**0.5 if n > 1 else np.nan
        nfev[asked] += n
    status = run.status.copy()
    interrupted = bool((status == Status.INTERRUPTED).any())
    if not stochastic:
        kept = (status == Status.TARGET) | ((plan.method.reports == "best") & (not noisy))
        kept |= np.isnan(fun) & interrupted
        kept &= np.isfinite(whole.f_best) & ~(np.isfinite(fun) & (fun < whole.f_best))
        x = np.where(kept[:, None], whole.x_best, x)
        fun = np.where(kept, whole.f_best, fun)
    finite = np.isfinite(fun)
    better = finite & (fun < whole.f_best)
    target = run.limits.target
    if target is not None:
        status[finite & (fun <= target)] = Status.TARGET
    planned = [int(kind) for kind in Status if kind.success]
    if not interrupted:  # else fun is NaN where it was not evaluated
        status[~finite & np.isin(status, planned)] = Status.NONFINITE
    fun_best = np.where(better, fun, whole.f_best)
    ended_before_pick = (whole.xhat_at >= nit) | ((whole.xhat_at < 0) & (not plan.exact))
    found = {
        "x": x,
        "fun": fun,
        "x_best": x if stochastic else np.where(better[:, None], x, whole.x_best),
        "fun_best": fun if stochastic else np.where(np.isfinite(fun_best), fun_best, np.nan),
        "xhat": run.inside(np.asarray(np.where(ended_before_pick[:, None], whole.x, whole.xhat))),
        "fun_se": fun_se,
        "t": whole.t,
        "nit": nit,
        "nfev": nfev,
        "njev": njev,
        "nrejected": whole.rejected.astype(int),
        "status": status,
        "success": finite & np.isin(status, planned),
    }
    history = run.history.arrays() if run.batch_size is None else _own_history(run)
    watched = {} if plan.watch is None else dict(zip(plan.watch.names, run.whole.watch, strict=True))
    if run.batched:
        found |= {name: backend.give(found[name]) for name in OF_THE_PROBLEM}
        watched = {name: backend.give(leaf) for name, leaf in watched.items()}
    else:
        found = {name: backend.give(a[0]) if a.ndim > 1 else a[0].item() for name, a in found.items()}
        found["status"] = Status(found["status"])
        history = {n: a[:, 0] if n not in ("iteration", "nfev") else a for n, a in history.items()}
        watched = {name: backend.give(leaf[0]) if leaf.ndim > 1 else leaf[0].item() for name, leaf in watched.items()}
    if plan.watch is not None:
        found["watched"] = watched
    return Result(
        **found,
        message=_message(run, status),
        history=history,
        method=plan.method,
        engine=run.engine,
        seed=run.seed,
        seconds=run.elapsed(),
    )


def _own_history(run: Run) -> dict[str, NDArray[Any]]:
    """The history of problems that began one after the other, by their own iterations."""
    each = run.history.first_nfev - run.looked if run.history.size else 0
    return run.history.own(run.began[0], run.counts[0], each, run.looked)


def _solutions(run: Run) -> NDArray[Any]:
    """The last iterates, or where those of a stochastic function are averaged, the means."""
    whole, start = run.whole, run.plan.tail_from
    x = whole.x
    if whole.tail and start is not None:
        n = run.counts[0] - start
        x = np.where(
            ((n > 0) & (run.status != Status.TARGET))[:, None],
            whole.tail[0] / np.maximum(n, 1)[:, None].astype(x.dtype),
            x,
        )
    return run.inside(x)


def _final_samples(run: Run, used: int) -> int:
    """How many values the final one is the mean of: 1, or for a stochastic function as many as an iteration has."""
    n = run.plan.method.oracle.samples if run.plan.ctx.stochastic else 1
    cap = run.limits.max_evals
    return n if cap is None else max(0, min(n, cap - used))


def _message(run: Run, status: NDArray[Any]) -> str:
    """Why the run ended, and for "auto" what was seen, done and chosen."""
    if status.size == 1:
        text = Status(int(status[0])).message
    else:
        kinds, numbers = np.unique(status, return_counts=True)
        text = " ".join(f"{n} of {status.size}: {Status(int(s)).message}" for s, n in zip(kinds, numbers, strict=True))
    method = run.plan.method
    if run.portfolio is not None and (story := run.portfolio.story()):
        text += f" {story}."
    if method.name in SCALE_FREE and (run.portfolio is None or run.portfolio.count("homotopy")):
        parts = f"{method.oracle.name} x {method.schedule.name} x {method.update.name}"
        text += f" Chosen: {parts}, {method.oracle.samples} samples, t from {_range(run.t1)} to {_range(run.whole.t)}."
    elif hasattr(method.schedule, "gamma") and (status == Status.COMPLETED).all() and _high(run).all():
        still, first = _range(run.whole.t), _range(run.t1)
        text += f" t is still {still}, from {first}: more iterations, or a smaller gamma, lower it."
    return " ".join(filter(None, (text, run.remark, run.why)))


def _high(run: Run) -> NDArray[np.bool_]:
    """Whether t has fallen, but neither far nor to its floor."""
    t = run.whole.t
    return np.asarray((np.maximum(FAR * run.t1, run.whole.floor) < t) & (t < run.t1))


def _range(t: NDArray[Any]) -> str:
    """One number, or the least and the largest."""
    low, high = float(t.min()), float(t.max())
    return f"{low:.3g}" if low == high else f"{low:.3g}..{high:.3g}"
