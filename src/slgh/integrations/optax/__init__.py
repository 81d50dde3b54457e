r"""slgh as a gradient transformation of optax, for training in JAX.

`slgh` (gradients) and `zoslgh` (forward passes only) smooth the loss and pass the gradient of the smoothed loss to any
transformation of optax. `smoothed_value_and_grad` returns that gradient to your own training loop. All of them are
pure functions on pytrees.
"""

from __future__ import annotations

from slgh import checks

try:
    import optax  # noqa: F401

    from slgh.integrations.optax.smoothing import SLGHState
    from slgh.integrations.optax.transformations import SmoothedValueAndGrad, slgh, smoothed_value_and_grad, zoslgh
except ModuleNotFoundError as missing:
    if missing.name not in ("optax", "jax"):
        raise
    raise checks.MissingLibraryError('`slgh.integrations.optax` needs optax: pip install "slgh[optax]".') from missing

__all__ = ["SLGHState", "SmoothedValueAndGrad", "slgh", "smoothed_value_and_grad", "zoslgh"]
