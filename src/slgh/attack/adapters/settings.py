"""The parts that the adapters share: the settings that they pass to `attack`, and the result that they keep."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from slgh import checks
from slgh.attack.api import NORMS, STOPS, attack
from slgh.attack.boundary.projection import Norm
from slgh.attack.result import QUERIES_BEFORE, AttackResult, queries_after
from slgh.method import METHODS, Method
from slgh.protocols import Array

LIBRARY_ARGUMENTS = ("model", "images", "labels", "targets", "pixels")
"""Arguments of `attack` that the attack library passes in its own way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackSettings:
    """The settings of an attack, for any library. `params` are all other arguments of `attack` and of its method."""

    method: str | Method = "auto"
    max_queries: int | None = None
    max_iter: int | None = None
    stop: str = "end"
    norm: Norm = "l2"
    eps: float | None = None
    params: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.method, Method):
            checks.choice("method", self.method, tuple(METHODS))
        checks.choice("stop", self.stop, STOPS)
        checks.choice("norm", self.norm, NORMS)
        if self.eps is not None:
            checks.real("eps", self.eps, above=0)
        if self.max_iter is not None:
            checks.count("max_iter", self.max_iter)
        self._check_budget(0)
        for name in LIBRARY_ARGUMENTS:
            if name in self.params:
                raise checks.ArgumentTypeError(
                    f"`{name}` must be left out, got {checks.show(self.params[name])}: the attack library says it, by "
                    "its model, the bounds of this, and its labels or criterion."
                )

    def run(
        self,
        model: Callable[[Array], Any],
        images: Array,
        labels: Any,
        *,
        targets: Any,
        pixels: tuple[float, float],
        queries_spent: int,
    ) -> AttackResult:
        """Run the attack. `queries_spent` queries per image were made before, and count.

        The models of attack libraries return scores. With `outputs="labels"`, the attack sees only the class.
        """
        self._check_budget(queries_spent)
        found = attack(
            predicted_classes(model) if self.params.get("outputs") == "labels" else model,
            images,
            labels,
            targets=targets,
            pixels=pixels,
            method=self.method,
            max_queries=None if self.max_queries is None else self.max_queries - queries_spent,
            max_iter=self.max_iter,
            stop=self.stop,
            norm=self.norm,
            eps=self.eps,
            **self.params,
        )
        history = dict(found.history)
        if "queries" in history:
            history["queries"] = history["queries"] + queries_spent
        return replace(
            found,
            queries=found.queries + queries_spent,
            queries_to_success=np.where(found.queries_to_success < 0, -1, found.queries_to_success + queries_spent),
            history=history,
        )

    def _check_budget(self, queries_spent: int) -> None:
        if self.max_queries is not None:
            checks.count(
                "max_queries",
                self.max_queries,
                queries_spent + QUERIES_BEFORE + queries_after(str(self.params.get("outputs"))) + 1,
            )


def predicted_classes(model: Callable[[Array], Any]) -> Callable[[Array], Array]:
    """Return a function from images (N, ...) to the classes (N,) with the highest scores."""

    def classes(images: Array) -> Array:
        scores = model(images)
        return array_namespace(scores).argmax(scores, axis=1)

    return classes


SETTINGS = tuple(one.name for one in fields(AttackSettings))


class LastResult:
    """A mixin that keeps the result of the last call, which the attack libraries have no place for."""

    _result: AttackResult | None = None

    @property
    def result(self) -> AttackResult | None:
        """The result of the last call; None before the first."""
        return self._result

    @property
    def queries(self) -> NDArray[np.int64] | None:
        """The number of queries per image (B,) in the last call; None before the first."""
        return None if self._result is None else self._result.queries
