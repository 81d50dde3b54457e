"""The front door of the attack: one call of `minimize` for all images."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from slgh import checks
from slgh.attack.memory import within_memory
from slgh.attack.model import OUTPUTS, Asked, first_answer, read_images, read_labels, refuse_classes
from slgh.attack.objective import INSIDE, AttackObjective, Successes
from slgh.attack.outcome import AFTER, BEFORE, Attacked, AttackResult, refuse_small_budget, report
from slgh.backends import backend_of
from slgh.engine.checkpoint import Checkpoint
from slgh.engine.door import read_checkpoint
from slgh.method import Method
from slgh.minimize import minimize
from slgh.oracles.asking import zeroth_order_cosine
from slgh.parts import Array

DEFAULT_QUERIES = 10_000
"""`max_queries` where neither it nor `max_iter` is given."""

LEAST_RADIUS, SAMPLES = 0.1, 10
"""The least first t of "auto" for images, and its pairs of samples."""

FALL = 6e-6
"""How far its t falls: to the least that float32, or float64, can tell differences at."""

NOT_HERE = {
    "max_evals": "evaluations are queries here; pass max_queries",
    "eps": "there is no ball to stay in, the distortion is minimised; max_queries and weight say how far",
    "epsilon": "there is no ball to stay in, the distortion is minimised; max_queries and weight say how far",
    "norm": "the distortion is the squared L2 norm",
    "batch_size": "how many images the model gets in one call is at_most",
    "device": "the attack runs where the images are, or where a PyTorch module is",
} | dict.fromkeys(("fun", "x0", "data", "vectorized", "batched", "watch", "args"), "the attack says it to `minimize`")
"""What `minimize`, foolbox and ART know, and what it is here."""

STOPS = ("first success", "end")


class Reach(NamedTuple):
    """The first t of "auto" and its `alpha`."""

    t1: float
    alpha: float


def radius(a: Array) -> tuple[float, float]:
    r"""The first t of "auto" for images a (B, d) in [-0.5, 0.5]: for few queries, and for many.

    x has to be as large as :math:`|\tanh^{-1}(2a)|` to move a pixel through half of its range. Few queries take 0.4
    times the median of it: about 3 for black and white, 0.2 for photographs. Many take 0.8 times its root mean square,
    where the nearly white and black pixels of photographs count too. At least 0.1, for images that are nearly grey.
    """
    if not a.shape[0]:
        return LEAST_RADIUS, LEAST_RADIUS
    far = np.abs(np.arctanh(backend_of(a).host(a) * (2 * INSIDE))).astype(float)
    near, wide = 0.4 * float(np.median(far)), 0.8 * float(np.sqrt(np.mean(far**2)))
    return max(LEAST_RADIUS, near), max(LEAST_RADIUS, near, wide)


def reach(a: Array, iterations: int, samples: int) -> Reach:
    r"""What "auto" begins with for images a (B, d), given its iterations.

    x gets as far as the iterations, T, times the cosine c between estimate and gradient, so that steps of
    :math:`\alpha = \sqrt{27 / (T c)}` reach what can be reached: 1 for 10,000 queries about a photograph of CIFAR-10,
    and never more than 4. Where less would do, t is larger and alpha smaller instead, as far as there is time: a wide
    look finds a way to every image, and short steps a little distorted one. Going the same way in shorter steps takes
    half as much again.
    """
    near, wide = radius(a)
    alpha = min(math.sqrt(27 / (max(1, iterations) * zeroth_order_cosine(samples, a.shape[1]))), 4.0)
    ample = min(max(0.0, 1 / alpha - 1), 1.0)
    t1 = near ** (1 - ample) * wide**ample
    return Reach(t1, alpha * near / t1 * (1 + ample / 2))


def usual(a: Array, max_queries: int | None, max_iter: int | None, params: dict[str, Any]) -> dict[str, Any]:
    """The parameters of "auto" for images a (B, d), where they are not given."""
    samples = params.get("samples", SAMPLES)
    chosen: dict[str, Any] = {"samples": samples, "oracle": "antithetic"}
    if "schedule" not in params:
        chosen |= {"shape": 1.0, "fall": FALL}
    if not isinstance(samples, int) or samples < 1:
        return chosen | {"t1": radius(a)[0]} | params
    iterations = [n for n in (max_iter, max_queries and max_queries // (2 * samples + 1)) if n is not None]
    begin = reach(a, min(iterations), samples)
    return chosen | {"t1": begin.t1} | ({} if "update" in params else {"alpha": begin.alpha}) | params


def attack(
    model: Callable[[Array], Any],
    images: Array,
    labels: Any,
    *,
    targets: Any = None,
    pixels: tuple[float, float] = (0.0, 1.0),
    outputs: str = "logits",
    method: str | Method = "auto",
    max_queries: int | None = None,
    max_iter: int | None = None,
    max_seconds: float | None = None,
    stop: str = "end",
    weight: float = 10.0,
    kappa: float = 1e-10,
    at_most: int | None = None,
    at_once: int | None = None,
    seed: Any = None,
    progress: bool = False,
    history: int | str | None = 1000,
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    **params: Any,
) -> AttackResult:
    r"""Look for small changes to images that make a model misclassify them, by asking it alone.

    Each image a is a problem of its own, and all are attacked at once. What is minimised over x is
    :math:`f(x) = \lambda \ell(a(x)) + \|a(x) - a\|^2`, where :math:`a(x) = 0.5 \tanh(\tanh^{-1}(2a) + x)` and
    :math:`\ell` is the loss of Carlini and Wagner (see `slgh.attack.objective`).

    Parameters
    ----------
    model
        Images (N, ...) to logits or probabilities (N, K), in the library of `images`: a function, a remote call, a
        PyTorch module (then `images` may also be NumPy's; they are brought to its device).
    images, labels
        (B, ...) in whatever shape the model reads, and their classes (B,). Images that the model misclassifies already
        are reported and left alone.
    targets
        Classes (B,), or one for all, that the model is to see instead; without, any wrong one will do.
    pixels
        The range of the pixels, (0, 1) or (-0.5, 0.5), say. It is checked, and never left.
    outputs
        Whether the model returns "logits" or "probabilities".
    method
        Any method of `slgh.METHODS`. `params` are its hyperparameters, as in `slgh.minimize`. "auto" needs none: its
        first t follows from how far the pixels are from the middle of their range, its steps from `max_queries`.
    max_queries
        How often the model may be asked about an image, everything included. It is never exceeded. With neither it nor
        `max_iter`: 10,000.
    stop
        "end": an image is made less distorted to the end, as in the paper. "first success": it is left alone as soon as
        an iterate of it fools the model, and not by a hair.
    weight, kappa
        :math:`\lambda`, and the confidence :math:`\kappa`: by how much the wrong class is to lead, in log odds, before
        only the distortion counts. An image is adversarial as soon as the wrong class leads at all.
    at_most
        How many images the model gets in one call; without, all points of all images that are attacked at once.
    at_once
        How many images are attacked at the same time; where one is done with, another takes its place. Without, all; if
        the GPU has too little memory for that, half as many, and so on.
    max_iter, max_seconds, seed, progress, history, checkpoint
        As in `slgh.minimize`.

    Examples
    --------
    A classifier of two pixels that says which is brighter:

    >>> import numpy as np
    >>> from slgh.attack import attack
    >>> found = attack(lambda a: 9 * a, np.array([[0.6, 0.4]]), [0], max_queries=2000, seed=0)
    >>> bool(found.success[0]), int(found.after[0]), bool(found.images[0, 0] <= found.images[0, 1])
    (True, 1, True)
    """
    for name in params:
        if name in NOT_HERE:
            raise TypeError(f"`{name}` is not taken: {NOT_HERE[name]}.")
    checks.choice("outputs", outputs, OUTPUTS)
    stop = stop.replace("-", " ") if isinstance(stop, str) else stop
    checks.choice("stop", stop, STOPS)
    checks.real("weight", weight, above=0)
    checks.at_least("kappa", kappa, 0)
    for name, number in (("at_most", at_most), ("at_once", at_once)):
        if number is not None:
            checks.count(name, number)
    if max_queries is None and max_iter is None:
        max_queries = DEFAULT_QUERIES
    if max_queries is not None:
        checks.count("max_queries", max_queries, BEFORE + AFTER + 1)
    given, (low, high) = read_images(images, model, pixels)
    asked = Asked(model=model, shape=tuple(given.shape[1:]), low=low, high=high, outputs=outputs, at_most=at_most)
    xp, backend, B = array_namespace(given), backend_of(given), given.shape[0]
    backend.refuse((model,), "model")
    with backend.session(differences=not params.get("tf32")):
        a = xp.reshape((given - (low + high) / 2) / (high - low), (B, -1))
        label = read_labels("labels", labels, B)
        wanted = None if targets is None else read_labels("targets", np.broadcast_to(targets, B), B)
        scores = first_answer(asked, a, backend.host)
        refuse_classes("labels", label, scores.shape[1])
        if wanted is not None:
            refuse_classes("targets", wanted, scores.shape[1])
        before = scores.argmax(axis=1)
        attacked = np.flatnonzero(before == label if wanted is None else (before == label) & (before != wanted))
        ours = a[backend.index(attacked)]
        if method == "auto":
            params = usual(ours, max_queries, max_iter, params)
        run, remark = None, ""
        if attacked.size:
            attempt = partial(
                minimize,
                AttackObjective(asked, float(weight), float(kappa), targeted=wanted is not None),
                xp.zeros_like(ours),
                data=(ours, (label if wanted is None else wanted)[attacked]),
                method=method,
                vectorized=True,
                batched=True,
                max_evals=None if max_queries is None else max_queries - BEFORE - AFTER,
                max_iter=max_iter,
                max_seconds=max_seconds,
                watch=Successes(ends=stop == "first success"),
                seed=seed,
                progress=progress,
                history=history,
                checkpoint=checkpoint,
                **params,
            )
            at_once = at_once or _kept_at_once(checkpoint) or attacked.size
            run, remark = within_memory(attempt, min(at_once, attacked.size))
            refuse_small_budget(run, max_queries)
        who = Attacked(rows=attacked, label=label, before=before, wanted=wanted)
        found = report(asked, given, a, who, run, remark)
    if isinstance(images, np.ndarray | list | tuple):
        return replace(found, images=backend.host(found.images))
    return found


def _kept_at_once(checkpoint: str | os.PathLike[str] | Checkpoint | None) -> int | None:
    """How many images at a time the run in a checkpoint had, where memory did not suffice for all."""
    saver = read_checkpoint(checkpoint)
    kept = saver.found[0]["identity"].get("at_once") if saver and saver.found else None
    return None if kept is None else int(kept["problems"])
