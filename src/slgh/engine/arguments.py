"""Arguments of `minimize` and `Optimizer`: each is read and checked here."""

from __future__ import annotations

import inspect
import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, OptimizeResult

from slgh import checks
from slgh.backends import Backend
from slgh.backends.numpy.backend import plain_array
from slgh.engine.bounds import read_bounds
from slgh.engine.checkpoint import Checkpoint
from slgh.engine.termination import Tolerances
from slgh.method import SCALE_FREE, Method
from slgh.protocols import Array, Oracle, Watch
from slgh.space import Space

PHASES = ("landscape", "homotopy", "local_search", "restarts", "basin_hops", "covariance")
"""Phases of "auto". A checkpoint identifies a phase by its position here."""

ASYNCHRONOUS_PHASES = ("homotopy", "restarts", "covariance")
"""Phases of "auto" in an asynchronous run. The others need the value at every point that they ask for."""

MAX_SAMPLES = 2**31
"""Maximum number of samples per iteration. More would not fit into memory."""

OTHER_NAMES = {
    "jac": "grad",
    "maxiter": "max_iter",
    "maxfev": "max_evals",
    "maxfun": "max_evals",
    "budget": "max_evals",
    "rng": "seed",
    "random_state": "seed",
    "constraint": "constraints",
    "disp": "progress",
    "verbose": "progress",
    "n_jobs": "workers",
    "sigma0": "t1",
    "popsize": "samples",
    "lr": "step",
    "nu": "noise",
    "fatol": "ftol",
    "xatol": "xtol",
    "tolfun": "ftol",
    "tolx": "xtol",
}
"""Names of arguments in SciPy, pycma and other libraries, with the name in slgh."""

NOT_HERE = {
    "options": "options are keyword arguments of `minimize` here",
    "tol": "pass `ftol` for changes of f, or `xtol` for changes of x",
    "hess": "no method uses second derivatives",
    "constraints": "only `minimize` has constraints",
}
"""Arguments of SciPy that slgh does not have, with the reason."""


class ShardOf(NamedTuple):
    """Properties of a batch that one of its shards needs, so that its problems run as they would in the batch."""

    first: int
    """Number of the shard's first problem."""
    problems: int
    """Number of problems of the batch."""
    mean_t1: float
    """Geometric mean of the first radii of the batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """Arguments that `minimize` and `Optimizer` have in common, as the user passed them."""

    x0: Any
    method: str | Method
    sample_xi: Any
    bounds: Any
    batched: bool
    limits: dict[str, Any]
    """Arguments that say when the run ends: see `termination.Limits`."""
    seed: Any
    callback: Callable[..., object] | None
    progress: bool
    history: int | str | None
    on_nonfinite: str
    checkpoint: str | os.PathLike[str] | Checkpoint | None
    params: dict[str, Any]
    data: Any = None
    watch: Watch | None = None
    starts: Any = None
    known: Any = None
    ftol: float | None = None
    xtol: float | None = None
    batch_size: int | None = None
    parallel: int | None = None
    workers: int | None = None
    """Number of workers, which is the default of `parallel`. None if it is unknown."""
    asynchronous: bool = False
    shard: ShardOf | None = None
    """If the problems are a shard of a batch: the batch."""
    space: Space | None = None
    """Search space, of which `x0` is a relaxed point."""
    constraints: Any = ()
    feasibility_tol: float | None = None


def refuse_foreign_names(params: dict[str, Any]) -> None:
    """Raise for names that other libraries use, with the name that slgh uses."""
    for name in params:
        if name in OTHER_NAMES:
            raise checks.ArgumentTypeError(f"Unknown argument `{name}`. Did you mean `{OTHER_NAMES[name]}`?")
        if name in NOT_HERE:
            raise checks.ArgumentTypeError(f"`{name}` is not taken: {NOT_HERE[name]}.")


class Known(NamedTuple):
    """Points that are known before the run, in NumPy arrays."""

    starts: NDArray[Any]
    """(k, d) points to evaluate before the first iteration."""
    points: NDArray[Any]
    """(n, d) points with values."""
    values: NDArray[Any]
    """(n,) these values."""


def choose_start(x0: Any, bounds: Any, *, batched: bool, starts: Any = None, known: Any = None) -> Any:
    """Return x0, the solution of an earlier Result or, if x0 is None, the best start that needs no x0.

    That is the best of the known points, the first of the starts, or the middle of the bounds.
    """
    if isinstance(x0, OptimizeResult):
        if "x" not in x0:
            raise checks.ArgumentValueError("`x0` is a result without `x`. Pass an array, or a result that has one.")
        _refuse_trees("x0", x0)
        return x0.x
    if x0 is not None:
        return x0
    if known is not None:
        points, values = _pair(known)
        array = _read_values(values, len(points), float)
        if np.isfinite(array).any():
            return points[int(np.argmin(np.where(np.isfinite(array), array, np.inf)))]
    if starts is not None and np.ndim(starts) == 2 and len(starts):
        return starts[0]
    if batched:
        raise checks.ArgumentValueError("`x0` must be given with batched=True. Pass an array (B, d) of starts.")
    if bounds is None:
        raise checks.ArgumentTypeError(
            "`x0` must be given if there are no bounds. Pass an array (d,), or `bounds`, whose middle is the start."
        )
    if isinstance(bounds, Bounds):
        d = max(np.size(bounds.lb), np.size(bounds.ub))
    else:
        d = len(bounds) if hasattr(bounds, "__len__") else 1
    box = read_bounds(bounds, d, np.float64)
    ends = np.array([-np.inf, np.inf]) if box is None else np.concatenate([box.low, box.high])
    if not np.isfinite(ends).all():
        raise checks.ArgumentValueError("`x0` must be given unless all bounds are finite. Pass an array (d,).")
    assert box is not None
    return box.low / 2 + box.high / 2


def _refuse_trees(name: str, result: OptimizeResult) -> None:
    """Raise for the Result of a search space of names: it has no vector x, and does not know its space."""
    if isinstance(result.x, dict):
        raise checks.ArgumentValueError(
            f"`{name}` is the result of a search space, whose x is a tree. Pass the space as `x0`, and the result "
            "as `start`."
        )


def _pair(known: Any) -> tuple[Any, Any]:
    """Return the points and values of `known`, which may be a Result."""
    if isinstance(known, OptimizeResult):
        if not {"x", "fun"} <= known.keys():
            raise checks.ArgumentValueError("`known` is a result without `x` or `fun`. Pass a pair (points, values).")
        _refuse_trees("known", known)
        return np.asarray(known.x)[None], np.asarray(known.fun)[None]
    if not isinstance(known, tuple | list) or len(known) != 2:
        raise checks.ArgumentTypeError(
            f"`known` must be a pair (points, values) or a Result, got {checks.show(known)}. Pass points (n, d) and "
            "values (n,)."
        )
    return known[0], known[1]


def read_known(arguments: Arguments, x: NDArray[Any], *, stochastic: bool) -> Known | None:
    """Return the starts and the known points for a start x (B, d), or None if there are none."""
    starts, known = arguments.starts, arguments.known
    if starts is None and known is None:
        return None
    name, d = "starts" if known is None else "known", x.shape[1]
    if arguments.method not in SCALE_FREE or arguments.batched or stochastic or arguments.watch is not None:
        raise checks.ArgumentValueError(
            f"`{name}` is for a single problem with method 'auto' or 'scale_free', without sample_xi and watch. Leave "
            "it out, and pass the best point as x0."
        )
    points, values = (np.empty((0, d)), np.empty(0)) if known is None else _pair(known)
    return Known(
        starts=_read_points("starts", np.empty((0, d)) if starts is None else starts, x),
        points=(read := _read_points("known", points, x)),
        values=_read_values(values, len(read), x.dtype),
    )


def _read_points(name: str, points: Any, x: NDArray[Any]) -> NDArray[Any]:
    """Return finite points (n, d) in the dtype of x (B, d)."""
    try:
        array = np.array(plain_array(points), x.dtype)
    except (TypeError, ValueError):
        raise checks.ArgumentTypeError(f"`{name}` must be points (n, d), got {checks.show(points)}.") from None
    if array.ndim != 2 or array.shape[1] != x.shape[1]:
        raise checks.ArgumentValueError(
            f"`{name}` must be points of shape (n, {x.shape[1]}), got shape {array.shape}. Pass one row per point."
        )
    if not np.isfinite(array).all():
        raise checks.ArgumentValueError(f"`{name}` must be finite, got {array[~np.isfinite(array)][0]}. Leave it out.")
    return array


def _read_values(values: Any, n: int, dtype: Any) -> NDArray[Any]:
    """Return the values (n,) of known points. Those that are not finite stay so."""
    try:
        array = np.array(plain_array(values), dtype)
    except (TypeError, ValueError):
        raise checks.ArgumentTypeError(f"`known` must have values (n,), got {checks.show(values)}.") from None
    if array.shape != (n,):
        raise checks.ArgumentValueError(
            f"`known` must have one value per point (expected shape ({n},)); got shape {array.shape}."
        )
    return array


def read_x0(x0: Any, backend: Backend, *, batched: bool) -> NDArray[Any]:
    """Return x0 on the host as (B, d), in float32 or float64."""
    x = backend.read(x0)
    if x.dtype == object:
        raise checks.ArgumentTypeError(
            f"`x0` must be one array of numbers, got {type(x0).__name__}. Flatten parameters into a vector first, with "
            "torch.nn.utils.parameters_to_vector or jax.flatten_util.ravel_pytree."
        )
    if x.dtype not in (np.float32, np.float64):
        raise checks.ArgumentTypeError(f"`x0` must be real, of dtype float32 or float64; got dtype {x.dtype}.")
    if batched:
        if x.ndim != 2:
            raise checks.ArgumentValueError(f"`x0` must have shape (B, d) with batched=True, got {x.shape}.")
    elif x.ndim > 1:
        raise checks.ArgumentValueError(
            f"`x0` must have shape (d,), got {x.shape}. For several starts at once pass batched=True."
        )
    x = np.array(x if batched else np.atleast_1d(x)[None, :], order="C")
    if 0 in x.shape:
        raise checks.ArgumentValueError(
            f"`x0` must have at least one variable and one problem, got shape {np.shape(x0)}."
        )
    if not np.isfinite(x).all():
        raise checks.ArgumentValueError(f"`x0` must be finite, got {x[~np.isfinite(x)][0]}.")
    return x


def read_parallel(arguments: Arguments, method: str, saved: int | None) -> int:
    """Return the number of evaluations at the same time for which the run is planned. `saved`: that of a checkpoint."""
    parallel, planned = checks.plain(arguments.parallel), not arguments.batched and method in SCALE_FREE
    if parallel is None:
        return (saved or arguments.workers or 1) if planned else 1
    checks.count("parallel", parallel)
    if parallel > 1 and not planned:
        reason = "a batch has many points already" if arguments.batched else f"{method!r} has a fixed number of points"
        raise checks.ArgumentValueError(
            f"`parallel` is for a single problem with method 'auto' or 'scale_free': {reason}. Leave it out"
            + (", or set `samples`." if not arguments.batched else ".")
        )
    return int(parallel)


def read_seed(seed: Any, B: int) -> int | list[int]:
    """Return a non-negative integer, a fresh one for None, or a list of B integers."""
    seed = checks.plain(seed)
    if seed is None:
        return secrets.randbits(53)  # many programs read JSON's numbers as doubles, which hold 53 bits
    if isinstance(seed, Sequence | np.ndarray) and not isinstance(seed, str):
        if len(seed) != B:
            raise checks.ArgumentValueError(
                f"`seed` must be an integer, or one integer per problem (expected {B}); got {len(seed)}."
            )
        for one in seed:
            checks.count("seed", checks.plain(one), 0)
        return [int(s) for s in seed]
    checks.count("seed", seed, 0)
    return int(seed)


def read_data(data: Any, backend: Backend, B: int, *, batched: bool) -> tuple[Array, ...]:
    """Return arrays with leading axis B, which is added unless `batched`."""
    if data is None:
        return ()
    if isinstance(data, dict | set):
        raise checks.ArgumentTypeError(f"`data` must be an array or a tuple of arrays, got {type(data).__name__}.")
    arrays = tuple(backend.data(a) for a in (data if isinstance(data, tuple) else (data,)))
    if not batched:
        return tuple(a[None] for a in arrays)
    for a in arrays:
        if tuple(a.shape[:1]) != (B,):
            raise checks.ArgumentValueError(
                f"`data` must have one row per problem, shape ({B}, ...); got {tuple(a.shape)}."
            )
    return arrays


def read_callback(callback: Any) -> Callable[..., object] | None:
    """Return a function of one Result. A callback with SciPy's signature gets it as `intermediate_result`."""
    if callback is None:
        return None
    if not callable(callback):
        raise checks.ArgumentTypeError(f"`callback` must be callable, got {callback!r}.")
    try:
        named = "intermediate_result" in inspect.signature(callback).parameters
    except ValueError:
        named = False
    return (lambda result: callback(intermediate_result=result)) if named else callback


def read_sample_xi(sample_xi: Any) -> Any:
    """Return None, the number of terms of a finite sum, or a function (rng, n) -> n samples."""
    if sample_xi is None or callable(sample_xi):
        return sample_xi
    sample_xi = checks.plain(sample_xi)
    checks.count("sample_xi", sample_xi, most=2**63)
    return int(sample_xi)


def refuse_tolerances(tolerances: Tolerances, oracle: Oracle, *, stochastic: bool, composes: bool) -> None:
    """Raise if the values of this run cannot be compared with `ftol`. `composes`: searches from values follow."""
    if tolerances.ftol is None:
        return
    if stochastic:
        raise checks.ArgumentValueError(
            "`ftol` needs a fun without sample_xi: single values of a stochastic fun mean little. Pass `xtol`."
        )
    if oracle.asks != "values" and not composes:
        raise checks.ArgumentValueError(
            f"`ftol` needs values of fun, and the oracle {oracle.name!r} does not ask for any. Pass `xtol`."
        )


def read_watch(watch: Any, oracle: Oracle, *, stochastic: bool) -> set[str]:
    """Raise if this run cannot have the Watch. Return the quantities that the oracle must observe for it."""
    if not isinstance(watch, Watch):
        raise checks.ArgumentTypeError(f"`watch` must be a slgh.protocols.Watch, got {watch!r}.")
    if stochastic:
        raise checks.ArgumentValueError("`watch` needs a fun without sample_xi: it is shown f(x), not samples of it.")
    if unknown := set(watch.columns) - set(watch.names):
        raise checks.ArgumentValueError(
            f"`watch.columns` must be among its names {watch.names}, got {sorted(unknown)}."
        )
    if "f" not in oracle.provides:
        raise checks.ArgumentValueError(f"`watch` needs f(x), which the oracle {oracle.name!r} does not provide.")
    return {"f"}


def read_batch_size(
    batch_size: Any, B: int, T: int | None, oracle: Oracle, backend: Backend, *, batched: bool, callback: Any
) -> int | None:
    """Return the number of problems that run at a time, or None if all of the B problems of the batch do."""
    batch_size = checks.plain(batch_size)
    if batch_size is None:
        return None
    checks.count("batch_size", batch_size)
    if batch_size >= B:
        return None
    if not batched:
        raise checks.ArgumentValueError("`batch_size` is for problems of a batch; pass batched=True.")
    if not backend.can_refill:
        raise checks.ArgumentValueError(
            f"`batch_size` is for NumPy and PyTorch arrays, got {backend.name}; pass fewer problems at a time."
        )
    if callback is not None:
        raise checks.ArgumentValueError(
            "`batch_size` and `callback` exclude each other: problems are in different iterations."
        )
    if not T:
        raise checks.ArgumentValueError(
            "`batch_size` needs max_iter or max_evals, enough for one iteration, so that all problems end."
        )
    if oracle.period > 1:
        raise checks.ArgumentValueError(
            f"`batch_size` needs iterations of equal cost, which the oracle {oracle.name!r} does not have."
        )
    return int(batch_size)


def read_asynchronous(asynchronous: Any, oracle: Oracle, *, batched: bool, stochastic: bool) -> bool:
    """Return True for an asynchronous run. Raise if this run cannot be one."""
    if not isinstance(asynchronous, bool):
        raise checks.ArgumentTypeError(f"`asynchronous` must be True or False, got {asynchronous!r}.")
    if not asynchronous:
        return False
    if batched:
        raise checks.ArgumentValueError(
            "`asynchronous` is for a single problem, got batched=True. Use one Optimizer per problem."
        )
    if stochastic:
        raise checks.ArgumentValueError(
            "`asynchronous` excludes sample_xi. Draw xi in your function, and tell its value at the point."
        )
    if oracle.asks != "values":
        raise checks.ArgumentValueError(
            f"`asynchronous` is for methods that estimate the gradient from values, got the oracle {oracle.name!r}. "
            "Omit it, or choose such a method."
        )
    return True


def read_phases(phases: Any, *, asynchronous: bool = False, constrained: bool = False) -> tuple[str, ...]:
    """Return the names of the phases, in the order of PHASES."""
    if phases is PHASES and asynchronous:
        return ASYNCHRONOUS_PHASES
    named = (phases,) if isinstance(phases, str) else tuple(phases)
    for name in named:
        checks.choice("phases", name, list(PHASES))
    if asynchronous and (waiting := [name for name in named if name not in ASYNCHRONOUS_PHASES]):
        raise checks.ArgumentValueError(
            f"`phases` of an asynchronous run must be among {ASYNCHRONOUS_PHASES}, got {waiting[0]!r}, which waits for "
            "all its values. Leave it out, or omit `asynchronous`."
        )
    needed = ("local_search", "covariance") if constrained else ("homotopy", "local_search")
    if not set(needed) & set(named):
        where = " with `constraints`" if constrained else ""
        raise checks.ArgumentValueError(
            f"`phases` must have {needed[0]!r} or {needed[1]!r} among them{where}, got {named!r}."
        )
    return tuple(name for name in PHASES if name in named)
