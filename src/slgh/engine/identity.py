"""What a run is told apart by: methods by their fields, arrays by their contents, the same in every process."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj
from numpy.typing import NDArray

from slgh.backends import backend_of


def describe(thing: Any) -> str:
    """A method or part by its class and fields, the same in every process."""
    if thing is None or isinstance(thing, bool | int | float | str):
        return repr(thing)
    if is_array_api_obj(thing):
        return f"array {digest(backend_of(thing).host(thing))}"
    if dataclasses.is_dataclass(thing):
        names = [f.name for f in dataclasses.fields(thing)]
    else:
        names = sorted(getattr(thing, "__dict__", ()))
    return f"{type(thing).__name__}({', '.join(f'{n}={describe(getattr(thing, n))}' for n in names)})"


def digest(*arrays: NDArray[Any]) -> str:
    """A short fingerprint of arrays: values, shape and dtype."""
    h = hashlib.sha256()
    for a in arrays:
        h.update(f"{a.dtype} {a.shape}".encode())
        h.update(np.ascontiguousarray(a).tobytes())
    return h.hexdigest()[:16]
