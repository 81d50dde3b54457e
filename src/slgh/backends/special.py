"""Special functions that array libraries have under different names."""

from __future__ import annotations

from typing import Any

from array_api_compat import is_jax_array, is_torch_array


def erf(x: Any) -> Any:
    """The error function."""
    if is_torch_array(x):
        import torch

        return torch.erf(x)
    if is_jax_array(x):
        import jax

        return jax.scipy.special.erf(x)
    from scipy import special

    return special.erf(x)


def ndtr(x: Any) -> Any:
    """The distribution function of the standard normal."""
    if is_torch_array(x):
        import torch

        return torch.special.ndtr(x)
    if is_jax_array(x):
        import jax

        return jax.scipy.special.ndtr(x)
    from scipy import special

    return special.ndtr(x)
