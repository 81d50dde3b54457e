"""The attack as one of foolbox's: found images as small in L2 as the budget allows, and their queries."""

from __future__ import annotations

from typing import Any

from slgh.attack.adapters.settings import LastResult, Settings
from slgh.method import Method
from slgh.protocols import Array

try:
    import eagerpy as ep
    from foolbox.attacks.base import MinimizationAttack, get_criterion, raise_if_kwargs, verify_input_bounds
    from foolbox.criteria import Misclassification, TargetedMisclassification
    from foolbox.distances import l2
    from foolbox.models import Model
except ImportError as missing:
    raise ImportError('`slgh.attack.adapters.foolbox` needs foolbox: pip install "slgh[foolbox]".') from missing


class SLGHAttack(LastResult, MinimizationAttack):
    """`slgh.attack.attack` for any model of foolbox; its bounds are the range of the pixels.

    Parameters
    ----------
    method, max_queries, max_iter, stop, params
        As in `slgh.attack.attack`, whose other arguments (`seed`, `weight`, ...) `params` may hold too.

    Notes
    -----
    The criterion is `Misclassification` or `TargetedMisclassification`. The latter does not say what the images are:
    the model is asked, once an image. `queries` counts that and everything that the attack asks; foolbox itself then
    asks once an image and epsilon whether it succeeded, which is not in it. Models of other libraries than PyTorch are
    asked through NumPy.
    """

    distance = l2

    def __init__(
        self,
        *,
        method: str | Method = "auto",
        max_queries: int | None = None,
        max_iter: int | None = None,
        stop: str = "end",
        **params: Any,
    ) -> None:
        self.settings = Settings(method=method, max_queries=max_queries, max_iter=max_iter, stop=stop, params=params)

    def run(self, model: Model, inputs: Any, criterion: Any, *, early_stop: float | None = None, **kwargs: Any) -> Any:
        """Called by foolbox. `early_stop`, the least epsilon, is not used: `stop` says when an image is left alone."""
        raise_if_kwargs(kwargs)
        x, restore_type = ep.astensor_(inputs)
        verify_input_bounds(x, model)
        ours = isinstance(x, ep.PyTorchTensor | ep.NumPyTensor)

        def ask(points: Array) -> Any:
            return model(points) if ours else ep.astensor(model(ep.from_numpy(x, points).raw)).numpy()

        images = x.raw if ours else x.numpy()
        labels, targets, asked = _wanted(get_criterion(criterion), model, x)
        pixels = (float(model.bounds.lower), float(model.bounds.upper))
        self._result = self.settings.run(ask, images, labels, targets=targets, pixels=pixels, asked=asked)
        found = self._result.images
        return restore_type(ep.astensor(found) if ours else ep.from_numpy(x, found))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(settings={self.settings})"


def _wanted(criterion: Any, model: Model, x: Any) -> tuple[Any, Any, int]:
    """The classes of the images, those wanted instead (or None), and how often the model was asked for them."""
    if isinstance(criterion, Misclassification):
        return criterion.labels.numpy(), None, 0
    if isinstance(criterion, TargetedMisclassification):
        return model(x).argmax(axis=-1).numpy(), criterion.target_classes.numpy(), 1
    raise ValueError(
        f"`criterion` must be labels, Misclassification or TargetedMisclassification; got {type(criterion).__name__}."
    )
