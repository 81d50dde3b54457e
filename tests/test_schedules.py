"""Schedules of t."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slgh
from slgh.protocols import Estimate
from slgh.schedules import SCHEDULES, Budget, Constant, Derivative, DoubleLoop, PowerLaw, Ratio

POSITIVE = st.floats(1e-3, 1e3)
GAMMA = st.floats(0.01, 0.999)
FINITE = st.floats(-1e6, 1e6)


def see(**observed: Any) -> Estimate:
    return Estimate(g=np.zeros((1, 1)), cosine=1.0, **{n: np.atleast_1d(v) for n, v in observed.items()})


def follow(schedule: Any, seen: list[Estimate], floor: float = 0.0) -> list[float]:
    """Return t_1, t_2, ... under these observations."""
    t, floor_array = np.array([schedule.t1]), np.array([floor])
    state, ts = schedule.init(t, floor_array, np), [float(schedule.t1)]
    for s in seen:
        t, state = schedule.next(t, s, state, floor_array, np)
        ts.append(float(t[0]))
    return ts


@given(t1=POSITIVE, gamma=GAMMA, floor=st.floats(0, 1e-3), n=st.integers(1, 50))
def test_ratio_is_geometric_down_to_its_floor(t1: float, gamma: float, floor: float, n: int) -> None:
    ts = follow(Ratio(t1=t1, gamma=gamma), [see()] * n, floor)
    np.testing.assert_allclose(ts, np.maximum(t1 * gamma ** np.arange(n + 1), floor), rtol=1e-12)


@given(t1=POSITIVE, gamma=GAMMA, eta=POSITIVE, trace=FINITE, floor=st.floats(0, 1e-3))
def test_derivative_falls_at_least_by_gamma_and_never_below_its_floor(
    t1: float, gamma: float, eta: float, trace: float, floor: float
) -> None:
    _, t2 = follow(Derivative(t1=t1, gamma=gamma, eta=eta), [see(trace=trace)], floor)
    assert t2 == max(min(t1 - eta * trace, gamma * t1), floor)


def test_derivative_steps_along_the_trace_or_the_exact_derivative() -> None:
    seen = see(trace=10.0, slope=3.0)
    assert follow(Derivative(t1=1.0, eta=0.01), [seen])[1] == pytest.approx(0.9)
    assert follow(Derivative(t1=1.0, eta=0.01, slope="exact"), [seen])[1] == pytest.approx(0.97)


def test_double_loop_waits_until_n0_small_changes_were_counted() -> None:
    values = [5.0, 4.0, 4.05, 3.0, 3.05, 3.1, 3.1, 3.1]
    ts = follow(DoubleLoop(t1=1.0, gamma=0.5, eps0=0.1, n0=2), [see(f=v) for v in values])
    #                changes:  inf  -1   .05  -1.05 .05 .05  0   0
    assert ts == [1.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.25, 0.25]


def test_double_loop_with_an_infinite_tolerance_has_inner_loops_of_n0_iterations() -> None:
    schedule = DoubleLoop(t1=1.0, gamma=0.5, eps0=float("inf"), n0=3)
    assert follow(schedule, [see(f=float(i)) for i in range(7)]) == [1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25]


def test_double_loop_on_the_closed_form_compares_at_one_t() -> None:
    schedule = DoubleLoop(t1=1.0, gamma=0.5, eps0=0.1, n0=1, rule="F")
    assert follow(schedule, [see(F=3.0, F_next=2.0), see(F=2.0, F_next=1.95), see(F=9.0, F_next=1.0)]) == [
        1.0,
        1.0,
        0.5,
        0.5,
    ]


@given(t1=st.floats(1e-2, 1e2), ratio=st.floats(1e-6, 1.0), T=st.integers(1, 300))
def test_budget_ends_exactly_at_t_end(t1: float, ratio: float, T: int) -> None:
    t_end = max(t1 * ratio, 1e-12)
    ts = follow(Budget(t1=t1, t_end=t_end, iterations=T), [see()] * (T - 1))
    assert ts[-1] == pytest.approx(t1 if T == 1 else t_end, rel=1e-9)
    assert all(a >= b * (1 - 1e-12) for a, b in pairwise(ts))


@given(max_evals=st.integers(20, 400), samples=st.integers(1, 6))
def test_budget_is_spent_exactly(max_evals: int, samples: int) -> None:
    result = slgh.minimize(
        lambda x: (x**2).sum(axis=-1),
        np.ones(3),
        method="scale_free",
        t_end=1e-3,
        t1=1.0,
        samples=samples,
        max_evals=max_evals,
        seed=0,
        vectorized=True,
    )
    assert result.nit == (max_evals - 2) // (2 * samples)
    assert result.nfev == 2 + 2 * samples * result.nit, "the start, the iterations, and the last iterate"
    assert result.history["t"][-1] == pytest.approx(1e-3 if result.nit > 1 else 1.0, rel=1e-9)
    assert result.success


def test_budget_never_lets_t_rise() -> None:
    options: dict[str, Any] = {"method": "scale_free", "max_evals": 100, "seed": 0, "history": "full"}
    result = slgh.minimize(lambda x: (x**2).sum(), [1.0, 1.0], t_end=50.0, **options)
    np.testing.assert_array_equal(result.history["t"], 1.0)


@given(t1=POSITIVE, power=st.floats(0.01, 2.0), floor=st.floats(0, 1e-3), n=st.integers(1, 50))
def test_power_law_falls_as_a_power_of_the_number_down_to_its_floor(
    t1: float, power: float, floor: float, n: int
) -> None:
    ts = follow(PowerLaw(t1=t1, t_power=power), [see()] * n, floor)
    np.testing.assert_allclose(ts, np.maximum(t1 / np.arange(1, n + 2) ** power, floor), rtol=1e-12)


def test_constant_stays() -> None:
    assert follow(Constant(t1=0.5), [see()] * 3) == [0.5] * 4


def test_noise_sets_the_floor_of_algorithm_4() -> None:
    result = slgh.minimize(
        lambda x: (x**2).sum(),
        [1.0, 1.0],
        method="zoslgh_r",
        t1=1.0,
        gamma=0.5,
        step=0.01,
        noise=0.04,
        max_iter=20,
        seed=0,
    )
    assert result.t == pytest.approx(0.2)


def test_the_default_floor_is_where_differences_are_rounding() -> None:
    common: dict[str, Any] = {"t1": 1.0, "gamma": 0.5, "step": 1e-3, "max_iter": 100, "seed": 0}
    f = lambda x: (x**2).sum()  # noqa: E731
    eps = np.finfo(float).eps
    assert slgh.minimize(f, [1.0], method="zoslgh_r", **common).t == pytest.approx(eps**0.5)
    assert slgh.minimize(f, [1.0], method="zoslgh_r", oracle="antithetic", **common).t == pytest.approx(eps ** (1 / 3))
    assert slgh.minimize(f, [1e9], method="zoslgh_r", **common).t == pytest.approx(eps * 1e9)
    assert slgh.minimize(f, [1.0], method="slgh_r", grad=lambda x: 2 * x, **common).t == eps


def test_every_schedule_is_registered_under_its_name() -> None:
    assert all(name == part.name for name, part in SCHEDULES.items())
