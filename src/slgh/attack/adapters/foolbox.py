"""The attack for foolbox: the smallest perturbation that the budget allows, in the L2 or the L-infinity norm."""

from __future__ import annotations

from typing import Any, ClassVar

from slgh.attack.adapters.settings import AttackSettings, LastResult
from slgh.attack.boundary.projection import Norm
from slgh.checks import ArgumentTypeError, ArgumentValueError, MissingLibraryError, show
from slgh.method import Method
from slgh.protocols import Array

try:
    import eagerpy as ep
    from foolbox.attacks.base import MinimizationAttack, get_criterion, raise_if_kwargs, verify_input_bounds
    from foolbox.criteria import Misclassification, TargetedMisclassification
    from foolbox.distances import l2, linf
    from foolbox.models import Model
except ImportError as missing:
    raise MissingLibraryError('`slgh.attack.adapters.foolbox` needs foolbox: pip install "slgh[foolbox]".') from missing


class SLGHFoolboxAttack(LastResult, MinimizationAttack):
    """`slgh.attack.attack` for any model of foolbox, in the L2 norm. The model's bounds are the range of the pixels.

    Parameters
    ----------
    method, max_queries, max_iter, stop, eps, params
        As in `slgh.attack.attack`. `params` may also hold its other arguments (`seed`, `outputs`, ...). With
        `outputs="labels"`, only the predicted class is used. `eps` is only needed with `stop="first success"`, to end
        at the first success within that distance: foolbox itself compares the distances with its `epsilons`.

    Notes
    -----
    The criterion is `Misclassification` or `TargetedMisclassification`. The latter does not hold the true classes: the
    model is queried for them, once per image. `queries` counts these and all queries of the attack, but not those with
    which foolbox itself then checks the success, one per image and epsilon. Models of other libraries than PyTorch are
    called with NumPy arrays.
    """

    distance = l2
    norm: ClassVar[Norm] = "l2"

    def __init__(
        self,
        *,
        method: str | Method = "auto",
        max_queries: int | None = None,
        max_iter: int | None = None,
        stop: str = "end",
        eps: float | None = None,
        **params: Any,
    ) -> None:
        if "norm" in params:
            raise ArgumentTypeError(
                f"`norm` must be left out, got {show(params['norm'])}: foolbox's attacks have one norm each. Use "
                "SLGHFoolboxAttack for L2, and SLGHLinfFoolboxAttack for L-infinity."
            )
        self.settings = AttackSettings(
            method=method, max_queries=max_queries, max_iter=max_iter, stop=stop, norm=self.norm, eps=eps, params=params
        )

    def run(self, model: Model, inputs: Any, criterion: Any, *, early_stop: float | None = None, **kwargs: Any) -> Any:
        """Attack; foolbox calls this. `early_stop`, the least epsilon, is not used: `stop` says when an image ends."""
        raise_if_kwargs(kwargs)
        x, restore_type = ep.astensor_(inputs)
        verify_input_bounds(x, model)
        passed_on = isinstance(x, ep.PyTorchTensor | ep.NumPyTensor)

        def query(points: Array) -> Any:
            return model(points) if passed_on else ep.astensor(model(ep.from_numpy(x, points).raw)).numpy()

        images = x.raw if passed_on else x.numpy()
        labels, targets, queries_spent = _classes(get_criterion(criterion), model, x)
        pixels = (float(model.bounds.lower), float(model.bounds.upper))
        self._result = self.settings.run(
            query, images, labels, targets=targets, pixels=pixels, queries_spent=queries_spent
        )
        found = self._result.images
        return restore_type(ep.astensor(found) if passed_on else ep.from_numpy(x, found))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(settings={self.settings})"


class SLGHLinfFoolboxAttack(SLGHFoolboxAttack):
    """The same attack in the L-infinity norm: the smallest largest change of a pixel.

    Only `method="auto"` supports this norm.
    """

    distance = linf
    norm: ClassVar[Norm] = "linf"


def _classes(criterion: Any, model: Model, x: Any) -> tuple[Any, Any, int]:
    """Return the true classes, the target classes or None, and the queries per image that this took."""
    if isinstance(criterion, Misclassification):
        return criterion.labels.numpy(), None, 0
    if isinstance(criterion, TargetedMisclassification):
        return model(x).argmax(axis=-1).numpy(), criterion.target_classes.numpy(), 1
    raise ArgumentValueError(
        f"`criterion` must be labels, Misclassification or TargetedMisclassification; got {type(criterion).__name__}."
    )
