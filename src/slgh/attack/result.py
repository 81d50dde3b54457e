"""What became of the images: checked once more, and reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from slgh.attack.loss import perturb
from slgh.attack.model import Asked
from slgh.attack.passes import Passed
from slgh.backends import backend_of
from slgh.protocols import Array, Context
from slgh.result import Result, Status

BEFORE, AFTER = 2, 1
"""Queries an image besides those of `minimize`: its class, asked for twice, and the check of what is returned."""


class Outcome(StrEnum):
    """What became of an image."""

    SUCCESS = "success"
    FAILED = "failed"
    MISCLASSIFIED = "misclassified before, not attacked"
    THERE = "seen as the wanted class before, not attacked"
    NONFINITE = "the model's answers were not finite"
    INTERRUPTED = "interrupted"
    WAITING = "not begun when the time was up"
    UNCONFIRMED = "fooled by a tie at most, not when asked again"


@dataclass(frozen=True, kw_only=True)
class AttackResult:
    """What an attack on B images found; arrays of one figure an image are NumPy's.

    Attributes
    ----------
    images
        The least distorted adversarial image that was met, in the shape, range and library of the originals, as floats;
        the original itself where there was no success.
    success, outcome
        Whether the model was fooled, asked again with exactly the image that is returned, and what became of the image.
    label, before, after
        The true class, the model's on the original, and its on what is returned.
    queries
        How often the model was asked about the image, everything included: twice before the attack, to see its class
        and whether the model changes its mind, and once after a success.
    first_success, queries_to_success
        The first iteration whose iterate fooled the model, and the queries until then; -1 where none did.
    distortion
        The squared L2 norm of the perturbation of what is returned, pixels scaled to a range of width 1, as in the
        paper; NaN without success.
    last_distortion, last_total
        The same of the last iterate, adversarial or not; and the total loss, the function that is minimized, at the
        point that the run returned: the last iterate, or for "auto" the best one that was asked about.
    history
        Over the recorded iterations: "iteration", "queries", and of each image "total", "distortion", "margin" (by
        how much the right class leads, in log odds) and "t".
    runs
        The `slgh.Result` of each call of `minimize`: the first is on all images that were attacked, the second, which
        "auto" makes with many queries, on those that the first did not fool. Empty if none was attacked.
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
    runs: tuple[Result, ...]

    def __repr__(self) -> str:
        return f"AttackResult: {self.message}"

    @property
    def l2(self) -> NDArray[np.float64]:
        """The L2 norm of the perturbation, not squared."""
        return np.sqrt(self.distortion)


@dataclass(frozen=True, kw_only=True)
class Attacked:
    """The classes of all images, what the model saw in them, and what it is to see in a targeted attack."""

    label: NDArray[np.int64]
    before: NDArray[np.int64]
    wanted: NDArray[np.int64] | None


def report(asked: Asked, images: Array, a: Array, who: Attacked, passed: Sequence[Passed]) -> AttackResult:
    """What became of `images`, which are `a` (B, d) in [-0.5, 0.5]: every success is asked for once more."""
    B, host = len(who.label), backend_of(a).host
    queries, iterations = np.full(B, BEFORE), np.zeros(B, int)
    first, to_success = np.full(B, -1), np.full(B, -1)
    outcome = [Outcome.MISCLASSIFIED] * B
    if who.wanted is not None:
        outcome = [Outcome.THERE if there else Outcome.MISCLASSIFIED for there in who.before == who.wanted]
    distortion, last_distortion, last_total = (np.full(B, np.nan) for _ in range(3))
    after, found, history = who.before.copy(), images, list[dict[str, NDArray[Any]]]()
    for rows, run, _ in passed:
        seen, at = run.watched, host(run.watched["first"]).astype(int)
        first[rows] = np.where(at < 0, -1, iterations[rows] + at)
        to_success[rows] = np.where(at < 0, -1, queries[rows] + _queries_to_success(run, at))
        begun = (run.nit > 0) | (iterations[rows] == 0)
        last_distortion[rows[begun]], last_total[rows[begun]] = host(seen["distortion"])[begun], host(run.fun)[begun]
        history.append(_history(run, rows, queries, iterations))
        queries[rows] += run.nfev + run.njev
        iterations[rows] += run.nit
        for i, status in zip(rows, run.status, strict=True):
            outcome[i] = _failure(Status(status), int(iterations[i]))
        won = np.flatnonzero(at >= 0)
        if won.size:
            better, scores = _ask_again(asked, a, rows, run, won)
            here, classes = rows[won], scores.argmax(axis=1)
            queries[here] += AFTER
            fooled = classes != who.label[here] if who.wanted is None else classes == who.wanted[here]
            for i, won_over in zip(here, fooled, strict=True):
                outcome[i] = Outcome.SUCCESS if won_over else Outcome.UNCONFIRMED
            after[here[fooled]] = classes[fooled]
            distortion[here[fooled]] = host(seen["least"])[won[fooled]]
            found = _with_rows(found, here[fooled], better[backend_of(a).index(np.flatnonzero(fooled))])
    return AttackResult(
        images=found,
        success=np.array([one is Outcome.SUCCESS for one in outcome]),
        outcome=tuple(outcome),
        label=who.label,
        before=who.before,
        after=after,
        queries=queries,
        first_success=first,
        queries_to_success=to_success,
        distortion=distortion,
        last_distortion=last_distortion,
        last_total=last_total,
        history={name: np.concatenate([part[name] for part in history]) for name in (history[0] if history else ())},
        message=_message(outcome, passed),
        runs=tuple(run for _, run, _ in passed),
    )


def _failure(status: Status, nit: int) -> Outcome:
    """What became of an image that has no success."""
    if status == Status.MAX_SECONDS and nit == 0:
        return Outcome.WAITING
    return {Status.NONFINITE: Outcome.NONFINITE, Status.INTERRUPTED: Outcome.INTERRUPTED}.get(status, Outcome.FAILED)


def _ask_again(
    asked: Asked, a: Array, rows: NDArray[np.intp], run: Result, won: NDArray[np.intp]
) -> tuple[Array, NDArray[Any]]:
    """The adversarial images, in the shape and range of the originals, and the model's scores of exactly these."""
    xp, backend = array_namespace(a), backend_of(a)
    x = run.watched["x_least"][backend.index(won)]
    image = perturb(x, a[backend.index(rows[won])])
    scores = backend.host(asked.few(image))
    return xp.clip(asked.pixels(image), min=asked.low, max=asked.high), scores


def _with_rows(images: Array, rows: NDArray[np.intp], new: Array) -> Array:
    """A copy of the images with some of them replaced by `new` (n, d)."""
    if not rows.size:
        return images
    xp, index = array_namespace(images), backend_of(images).index
    source = np.zeros(images.shape[0], int)
    source[rows] = np.arange(rows.size)
    replaced = xp.reshape(index(np.isin(np.arange(source.size), rows)), (-1,) + (1,) * (images.ndim - 1))
    return xp.where(replaced, xp.reshape(new, (-1, *images.shape[1:]))[index(source)], images)


def refuse_small_budget(run: Result, max_queries: int | None) -> None:
    """Raise where the budget did not suffice for a single iteration: nothing can be said of the model then."""
    least = BEFORE + _looked(run) + _each(run) + 1 + AFTER
    if max_queries is not None and max_queries < least:
        raise ValueError(f"`max_queries` must allow an iteration, {least} queries an image; got {max_queries}.")


def _each(run: Result) -> int:
    """Queries of an iteration."""
    return int(run.method.oracle.cost(False, Context(xp=np, needs=run.method.schedule.needs | {"f"})))


def _looked(run: Result) -> int:
    """Queries before the first iteration: methods that report the best point look at the start."""
    return int(run.method.reports == "best")


def _queries_to_success(run: Result, first: NDArray[np.int64]) -> NDArray[np.int64]:
    """The queries until an iterate first fooled the model, the last of which may be that of the final point."""
    return np.asarray(_looked(run) + np.minimum(first + 1, run.nit) * _each(run) + (first == run.nit))


def _history(
    run: Result, rows: NDArray[np.intp], queries: NDArray[np.int64], iterations: NDArray[np.int64]
) -> dict[str, NDArray[Any]]:
    """The recorded iterations, with a column for each of the B images, which had so many queries and iterations before.

    NaN for those that were not attacked, or no longer.
    """
    recorded = run.history
    columns = {
        "iteration": iterations[rows].max() + recorded["iteration"],
        "queries": queries[rows].max() + recorded["nfev"],
    }
    for name, of in {"total": "fun", "distortion": "distortion", "margin": "margin", "t": "t"}.items():
        columns[name] = np.full((len(recorded["iteration"]), len(queries)), np.nan)
        columns[name][:, rows] = recorded[of]
    return columns


def _message(outcome: list[Outcome], passed: Sequence[Passed]) -> str:
    """How many images fared how, and what the runs say."""
    counts = {kind: outcome.count(kind) for kind in Outcome}
    text = "; ".join(f"{n} of {len(outcome)}: {kind.value}" for kind, n in counts.items() if n) + "."
    if 2 * counts[Outcome.MISCLASSIFIED] > len(outcome) > 1:
        text += " Most are misclassified to begin with: are labels, range of pixels and order of channels right?"
    said = [text]
    for number, (rows, run, remark) in enumerate(passed):
        if number:
            said.append(f"Once more, with a wider look, for the {rows.size} that the first homotopy did not fool.")
        if not (run.status == Status.WATCHED).all():
            said.append(run.message)
        said.append(remark)
    return " ".join(filter(None, said))
