"""The attack as one of ART's, the Adversarial Robustness Toolbox: for classifiers that can be asked and no more."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from slgh import checks
from slgh.attack.adapters.settings import LastResult, Settings
from slgh.method import Method

try:
    from art.attacks.attack import EvasionAttack
    from art.config import ART_NUMPY_DTYPE
    from art.estimators.classification.classifier import ClassifierMixin
    from art.estimators.estimator import BaseEstimator
    from art.utils import check_and_transform_label_format
except ImportError as missing:
    raise ImportError('`slgh.attack.adapters.art` needs ART: pip install "slgh[art]".') from missing


class SLGHAttack(LastResult, EvasionAttack):
    """`slgh.attack.attack` for any classifier of ART; its `clip_values` are the range of the pixels.

    Parameters
    ----------
    classifier
        A `PyTorchClassifier`, a `BlackBoxClassifier`, or any other: only its `predict` is used.
    targeted
        Whether the labels that `generate` gets are those that the classifier is to see.
    batch_size
        How many images the classifier gets at a time.
    method, max_queries, max_iter, stop, params
        As in `slgh.attack.attack`, whose other arguments (`seed`, `weight`, ...) `params` may hold too. A classifier
        that answers with probabilities needs `outputs="probabilities"`.

    Notes
    -----
    `queries` counts everything: where it is not said what the images are (no labels, or a targeted attack), the
    classifier is asked, once an image.
    """

    attack_params: ClassVar[list[str]] = [
        *EvasionAttack.attack_params,
        "method",
        "max_queries",
        "max_iter",
        "stop",
        "params",
        "targeted",
        "batch_size",
    ]
    _estimator_requirements = (BaseEstimator, ClassifierMixin)

    def __init__(
        self,
        classifier: Any,
        *,
        method: str | Method = "auto",
        max_queries: int | None = None,
        max_iter: int | None = None,
        stop: str = "end",
        targeted: bool = False,
        batch_size: int = 128,
        **params: Any,
    ) -> None:
        super().__init__(estimator=classifier)
        self.method = method
        self.max_queries = max_queries
        self.max_iter = max_iter
        self.stop = stop
        self.params = params
        self.targeted = targeted
        self.batch_size = batch_size
        self._check_params()

    def generate(self, x: NDArray[Any], y: NDArray[Any] | None = None, **kwargs: Any) -> NDArray[Any]:
        """The adversarial images, in the place of the originals; an image that stood firm is returned as it is.

        y is the images' classes, or with `targeted` those wanted, as integers (B,) or one-hot rows; None: the classes
        that the classifier sees.
        """
        if kwargs:
            raise TypeError(f"`generate` takes x and y, got {', '.join(kwargs)} too.")
        if self.targeted and y is None:
            raise ValueError("`y` must hold the classes that are wanted, since the attack is targeted; got None.")
        given = None if y is None else check_and_transform_label_format(y, self.estimator.nb_classes).argmax(axis=1)
        images = x.astype(ART_NUMPY_DTYPE)
        labels, targets, asked = given, None, 0
        if given is None or self.targeted:
            labels, targets, asked = self._predict(images).argmax(axis=1), given, 1
        self._result = self._settings().run(
            self._predict, images, labels, targets=targets, pixels=self._pixels(), asked=asked
        )
        found: NDArray[Any] = self._result.images
        return found

    def _predict(self, points: NDArray[Any]) -> NDArray[Any]:
        scores: NDArray[Any] = self.estimator.predict(points, batch_size=self.batch_size)
        return scores

    def _settings(self) -> Settings:
        return Settings(
            method=self.method,
            max_queries=self.max_queries,
            max_iter=self.max_iter,
            stop=self.stop,
            params=self.params,
        )

    def _pixels(self) -> tuple[float, float]:
        """The clip values, which must be one number each."""
        ends = self.estimator.clip_values
        if ends is None or any(np.unique(end).size != 1 for end in ends):
            raise ValueError(
                f"`clip_values` of the classifier must be two numbers, the pixels' range; got {checks.show(ends)}."
            )
        low, high = (float(np.unique(end)[0]) for end in ends)
        return low, high

    def _check_params(self) -> None:
        """Called by ART's `set_params` as well."""
        super()._check_params()
        self._settings()
        self._pixels()
        checks.count("batch_size", self.batch_size)
        if not isinstance(self.targeted, bool):
            raise TypeError(f"`targeted` must be True or False, got targeted={self.targeted!r}.")
