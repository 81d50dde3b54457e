"""What differs between array libraries: noise, autograd, and how a loop is driven."""

from __future__ import annotations

from typing import Any

from array_api_compat import is_array_api_obj, is_jax_array, is_numpy_array, is_torch_array

from slgh.backends.numpy.backend import NumpyBackend
from slgh.backends.protocols import Backend

__all__ = ["Backend", "backend_of"]


def backend_of(x0: Any) -> Backend:
    """The backend that the type of x0 chooses: PyTorch, JAX, or NumPy for everything else."""
    if is_torch_array(x0):
        from slgh.backends.torch.backend import TorchBackend

        return TorchBackend.of(x0)
    if is_jax_array(x0):
        from slgh.backends.jax.backend import JaxBackend

        return JaxBackend(x0)
    if is_array_api_obj(x0) and not is_numpy_array(x0):
        raise TypeError(
            f"`x0` must be a NumPy, PyTorch or JAX array or a list of numbers, got {type(x0).__name__}; convert it."
        )
    return NumpyBackend()
