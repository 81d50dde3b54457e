"""Fewer images at a time where the GPU has too little memory for all."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

from slgh.result import Result


def within_memory(attempt: Callable[..., Result], n: int) -> tuple[Result, str]:
    """attempt(at_once=n), and with half as many while memory does not suffice; what is to be said of it.

    Memory runs out in the first iterations, if at all, so that little is done twice.
    """
    sizes = [n >> i for i in range(n.bit_length())]
    for size in sizes:
        try:
            found = attempt(at_once=size)
        except Exception as error:
            if not is_out_of_memory(error) or size == 1:
                raise
        else:
            return found, "" if size == n else f"The GPU's memory sufficed for {size} images at a time, not for {n}."
        _free()
    raise AssertionError("unreachable")


def is_out_of_memory(error: Exception) -> bool:
    """Whether a GPU had too little memory: PyTorch's own error, or JAX's."""
    torch: Any = sys.modules.get("torch")
    return (torch is not None and isinstance(error, torch.OutOfMemoryError)) or "RESOURCE_EXHAUSTED" in str(error)


def _free() -> None:
    """Give back what the failed attempt held."""
    gc.collect()
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()
