"""The array libraries that the engine runs on, and noise that is the same on all of them."""

from __future__ import annotations

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch

import slgh
import slgh.backends.jax.backend
import slgh.backends.torch.backend
from slgh.backends.compiled import KeyedNoise
from slgh.backends.jax import loop as jax_loop
from slgh.backends.numpy.backend import NumpyBackend
from slgh.backends.torch import loop as torch_graph

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

LIBRARIES = {
    "numpy": ("numpy", np.asarray),
    "torch": ("torch eager", torch.asarray),
    "jax": ("jax while_loop", jnp.asarray),
    "cuda": ("torch cuda graph", functools.partial(torch.asarray, device="cuda")),
}
"""The native loop of each, and how an array is made."""

PARAMS = [pytest.param(name, marks=[needs_cuda] if name == "cuda" else []) for name in LIBRARIES]

every_library = pytest.mark.parametrize("library", PARAMS)
other_libraries = pytest.mark.parametrize("library", PARAMS[1:])


def to_library(array: Any, library: str) -> Any:
    """An array of the library."""
    return LIBRARIES[library][1](np.array(array))


def engine(library: str) -> str:
    """What `result.engine` must say."""
    return LIBRARIES[library][0]


def to_numpy(array: Any) -> Any:
    """An array of any library as NumPy's."""
    return array.cpu().numpy() if isinstance(array, torch.Tensor) else np.asarray(array)


@functools.cache
def table(tag: int, m: int, d: int, T: int = 256, B: int = 8) -> Any:
    """Normals (T, B, m, d) for one purpose and call of T iterations."""
    return np.random.default_rng([tag, m, d]).standard_normal((T, B, m, d))


@functools.cache
def index_table(tag: int, m: int, terms: int, T: int = 256, B: int = 8) -> Any:
    """Indices (T, B, m), likewise."""
    return np.random.default_rng([tag, m, terms]).integers(terms, size=(T, B, m))


def component_table(B: int, start: int, stop: int) -> Any:
    """Components start..stop-1 for each of B problems."""
    return np.tile(np.arange(start, stop), (B, 1))


@functools.cache
def on_cuda(make: Any, *arguments: int) -> Any:
    """A table on the device."""
    return to_library(make(*arguments), "cuda")


class Replay(KeyedNoise):
    """Noise from the tables, whatever the seed; the key of a problem is its number in the batch."""

    library = "numpy"

    def __init__(self, key: Any, d: int, dtype: Any = None, sample_xi: Any = None, k: Any = 0) -> None:
        super().__init__(key, d, sample_xi, k)
        self.dtype = dtype

    def draw_normal(self, key: Any, tag: int, m: int) -> Any:
        return self._now(self._native(table, tag, m, self.d))[key]

    def draw_xi(self, key: Any, tag: int, m: int) -> Any:
        return self._now(self._native(index_table, tag, m, self.sample_xi))[key]

    def every_xi(self, start: int, stop: int) -> Any:
        return self._native(component_table, self.key.shape[0], start, stop)

    def _now(self, found: Any) -> Any:
        """The entry of this iteration; PyTorch looks at a tensor without dimensions, and one with it can do."""
        return found[self.k] if isinstance(self.k, int) else found[self.k[None]][0]

    def _native(self, make: Any, *arguments: int) -> Any:
        """A table of the library; on CUDA kept, since no graph can hold the copying."""
        return on_cuda(make, *arguments) if self.library == "cuda" else to_library(make(*arguments), self.library)

    def rows(self, key: Any, rows: Any) -> Any:
        return key[to_library(rows, self.library)]


def replay_noise(monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    """Have a library's runs take their noise from the tables."""

    class OfLibrary(Replay):
        pass

    OfLibrary.library = library

    def noise(self: Any, keys: Any, d: int, sample_xi: Any, *, samples: int) -> Replay:
        return OfLibrary(to_library(np.arange(len(keys)), library), d, None, sample_xi)

    module = {
        "numpy": None,
        "torch": slgh.backends.torch.backend,
        "jax": slgh.backends.jax.backend,
        "cuda": slgh.backends.torch.backend,
    }[library]
    backend = {"jax": "JaxBackend"}.get(library, "TorchBackend")
    monkeypatch.setattr(getattr(module, backend) if module else NumpyBackend, "noise", noise)
    if library == "jax":
        monkeypatch.setattr(jax_loop, "JaxNoise", OfLibrary)
        monkeypatch.setattr(jax_loop, "cached_blocks", jax_loop.CompiledBlocks)
    if library == "cuda":
        monkeypatch.setattr(torch_graph, "PhiloxNoise", OfLibrary)


def assert_close(result: slgh.Result, expected: slgh.Result, rtol: float = 1e-12) -> None:
    """Two results of different libraries agree: numbers to rounding, counts exactly."""
    for name in ("x", "fun", "x_best", "fun_best", "xhat", "t", "fun_se"):
        _assert_close(to_numpy(result[name]), expected[name], rtol, name)
    for name in ("nit", "nfev", "njev", "nrejected", "status", "success"):
        np.testing.assert_array_equal(result[name], expected[name], err_msg=name)
    assert result.history.keys() == expected.history.keys()
    for name, column in result.history.items():
        _assert_close(column, expected.history[name], rtol, f"history {name}")


def _assert_close(found: Any, expected: Any, rtol: float, name: str) -> None:
    """Equal to rtol of the largest entry."""
    scale = np.max(np.abs(expected), initial=0, where=np.isfinite(expected))
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * scale, err_msg=name)
