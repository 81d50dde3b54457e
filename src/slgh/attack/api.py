"""`attack`: check the arguments, plan the homotopies, run `minimize` on all images, report."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from slgh import checks
from slgh.attack.homotopies import PlannedHomotopy, plan_homotopies, run_homotopies
from slgh.attack.loss import AttackObjective, SuccessWatch
from slgh.attack.model import OUTPUTS, ImageClasses, QueriedModel, check_classes, first_scores, read_images, read_labels
from slgh.attack.result import QUERIES_AFTER, QUERIES_BEFORE, AttackResult, check_budget, report
from slgh.backends import backend_of
from slgh.engine.checkpoint import Checkpoint
from slgh.method import Method
from slgh.minimize import minimize
from slgh.parameters import History
from slgh.protocols import Array
from slgh.result import Result

DEFAULT_QUERIES = 10_000
"""`max_queries` if neither it nor `max_iter` is given."""

FOREIGN_ARGUMENTS = {
    "max_evals": "evaluations are queries here; pass max_queries",
    "eps": "there is no ball to stay in, the distortion is minimized; max_queries and weight say how far",
    "epsilon": "there is no ball to stay in, the distortion is minimized; max_queries and weight say how far",
    "norm": "the distortion is the squared L2 norm",
    "device": "the attack runs where the images are, or where a PyTorch module is",
} | dict.fromkeys(("fun", "x0", "data", "vectorized", "batched", "watch", "args"), "the attack says it to `minimize`")
"""Arguments of `minimize`, foolbox or ART that `attack` does not take, with the reason."""

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
    history: History = 1000,
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    **params: Any,
) -> AttackResult:
    r"""Find small changes to images that make a model misclassify them, from the model's outputs alone.

    Each image a is a problem of its own, and all are attacked at once. The function minimized over x is
    :math:`f(x) = \lambda \ell(a(x)) + \|a(x) - a\|^2`, where :math:`a(x) = 0.5 \tanh(\tanh^{-1}(2a) + x)` and
    :math:`\ell` is the loss of Carlini and Wagner (see `slgh.attack.loss`).

    Parameters
    ----------
    model
        Maps images (N, ...) to logits or probabilities (N, K), in the array library of `images`: a function, a remote
        call, or a PyTorch module (then `images` may also be a NumPy array, which is copied to the module's device).
    images, labels
        Images (B, ...) in the shape that the model reads, and their classes (B,). Images that the model already
        misclassifies are reported and not attacked.
    targets
        Classes (B,), or one for all images, that the model should predict instead. None: any wrong class.
    pixels
        The range of the pixels, for example (0, 1) or (-0.5, 0.5). The images are checked against it, and no query
        leaves it.
    outputs
        What the model returns: "logits" or "probabilities".
    method
        Any method of `slgh.METHODS`. "auto" needs no hyperparameters: it chooses the first t from the distance of the
        pixels to the middle of their range, and the steps from `max_queries`. With many queries it runs two homotopies:
        a narrow one that distorts little, then a wide one for the images that the first did not fool.
    max_queries
        Maximum number of queries per image, everything included. It is never exceeded. With neither it nor
        `max_iter`: 10,000.
    stop
        "end": reduce the distortion until the end, as in the paper. "first success": stop an image as soon as an
        iterate fools the model by a clear margin.
    weight, kappa
        :math:`\lambda`, and the confidence :math:`\kappa`: the lead of the wrong class, in log odds, beyond which only
        the distortion counts. An image is adversarial as soon as the wrong class leads at all.
    model_batch_size
        Maximum number of images per call of the model. None: all points of all images that are attacked concurrently.
    batch_size
        Number of images attacked concurrently. When one is finished, another takes its slot. None: all of them, and if
        GPU memory runs out, half as many, and so on.
    max_iter, max_seconds, seed, progress, history, checkpoint
        As in `slgh.minimize`; `seed` may hold one seed per image. If there are two homotopies, each has its own
        history, and the second has its own checkpoint: attack.2.npz next to attack.npz.
    **params
        Hyperparameters of the method, and other arguments of `slgh.minimize` such as `tf32`.

    Examples
    --------
    A classifier of two pixels that returns the brighter one:

    >>> import numpy as np
    >>> from slgh.attack import attack
    >>> found = attack(lambda a: 9 * a, np.array([[0.6, 0.4]]), [0], max_queries=2000, seed=0)
    >>> bool(found.success[0]), int(found.after[0]), bool(found.images[0, 0] <= found.images[0, 1])
    (True, 1, True)
    """
    for name in params:
        if name in FOREIGN_ARGUMENTS:
            raise checks.ArgumentTypeError(f"`{name}` is not taken: {FOREIGN_ARGUMENTS[name]}.")
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
        checks.count("max_queries", max_queries, QUERIES_BEFORE + QUERIES_AFTER + 1)
    given, (low, high) = read_images(images, model, pixels)
    queried = QueriedModel(
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
        raise checks.ArgumentValueError(
            f"`seed` must be an integer, or one integer per image (expected {B}); got {len(seed)}."
        )
    with backend.session(differences=not params.get("tf32")):
        a = xp.reshape((given - (low + high) / 2) / (high - low), (B, -1))
        label = read_labels("labels", labels, B)
        target = None if targets is None else read_labels("targets", np.broadcast_to(targets, B), B)
        scores = first_scores(queried, a, backend.host)
        check_classes("labels", label, scores.shape[1])
        if target is not None:
            check_classes("targets", target, scores.shape[1])
        classes = ImageClasses(label=label, before=scores.argmax(axis=1), target=target)
        attacked = classes.attacked()
        max_evals = None if max_queries is None else max_queries - QUERIES_BEFORE - QUERIES_AFTER
        plans = [PlannedHomotopy(params, max_evals, max_iter)]
        if method == "auto":
            plans = plan_homotopies(
                a[backend.index(attacked)], max_evals, max_iter, params, reduce_distortion=stop == "end"
            )
        objective = AttackObjective(queried, float(weight), float(kappa), targeted=target is not None)

        def minimize_rows(rows: NDArray[np.intp], **options: Any) -> Result:
            originals = a[backend.index(rows)]
            return minimize(
                objective,
                xp.zeros_like(originals),
                data=(originals, (label if target is None else target)[rows]),
                method=method,
                vectorized=True,
                batched=True,
                watch=SuccessWatch(ends=stop == "first success"),
                progress=progress,
                history=history,
                **options,
            )

        finished = []
        if attacked.size:
            finished = run_homotopies(
                plans,
                minimize_rows,
                attacked,
                batch_size=batch_size,
                max_seconds=max_seconds,
                seed=seed,
                checkpoint=checkpoint,
            )
            check_budget(finished[0].run, max_queries)
        found = report(queried, given, a, classes, finished)
    if isinstance(images, np.ndarray | list | tuple):
        return replace(found, images=backend.host(found.images))
    return found
