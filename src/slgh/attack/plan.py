"""The run of `minimize` that attacks the images: a walk along the boundary, or any method on the paper's loss."""

from __future__ import annotations

import gc
import math
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slgh import checks
from slgh.attack.boundary.label_walk import LabelWalk
from slgh.attack.boundary.objective import BoundaryObjective, BoundaryWatch, LabelObjective, Ranking, choose_rivals
from slgh.attack.boundary.projection import Norm
from slgh.attack.boundary.walk import BoundaryWalk
from slgh.attack.homotopy import HOMOTOPY_PARAMETERS, default_parameters
from slgh.attack.loss import LOG_OFFSET, SAFE_MARGIN, AttackObjective, SuccessWatch, perturb
from slgh.attack.model import CHECK_BATCH_SIZE, ImageClasses, QueriedModel, read_images
from slgh.backends import backend_of
from slgh.method import Method
from slgh.minimize import minimize
from slgh.protocols import Array, Context, Watch
from slgh.result import Result
from slgh.schedules import Budget, Constant
from slgh.updates import Descent

FIRST_PROBE = 2e-3
LAST_PROBE = 4e-4
"""Maximum length of the first and of the last probes of a walk, per square root of the number of pixels."""

NOISE_FACTOR = 4.0
"""Ratio of the safe margin to the noise of a score: 2, since a margin has two scores, times 2 for safety."""

FIRST_WALK_QUERIES = 7
"""Minimum queries per pixel for the first walk.

On 16 training images of MNIST (d = 784), the median distortion of a single walk falls by 1.1 % from 2,000 to 5,000
queries, and by 0.3 % from there to 20,000.
"""

NEXT_WALK_QUERIES = 2
"""Queries per pixel for each further walk.

On the same images, the median is 5 % above its limit after 1,000 queries, and 1.4 % after 2,000.
"""

MIN_WALK_PIXELS = 784
"""Smaller images count as images of this size, since a walk needs enough iterations on any image."""

LABEL_PROBE = 0.15
"""Length of the probes of a walk from classes alone, relative to the distance from the original."""

MAX_TRIES = 100
"""Maximum number of random images that are tried as a start for a model that returns classes."""

START_SEED = 0
"""Seed of the noise from which a walk starts, if no seed is given. A resumed run needs the same noise."""


class ProbeRule(NamedTuple):
    """Rule for the number of probes per iteration: one per `queries` of the budget, from `least` to `most`."""

    queries: int
    least: int
    most: int


PROBES = ProbeRule(queries=50, least=12, most=24)
"""With fewer probes the steps are poor, with more there are few steps."""

LABEL_PROBES = ProbeRule(queries=25, least=30, most=200)
"""A class carries less information than scores, so a step needs more probes."""


class PlannedRun(NamedTuple):
    """The arguments of `minimize` for the images to attack, and how to read its result."""

    fun: Callable[..., Any]
    x0: Array
    data: tuple[Any, ...]
    method: str | Method
    params: dict[str, Any]
    watch: Watch
    image: Callable[[Array, Array], Array]
    """Image at a point x, for the original a: both (..., d)."""
    value_is_total: bool
    """True if the values are the total loss of the paper."""
    max_iter: int | None
    """Maximum number of iterations."""


class Limits(NamedTuple):
    """Limits of the run, per image. At least one of them is given."""

    max_evals: int | None
    max_iter: int | None


def walks(method: str | Method, params: dict[str, Any]) -> bool:
    """Return True if "auto" walks along the boundary: no parameter of a homotopy is given."""
    return method == "auto" and not HOMOTOPY_PARAMETERS & params.keys()


def plan_walk(
    queried: QueriedModel,
    a: Array,
    y: NDArray[np.int64],
    scores: NDArray[Any],
    limits: Limits,
    params: dict[str, Any],
    *,
    targeted: bool,
    norm: Norm,
    reach: float | None,
    noise: float,
    starts: Array | None,
    stop_first: bool,
) -> PlannedRun:
    """Plan a walk along the boundary for originals a (B, d) with these scores (B, K).

    The number of probes and their maximum length depend on the shape of an image and on the number of queries. y (B,)
    are the classes of the originals or, if `targeted`, the target classes. `reach` is the largest distortion of a
    success, if that is limited. `noise` is that of `score_noise`. `starts` (B, d) fool the model, if there are any.
    """
    refuse_parameters(params)
    d = a.shape[1]
    safe = safe_margin(noise)
    ranking = Ranking(unit=float(d) if norm == "l2" else 1.0, reach=reach, safe_margin=safe)
    rivals = choose_rivals(scores, y)
    margins = min(rivals.shape[1] + 1, scores.shape[1] - 1)
    walk = BoundaryWalk(
        samples=1,
        shape=queried.shape,
        margins=margins,
        targeted=targeted,
        norm=norm,
        safe_margin=safe,
        starts=None if starts is None else backend_of(a).host(starts),
    )
    samples = params.get("samples", min(_probes(limits, PROBES, _cost(walk) - 1), d))
    checks.count("samples", samples, 1, d)
    walk = replace(walk, samples=samples)
    iterations = _iterations(limits, _cost(walk))
    first_walk, next_walk = walk_lengths(iterations, _cost(walk), d)
    walk = replace(walk, first_walk=first_walk, next_walk=next_walk)
    first, last = (length * math.sqrt(d) for length in (FIRST_PROBE, LAST_PROBE))
    return PlannedRun(
        fun=BoundaryObjective(queried, targeted, norm, ranking),
        x0=a,
        data=(a, y, rivals),
        method=Method(
            oracle=walk,
            schedule=Budget(t1=first, t_end=last),
            update=Descent(step=1.0),
            reports="best",
            name="boundary_walk",
        ),
        params={name: value for name, value in params.items() if name != "samples"},
        watch=BoundaryWatch(ends=stop_first, ranking=ranking, targeted=targeted),
        image=lambda x, a: x,
        value_is_total=False,
        max_iter=iterations,
    )


def walk_lengths(iterations: int, cost: int, d: int) -> tuple[int, int]:
    """Return the iterations of the first walk and of each further one, or (0, 0) if there is only one walk.

    An iteration takes `cost` queries. Iterations left over go to the first walk.
    """
    pixels = max(d, MIN_WALK_PIXELS)
    first, again = (math.ceil(queries * pixels / cost) for queries in (FIRST_WALK_QUERIES, NEXT_WALK_QUERIES))
    more = max(0, iterations - first) // again
    # The 1 keeps the last iteration from starting another walk.
    return (iterations - more * again + 1, again) if more else (0, 0)


def score_noise(scores: NDArray[Any], again: NDArray[Any], outputs: str) -> float:
    """Return the largest difference between two answers (B, K) for the same images, as it changes a margin.

    Margins are differences of logits or of logarithms of probabilities.
    """
    if outputs == "probabilities":
        scores, again = np.log(scores + LOG_OFFSET), np.log(again + LOG_OFFSET)
    return float(np.abs(scores - again).max())


def safe_margin(noise: float) -> float:
    """Return the minimum margin of a success that survives noise of this size in each score.

    It is a power of two times `SAFE_MARGIN`, so that a resumed run usually has the same one. If it has another, or
    another setting of TF32, its checkpoint is refused.
    """
    return SAFE_MARGIN * 2.0 ** max(0, math.ceil(math.log2(max(NOISE_FACTOR * noise, SAFE_MARGIN) / SAFE_MARGIN)))


def plan_label_walk(
    queried: QueriedModel,
    a: Array,
    y: NDArray[np.int64],
    starts: Array,
    limits: Limits,
    params: dict[str, Any],
    *,
    targeted: bool,
    reach: float | None,
    stop_first: bool,
) -> PlannedRun:
    """Plan a walk from classes alone, for originals a (B, d) and points that fool the model, `starts` (B, d)."""
    refuse_parameters(params)
    ranking = Ranking(unit=float(a.shape[1]), reach=reach)
    walk = LabelWalk(samples=1, shape=queried.shape, limit=ranking.limit, starts=backend_of(a).host(starts))
    samples = params.get("samples", _probes(limits, LABEL_PROBES, _cost(walk) - 1))
    checks.count("samples", samples)
    walk = replace(walk, samples=samples)
    return PlannedRun(
        fun=LabelObjective(queried, targeted, ranking),
        x0=a,
        data=(a, y),
        method=Method(
            oracle=walk,
            schedule=Constant(t1=LABEL_PROBE),
            update=Descent(step=1.0),
            reports="best",
            name="label_walk",
        ),
        params={name: value for name, value in params.items() if name != "samples"},
        watch=BoundaryWatch(ends=stop_first, ranking=ranking, targeted=targeted),
        image=lambda x, a: x,
        value_is_total=False,
        max_iter=_iterations(limits, _cost(walk)),
    )


def find_starts(
    queried: QueriedModel, a: Array, rows: NDArray[np.intp], classes: ImageClasses, tries: int, seed: Any
) -> tuple[Array, NDArray[np.int64], NDArray[np.bool_]]:
    """Return points (n, d) that fool the model for the images `rows` of a (B, d), the queries (n,), and a mask (n,).

    The nearest other original that the model sees as a wanted class costs no query. If there is none, uniform noise is
    tried, at most `tries` times. It depends on the seed and the number of the image. The mask is False where
    nothing fooled the model.
    """
    backend, found = backend_of(a), backend_of(a).host(a).copy()
    originals, queries = found.copy(), np.zeros(rows.size, np.int64)
    fooled = np.zeros(rows.size, bool)
    for k, i in enumerate(rows):
        others = np.flatnonzero(classes.fooled(np.full(len(originals), i), classes.before))
        if others.size:
            distances = ((originals[others] - originals[i]) ** 2).sum(axis=1)
            found[i], fooled[k] = originals[others[distances.argmin()]], True
    seeds = [START_SEED if seed is None else seed] * len(found) if np.ndim(seed) == 0 else list(seed)
    streams = [np.random.default_rng([seeds[i], i if np.ndim(seed) == 0 else 0]) for i in rows]
    for _ in range(tries):
        missing = np.flatnonzero(~fooled)
        if not missing.size:
            break
        points = np.stack([streams[k].uniform(-0.5, 0.5, a.shape[1]) for k in missing]).astype(found.dtype)
        seen = backend.host(queried.classes(backend.native(points), CHECK_BATCH_SIZE))
        queries[missing] += 1
        hit = classes.fooled(rows[missing], seen)
        found[rows[missing[hit]]] = points[hit]
        fooled[missing[hit]] = True
    return backend.native(found[rows]), queries, fooled


def start_tries(max_queries: int | None, params: dict[str, Any], reserved: int) -> int:
    """Return the number of random images that may be tried as a start, so that one iteration of the walk still fits.

    `reserved` is the number of queries that are kept for the final check.
    """
    if max_queries is None:
        return MAX_TRIES
    walk = LabelWalk(samples=params.get("samples", LABEL_PROBES.least), shape=(), limit=0.0, starts=None)
    # Two queries before the search, one for the start and one for the end of the run, and those after it.
    return max(0, min(MAX_TRIES, max_queries // 4, max_queries - _cost(walk) - 4 - reserved))


def read_starts(
    starts: Any, queried: QueriedModel, a: Array, rows: NDArray[np.intp], classes: ImageClasses
) -> tuple[Array, NDArray[np.int64], NDArray[np.bool_]]:
    """Return the user's points for the images `rows` of a (B, d), as `find_starts` does. Each takes a query."""
    points, _ = read_images(starts, queried.model, (queried.low, queried.high), name="starts")
    expected = (a.shape[0], *queried.shape)
    if tuple(points.shape) != expected:
        raise checks.ArgumentValueError(f"`starts` must have the shape of `images`, {expected}; got {points.shape}.")
    backend = backend_of(a)
    host = backend_of(points).host(points).astype(backend.host(a).dtype)
    scaled = (host - (queried.low + queried.high) / 2) / (queried.high - queried.low)
    chosen = backend.native(scaled.reshape(a.shape)[rows].astype(host.dtype))
    seen = backend.host(queried.classes(chosen, CHECK_BATCH_SIZE))
    if not (fooled := classes.fooled(rows, seen)).all():
        k = int(np.flatnonzero(~fooled)[0])
        wanted = "as another class" if classes.target is None else f"as class {classes.target[rows[k]]}"
        raise checks.ArgumentValueError(
            f"`starts` must be images that the model sees {wanted}, but image {rows[k]} is seen as {seen[k]}."
        )
    return chosen, np.ones(rows.size, np.int64), fooled


def plan_method(
    queried: QueriedModel,
    a: Array,
    y: NDArray[np.int64],
    limits: Limits,
    method: str | Method,
    params: dict[str, Any],
    *,
    weight: float,
    kappa: float,
    targeted: bool,
    stop_first: bool,
) -> PlannedRun:
    """Plan a method of `minimize` on the loss of the paper, for originals a (B, d)."""
    if method == "auto":
        params = default_parameters(a, limits.max_evals, limits.max_iter, params)
    return PlannedRun(
        fun=AttackObjective(queried, weight, kappa, targeted=targeted),
        x0=0.0 * a,
        data=(a, y),
        method=method,
        params=params,
        watch=SuccessWatch(ends=stop_first),
        image=perturb,
        value_is_total=True,
        max_iter=limits.max_iter,
    )


def _cost(walk: BoundaryWalk | LabelWalk) -> int:
    """Return the number of queries of an iteration."""
    return walk.cost(False, Context(xp=np))


def _probes(limits: Limits, rule: ProbeRule, other: int) -> int:
    """Return the number of probes per iteration of a walk that makes `other` queries besides.

    Without `max_iter`, the number is then raised until the iterations use up the queries.
    """
    if limits.max_evals is None:
        return rule.most
    probes = min(max(limits.max_evals // rule.queries, rule.least), rule.most)
    iterations = max(1, _iterations(limits, probes + other))
    return max(probes, (limits.max_evals - 2) // iterations - other) if limits.max_iter is None else probes


def _iterations(limits: Limits, cost: int) -> int:
    """Return the number of iterations that the limits allow, with one evaluation for the start and one for the end."""
    fit = None if limits.max_evals is None else max(0, limits.max_evals - 2) // cost
    return min(n for n in (limits.max_iter, fit) if n is not None)


def refuse_parameters(params: dict[str, Any]) -> None:
    """Raise for parameters that a walk does not take: those of other methods."""
    if params.get("on_nonfinite") == "penalize":
        raise checks.ArgumentValueError(
            "`on_nonfinite` 'penalize' needs the loss of the paper: a walk follows margins, which have no worst value. "
            "Leave it out."
        )
    known = ("samples", *(minimize.__kwdefaults__ or ()))
    for name in params:
        if name not in known:
            hint = checks.did_you_mean(name, ["samples", "max_queries", "norm", "eps", "targets"])
            raise checks.ArgumentTypeError(
                f"`{name}` is not a parameter of 'auto', which takes `samples` and those of a homotopy, "
                f"{', '.join(sorted(HOMOTOPY_PARAMETERS))}.{hint}"
            )


def within_memory(attempt: Callable[..., Result], n: int) -> tuple[Result, str]:
    """Return attempt(batch_size=n) and a remark. If GPU memory runs out, halve the batch size and try again.

    Memory runs out in the first iterations, if at all, so that little work is repeated.
    """
    torch: Any = sys.modules.get("torch")
    size, remark = n, ""
    while True:
        try:
            return attempt(batch_size=size), remark
        except Exception as error:
            if size == 1 or not is_out_of_memory(error):
                raise
        # Outside of the except clause, since the exception's traceback holds the arrays of the failed attempt.
        gc.collect()
        if torch is not None and torch.cuda.is_available():
            torch.cuda.empty_cache()
        size //= 2
        remark = f"The GPU's memory sufficed for {size} images at a time, not for {n}."


def is_out_of_memory(error: Exception) -> bool:
    """Return True if PyTorch found too little memory on the GPU."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(error, torch.OutOfMemoryError)
