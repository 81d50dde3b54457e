"""The array namespaces of the engine agree with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from libraries import parametrize_libraries, to_library, to_numpy
from slgh.backends import backend_of
from slgh.backends.numpy.arrays import xp as numpy_namespace


@parametrize_libraries("numpy", "torch")
@pytest.mark.parametrize(
    ("shape", "indices", "axis"),
    [
        ((3, 4, 5), (3, 1, 1), 1),
        ((3, 4, 5), (3, 2, 1), 1),
        ((3, 4, 5), (3, 2, 5), 1),
        ((3, 4, 5), (1, 1, 1), 1),
        ((1, 4, 5), (1, 1, 1), 1),
        ((3, 4, 5), (3, 4, 2), -1),
        ((3, 4), (3, 2), 1),
        ((3, 4), (2, 4), 0),
        ((4,), (2,), 0),
    ],
)
def test_take_along_axis_is_numpys(shape: tuple[int, ...], indices: tuple[int, ...], axis: int, library: str) -> None:
    rng = np.random.default_rng(0)
    x: Any = rng.normal(size=shape)
    at: Any = rng.integers(shape[axis], size=indices)
    expected = np.take_along_axis(x, at, axis)
    array = to_library(x, library)
    found = to_numpy(backend_of(array).xp.take_along_axis(array, to_library(at, library), axis=axis))
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["sum", "mean", "min", "max"])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_what_the_namespace_of_numpy_peels_off_is_the_same(name: str, axis: Any, keepdims: bool, dtype: Any) -> None:
    x = (100 * np.random.default_rng(0).normal(size=(3, 4, 5))).astype(dtype)
    found = getattr(numpy_namespace, name)(x, axis=axis, keepdims=keepdims)
    expected = getattr(np, name)(x, axis=axis, keepdims=keepdims)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
