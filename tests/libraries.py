"""The array libraries that the engine runs on, and noise that is the same on all of them."""

from __future__ import annotations

import functools
from typing import Any

import array_api_compat
import numpy as np
import pytest

import slgh
from slgh.backends.compiled import KeyedNoise
from slgh.backends.numpy.backend import NumpyBackend

LOOPS = {"numpy": "numpy", "torch": "torch eager", "jax": "jax while_loop", "cuda": "torch cuda graph"}
"""Native loop of each library."""

MARKS = {"torch": [pytest.mark.slow], "jax": [pytest.mark.slow], "cuda": [pytest.mark.cuda]}


def parametrize_libraries(*names: str) -> pytest.MarkDecorator:
    """Run a test once per library. All but NumPy are slow."""
    return pytest.mark.parametrize("library", [pytest.param(name, marks=MARKS.get(name, ())) for name in names])


every_library = parametrize_libraries("numpy", "torch", "jax", "cuda")
other_libraries = parametrize_libraries("torch", "jax", "cuda")


def to_library(array: Any, library: str) -> Any:
    """Return the array as one of the library."""
    array = np.array(array)
    if library == "numpy":
        return array
    if library == "jax":
        return pytest.importorskip("jax.numpy").asarray(array)
    return pytest.importorskip("torch").asarray(array, device="cuda" if library == "cuda" else None)


def engine(library: str) -> str:
    """Return the expected `result.engine`."""
    return LOOPS[library]


def to_numpy(array: Any) -> Any:
    """Return an array of any library as a NumPy array."""
    return array.cpu().numpy() if array_api_compat.is_torch_array(array) else np.asarray(array)


def is_array(value: Any) -> bool:
    """True for an array of NumPy or PyTorch."""
    return isinstance(value, np.ndarray) or bool(array_api_compat.is_torch_array(value))


@functools.cache
def table(tag: int, m: int, d: int, T: int = 256, B: int = 8) -> Any:
    """Return normals (T, B, m, d) for one purpose and call of T iterations."""
    return np.random.default_rng([tag, m, d]).standard_normal((T, B, m, d))


@functools.cache
def index_table(tag: int, m: int, terms: int, T: int = 256, B: int = 8) -> Any:
    """Return indices (T, B, m) for one purpose and call of T iterations."""
    return np.random.default_rng([tag, m, terms]).integers(terms, size=(T, B, m))


def component_table(B: int, start: int, stop: int) -> Any:
    """Return components start..stop-1 for each of B problems."""
    return np.tile(np.arange(start, stop), (B, 1))


@functools.cache
def on_cuda(make: Any, *arguments: int) -> Any:
    """Return a table on the device."""
    return to_library(make(*arguments), "cuda")


class Replay(KeyedNoise):
    """Noise from the tables, for any seed. The key of a problem is its number in the batch."""

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
        """Return the entry of this iteration. PyTorch would read a tensor index without dimensions on the host."""
        return found[self.k] if isinstance(self.k, int) else found[self.k[None]][0]

    def _native(self, make: Any, *arguments: int) -> Any:
        """Return a table of the library. On CUDA it is cached, since no graph can contain the copy."""
        return on_cuda(make, *arguments) if self.library == "cuda" else to_library(make(*arguments), self.library)

    def rows(self, key: Any, rows: Any) -> Any:
        return key[to_library(rows, self.library)]


def replay_noise(monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    """Let the runs of a library take their noise from the tables."""

    class OfLibrary(Replay):
        pass

    OfLibrary.library = library

    def noise(self: Any, keys: Any, d: int, sample_xi: Any, *, samples: int) -> Replay:
        return OfLibrary(to_library(np.arange(len(keys)), library), d, None, sample_xi)

    if library == "numpy":
        monkeypatch.setattr(NumpyBackend, "noise", noise)
    elif library == "jax":
        from slgh.backends.jax import backend as jax_backend
        from slgh.backends.jax import loop as jax_loop

        monkeypatch.setattr(jax_backend.JaxBackend, "noise", noise)
        monkeypatch.setattr(jax_loop, "JaxNoise", OfLibrary)
        monkeypatch.setattr(jax_loop, "cached_blocks", jax_loop.CompiledBlocks)
    else:
        from slgh.backends.torch import backend as torch_backend
        from slgh.backends.torch import loop as torch_loop

        monkeypatch.setattr(torch_backend.TorchBackend, "noise", noise)
        if library == "cuda":
            monkeypatch.setattr(torch_loop, "PhiloxNoise", OfLibrary)


def assert_close(result: slgh.Result, expected: slgh.Result, rtol: float = 1e-12) -> None:
    """Assert that two results of different libraries agree: numbers up to rounding, counts exactly."""
    for name in ("x", "fun", "x_best", "fun_best", "xhat", "t", "fun_se"):
        _assert_close(to_numpy(result[name]), expected[name], rtol, name)
    for name in ("nit", "nfev", "njev", "nrejected", "status", "success"):
        np.testing.assert_array_equal(result[name], expected[name], err_msg=name)
    assert result.history.keys() == expected.history.keys()
    for name, column in result.history.items():
        _assert_close(column, expected.history[name], rtol, f"history {name}")


def _assert_close(found: Any, expected: Any, rtol: float, name: str) -> None:
    """Assert equality up to rtol of the largest entry."""
    scale = np.max(np.abs(expected), initial=0, where=np.isfinite(expected))
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * scale, err_msg=name)
