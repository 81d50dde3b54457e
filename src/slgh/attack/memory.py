"""Fewer images at a time where the GPU has too little memory for all."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

from slgh.result import Result


def within_memory(attempt: Callable[..., Result], n: int) -> tuple[Result, str]:
    """attempt(batch_size=n), and with half as many while memory does not suffice; what is to be said of it.

    Memory runs out in the first iterations, if at all, so that little is done twice.
    """
    for size in (n >> i for i in range(n.bit_length() - 1)):
        try:
            return attempt(batch_size=size), _remark(size, n)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
        _free()
    return attempt(batch_size=1), _remark(1, n)


def _remark(size: int, n: int) -> str:
    return "" if size == n else f"The GPU's memory sufficed for {size} images at a time, not for {n}."


def is_out_of_memory(error: Exception) -> bool:
    """Whether a GPU had too little memory for PyTorch."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(error, torch.OutOfMemoryError)


def _free() -> None:
    """Give back what the failed attempt held."""
    gc.collect()
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()
