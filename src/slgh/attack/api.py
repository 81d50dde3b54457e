"""`attack`: check the arguments, plan the run, call `minimize` on all images, report."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from slgh import checks
from slgh.attack.boundary.projection import Norm
from slgh.attack.model import (
    OUTPUTS,
    ImageClasses,
    QueriedModel,
    check_classes,
    first_classes,
    first_scores,
    read_images,
    read_labels,
    repeated_scores,
)
from slgh.attack.plan import (
    Limits,
    find_starts,
    plan_label_walk,
    plan_method,
    plan_walk,
    read_starts,
    score_noise,
    start_tries,
    walks,
    within_memory,
)
from slgh.attack.result import (
    QUERIES_BEFORE,
    AttackResult,
    FinishedRun,
    check_budget,
    queries_after,
    report,
)
from slgh.backends import backend_of
from slgh.engine.arguments import read_seed
from slgh.engine.checkpoint import Checkpoint
from slgh.engine.shards import stored_files
from slgh.engine.snapshot import saved_batch_size
from slgh.method import Method
from slgh.minimize import minimize
from slgh.parameters import History
from slgh.protocols import Array

DEFAULT_QUERIES = 10_000
"""`max_queries` if neither it nor `max_iter` is given."""

FOREIGN_ARGUMENTS = {
    "max_evals": "evaluations are queries here; pass max_queries",
    "epsilon": "the largest distance of a success is called eps",
} | dict.fromkeys(("fun", "x0", "data", "vectorized", "batched", "watch", "args"), "the attack says it to `minimize`")
"""Arguments of `minimize`, foolbox or ART that `attack` does not take, with the reason."""

STOPS = ("first success", "end")
NORMS: tuple[Norm, ...] = ("l2", "linf")


def attack(
    model: Callable[[Array], Any],
    images: Array,
    labels: Any,
    *,
    targets: Any = None,
    pixels: tuple[float, float] = (0.0, 1.0),
    outputs: str = "logits",
    norm: Norm = "l2",
    eps: float | None = None,
    starts: Array | None = None,
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
    workers: Any = None,
    device: Any = None,
    progress: bool = False,
    history: History = 1000,
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    **params: Any,
) -> AttackResult:
    r"""Find small changes to images that make a model misclassify them, from the model's outputs alone.

    Each image a is a problem of its own, and all are attacked at once. "auto" walks along the boundary between classes
    towards the original: see `slgh.attack.boundary.walk.BoundaryWalk`. Any other method minimizes the loss of the
    paper over x, :math:`f(x) = \lambda \ell(a(x)) + \|a(x) - a\|^2`, where :math:`a(x) = 0.5 \tanh(\tanh^{-1}(2a) +
    x)` and :math:`\ell` is the loss of Carlini and Wagner (see `slgh.attack.loss`).

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
        What the model returns: "logits" (the default) or "probabilities", (N, K), or "labels", the predicted classes
        (N,). From classes alone the distortion falls more slowly.
    norm, eps
        Norm of the distance that "auto" minimizes: "l2", the default, or "linf", the largest change of a pixel. With
        `eps`, in the units of the pixels, only an image within that distance is a success. None by default.
    starts
        Images (B, ...) that the model misclassifies or sees as the target, for "auto". From scores, the walk also tries
        points between them and the originals, until it reaches the boundary. With `outputs="labels"` it starts from
        them. So the attack succeeds if the start is within `eps` and has a clear margin. None, the default: for labels
        the nearest such one among `images`, or random noise.
    method
        "auto", the default, needs no parameters. It chooses the number and the length of its probes from the size of
        the images and `max_queries`. Or any method of `slgh.METHODS`: `params` are its hyperparameters, as in
        `slgh.minimize`. "auto" with a parameter of a homotopy (t1, alpha, ...) is that homotopy on the loss of the
        paper.
    max_queries
        Maximum number of queries per image, everything included. It is never exceeded. With neither it nor
        `max_iter`: 10,000.
    stop
        "end": reduce the distortion until the end, as in the paper. "first success": stop an image as soon as an
        iterate fools the model by a clear margin.
    weight, kappa
        :math:`\lambda` and :math:`\kappa` of the loss of the paper, which all methods but "auto" minimize. Kappa is the
        confidence: the lead of the wrong class, in log odds, beyond which only the distortion counts. An image is
        adversarial as soon as the wrong class leads at all.
    model_batch_size
        Maximum number of images per call of the model. None: all points of all images that are attacked concurrently.
    batch_size
        Number of images attacked concurrently, by each worker if there are `workers`. When one is finished, another
        takes its slot. None: all of them, and if GPU memory runs out, half as many, and so on.
    workers, device
        Divide the images among processes, a cluster, or PyTorch devices, as in `slgh.minimize`. The model must be
        picklable for processes. With `device`, it is copied to each of the devices. The queries before and after the
        attack are made in this process.
    max_iter, max_seconds, seed, progress, history, checkpoint
        As in `slgh.minimize`; `seed` may hold one seed per image.
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
    checks.choice("norm", norm, NORMS)
    if eps is not None:
        checks.real("eps", eps, above=0)
    if not walks(method, params):
        for name, given in (
            ("norm", norm != "l2"),
            ("eps", eps is not None),
            ("outputs", outputs == "labels"),
            ("starts", starts is not None),
        ):
            if given:
                raise checks.ArgumentValueError(
                    f"`{name}` is for `method='auto'` without parameters of a homotopy: leave out the method and its "
                    f"parameters, or `{name}`."
                )
    if outputs == "labels" and norm != "l2":
        raise checks.ArgumentValueError(f"`norm` must be 'l2' with `outputs='labels'`; got {norm!r}.")
    checks.real("weight", weight, above=0)
    checks.at_least("kappa", kappa, 0)
    for name, number in (("model_batch_size", model_batch_size), ("batch_size", batch_size)):
        if number is not None:
            checks.count(name, number)
    if max_iter is not None:
        checks.count("max_iter", checks.plain(max_iter), 0)
    if max_queries is None and max_iter is None:
        max_queries = DEFAULT_QUERIES
    reserved = queries_after(outputs)
    if max_queries is not None:
        checks.count("max_queries", max_queries, QUERIES_BEFORE + (starts is not None) + reserved + 1)
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
    if np.ndim(seed) == 0 and seed is not None:
        read_seed(seed, B)
    backend.check_functions((model,), "model")
    if np.ndim(seed) and len(seed) != B:
        raise checks.ArgumentValueError(
            f"`seed` must be an integer, or one integer per image (expected {B}); got {len(seed)}."
        )
    a = xp.reshape((given - (low + high) / 2) / (high - low), (B, -1))
    label = read_labels("labels", labels, B)
    target = None if targets is None else read_labels("targets", np.broadcast_to(targets, B), B)
    exact = not params.get("tf32")
    # The first query and the final check of a walk keep the user's TF32 setting. Other methods turn TF32 off there too.
    check_exact, scores = exact and not walks(method, params), None
    with backend.session(differences=check_exact):
        if outputs == "labels":
            before = first_classes(queried, a, backend.host)
        else:
            scores = first_scores(queried, a, backend.host)
            before = scores.argmax(axis=1)
    with backend.session(differences=exact):
        if scores is not None:
            again = repeated_scores(queried, a, backend.host, scores)
            check_classes("labels", label, scores.shape[1])
            if target is not None:
                check_classes("targets", target, scores.shape[1])
        classes = ImageClasses(label=label, before=before, target=target)
        attacked = classes.attacked()
        reach = None if eps is None else _reach(eps, high - low, norm)
        spent, finished, no_start, points = np.full(B, QUERIES_BEFORE), None, attacked[:0], None
        if attacked.size:
            aim: dict[str, Any] = {"targeted": target is not None, "stop_first": stop == "first success"}
            if scores is None or starts is not None:
                points, searched, found_start = (
                    find_starts(queried, a, attacked, classes, start_tries(max_queries, params, reserved), seed)
                    if starts is None
                    else read_starts(starts, queried, a, attacked, classes)
                )
                spent[attacked] += searched
                no_start, attacked = attacked[~found_start], attacked[found_start]
                points = points[backend.index(np.flatnonzero(found_start))]
        if attacked.size:
            y, originals = (label if target is None else target)[attacked], a[backend.index(attacked)]
            left = None if max_queries is None else max_queries - int(spent.max()) - reserved
            limits = Limits(left, max_iter)
            if scores is None:
                assert points is not None
                plan = plan_label_walk(queried, originals, y, points, limits, params, reach=reach, **aim)
            elif walks(method, params):
                aim |= {"norm": norm, "reach": reach, "noise": score_noise(scores[attacked], again[attacked], outputs)}
                aim["starts"] = points
                plan = plan_walk(queried, originals, y, scores[attacked], limits, params, **aim)
            else:
                aim |= {"weight": float(weight), "kappa": float(kappa)}
                plan = plan_method(queried, originals, y, limits, method, params, **aim)
            attempt = partial(
                minimize,
                plan.fun,
                plan.x0,
                data=plan.data,
                method=plan.method,
                vectorized=True,
                batched=True,
                watch=plan.watch,
                workers=workers,
                device=device,
                progress=progress,
                history=history,
                max_evals=limits.max_evals,
                max_iter=plan.max_iter,
                max_seconds=max_seconds,
                seed=seed if np.ndim(seed) == 0 else [seed[i] for i in attacked],
                checkpoint=checkpoint,
                **plan.params,
            )
            # A resumed run keeps the batch size to which memory limited it before.
            saved = _saved_batch_size(checkpoint)
            run, remark = within_memory(attempt, min(batch_size or saved or attacked.size, attacked.size))
            check_budget(run, max_queries, int(spent.max()), reserved)
            finished = FinishedRun(attacked, run, remark, plan)
    with backend.session(differences=check_exact):
        found = report(
            queried,
            given,
            a,
            classes,
            spent,
            finished,
            norm=norm,
            weight=float(weight),
            kappa=float(kappa),
            no_start=no_start,
            reach=reach,
            max_queries=max_queries,
        )
    if isinstance(images, np.ndarray | list | tuple):
        return replace(found, images=backend.host(found.images))
    return found


def _reach(eps: float, width: float, norm: Norm) -> float:
    """Return the largest value of a success, with pixels in a range of width 1: for "l2" the squared distance."""
    scaled = float(eps) / width
    return scaled * scaled if norm == "l2" else scaled


def _saved_batch_size(checkpoint: Any) -> int | None:
    """Return the batch size of the run in a checkpoint, if there is one. `minimize` refuses what is no checkpoint."""
    if isinstance(checkpoint, Checkpoint):
        checkpoint = checkpoint.path
    if not isinstance(checkpoint, str | os.PathLike) or os.path.isdir(checkpoint):
        return None
    return max(filter(None, map(saved_batch_size, stored_files(checkpoint))), default=None)
