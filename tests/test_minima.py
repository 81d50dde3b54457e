"""`result.minima`: the distinct local minima that "auto" has found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import slgh
from auto_cases import Counted, bowl, waves
from cases import assert_same

BOX = [(-6.0, 6.0)] * 2
HIMMELBLAU = np.array([[3.0, 2.0], [-2.805118, 3.131313], [-3.779310, -3.283186], [3.584428, -1.848127]])


def tilted(x: Any) -> Any:
    """Himmelblau's function with a slope, so that its four minima have different values."""
    return (x[0] ** 2 + x[1] - 11) ** 2 + (x[0] + x[1] ** 2 - 7) ** 2 + 0.2 * x[0] + 0.1 * x[1]


def tilt(x: Any) -> Any:
    a, b = x[0] ** 2 + x[1] - 11, x[0] + x[1] ** 2 - 7
    return np.array([4 * x[0] * a + 2 * b + 0.2, 2 * a + 4 * x[1] * b + 0.1])


@pytest.mark.parametrize(
    "options",
    [{}, {"parallel": 4}, {"grad": tilt}, {"max_evals": 280}, {"phases": ("local_search", "restarts")}],
)
def test_the_minima_of_a_function_with_four(options: dict[str, Any]) -> None:
    run = slgh.minimize(tilted, bounds=BOX, **{"max_evals": 4000, "seed": 0} | options)
    points, values = run.minima
    assert len(points) == len(values) <= 4
    assert len(points) >= (2 if run.nfev < 300 else 4)
    assert (np.diff(values) >= 0).all()
    assert [tilted(x) for x in points] == values.tolist()
    nearest = np.abs(points[:, None] - HIMMELBLAU).max(axis=2).argmin(axis=1)
    np.testing.assert_allclose(points, HIMMELBLAU[nearest], atol=0.1)
    assert len(set(nearest)) == len(points)
    assert values[0] == pytest.approx(run.fun, abs=1e-6)


def test_the_unit_of_the_searches_tells_minima_apart() -> None:
    wide = slgh.minimize(waves, np.full(2, 1.2), bounds=[(-5, 5)] * 2, max_evals=3000, seed=0, vectorized=True)
    assert len(wide.minima.points) > 1
    apart = np.abs(wide.minima.points[:, None] - wide.minima.points).max(axis=2) + np.eye(len(wide.minima.points))
    assert apart.min() > 0.5


@pytest.mark.parametrize("options", [{}, {"parallel": 4}, {"grad": tilt}])
@pytest.mark.parametrize("fails_at", [700, 1500])
def test_they_survive_an_interruption(tmp_path: Path, options: dict[str, Any], fails_at: int) -> None:
    given: dict[str, Any] = {"bounds": BOX, "max_evals": 4000, "seed": 0, **options}
    whole = slgh.minimize(tilted, **given)
    with pytest.raises(ZeroDivisionError):
        slgh.minimize(Counted(tilted, fails_at), **given, checkpoint=tmp_path / "run.npz")
    resumed = slgh.minimize(tilted, **given, checkpoint=tmp_path / "run.npz")
    assert_same(resumed, whole)
    for a, b in zip(resumed.minima, whole.minima, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_they_have_the_dtype_of_x0(dtype: Any) -> None:
    run = slgh.minimize(bowl, np.ones(3, dtype), max_evals=500, seed=0)
    assert (run.minima.points.dtype, run.minima.values.dtype) == (dtype, dtype)
    assert run.minima.points.shape == (1, 3)


@pytest.mark.parametrize(
    ("x0", "options"),
    [
        (np.ones(3), {"method": "scale_free"}),
        (np.ones((2, 3)), {"batched": True}),
        (np.ones(3), {"phases": ("homotopy",)}),
    ],
)
def test_without_local_searches_there_are_none(x0: Any, options: dict[str, Any]) -> None:
    run = slgh.minimize(bowl, x0, max_evals=400, seed=0, **options)
    assert (run.minima.points.shape, run.minima.values.shape) == ((0, 3), (0,))


def test_noise_has_no_minima() -> None:
    rng = np.random.default_rng(0)
    run = slgh.minimize(lambda x: bowl(x) + rng.normal(), np.ones(3), max_evals=3000, seed=0)
    assert len(run.minima.points) == 0
