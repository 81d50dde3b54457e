"""The front door of the attack: `minimize` on all images at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from slgh import checks
from slgh.attack.loss import AttackObjective, Successes
from slgh.attack.model import OUTPUTS, Asked, first_answer, read_images, read_labels, refuse_classes
from slgh.attack.passes import go_through
from slgh.attack.plan import Pass, plan
from slgh.attack.result import AFTER, BEFORE, Attacked, AttackResult, refuse_small_budget, report
from slgh.backends import backend_of
from slgh.engine.checkpoint import Checkpoint
from slgh.method import Method
from slgh.minimize import minimize
from slgh.protocols import Array
from slgh.result import Result

DEFAULT_QUERIES = 10_000
"""`max_queries` where neither it nor `max_iter` is given."""

NOT_HERE = {
    "max_evals": "evaluations are queries here; pass max_queries",
    "eps": "there is no ball to stay in, the distortion is minimized; max_queries and weight say how far",
    "epsilon": "there is no ball to stay in, the distortion is minimized; max_queries and weight say how far",
    "norm": "the distortion is the squared L2 norm",
    "device": "the attack runs where the images are, or where a PyTorch module is",
} | dict.fromkeys(("fun", "x0", "data", "vectorized", "batched", "watch", "args"), "the attack says it to `minimize`")
"""What `minimize`, foolbox and ART know, and what it is here."""

STOPS = ("first success", "end")


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
    model_batch_size: int | None = None,
    batch_size: int | None = None,
    seed: Any = None,
    progress: bool = False,
    history: int | str | None = 1000,
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    **params: Any,
) -> AttackResult:
    r"""Look for small changes to images that make a model misclassify them, by asking it alone.

    Each image a is a problem of its own, and all are attacked at once. What is minimized over x is
    :math:`f(x) = \lambda \ell(a(x)) + \|a(x) - a\|^2`, where :math:`a(x) = 0.5 \tanh(\tanh^{-1}(2a) + x)` and
    :math:`\ell` is the loss of Carlini and Wagner (see `slgh.attack.loss`).

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
        first t follows from how far the pixels are from the middle of their range, its steps from `max_queries`. With
        many queries it is two homotopies, a narrow one that distorts little and a wide one for the images that the
        first did not fool.
    max_queries
        How often the model may be asked about an image, everything included. It is never exceeded. With neither it nor
        `max_iter`: 10,000.
    stop
        "end": an image is made less distorted to the end, as in the paper. "first success": it is left alone as soon as
        an iterate of it fools the model, and not by a hair.
    weight, kappa
        :math:`\lambda`, and the confidence :math:`\kappa`: by how much the wrong class is to lead, in log odds, before
        only the distortion counts. An image is adversarial as soon as the wrong class leads at all.
    model_batch_size
        How many images the model gets in one call; without, all points of all images that are attacked at once.
    batch_size
        How many images are attacked at the same time; where one is done with, another takes its place. Without, all; if
        the GPU has too little memory for that, half as many, and so on.
    max_iter, max_seconds, seed, progress, history, checkpoint
        As in `slgh.minimize`; `seed` may be one for each image. Of two homotopies each has a history of so many rows,
        and the second a checkpoint of its own: attack.2.npz beside attack.npz.

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
    for name, number in (("model_batch_size", model_batch_size), ("batch_size", batch_size)):
        if number is not None:
            checks.count(name, number)
    if max_iter is not None:
        checks.count("max_iter", checks.plain(max_iter), 0)
    if max_queries is None and max_iter is None:
        max_queries = DEFAULT_QUERIES
    if max_queries is not None:
        checks.count("max_queries", max_queries, BEFORE + AFTER + 1)
    given, (low, high) = read_images(images, model, pixels)
    asked = Asked(
        model=model,
        shape=tuple(given.shape[1:]),
        low=low,
        high=high,
        outputs=outputs,
        model_batch_size=model_batch_size,
    )
    xp, backend, B = array_namespace(given), backend_of(given), given.shape[0]
    backend.check_functions((model,), "model")
    if np.ndim(seed) and len(seed) != B:
        raise ValueError(f"`seed` must be one integer, or one an image, {B}; got {len(seed)}.")
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
        max_evals = None if max_queries is None else max_queries - BEFORE - AFTER
        passes = [Pass(params, max_evals, max_iter)]
        if method == "auto":
            passes = plan(a[backend.index(attacked)], max_evals, max_iter, params, minimizes=stop == "end")
        objective = AttackObjective(asked, float(weight), float(kappa), targeted=wanted is not None)

        def minimize_rows(rows: NDArray[np.intp], **more: Any) -> Result:
            ours = a[backend.index(rows)]
            return minimize(
                objective,
                xp.zeros_like(ours),
                data=(ours, (label if wanted is None else wanted)[rows]),
                method=method,
                vectorized=True,
                batched=True,
                watch=Successes(ends=stop == "first success"),
                progress=progress,
                history=history,
                **more,
            )

        passed = []
        if attacked.size:
            passed = go_through(
                passes,
                minimize_rows,
                attacked,
                batch_size=batch_size,
                max_seconds=max_seconds,
                seed=seed,
                checkpoint=checkpoint,
            )
            refuse_small_budget(passed[0].run, max_queries)
        who = Attacked(label=label, before=before, wanted=wanted)
        found = report(asked, given, a, who, passed)
    if isinstance(images, np.ndarray | list | tuple):
        return replace(found, images=backend.host(found.images))
    return found
