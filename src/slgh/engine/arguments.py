"""The door: everything a user may pass is read and checked here, and a Run is made of it."""

from __future__ import annotations

import inspect
import os
import secrets
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slgh import checks
from slgh.auto.defaults import choose_rest, choose_samples
from slgh.auto.portfolio import Portfolio, read_phases
from slgh.auto.replay_log import PHASES
from slgh.backends import Backend
from slgh.backends.numpy.noise import entropies
from slgh.engine.bounds import Box, read_bounds
from slgh.engine.checkpoint import Checkpoint, Saver
from slgh.engine.history import History
from slgh.engine.identity import describe, digest
from slgh.engine.limits import read_limits
from slgh.engine.progress import Progress
from slgh.engine.run import Run
from slgh.engine.start import first_state, radii
from slgh.engine.step import Plan
from slgh.engine.theory_step import apply_theory, burn_in, describe_plan, read_request
from slgh.method import Method, ObjectiveTraits, compose
from slgh.protocols import Array, Watch

OTHER_NAMES = {
    "jac": "grad",
    "maxiter": "max_iter",
    "maxfev": "max_evals",
    "maxfun": "max_evals",
    "budget": "max_evals",
    "rng": "seed",
    "random_state": "seed",
    "disp": "progress",
    "verbose": "progress",
    "n_jobs": "workers",
    "sigma0": "t1, the first smoothing radius",
    "popsize": "samples",
    "lr": "step",
    "nu": "noise",
}
"""What SciPy, pycma and others call things, and what they are here."""

NOT_HERE = {
    "options": "options are keyword arguments of `minimize` here",
    "tol": "there are no tolerances; a run ends at max_iter, max_evals, max_seconds or target",
    "hess": "no method uses second derivatives",
    "constraints": "only bounds are supported",
}

MOST_SAMPLES = 2**31
"""More samples in an iteration would not end in a lifetime, or not fit into memory."""


def read_x0(x0: Any, backend: Backend, *, batched: bool) -> NDArray[Any]:
    """x0 on the host as (B, d), in float32 or float64."""
    x = backend.read(x0)
    if x.dtype == object:
        raise TypeError(
            f"`x0` must be one array of numbers, got {type(x0).__name__}. Flatten parameters into a vector first, with "
            "torch.nn.utils.parameters_to_vector or jax.flatten_util.ravel_pytree."
        )
    if x.dtype not in (np.float32, np.float64):
        raise TypeError(f"`x0` must be real, of dtype float32 or float64; got dtype {x.dtype}.")
    if batched:
        if x.ndim != 2:
            raise ValueError(f"`x0` must have shape (B, d) with batched=True, got {x.shape}.")
    elif x.ndim > 1:
        raise ValueError(f"`x0` must have shape (d,), got {x.shape}. For several starts at once pass batched=True.")
    x = np.array(x if batched else np.atleast_1d(x)[None, :], order="C")
    if 0 in x.shape:
        raise ValueError(f"`x0` must have at least one variable and one problem, got shape {np.shape(x0)}.")
    if not np.isfinite(x).all():
        raise ValueError(f"`x0` must be finite, got {x[~np.isfinite(x)][0]}.")
    return x


def read_seed(seed: Any, B: int) -> int | list[int]:
    """A non-negative integer, a fresh one for None, or a sequence of B of them."""
    seed = checks.plain(seed)
    if seed is None:
        return secrets.randbits(53)  # JSON's numbers, which are doubles in many programs, keep it
    if isinstance(seed, Sequence | np.ndarray) and not isinstance(seed, str):
        if len(seed) != B:
            raise ValueError(f"`seed` must be one integer, or one a problem, {B}; got {len(seed)}.")
        for one in seed:
            checks.count("seed", checks.plain(one), 0)
        return [int(s) for s in seed]
    checks.count("seed", seed, 0)
    return int(seed)


def read_data(data: Any, backend: Backend, B: int, *, batched: bool) -> tuple[Array, ...]:
    """Arrays with leading axis B; without a batch, what is given is of the one problem."""
    if data is None:
        return ()
    if isinstance(data, dict | set):
        raise TypeError(f"`data` must be an array or a tuple of arrays, got {type(data).__name__}.")
    arrays = tuple(backend.data(a) for a in (data if isinstance(data, tuple) else (data,)))
    if not batched:
        return tuple(a[None] for a in arrays)
    for a in arrays:
        if tuple(a.shape[:1]) != (B,):
            raise ValueError(f"`data` must have one row a problem, shape ({B}, ...); got {tuple(a.shape)}.")
    return arrays


def read_callback(callback: Any) -> Callable[..., object] | None:
    """The callback as a function of one Result; SciPy's signature gets it as `intermediate_result`."""
    if callback is None:
        return None
    if not callable(callback):
        raise TypeError(f"`callback` must be callable, got {callback!r}.")
    try:
        named = "intermediate_result" in inspect.signature(callback).parameters
    except ValueError:
        named = False
    return (lambda result: callback(intermediate_result=result)) if named else callback


def read_sample_xi(sample_xi: Any) -> Any:
    """None, a number of terms, or a function (rng, n) -> n samples."""
    if sample_xi is None or callable(sample_xi):
        return sample_xi
    sample_xi = checks.plain(sample_xi)
    checks.count("sample_xi", sample_xi, most=2**63)
    return int(sample_xi)


def read_watch(watch: Any, method: Method, *, stochastic: bool) -> set[str]:
    """Raise unless this can be watched; what the oracle must observe for it."""
    if not isinstance(watch, Watch):
        raise TypeError(f"`watch` must be a slgh.protocols.Watch, got {watch!r}.")
    if stochastic:
        raise ValueError("`watch` needs a fun without sample_xi: it is shown f(x), not samples of it.")
    if unknown := set(watch.columns) - set(watch.names):
        raise ValueError(f"`watch.columns` must be among its names {watch.names}, got {sorted(unknown)}.")
    if "f" not in method.oracle.provides:
        raise ValueError(f"`watch` needs f(x), which the oracle {method.oracle.name!r} does not provide.")
    return {"f"}


def read_at_once(
    batch_size: Any, B: int, T: int | None, method: Method, backend: Backend, *, batched: bool, callback: Any
) -> int | None:
    """How many problems to compute at a time where others have to wait; None where none has to."""
    batch_size = checks.plain(batch_size)
    if batch_size is None:
        return None
    checks.count("batch_size", batch_size)
    if batch_size >= B:
        return None
    if not batched:
        raise ValueError("`batch_size` is for problems of a batch; pass batched=True.")
    if not backend.streams:
        raise ValueError(
            f"`batch_size` is for NumPy and PyTorch arrays, got {backend.name}; pass fewer problems at a time."
        )
    if callback is not None:
        raise ValueError("`batch_size` and `callback` exclude each other: problems are in different iterations.")
    if not T:
        raise ValueError(
            "`batch_size` needs max_iter or max_evals, enough for one iteration, so that all problems end."
        )
    if method.oracle.period > 1:
        raise ValueError(
            f"`batch_size` needs iterations of equal cost, which the oracle {method.oracle.name!r} does not have."
        )
    return int(batch_size)


def plan_portfolio(
    phases: Any, method: Method, facts: ObjectiveTraits, *, single: bool, key: tuple[int, int], given: frozenset[str]
) -> Portfolio | None:
    """The portfolio of "auto", for a single problem whose values count as they are; None for others."""
    if single and getattr(method.oracle, "values", "raw") == "raw":
        asks = "F.grad" if facts.closed_form else "grad" if method.oracle.asks == "gradients" else ""
        return Portfolio(read_phases(phases), gradients=asks, key=list(key), given=given)
    if phases is not PHASES:
        raise ValueError(
            "`phases` are for a single problem limited by max_evals, without sample_xi, watch, ranks or swapped parts; "
            f"got phases={phases!r}: leave them out."
        )
    return None


def make_run(
    x: NDArray[Any],
    backend: Backend,
    *,
    method: str | Method,
    facts: ObjectiveTraits,
    sample_xi: Any,
    data: tuple[Array, ...] = (),
    bounds: Any,
    batched: bool,
    max_evals: int | None,
    max_iter: int | None,
    max_seconds: float | None,
    target: float | None,
    seed: Any,
    callback: Callable[..., object] | None,
    progress: bool,
    history: int | str | None,
    on_nonfinite: str,
    checkpoint: str | os.PathLike[str] | Checkpoint | None,
    params: dict[str, Any],
    watch: Watch | None = None,
    batch_size: int | None = None,
) -> Run:
    """Check everything, compose the method, and make the Run."""
    for name in params:
        if name in OTHER_NAMES:
            raise TypeError(f"`{name}` is called {OTHER_NAMES[name]} here.")
        if name in NOT_HERE:
            raise TypeError(f"`{name}` is not taken: {NOT_HERE[name]}.")
    checks.choice("on_nonfinite", on_nonfinite, ("reject", "penalize", "raise"))
    B, d = x.shape
    box = read_bounds(bounds, d, x.dtype)
    if box is not None and (outside := (x < box.low) | (x > box.high)).any():
        b, i = np.argwhere(outside)[0]
        low, high = box.low[i], box.high[i]
        raise ValueError(f"`x0` must lie within `bounds`, ({low}, {high}) for variable {i}; got {x[b, i]}.")
    stochastic = sample_xi is not None
    params = dict(params)
    phases = params.pop("phases", PHASES) if method == "auto" else None
    request = read_request(params, stochastic=stochastic)
    bound = compose(method, params, facts)
    planned = bound.planned
    limits = read_limits(
        d, planned=planned, max_iter=max_iter, max_evals=max_evals, max_seconds=max_seconds, target=target
    )
    bound = choose_samples(bound, params, d, limits.max_evals)
    checks.count("samples", bound.oracle.samples, 0, MOST_SAMPLES)
    needs = bound.schedule.needs | ({"f"} & bound.oracle.provides if stochastic and target is not None else set())
    if watch is not None:
        needs |= read_watch(watch, bound, stochastic=stochastic)
    if request and bound.oracle.exact and not stochastic:
        needs |= {"grad_f"} & bound.oracle.provides
    ctx = backend.context(frozenset(needs), stochastic=stochastic)
    best = bound.reports == "best" and not stochastic
    reserve = bound.oracle.samples if stochastic else 1
    if limits.max_evals is not None:
        reserve = min(reserve, limits.max_evals)
    T = limits.iterations(bound.oracle, ctx, reserve + best)
    batch_size = read_at_once(batch_size, B, T, bound, backend, batched=batched, callback=callback)
    applied = None
    if request:
        bound, applied = apply_theory(bound, request, d, T)
    composed = bound
    if T is not None:
        bound = choose_rest(bound, params, radii(x, bound, box), d, T)
    if planned:
        assert T is not None
        bound = bound.over(T)
    averaged = bound.reports == "best" and stochastic and T is not None
    plan = Plan(
        method=bound,
        ctx=ctx,
        ops=backend.ops,
        box=None if box is None else Box(*(None if side is None else backend.native(side) for side in box)),
        penalize=on_nonfinite == "penalize",
        tail_from=int(0.9 * T) if averaged and T is not None else None,
        watch=watch,
    )
    saver = read_checkpoint(checkpoint)
    used = read_seed(seed, B)
    if saver and saver.found and seed is None:
        found = saver.found[0]["seed"]
        used = found if np.ndim(found) == 0 or len(found) == B else used  # one of another length is of another run
    keys = entropies(used, B)
    portfolio = None
    if method == "auto":
        swapped = {"oracle", "schedule", "update"} & set(params)
        single = not (batched or stochastic or swapped) and watch is None and limits.max_iter is None
        portfolio = plan_portfolio(phases, bound, facts, single=single, key=keys[0], given=frozenset(params))
    identity: dict[str, Any] = {
        "arrays": f"{backend.name} {x.dtype}",
        "x0": digest(x),
        "data": [digest(backend.host(a)) for a in data],
        "number of evaluations, which the method plans by": limits.max_evals if portfolio else None,
        "number of iterations, which the method plans by": T if planned or averaged else None,
        "method": describe(composed),
        "phases": list(portfolio.phases) if portfolio else None,
        "burn-in": burn_in(applied),
        "number of terms": sample_xi if isinstance(sample_xi, int) else None,
        "history": history == "x",
        "bounds": None if box is None else digest(box.low, box.high),
        "stochastic": stochastic,
        "on_nonfinite": on_nonfinite,
        "watch": describe(watch),
        "batch_size": None if batch_size is None else {"problems": batch_size, "iterations": T},
        "seed": used,
    }
    run = Run(
        plan=plan,
        state=first_state(x, plan, box, T, keys, burn_in=burn_in(applied)),
        backend=backend,
        noise=backend.noise(keys, d, sample_xi, samples=max(bound.oracle.samples, facts.terms or 0)),
        box=box,
        limits=limits,
        reserve=reserve,
        identity=identity,
        seed=used,
        batched=batched,
        history=History(
            history, B, () if watch is None else watch.columns, iterations=None if batch_size is None else T
        ),
        callback=read_callback(callback),
        saver=saver,
        remark=describe_plan(applied) if applied else "",
        batch_size=batch_size,
        iterations=T,
        portfolio=portfolio,
    )
    if saver and not saver.found:
        run.save(first=True)
    if progress:
        run.progress = Progress(limits.max_evals if portfolio else T if batch_size is None else B)
    return run


def read_checkpoint(checkpoint: Any) -> Saver | None:
    """A Saver for a path or a Checkpoint."""
    if checkpoint is None:
        return None
    if not isinstance(checkpoint, Checkpoint):
        if not isinstance(checkpoint, str | os.PathLike):
            raise TypeError(f"`checkpoint` must be a path or a Checkpoint, got {checkpoint!r}.")
        checkpoint = Checkpoint(path=checkpoint)
    return Saver(checkpoint)
