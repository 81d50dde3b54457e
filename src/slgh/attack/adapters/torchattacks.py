"""The attack for torchattacks: images in [0, 1], with its targeted modes and its normalization."""

from __future__ import annotations

from typing import Any

from slgh.attack.adapters.settings import AttackSettings, LastResult
from slgh.attack.boundary.projection import Norm
from slgh.checks import MissingLibraryError
from slgh.method import Method

try:
    import torch
    from torch import Tensor
    from torchattacks.attack import Attack
except ImportError as missing:
    raise MissingLibraryError(
        "`slgh.attack.adapters.torchattacks` needs PyTorch and torchattacks: pip install torch tqdm && "
        "pip install --no-deps torchattacks (it asks for torchvision and an old requests too, and uses neither)."
    ) from missing


class SLGH(LastResult, Attack):
    """`slgh.attack.attack` for a PyTorch module that reads images (N, C, H, W) in [0, 1] and returns logits.

    Parameters
    ----------
    method, max_queries, max_iter, stop, norm, eps, params
        As in `slgh.attack.attack`. `params` may also hold its other arguments (`seed`, `outputs`, ...). With
        `outputs="labels"`, only the predicted class is used.

    Notes
    -----
    All targeted modes are supported, and `set_normalization_used`. `queries` counts everything: choosing the targets of
    the modes "random" and "least likely" takes one query per image, and so do the true classes if they are unknown (no
    labels, or a targeted attack).
    """

    normalization_used: dict[str, Tensor] | None

    def __init__(
        self,
        model: torch.nn.Module,
        *,
        method: str | Method = "auto",
        max_queries: int | None = None,
        max_iter: int | None = None,
        stop: str = "end",
        norm: Norm = "l2",
        eps: float | None = None,
        **params: Any,
    ) -> None:
        super().__init__("SLGH", model)
        self.supported_mode = ["default", "targeted"]
        self.settings = AttackSettings(
            method=method, max_queries=max_queries, max_iter=max_iter, stop=stop, norm=norm, eps=eps, params=params
        )
        self._queries_spent = 0

    @torch.no_grad()
    def forward(self, inputs: Tensor, labels: Tensor | None = None) -> Tensor:
        """Attack images with pixels in [0, 1]; torchattacks calls this."""
        device = inputs.device if self.device is None else self.device
        images = inputs.detach().clone().to(device)
        if self.normalization_used is not None:
            # A copy from the host at each query is slow, and cannot be part of a CUDA graph.
            self.normalization_used = {name: value.to(device) for name, value in self.normalization_used.items()}
        self._queries_spent = 0
        targets = self.get_target_label(images, labels) if self.targeted else None
        if labels is None or self.targeted:
            labels = self.get_output_with_eval_nograd(images).argmax(dim=1)
        self._result = self.settings.run(
            self.get_logits, images, labels, targets=targets, pixels=(0.0, 1.0), queries_spent=self._queries_spent
        )
        found: Tensor = self._result.images
        return found

    def get_output_with_eval_nograd(self, inputs: Tensor) -> Tensor:
        """Return the model's outputs, and count them: torchattacks' own targeted modes query the model by this."""
        self._queries_spent += 1
        outputs: Tensor = super().get_output_with_eval_nograd(inputs)
        return outputs
