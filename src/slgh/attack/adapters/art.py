"""The attack for ART, the Adversarial Robustness Toolbox: for classifiers that only answer queries."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from slgh import checks
from slgh.attack.adapters.settings import SETTINGS, AttackSettings, LastResult
from slgh.attack.boundary.projection import Norm
from slgh.method import Method

try:
    from art.attacks.attack import EvasionAttack
    from art.config import ART_NUMPY_DTYPE
    from art.estimators.classification.classifier import ClassifierMixin
    from art.estimators.estimator import BaseEstimator
    from art.utils import check_and_transform_label_format
except ImportError as missing:
    raise checks.MissingLibraryError('`slgh.attack.adapters.art` needs ART: pip install "slgh[art]".') from missing


class SLGHArtAttack(LastResult, EvasionAttack):
    """`slgh.attack.attack` for any classifier of ART. Its `clip_values` are the range of the pixels.

    Parameters
    ----------
    classifier
        A `PyTorchClassifier`, a `BlackBoxClassifier`, or any other: only its `predict` is used.
    targeted
        If True, the labels passed to `generate` are the target classes.
    batch_size
        Maximum number of images per call of the classifier.
    method, max_queries, max_iter, stop, norm, eps, params
        As in `slgh.attack.attack`. `params` may also hold its other arguments (`seed`, `outputs`, ...). A classifier
        that returns probabilities needs `outputs="probabilities"`. With `outputs="labels"`, only the predicted class is
        used.

    Notes
    -----
    `queries` counts everything: if the true classes are unknown (no labels, or a targeted attack), the classifier is
    queried for them, once per image.
    """

    attack_params: ClassVar[list[str]] = [*EvasionAttack.attack_params, *SETTINGS, "targeted", "batch_size"]
    _estimator_requirements = (BaseEstimator, ClassifierMixin)

    def __init__(
        self,
        classifier: Any,
        *,
        method: str | Method = "auto",
        max_queries: int | None = None,
        max_iter: int | None = None,
        stop: str = "end",
        norm: Norm = "l2",
        eps: float | None = None,
        targeted: bool = False,
        batch_size: int = 128,
        **params: Any,
    ) -> None:
        super().__init__(estimator=classifier)
        self.method = method
        self.max_queries = max_queries
        self.max_iter = max_iter
        self.stop = stop
        self.norm = norm
        self.eps = eps
        self.params = params
        self.targeted = targeted
        self.batch_size = batch_size
        self._check_params()

    def generate(self, x: NDArray[Any], y: NDArray[Any] | None = None, **kwargs: Any) -> NDArray[Any]:
        """Return the adversarial images. An image without a success is returned unchanged.

        y are the true classes, or with `targeted` the target classes, as integers (B,) or one-hot rows. None: the
        classes that the classifier predicts.
        """
        if kwargs:
            raise checks.ArgumentTypeError(f"`generate` takes x and y, got {', '.join(kwargs)} too.")
        if self.targeted and y is None:
            raise checks.ArgumentValueError(
                "`y` must hold the classes that are wanted, since the attack is targeted; got None."
            )
        given = None if y is None else check_and_transform_label_format(y, self.estimator.nb_classes).argmax(axis=1)
        images = x.astype(ART_NUMPY_DTYPE)
        labels, targets, queries_spent = given, None, 0
        if given is None or self.targeted:
            labels, targets, queries_spent = self._predict(images).argmax(axis=1), given, 1
        self._result = self._settings().run(
            self._predict, images, labels, targets=targets, pixels=self._pixels(), queries_spent=queries_spent
        )
        found: NDArray[Any] = self._result.images
        return found

    def _predict(self, points: NDArray[Any]) -> NDArray[Any]:
        scores: NDArray[Any] = self.estimator.predict(points, batch_size=self.batch_size)
        return scores

    def _settings(self) -> AttackSettings:
        return AttackSettings(**{name: getattr(self, name) for name in SETTINGS})

    def _pixels(self) -> tuple[float, float]:
        """Return the clip values, which must be one number each."""
        ends = self.estimator.clip_values
        if ends is None or any(np.unique(end).size != 1 for end in ends):
            raise checks.ArgumentValueError(
                f"`clip_values` of the classifier must be two numbers, the pixels' range; got {checks.show(ends)}."
            )
        low, high = (float(np.unique(end)[0]) for end in ends)
        return low, high

    def _check_params(self) -> None:
        """Check the attributes. ART's `set_params` calls this too."""
        super()._check_params()
        self._settings()
        self._pixels()
        checks.count("batch_size", self.batch_size)
        if not isinstance(self.targeted, bool):
            raise checks.ArgumentTypeError(f"`targeted` must be True or False, got targeted={self.targeted!r}.")
