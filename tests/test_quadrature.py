"""Smoothing of Python functions by quadrature."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from array_api_compat import array_namespace

import slgh
from libraries import every_library, to_library, to_numpy
from slgh.smoothing import Quadrature

FORMULA = "cos(x)*exp(-y**2) + x*y**3"


def fun(x: Any) -> Any:
    xp = array_namespace(x)
    return xp.cos(x[..., 0]) * xp.exp(-(x[..., 1] ** 2)) + x[..., 0] * x[..., 1] ** 3


def terms(x: Any) -> Any:
    xp = array_namespace(x)
    return x**2 - 10 * xp.cos(2 * np.pi * x)


@every_library
@pytest.mark.parametrize(
    ("F", "closed", "d"),
    [
        (Quadrature(fun), slgh.smooth(FORMULA), 2),
        (
            Quadrature(terms, separable=True),
            slgh.smooth("sum(x[i]**2 - 10*cos(2*pi*x[i]) for i in range(d))"),
            7,
        ),
    ],
    ids=["two variables", "separable"],
)
def test_quadrature_agrees_with_the_closed_form_on_every_library(library: str, F: Any, closed: Any, d: int) -> None:
    rng = np.random.default_rng(0)
    x, t = rng.normal(size=(3, 2, d)), rng.uniform(0.2, 1, (3, 2))
    for what, rtol in (("value", 1e-12), ("grad", 1e-10), ("trace", 1e-9), ("dt", 1e-9)):
        found = getattr(F, what)(to_library(x, library), to_library(t, library))
        expected = getattr(closed, what)(x, t)
        np.testing.assert_allclose(to_numpy(found), expected, rtol=rtol, atol=rtol * np.abs(expected).max())


def test_at_t_0_it_is_f_and_its_derivatives() -> None:
    F, closed, x = Quadrature(fun), slgh.smooth(FORMULA), np.array([[0.4, -0.8]])
    np.testing.assert_allclose(F.value(x, np.zeros(1)), fun(x), rtol=1e-14)
    np.testing.assert_allclose(F.grad(x, np.zeros(1)), closed.grad(x, np.zeros(1)), rtol=1e-7)
    np.testing.assert_allclose(F.trace(x, np.zeros(1)), closed.trace(x, np.zeros(1)), rtol=1e-4)


def test_the_error_estimate_covers_the_error_and_tells_kinks_from_smooth_functions() -> None:
    kinked, smooth = (
        Quadrature(lambda x: np.abs(x[..., 0]), nodes=40),
        Quadrature(lambda x: np.cos(x[..., 0]), nodes=40),
    )
    exact = slgh.smooth("abs(x)")
    x, t = np.random.default_rng(0).normal(size=(500, 1)), np.ones(500)
    actual, estimated = np.abs(kinked.value(x, t) - exact.value(x, t)), kinked.error(x, t)
    assert np.median(actual) < np.median(estimated) < 10 * np.median(actual)
    assert np.mean(actual < 3 * estimated) > 0.8
    assert smooth.error(x, t).max() < 1e-12


def test_it_is_a_closed_form_for_minimize() -> None:
    result = slgh.minimize(
        Quadrature(terms, separable=True),
        np.full(5, 2.2),
        method="slgh_r",
        t1=1.0,
        gamma=0.998,
        step=0.002,
        max_iter=3000,
    )
    assert result.fun == pytest.approx(-50, abs=1e-3)


REFUSED: list[tuple[Any, str]] = [
    (lambda: Quadrature(cast(Any, 3)), "`fun` must be callable"),
    (lambda: Quadrature(fun, nodes=1), "`nodes` must be an integer >= 2"),
    (lambda: Quadrature(lambda x: x.sum(axis=-1)).value(np.zeros(5), 1.0), "at most 4 variables"),
    (lambda: Quadrature(lambda x: x.sum(axis=-1), nodes=100).value(np.zeros(3), 1.0), "at most 20000 nodes"),
    (lambda: Quadrature(lambda x: x).value(np.zeros(2), 1.0), "one value per point"),
    (lambda: Quadrature(lambda x: x.sum(axis=-1), separable=True).value(np.zeros(2), 1.0), "one term per variable"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_misuse_is_refused(call: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        call()
