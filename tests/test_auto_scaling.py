"""Runs of "auto" do not depend on the units of x and f. With ranks, they depend only on the order of the values."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import slgh
from auto_cases import Point, bowl, minimize, valley, waves


def assert_scaled(scaled: slgh.Result, plain: slgh.Result, *, x: float = 1.0, f: float = 1.0) -> None:
    """Assert that two runs are bit-equal up to the units of x and f."""
    units = {"x": x, "x_best": x, "xhat": x, "t": x, "fun": f, "fun_best": f}
    for name, unit in units.items():
        np.testing.assert_array_equal(scaled[name], unit * plain[name], err_msg=name)
    for name in ("nit", "nfev", "status"):
        assert scaled[name] == plain[name], name
    for name in ("x", "t", "fun", "fun_best"):
        np.testing.assert_array_equal(scaled.history[name], units[name] * plain.history[name], err_msg=name)


def in_units(fun: Point, *, x: float = 1.0, f: float = 1.0) -> Point:
    """Return the function in other units."""
    return lambda point: fun(point / point.dtype.type(x)) * point.dtype.type(f)


def in_a_box(low: float, high: float, d: int, unit: float) -> dict[str, Any]:
    """Return bounds of different lengths."""
    return {"bounds": [(unit * low * (1 + i), unit * high * (1 + i / 2)) for i in range(d)]}


PLACES: dict[str, Callable[[int, float], dict[str, Any]]] = {
    "unbounded": lambda d, unit: {"t1": 1.25 * unit},
    "equal bounds": lambda d, unit: {"bounds": [(-5 * unit, 3 * unit)] * d},
    "bounds": functools.partial(in_a_box, -5.0, 3.0),
    "half bounded": lambda d, unit: {"t1": 1.25 * unit, "bounds": [(-5 * unit, None)] * d},
}


@pytest.mark.parametrize("method", ["auto", "scale_free"])
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES.keys())
@pytest.mark.parametrize(
    ("fun", "d", "max_evals"),
    [
        (bowl, 3, 60),
        (waves, 3, 1500),
        (bowl, 11, 900),
        (valley, 11, 700),
        pytest.param(waves, 11, 1500, marks=pytest.mark.slow),
    ],
)
def test_units_of_x_and_f_do_not_matter(method: str, place: Any, fun: Point, d: int, max_evals: int) -> None:
    x0, options = np.full(d, -1.3), {"method": method, "max_evals": max_evals, "history": "x"}
    plain = minimize(fun, x0, **options, **place(d, 1.0))
    assert method == "scale_free" or "local search" in plain.message
    for unit in (2.0**40, 2.0**-40):
        assert_scaled(minimize(in_units(fun, f=unit), x0, **options, **place(d, 1.0)), plain, f=unit)
    for unit in (2.0**20, 2.0**-20):
        assert_scaled(minimize(in_units(fun, x=unit), unit * x0, **options, **place(d, unit)), plain, x=unit)


def test_the_units_of_a_float32_run_do_not_matter() -> None:
    x0, options = np.full(4, -1.3, np.float32), {"max_evals": 900, "history": "x"}
    for fun in (valley, waves):
        plain = minimize(fun, x0, t1=1.25, **options)
        assert "local search" in plain.message
        assert_scaled(minimize(in_units(fun, f=2.0**-40), x0, t1=1.25, **options), plain, f=2.0**-40)


@pytest.mark.parametrize("fun", [bowl, waves])
@pytest.mark.parametrize("bounded", [False, True])
def test_by_ranks_only_the_order_of_values_matters(fun: Point, bounded: bool) -> None:
    place = PLACES["bounds" if bounded else "unbounded"](5, 1.0)
    options = {"values": "ranks", "max_evals": 800, "history": "x", **place}
    plain = minimize(lambda x: fun(x) + 1, np.full(5, -1.3), **options)
    cubed = minimize(lambda x: (fun(x) + 1) ** 3, np.full(5, -1.3), **options)
    assert len(np.unique(plain.history["x"], axis=0)) > 50
    np.testing.assert_array_equal(cubed.history["x"], plain.history["x"])
    np.testing.assert_array_equal(cubed.x, plain.x)
    other = minimize(
        lambda x: (fun(x) + 1) ** 3, np.full(5, -1.3), **options | {"values": "raw", "method": "scale_free"}
    )
    raw = minimize(lambda x: fun(x) + 1, np.full(5, -1.3), **options | {"values": "raw", "method": "scale_free"})
    assert not np.array_equal(other.x, raw.x), "raw values differ"
