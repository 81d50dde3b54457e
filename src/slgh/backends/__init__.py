"""Array libraries: noise, automatic differentiation, and loops that the library compiles.

Each backend is a folder whose `backend.py` defines `make_backend(x0)`, and one line of `LIBRARIES`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from array_api_compat import is_array_api_obj, is_jax_array, is_numpy_array, is_torch_array

from slgh.backends.protocols import Backend
from slgh.checks import ArgumentTypeError

__all__ = ["Backend", "backend_of", "special_functions"]


class Library(NamedTuple):
    """An array library. Its modules are imported when one of its arrays is met."""

    owns: Callable[[Any], bool]
    """True for the library's arrays."""
    backend: str
    special: str
    """Module with the special functions erf and ndtr."""


LIBRARIES = (
    Library(is_torch_array, "slgh.backends.torch.backend", "torch.special"),
    Library(is_jax_array, "slgh.backends.jax.backend", "jax.scipy.special"),
)
NUMPY = Library(is_numpy_array, "slgh.backends.numpy.backend", "scipy.special")
"""NumPy also takes lists, numbers, and whatever else no other library owns."""


def _library_of(x: Any) -> Library:
    return next((library for library in LIBRARIES if library.owns(x)), NUMPY)


def backend_of(x0: Any) -> Backend:
    """Return the backend for the library of x0."""
    library = _library_of(x0)
    if library is NUMPY and is_array_api_obj(x0) and not is_numpy_array(x0):
        raise ArgumentTypeError(
            f"`x0` must be a NumPy, PyTorch or JAX array or a list of numbers, got {type(x0).__name__}; convert it."
        )
    backend: Backend = import_module(library.backend).make_backend(x0)
    return backend


def special_functions(x: Any) -> Any:
    """Return the module that has erf and ndtr for arrays of x's library."""
    return import_module(_library_of(x).special)
