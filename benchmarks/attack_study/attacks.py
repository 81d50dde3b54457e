"""The attacks that are compared: those of slgh, and those of foolbox, torchattacks and ART."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attack_study.credit import Ledger, Norm, Spent, record
from attack_study.problems import LINF_EPS, Classes, Problem, quiet_import
from attack_study.records import Row
from slgh.attack import attack

SHRINK = 0.9
"""Factor between the distance found and the next radius of an attack that needs one."""

FIRST_RADIUS = {
    "mnist": {"l2": 5.0, "linf": 0.5},
    "cifar10": {"l2": 5.0, "linf": 0.2},
    "imagenet": {"l2": 20.0, "linf": 0.2},
}
"""First radii of such an attack, at which nearly all images are fooled."""

CPU_MODEL_BATCH = 64
"""Maximum number of images per call of the model on a CPU, which limits memory."""

RESTARTS = 20
"""Maximum number of restarts of HopSkipJump after a failed assertion of foolbox."""


def seed_libraries(seed: int) -> None:
    """Seed the generators from which the libraries draw."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    torch.manual_seed(seed)


@dataclass(frozen=True, kw_only=True)
class Attack:
    """Settings that all attacks have in common.

    Parameters
    ----------
    planned
        True if the attack behaves differently with another budget. If False, one run covers all budgets.
    single
        True if it attacks one image at a time.
    """

    library: str
    about: str
    sees: str = "scores"
    norm: Norm = "l2"
    targeted: bool = False
    planned: bool = False
    single: bool = False

    def measure(self, problem: Problem, budgets: list[int], seed: int) -> Iterator[tuple[int, Row]]:
        """Yield for each budget the records of all images of the problem."""
        for group in [[budget] for budget in budgets] if self.planned else [budgets]:
            found = self.run(problem, group, seed)
            for budget in group:
                yield budget, dict(zip(problem.ids, found[budget], strict=True))

    def run(self, problem: Problem, budgets: list[int], seed: int) -> dict[int, list[dict[str, Any]]]:
        """Return the records for each budget."""
        raise NotImplementedError

    def ledger(self, problem: Problem, budgets: list[int]) -> Ledger:
        classes = problem.targets if self.targeted else problem.labels
        return Ledger(problem.net, problem.images, classes, budgets, self.norm, self.targeted)


@dataclass(frozen=True, kw_only=True)
class Slgh(Attack):
    """`slgh.attack.attack` on all images at once. It is credited with the image that it returns, which is checked."""

    library: str = "slgh"
    planned: bool = True
    with_starts: bool = False

    def run(self, problem: Problem, budgets: list[int], seed: int) -> dict[int, list[dict[str, Any]]]:
        (budget,) = budgets
        images, B = problem.images, len(problem.ids)
        counter = Counter(Classes(problem.net) if self.sees == "classes" else problem.net)
        options: dict[str, Any] = {"norm": self.norm}
        if self.sees == "classes":
            options["outputs"] = "labels"
        if self.targeted:
            options["targets"] = problem.targets.cpu().numpy()
        if self.with_starts:
            options["starts"] = problem.starts if self.targeted else problem.others
        on_host = images.device.type == "cpu"
        started = time.perf_counter()
        found = attack(
            counter,
            images,
            problem.labels.cpu().numpy(),
            max_queries=budget,
            # One seed per image, so that the result does not depend on the other images.
            seed=[1_000_000 * seed + i for i in problem.ids],
            history=None,
            model_batch_size=CPU_MODEL_BATCH if on_host else None,
            **options,
        )
        seconds = (time.perf_counter() - started) / B
        if (found.queries > budget).any():
            raise AssertionError(f"slgh exceeded its budget of {budget} queries.")
        if on_host and counter.count != found.queries.sum():
            # On CUDA a graph is replayed without a call of the model.
            raise AssertionError(f"slgh reports {found.queries.sum()} queries, but made {counter.count}.")
        checked = self.ledger(problem, [1])
        checked(found.images)
        far, success = checked.least[0].tolist(), found.success.tolist()
        return {
            budget: [
                record(
                    far[i] if success[i] else float("inf"),
                    int(found.queries_to_success[i]) if success[i] else None,
                    int(found.queries[i]),
                    seconds,
                )
                for i in range(B)
            ]
        }


class Counter(nn.Module):
    """A model that counts the images that it evaluates."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net, self.count = net, 0
        self.eval()

    def forward(self, x: Tensor) -> Any:
        self.count += len(x)
        return self.net(x)


@dataclass(frozen=True, kw_only=True)
class HopSkipJump(Attack):
    """foolbox's HopSkipJump on all images at once, from noise that it blends with the image, or from given images."""

    library: str = "foolbox"
    sees: str = "classes"
    with_starts: bool = False

    def run(self, problem: Problem, budgets: list[int], seed: int) -> dict[int, list[dict[str, Any]]]:
        fb = quiet_import("foolbox")
        seed_libraries(seed)
        ledger = self.ledger(problem, budgets)
        seen = fb.PyTorchModel(ledger, bounds=(0, 1), device=problem.images.device)
        with contextlib.suppress(Spent):
            starts = self._starts(fb, seen, ledger, problem)
            rows = list(range(len(problem.ids)))
            if not self.with_starts:
                # Images for which no noise was found are failures.
                rows = [i for i in rows if ledger.least[-1, i] < float("inf")]
            if rows:
                ledger.keep(rows)
                self._attack(fb, seen, ledger, problem, starts, rows)
        return {budget: ledger.records(budget) for budget in budgets}

    def _starts(self, fb: Any, seen: Any, ledger: Ledger, problem: Problem) -> Tensor:
        """Return an adversarial image for each original.

        foolbox's own search is made for one image at a time. In a batch, it draws for all images until the last one has
        a start.
        """
        if self.with_starts:
            return problem.starts if self.targeted else problem.others
        search, starts = fb.attacks.LinearSearchBlendedUniformNoiseAttack(steps=50), problem.images.clone()
        for i in range(len(problem.ids)):
            with ledger.only(i), contextlib.suppress(Spent):
                starts[i] = search.run(seen, problem.images[i : i + 1], problem.labels[i : i + 1])[0]
        return starts

    def _attack(self, fb: Any, seen: Any, ledger: Ledger, problem: Problem, starts: Tensor, rows: list[int]) -> None:
        """Run until the budgets are spent. A failed assertion of foolbox restarts it from the best images so far."""
        criterion: Any = fb.criteria.Misclassification(problem.labels[rows])
        if self.targeted:
            criterion = fb.criteria.TargetedMisclassification(problem.targets[rows])
        made = batched_hop_skip_jump(fb)(steps=ledger.budgets[-1])
        for _ in range(RESTARTS):
            try:
                made.run(seen, problem.images[rows], criterion, starting_points=starts[rows])
            except (AssertionError, ValueError):
                starts = torch.where((ledger.least[-1] < torch.inf)[:, None, None, None], ledger.nearest, starts)


def batched_hop_skip_jump(fb: Any) -> Any:
    """Return foolbox's class with gradients that are normalized per image.

    foolbox divides them by the norm over the batch, so that steps would shrink with the number of images. For one image
    nothing changes.
    """

    class Batched(fb.attacks.HopSkipJumpAttack):  # type: ignore[misc, name-defined]
        def approximate_gradients(self, *args: Any) -> Any:
            gradients = super().approximate_gradients(*args)
            norms = gradients.flatten(start=1).norms.l2(axis=1).reshape((-1,) + (1,) * (gradients.ndim - 1))
            return gradients / (norms + 1e-12)

    return Batched


@dataclass(frozen=True, kw_only=True)
class SingleImage(Attack):
    """An attack on one image at a time, run until the budget is spent.

    `call` takes the model, the image (1, ...), its class (1,), and the ledger.
    """

    single: bool = True
    call: Callable[[Ledger, Tensor, Tensor, str], Any]

    def run(self, problem: Problem, budgets: list[int], seed: int) -> dict[int, list[dict[str, Any]]]:
        found: dict[int, list[dict[str, Any]]] = {budget: [] for budget in budgets}
        for i in problem.ids:
            seed_libraries(seed)
            one = problem.take([i])
            ledger = self.ledger(one, budgets)
            with contextlib.suppress(Spent):
                self.call(ledger, one.images.clone(), ledger.classes.clone(), problem.data)
            for budget in budgets:
                found[budget] += ledger.records(budget)
        return found


def square(ledger: Ledger, x: Tensor, y: Tensor, data: str) -> None:
    """Run torchattacks' Square with a radius that shrinks after each success, until it fails."""
    radius, before = FIRST_RADIUS[data][ledger.norm], float("inf")
    while (found := square_within(ledger, x, y, radius)) < before:
        before = found
        radius = SHRINK * (found**0.5 if ledger.norm == "l2" else found)


def square_at_eps(ledger: Ledger, x: Tensor, y: Tensor, data: str) -> None:
    """Run torchattacks' Square with a fixed radius until it succeeds."""
    square_within(ledger, x, y, LINF_EPS[data])


def square_within(ledger: Ledger, x: Tensor, y: Tensor, radius: float) -> float:
    """Run torchattacks' Square with the remaining queries, and return the least distortion so far."""
    norm, left = {"l2": "L2", "linf": "Linf"}[ledger.norm], ledger.budgets[-1] - int(ledger.count[0])
    quiet_import("torchattacks").Square(ledger, norm=norm, eps=radius, n_queries=max(1, left))(x, y)
    return float(ledger.least[-1, 0])


def sign_opt(ledger: Ledger, x: Tensor, y: Tensor, data: str) -> None:
    """Run ART's Sign-OPT with its default settings. It may end before the budget is spent."""
    evasion, estimators = (quiet_import(name) for name in ("art.attacks.evasion", "art.estimators.classification"))
    classifier = estimators.PyTorchClassifier(
        model=ledger,
        loss=nn.CrossEntropyLoss(),
        input_shape=tuple(x.shape[1:]),
        nb_classes=int(ledger.net(x).shape[1]),
        clip_values=(0, 1),
        device_type="gpu" if x.is_cuda else "cpu",
    )
    made = evasion.SignOPTAttack(classifier, targeted=False, query_limit=ledger.budgets[-1])
    made.generate(x.cpu().numpy(), y.cpu().numpy())


_SHRINKING = f"radius {SHRINK:g} times the distance found, after each success"

ATTACKS: dict[str, Attack] = {
    "slgh": Slgh(about="default settings"),
    "slgh-labels": Slgh(about='`outputs="labels"`', sees="classes"),
    "hopskipjump": HopSkipJump(about="HopSkipJump, default settings"),
    "hopskipjump-starts": HopSkipJump(
        about="HopSkipJump from the nearest image of another class, as slgh-labels", with_starts=True
    ),
    "square": SingleImage(library="torchattacks", about=f"Square, {_SHRINKING}", planned=True, call=square),
    "signopt": SingleImage(library="ART", about="Sign-OPT, default settings", sees="classes", call=sign_opt),
    "slgh-linf": Slgh(about='`norm="linf"`', norm="linf"),
    "square-linf": SingleImage(
        library="torchattacks", about=f"Square, {_SHRINKING}", norm="linf", planned=True, call=square
    ),
    "square-linf-eps": SingleImage(
        library="torchattacks", about="Square, a fixed radius", norm="linf", planned=True, call=square_at_eps
    ),
    "slgh-targeted": Slgh(about="`targets`, `starts`", targeted=True, with_starts=True),
    "slgh-targeted-labels": Slgh(
        about='`targets`, `outputs="labels"`, `starts`', sees="classes", targeted=True, with_starts=True
    ),
    "hopskipjump-targeted": HopSkipJump(
        about="HopSkipJump, targeted, from the same images", targeted=True, with_starts=True
    ),
}

GROUPS: dict[str, tuple[str, ...]] = {
    "Any wrong class, L2": ("slgh", "slgh-labels", "hopskipjump", "hopskipjump-starts", "square", "signopt"),
    "Any wrong class, largest change of a pixel": ("slgh-linf", "square-linf", "square-linf-eps"),
    "A given class, L2": ("slgh-targeted", "slgh-targeted-labels", "hopskipjump-targeted"),
}
"""The tables: attacks with the same aim."""
