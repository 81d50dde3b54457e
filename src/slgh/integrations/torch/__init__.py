"""slgh as optimizers of `torch.optim`: homotopies around any optimizer, with gradients or with forward passes alone."""

from __future__ import annotations

from slgh import checks

try:
    from slgh.integrations.torch.first_order import SLGH
    from slgh.integrations.torch.zeroth_order import ZOSLGH
except ModuleNotFoundError as missing:
    if missing.name != "torch":
        raise
    raise checks.MissingLibraryError('`slgh.integrations.torch` needs PyTorch: pip install "slgh[torch]".') from missing

__all__ = ["SLGH", "ZOSLGH"]
