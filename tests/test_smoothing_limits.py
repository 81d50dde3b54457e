"""Formulas at the limits of the closed forms give a result or an error of the package, in bounded time."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import numpy as np
import pytest
import sympy as sp
from typer.testing import CliRunner

import slgh
from messages import error_message
from slgh.cli import app
from slgh.smoothing import FormulaError, FormulaTooLarge, NotInClosedForm
from slgh.smoothing.codegen import CompiledExpressions
from slgh.smoothing.nodes import gauss_hermite


def piecewise_mean(f: Any, x: float, t: float, kinks: list[float]) -> float:
    """Return E f(x + t u) by Gauss-Legendre between the kinks."""
    nodes, weights = np.polynomial.legendre.leggauss(200)
    ends = sorted([-9.0, 9.0, *((k - x) / t for k in kinks if abs(k - x) < 9 * t)])
    total = 0.0
    for low, high in itertools.pairwise(ends):
        u = low + (high - low) * (nodes + 1) / 2
        total += (high - low) / 2 * float(weights @ (f(x + t * u) * np.exp(-u * u / 2))) / np.sqrt(2 * np.pi)
    return total


# Formulas in x, their NumPy versions, and their kinks or jumps. The coefficients are irrational.
IRRATIONAL: dict[str, tuple[Any, list[float]]] = {
    "max(x**3, e)": (lambda x: np.maximum(x**3, np.e), [np.exp(1 / 3)]),
    "min(x**4 - sqrt(e), pi)": (
        lambda x: np.minimum(x**4 - np.exp(0.5), np.pi),
        [-((np.pi + np.exp(0.5)) ** 0.25), (np.pi + np.exp(0.5)) ** 0.25],
    ),
    "abs(x) if e/2 + 3*x <= x*x else x/2": (
        lambda x: np.where(np.e / 2 + 3 * x <= x * x, np.abs(x), x / 2),
        [0.0, *np.roots([1, -3, -np.e / 2])],
    ),
    "abs(x**2 - 2*pi*x + pi**2)": (lambda x: (x - np.pi) ** 2, []),
    "max(1, sqrt(2)*x, pi*x/3 - pi)": (
        lambda x: np.maximum(1, np.maximum(np.sqrt(2) * x, np.pi * x / 3 - np.pi)),
        [0.5**0.5],
    ),
    "min(relu(pi/3*x - 1), x + sqrt(2))": (
        lambda x: np.minimum(np.maximum(0, np.pi / 3 * x - 1), x + np.sqrt(2)),
        [-(2**0.5), 3 / np.pi, (1 + 2**0.5) / (np.pi / 3 - 1)],
    ),
    "x**2 if max(x, 0) > 0 else 1": (lambda x: np.where(x > 0, x**2, 1), [0.0]),
    "x**2 if min(x, 0) >= 0 else 1": (lambda x: np.where(x >= 0, x**2, 1), [0.0]),
    "x if heaviside(x) < 1 else x**3": (lambda x: np.where(x < 0, x, x**3), [0.0]),
    "x if sign(x - 1) <= -1 or abs(x) > 2 else 0": (
        lambda x: np.where((x < 1) | (np.abs(x) > 2), x, 0),
        [1.0, -2.0, 2.0],
    ),
    "exp(sign(x) + x)": (lambda x: np.exp(np.sign(x) + x), [0.0]),
    "exp(abs(x) - x/2)": (lambda x: np.exp(np.abs(x) - x / 2), [0.0]),
    "cosh(sin(1)*x)": (lambda x: np.cosh(np.sin(1) * x), []),
    "sinh(x + sin(1))": (lambda x: np.sinh(x + np.sin(1)), []),
}


@pytest.mark.slow
@pytest.mark.parametrize("formula", IRRATIONAL)
def test_irrational_constants_and_signs_in_exponents_have_closed_forms(formula: str) -> None:
    f, kinks = IRRATIONAL[formula]
    F = slgh.smooth(formula)
    h = 1e-4
    for x, t in ((0.7, 0.6), (-1.2, 1.0), (1.5, 0.2)):
        left, value, right = (piecewise_mean(f, x + shift, t, kinks) for shift in (-h, 0, h))
        assert F.value([x], t) == pytest.approx(value, rel=1e-11, abs=1e-11)
        assert F.grad([x], t)[0] == pytest.approx((right - left) / (2 * h), rel=1e-5, abs=1e-5)
        assert F.dt([x], t) == pytest.approx(t * F.trace([x], t), rel=1e-9, abs=1e-10)
    points = np.array([[-2.0], [-0.3], [0.4], [2.5]])
    np.testing.assert_allclose(F.fun(points), f(points[:, 0]), rtol=1e-12, atol=1e-12)


def test_a_sign_in_an_exponent_is_a_factor_of_each_half_line() -> None:
    F = slgh.smooth("exp(sign(x) + y)")
    x, t = np.array([0.3, -0.2]), 0.7
    positive = slgh.smooth("heaviside(x)").value([0.3], t)
    expected = (np.e * positive + (1 - positive) / np.e) * np.exp(-0.2 + t * t / 2)
    assert F.value(x, t) == pytest.approx(expected, rel=1e-14)
    assert "Held" not in str(F.expression)


@pytest.mark.slow
@pytest.mark.parametrize(
    "formula",
    [
        "(x - y if (y if x < 1 else -x) <= 2 else tanh(x))",
        "(exp(-x) if x**2 > (1/2 if x < -1 or x > 3 else x) and x > -2 else tanh(x))",
    ],
)
def test_cases_inside_conditions_are_named_or_averaged(formula: str) -> None:
    with pytest.raises(NotInClosedForm, match="no closed form"):
        slgh.smooth(formula)
    F = slgh.smooth(formula, fallback="quadrature")
    x, t = np.full(F.d or 1, 0.4), 0.5
    u, w = gauss_hermite(len(x), 100)
    reference = w @ F.fun(x + t * u)
    assert F.value(x, t) == pytest.approx(reference, abs=0.05)
    assert np.isfinite(F.grad(x, t)).all()


def test_a_root_of_a_sign_has_no_closed_form() -> None:
    with pytest.raises(NotInClosedForm, match=r"not real everywhere: sqrt\("):
        slgh.smooth("sqrt(sign(x)) + y")
    F = slgh.smooth("sqrt(1 + sign(x)) + y", fallback="quadrature")
    assert F.value([0.5, 1.0], 0.0) == pytest.approx(2**0.5 + 1)


@pytest.mark.parametrize("formula", ["(-1)**(1/3)*x", "x*sqrt(1 - e)", "(1 - e)**0.5 + x", "sqrt(sin(4))*x"])
def test_complex_numbers_in_disguise_are_refused(formula: str) -> None:
    with pytest.raises(FormulaError, match="real and finite"):
        slgh.smooth(formula)


@pytest.mark.slow
def test_numbers_in_conditions_are_numbers_for_every_library() -> None:
    torch = pytest.importorskip("torch")
    F = slgh.smooth("tanh(x) if x > sqrt(2)*exp(-1) else x", fallback="quadrature")
    x = np.array([[0.3], [0.9]])
    np.testing.assert_allclose(F.value(torch.tensor(x), 0.1).numpy(), F.value(x, 0.1), rtol=1e-12)


EIGHT_FACTORS = "*".join(f"(x{i} + cos(x{(i + 1) % 8}) + exp(x{i} - x{(i + 1) % 8}))" for i in range(8))


def test_eight_mixed_factors_stop_at_the_time_limit() -> None:
    with pytest.raises(FormulaTooLarge, match=r"more than 1 seconds\. Multiply fewer factors"):
        slgh.smooth(EIGHT_FACTORS, max_seconds=1.0)


def test_terms_that_expand_too_far_are_averaged() -> None:
    formula = "(a + b + c + f + g + h + x + y + z)**20"
    F = slgh.smooth(formula, fallback="sampling")
    assert F(np.full(9, 0.1)) == pytest.approx(0.9**20)
    assert F.value(np.full(9, 0.1), 0.05) > 0.9**20


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """CPU clock that advances by `step` seconds each time it is read."""
    state = {"now": 0.0, "step": 0.0}

    def thread_time() -> float:
        state["now"] += state["step"]
        return state["now"]

    monkeypatch.setattr("slgh.smoothing.time_limit.time.thread_time", thread_time)
    return state


def test_the_limit_is_for_building_and_derivatives_together(clock: dict[str, float]) -> None:
    F = slgh.smooth("x**4*cos(x)", max_seconds=5.0)
    untouched = F.value([1.0], 0.5)
    clock["step"] = 3.0
    with pytest.raises(FormulaTooLarge, match="more than 5 seconds"):
        F.grad([1.0], 0.5)
    assert F.value([1.0], 0.5) == untouched
    assert pickle.loads(pickle.dumps(F)).grad([1.0], 0.5).shape == (1,)
    assert slgh.smooth("x**4*cos(x)", max_seconds=None).grad([1.0], 0.5).shape == (1,)


def test_the_limit_changes_no_result() -> None:
    limited, unlimited = (slgh.smooth("abs(x)*exp(-y**2)*cos(y)", max_seconds=s) for s in (30.0, None))
    x = np.array([0.3, -0.4])
    assert limited.expression == unlimited.expression
    for what in ("value", "grad", "dt", "trace"):
        np.testing.assert_array_equal(getattr(limited, what)(x, 0.3), getattr(unlimited, what)(x, 0.3))


def test_a_slow_function_of_symbols_stops_too(clock: dict[str, float]) -> None:
    clock["step"] = 0.1
    with pytest.raises(FormulaTooLarge, match=r"sympy\.Add"):
        slgh.smooth(lambda x: sum(x[i] ** 2 for i in range(50)), d=50, max_seconds=2.0)
    with pytest.raises(FormulaTooLarge):
        slgh.smooth(lambda x: sum(v**2 for v in x), d=50, max_seconds=2.0)


def test_max_seconds_must_be_positive() -> None:
    with pytest.raises(ValueError, match="`max_seconds`"):
        slgh.smooth("x", max_seconds=0.0)


@pytest.mark.slow
def test_2500_plain_variables_are_like_a_vector() -> None:
    n = 2500
    names = [sp.Symbol(f"x{i}") for i in range(n)]
    F = slgh.smooth(sp.Add(*(s**2 - sp.cos(s) for s in names), names[3] * names[5], 7))
    same = slgh.smooth("sum(x[i]**2 - cos(x[i]) for i in range(d)) + x[3]*x[5] + 7")
    assert len(F._pieces) <= 4
    x = np.random.default_rng(0).normal(size=n)
    for what in ("value", "grad", "dt", "trace"):
        np.testing.assert_allclose(getattr(F, what)(x, 0.3), getattr(same, what)(x, 0.3), rtol=1e-12)
    t, (a, b) = F.t, (names[3], names[5])
    others = dict.fromkeys(set(names) - {a, b}, 0)
    expected = a**2 + b**2 + a * b + n * t**2 + 7 - sp.exp(-(t**2) / 2) * (sp.cos(a) + sp.cos(b) + n - 2)
    assert sp.expand(F.expression.xreplace(others) - expected) == 0


@pytest.mark.slow
def test_2500_terms_of_text_are_read_at_once() -> None:
    F = slgh.smooth(" + ".join(f"x{i}" for i in range(2500)), max_seconds=60.0)
    assert F.value(np.ones(2500), 0.5) == 2500


@pytest.mark.slow
def test_long_sums_and_products_compile() -> None:
    x = sp.symbols("x:3500")
    total, product = CompiledExpressions(x, [sp.Add(*x), sp.Mul(*x)])(np, *np.full(3500, 1.001))
    assert total == pytest.approx(3503.5)
    assert product == pytest.approx(1.001**3500)


@pytest.mark.slow
def test_what_nests_too_deep_is_refused() -> None:
    with pytest.raises(FormulaTooLarge, match="nests too deep"):
        slgh.smooth("cos(sum(x[i] for i in range(d)))", d=2500)


@pytest.mark.parametrize("command", ["minimize", "probe"])
def test_the_command_line_says_in_one_line_that_a_formula_is_too_large(command: str, clock: dict[str, float]) -> None:
    clock["step"] = 30.0
    result = CliRunner().invoke(app, [command, "x**2 + y**2*cos(x)", "--x0", "1,2"])
    assert result.exit_code == 2
    message = error_message(result.stderr)
    assert message.startswith("FORMULA is too large to smooth: the algebra takes more than 60 seconds.")


def test_the_error_is_estimated_for_terms_of_different_numbers_of_variables() -> None:
    F = slgh.smooth("abs(sin(x)) + abs(sin(x*y*z))", fallback="quadrature")
    assert 0 < F.error([0.3, 0.2, 0.1], 0.5) < 0.1


def test_a_formula_of_billions_of_variables_can_be_shown() -> None:
    """Its variables are not listed individually."""
    F = slgh.smooth("x[2147483647]")
    assert F.d == 2**31
    assert repr(F) == "Smoothed(x[2147483647])"
