"""The result of an attack: every success is checked with one or a few more queries, and reported."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from slgh.attack.boundary.projection import Norm
from slgh.attack.boundary.projection import distortion as distortion_in
from slgh.attack.model import CHECK_BATCH_SIZE, ImageClasses, QueriedModel
from slgh.attack.plan import PlannedRun
from slgh.backends import backend_of
from slgh.checks import ArgumentValueError
from slgh.display import as_html, as_text, spread
from slgh.engine.termination import Status
from slgh.protocols import Array
from slgh.result import Result

QUERIES_BEFORE = 2
"""Queries per image before `minimize`: its class, queried twice to see how much the outputs differ."""

QUERIES_AFTER = 1
"""Queries per image after `minimize`: the check of the image that is returned."""

RETRIES = (1.002, 1.01, 1.05)
"""If the check fails, images at these multiples of the distance are checked, as far as `max_queries` allows."""


def queries_after(outputs: str) -> int:
    """Return the queries per image that are kept for the check. Without scores, a success has no safe margin."""
    return QUERIES_AFTER + (len(RETRIES) if outputs == "labels" else 0)


class FinishedRun(NamedTuple):
    """The numbers of the images that were attacked, the run, a remark on memory (or ""), and the plan of the run."""

    rows: NDArray[np.intp]
    run: Result
    remark: str
    plan: PlannedRun


class Outcome(StrEnum):
    """The outcome for one image."""

    SUCCESS = "success"
    FAILED = "failed"
    MISCLASSIFIED = "misclassified before, not attacked"
    THERE = "seen as the wanted class before, not attacked"
    NONFINITE = "the model's answers were not finite"
    INTERRUPTED = "interrupted"
    NO_START = "no image to start from was found"
    WAITING = "not begun when the time was up"
    UNCONFIRMED = "fooled once, but not when queried again"


@dataclass(frozen=True, kw_only=True)
class AttackResult:
    """The result of an attack on B images. Arrays with one number per image are NumPy arrays.

    Attributes
    ----------
    images
        The least distorted adversarial image that was confirmed, in the shape, range and library of the originals, as
        floats; the original itself if there was no success.
    success, outcome
        True if the model is fooled by exactly the image that is returned, in a separate query; and an `Outcome`.
    label, before, after
        The true class, and the model's class of the original and of the image that is returned.
    queries
        The number of queries per image, everything included: two before the attack, to see the class and whether the
        model is deterministic, and one after a success, or up to four if the first does not confirm it.
    first_success, queries_to_success
        The first iteration in which a point fooled the model, within `eps`, and the queries until then; -1 if there
        was none.
    norm, distortion
        The norm of the distance; and the squared L2 norm of the perturbation that is returned, as in the paper, or for
        "linf" its largest entry. Pixels are scaled to a range of width 1. NaN without success.
    last_distortion, last_total
        The distortion of the last iterate, adversarial or not; and the total loss of the paper at the point that the
        run returned: the last iterate, or for "auto" the nearest image that fools the model, where the loss is about
        its distortion. NaN for "linf" and for models that return classes.
    history
        Arrays over the recorded iterations: "iteration", "queries", and per image "total", "distortion", "margin" (the
        lead of the right class, in log odds), "t" and "least", the distortion of the nearest adversarial image until
        then (infinite before the first).
    message
        The number of images per outcome, and the message of the run.
    run
        The `slgh.Result` of `minimize` for the images that were attacked; None if there were none.
    """

    images: Array
    success: NDArray[np.bool_]
    outcome: tuple[Outcome, ...]
    label: NDArray[np.int64]
    before: NDArray[np.int64]
    after: NDArray[np.int64]
    queries: NDArray[np.int64]
    first_success: NDArray[np.int64]
    queries_to_success: NDArray[np.int64]
    distortion: NDArray[np.float64]
    last_distortion: NDArray[np.float64]
    last_total: NDArray[np.float64]
    history: dict[str, NDArray[Any]]
    message: str
    run: Result | None
    norm: Norm = "l2"

    def __repr__(self) -> str:
        return as_text("AttackResult", self._rows())

    def _repr_html_(self) -> str:
        return as_html("AttackResult", self._rows())

    def _rows(self) -> dict[str, str]:
        """Return the message, and a summary of the images."""
        rows = {
            "message": self.message,
            "images": f"array of shape {tuple(self.images.shape)}",
            "success": f"{int(self.success.sum())} of {self.success.size}",
            "queries": spread(self.queries),
        }
        if not self.success.any():
            return rows
        won = self.success
        return rows | {
            "queries_to_success": spread(self.queries_to_success[won]),
            self.norm: spread(self.distance[won]),
        }

    @property
    def distance(self) -> NDArray[np.float64]:
        """The norm of the perturbation, not squared, with pixels scaled to a range of width 1."""
        return np.sqrt(self.distortion) if self.norm == "l2" else self.distortion


def report(
    queried: QueriedModel,
    images: Array,
    a: Array,
    classes: ImageClasses,
    spent: NDArray[np.int64],
    finished: FinishedRun | None,
    *,
    no_start: NDArray[np.intp],
    norm: Norm,
    weight: float,
    kappa: float,
    reach: float | None,
    max_queries: int | None,
) -> AttackResult:
    """Return the result for `images`, which are `a` (B, d) in [-0.5, 0.5]. Every success is queried once more.

    If a walk's success is not confirmed, images a little farther away are queried, as far as `max_queries` allows.

    `spent` (B,) counts the queries before the run. `no_start` are the images for which no start was found. `reach` is
    the largest distortion of a success, if that is limited.
    """
    B, host = len(classes.label), backend_of(a).host
    queries = spent.copy()
    first, to_success = np.full(B, -1), np.full(B, -1)
    outcome = [Outcome.MISCLASSIFIED] * B
    if classes.target is not None:
        outcome = [Outcome.THERE if there else Outcome.MISCLASSIFIED for there in classes.before == classes.target]
    for i in no_start:
        outcome[i] = Outcome.NO_START
    distortion, last_distortion, last_total = (np.full(B, np.nan) for _ in range(3))
    after, found, history = classes.before.copy(), images, dict[str, NDArray[Any]]()
    if finished is not None:
        rows, run, _, plan = finished
        watched, at = run.watched, host(run.watched["first"]).astype(int)
        least = host(watched["least"])
        first[rows] = at
        to_success[rows] = np.where(at < 0, -1, queries[rows] + _queries_to_success(run, at))
        last_distortion[rows] = host(watched["distortion"])
        last_total[rows] = host(run.fun)
        # The loss of the paper is defined by scores and the squared L2 norm.
        weight = weight if norm == "l2" and queried.outputs != "labels" else np.nan
        if not plan.value_is_total:
            here = total_loss(host(watched["margin"]), last_distortion[rows], weight, kappa)
            last_total[rows] = np.where(np.isfinite(least), least + 0.0 * weight, here)
        history = _history(finished, queries, weight, kappa)
        queries[rows] += run.nfev + run.njev
        for i, status, nit in zip(rows, run.status, run.nit, strict=True):
            outcome[i] = _failure(Status(status), int(nit))
        successes = np.flatnonzero((at >= 0) & (True if reach is None else least <= reach))
        if successes.size:
            queried_rows = rows[successes]
            adversarial, seen, far = _query_again(queried, a, finished, successes, norm)
            queries[queried_rows] += QUERIES_AFTER
            fooled = classes.fooled(queried_rows, seen)
            for share in () if plan.value_is_total else RETRIES:
                again = ~fooled if max_queries is None else ~fooled & (queries[queried_rows] < max_queries)
                if reach is not None:
                    again &= least[successes] * (share * share if norm == "l2" else share) <= reach
                if not again.any():
                    break
                farther = _query_again(queried, a, finished, successes[again], norm, share)
                queries[queried_rows[again]] += 1
                adversarial = _with_rows(adversarial, np.flatnonzero(again), farther[0])
                seen[again], far[again] = farther[1:]
                fooled = fooled | (again & classes.fooled(queried_rows, seen))
            for i, confirmed in zip(queried_rows, fooled, strict=True):
                outcome[i] = Outcome.SUCCESS if confirmed else Outcome.UNCONFIRMED
            confirmed_rows = queried_rows[fooled]
            after[confirmed_rows] = seen[fooled]
            distortion[confirmed_rows] = (least[successes] if plan.value_is_total else far)[fooled]
            found = _with_rows(found, confirmed_rows, adversarial[backend_of(a).index(np.flatnonzero(fooled))])
    return AttackResult(
        images=found,
        success=np.array([one is Outcome.SUCCESS for one in outcome]),
        outcome=tuple(outcome),
        label=classes.label,
        before=classes.before,
        after=after,
        queries=queries,
        first_success=first,
        queries_to_success=to_success,
        distortion=distortion,
        last_distortion=last_distortion,
        last_total=last_total,
        history=history,
        message=_message(outcome, finished),
        run=None if finished is None else finished.run,
        norm=norm,
    )


def total_loss(margin: NDArray[Any], distortion: NDArray[Any], weight: float, kappa: float) -> NDArray[Any]:
    """Return the total loss of the paper."""
    return np.asarray(weight * np.maximum(margin, -kappa) + distortion)


def _failure(status: Status, nit: int) -> Outcome:
    """Return the outcome of an image without a success."""
    if status == Status.MAX_SECONDS and nit == 0:
        return Outcome.WAITING
    return {Status.NONFINITE: Outcome.NONFINITE, Status.INTERRUPTED: Outcome.INTERRUPTED}.get(status, Outcome.FAILED)


def _query_again(
    queried: QueriedModel,
    a: Array,
    finished: FinishedRun,
    successes: NDArray[np.intp],
    norm: Norm,
    share: float = 1.0,
) -> tuple[Array, NDArray[Any], NDArray[Any]]:
    """Return the adversarial images in the range of the originals, their classes by the model, and their distortion.

    `share` other than 1 multiplies the change of the image.
    """
    backend, xp = backend_of(a), array_namespace(a)
    x, originals = finished.run.watched["x_least"][backend.index(successes)], a[backend.index(finished.rows[successes])]
    image = finished.plan.image(x, originals)
    if share != 1:
        image = xp.clip(originals + share * (image - originals), min=-0.5, max=0.5)
    seen = backend.host(queried.classes(image, CHECK_BATCH_SIZE))
    far = backend.host(distortion_in(image - originals, norm, xp))
    return queried.pixels(image), np.array(seen), np.array(far)


def _with_rows(images: Array, rows: NDArray[np.intp], new: Array) -> Array:
    """Return a copy of the images in which `new` (n, d) replaces `rows`. JAX arrays cannot be assigned to."""
    source = np.arange(images.shape[0])
    source[rows] = source.size + np.arange(rows.size)
    both = array_namespace(images).concat([images, new.reshape(-1, *images.shape[1:])])
    return both[backend_of(images).index(source)]


def check_budget(run: Result, max_queries: int | None, spent: int, reserved: int) -> None:
    """Raise if the budget was too small for a single iteration: such a run says nothing about the model."""
    before, each = _costs(run)
    least = spent + before + each + 1 + reserved
    if max_queries is not None and max_queries < least:
        raise ArgumentValueError(
            f"`max_queries` must allow an iteration, {least} queries per image; got {max_queries}."
        )


def _costs(run: Result) -> tuple[int, int]:
    """Return the queries per image of a run before its first iteration, and in each iteration."""
    method = run.method
    ctx = backend_of(run.x).context(method.schedule.needs | {"f"}, stochastic=False)
    # Methods that report the best point evaluate the start as well.
    return int(method.reports == "best"), int(method.oracle.cost(False, ctx))


def _queries_to_success(run: Result, first: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the queries until an iterate first fooled the model. The last one may be that of the final point."""
    before, each = _costs(run)
    return np.asarray(before + np.minimum(first + 1, run.nit) * each + (first == run.nit))


def _history(finished: FinishedRun, queries: NDArray[np.int64], weight: float, kappa: float) -> dict[str, NDArray[Any]]:
    """Return the recorded iterations, with a column for each of the B images: NaN if it was not attacked, or no longer.

    `queries` (B,) counts those before the run.
    """
    rows, recorded = finished.rows, finished.run.history
    columns = {"iteration": recorded["iteration"], "queries": queries[rows].max() + recorded["nfev"]}
    total = recorded["fun"]
    if not finished.plan.value_is_total:
        total = total_loss(recorded["margin"], recorded["distortion"], weight, kappa)
    values = {"total": total, "t": recorded["t"]}
    values |= {name: recorded[name] for name in ("distortion", "margin", "least")}
    for name, column in values.items():
        columns[name] = np.full((len(recorded["iteration"]), len(queries)), np.nan)
        columns[name][:, rows] = column
    return columns


def _message(outcome: list[Outcome], finished: FinishedRun | None) -> str:
    """Return the number of images per outcome, and the message of the run."""
    counts = {kind: outcome.count(kind) for kind in Outcome}
    text = "; ".join(f"{n} of {len(outcome)}: {kind.value}" for kind, n in counts.items() if n) + "."
    if 2 * counts[Outcome.MISCLASSIFIED] > len(outcome) > 1:
        text += " Most are misclassified to begin with: are labels, range of pixels and order of channels right?"
    messages = [text]
    if finished is not None:
        if not (finished.run.status == Status.WATCHED).all():
            messages.append(finished.run.message)
        messages.append(finished.remark)
    return " ".join(filter(None, messages))
