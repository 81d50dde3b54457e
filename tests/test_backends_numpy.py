"""The array namespace of NumPy that the engine uses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slgh.backends.numpy.arrays import xp as numpy_namespace


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
