"""The namespaces that the engine computes with agree with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from slgh.backends.numpy.arrays import xp as numpy_xp
from slgh.backends.torch.arrays import xp as torch_xp


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
def test_take_along_axis_is_numpys(shape: tuple[int, ...], indices: tuple[int, ...], axis: int) -> None:
    rng = np.random.default_rng(0)
    x: Any = rng.normal(size=shape)
    at: Any = rng.integers(shape[axis], size=indices)
    expected = np.take_along_axis(x, at, axis)
    found = numpy_xp.take_along_axis(x, at, axis=axis)
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(
        torch_xp.take_along_axis(torch.tensor(x), torch.tensor(at), axis=axis).numpy(), expected
    )
