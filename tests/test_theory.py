"""The theorems: their numbers by hand, their bounds on runs, and the step of Algorithm 4."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slgh
from libraries import every_library, to_library, to_numpy
from slgh.backends import backend_of
from slgh.paper.experiments.iterations import Tilted, jagged, sphere
from slgh.problems import Problem
from slgh.problems.chain import chain
from slgh.problems.slide import slide
from slgh.protocols import Estimate
from slgh.theory import THEOREMS, Constants, Plan, estimate_smoothness, largest_nu, plan
from slgh.theory.bound import Radii
from slgh.theory.theorems import Powers
from slgh.updates.noise_aware import NoiseAware

NU = 1e-4
EXTRAS: dict[str, dict[str, float]] = {
    "3.4": {},
    "3.5": {"sigma": 0.5},
    "4.1": {},
    "4.2": {"sigma": 0.5},
    "C.1": {"nu": NU},
    "C.2": {"nu": NU, "sigma": 0.5},
}
each_theorem = pytest.mark.parametrize("name", THEOREMS)


def planned(name: str, **options: Any) -> Plan:
    """Return the plan of a theorem for a function whose constants are all about 1."""
    method = "slgh_r" if THEOREMS[name].order == "first" else "zoslgh_r"
    common = {"L0": 1.5, "L1": 2.0, "d": 2, "t1": 0.5, "gap": 1.0}
    return plan(method, **common | EXTRAS[name] | options)


# Step sizes, burn-in, tuned gamma


@pytest.mark.parametrize(
    ("name", "n", "step"),
    [
        ("3.4", 100, 1 / 2),
        ("3.5", 3, 1 / 2),
        ("3.5", 100, 1 / 10),
        ("4.1", 100, 1 / 24),
        ("4.2", 10, 1 / 24),
        ("4.2", 6000, 1 / math.sqrt(36000)),
        ("C.1", 100, 1 / 384),
        ("C.2", 100, 1 / 384),
        ("C.2", 10**6, 1 / math.sqrt(6e6)),
    ],
)
def test_step_sizes_by_hand(name: str, n: int, step: float) -> None:
    """L1 = 2, d = 2; with an error nu = 0.01 at t = 0.1, L1(t) = 2 + 2 = 4."""
    c = Constants(L1=2.0, d=2, t1=0.5, nu=0.01 if name.startswith("C") else 0.0)
    assert THEOREMS[name].step(c, n, 0.1) == pytest.approx(step)


@pytest.mark.parametrize(
    ("name", "eps", "gamma", "k0"),
    [
        ("3.4", 0.1, 0.99, 100),  # k1 = 100, k2 = log 8 / -log 0.99 = 206.9
        ("3.4", 0.1, 0.9, 20),  # k2 = 19.7
        ("3.5", 0.3, 0.99, 69),  # k1 = 123.5, k2 = log 2 / -log 0.99 = 68.97
        ("3.5", 2.0, 0.1, 1),  # k1 = 1/16, so that the burn-in rounds up to 1
        ("4.1", 0.5, 0.99, 16),  # k1 = 4/0.25
        ("4.1", 0.1, 0.99, 69),
        ("4.2", 0.5, 0.99, 64),
        ("C.1", 0.1, 0.99, 138),  # k2 = log 4 / -log 0.99 = 137.9
        ("C.2", 0.5, 0.99, 64),
        ("C.2", 0.1, 0.99, 138),
    ],
)
def test_burn_in_by_hand(name: str, eps: float, gamma: float, k0: int) -> None:
    assert THEOREMS[name].burn_in(4, eps, gamma) == k0


@pytest.mark.parametrize(("d", "eps"), [(2, 0.3), (16, 0.1), (100, 0.7)])
def test_tuned_gammas_are_those_of_the_theorems_and_make_both_burn_ins_equal(d: int, eps: float) -> None:
    printed = {
        "3.4": d ** (-3 * eps**2 / 2),
        "3.5": max(d**0.5, d**1.5 * eps**2) ** -(eps**4),
        "4.1": d ** (-(eps**2) / (2 * d)),
        "4.2": d ** (-(eps**4) / (2 * d)),
        "C.1": d ** (-(eps**2) / d),
        "C.2": d ** (-(eps**4) / d),
    }
    for name, gamma in printed.items():
        assert THEOREMS[name].tuned(d, eps) == pytest.approx(gamma)
        assert THEOREMS[name].burn_in(d, eps, gamma) == math.ceil(THEOREMS[name].k1(d, eps) * (1 - 1e-9))


@each_theorem
def test_a_plan_keeps_gamma_away_from_1(name: str) -> None:
    assert planned(name, eps=0.5, d=1, nu=1e-9 if name.startswith("C") else 0.0).gamma == 0.999


def test_xhat_is_the_least_gradient_of_theorem_3_4_and_drawn_in_the_others() -> None:
    assert {name: theorem.xhat for name, theorem in THEOREMS.items()} == {
        name: "argmin" if name == "3.4" else "uniform" for name in THEOREMS
    }


# Bounds


def by_the_paper(name: str, c: Constants, k0: int, t: np.ndarray) -> float:
    """Right-hand sides as printed in the proofs, except f(x_{k0+1}) - f*, and 2 nu only where t changes."""
    L0, L1, d, sigma, nu = c.L0, c.L1, c.d, c.sigma, c.nu
    T, n = len(t) - 1, len(t) - 1 - k0
    now, after = t[:T], t[k0:T]
    beta = THEOREMS[name].step(c, n, now)
    start = c.gap + L0 * d**0.5 * (2 * t[0] - t[T])
    if name in ("3.4", "3.5"):
        start += k0 * L1 / 2 * beta**2 * sigma**2
        return float(
            2 * start / (n * (2 * beta - L1 * beta**2))
            + L0 * L1 * (d + 3) ** 1.5 * after.sum() / n
            + L1 * beta**2 * sigma**2 / (2 * beta - L1 * beta**2)
        )
    if name in ("4.1", "4.2"):
        total = (
            start + L0 * L1 * (d + 3) ** 1.5 * beta * now.sum() + L1**3 * beta**2 * (d + 6) ** 3 / 4 * (now**2).sum()
        )
        total += L1 * beta**2 * (d + 4) * sigma**2 * T
        return float(total / (n * (beta - (d + 4) * L1 * beta**2)))
    Lt = L1 + 2 * nu / now**2
    total = 4 * (start + 2 * nu + 2 * nu * np.count_nonzero(np.diff(t)))
    total += 2 * (4 * (d + 4) * sigma**2 * beta**2 * Lt).sum()
    total += 2 * (beta**2 * Lt * (L1**2 * (d + 6) ** 3 * now**2 + 8 * d * nu**2 / now**2)).sum()
    total += (beta * (L1**2 * (d + 6) ** 3 * now**2 / 2 + 8 / math.pi * nu**2 / now**2)).sum()
    return float(total / (n * (beta - 8 * (d + 4) * Lt * beta**2)[k0:].min()))


@each_theorem
def test_the_bound_is_the_right_hand_side_of_the_proof(name: str) -> None:
    it = planned(name, gamma=0.97, T=200)
    assert it.k0 > 0
    t = np.maximum(0.5 * 0.97 ** np.arange(201), it.floor)
    assert it.bound(t) == pytest.approx(by_the_paper(name, it.constants, it.k0, t), rel=1e-12)


@each_theorem
def test_a_known_range_of_f_replaces_what_happens_in_the_burn_in(name: str) -> None:
    options = {"gamma": 0.97, "T": 200, "d": 8}
    without, known = planned(name, **options), planned(name, **options, span=0.4)
    assert known.bound() < without.bound()
    assert planned(name, **options, span=1e9).bound() == without.bound()
    only = planned(name, **options | {"gap": None}, span=0.4)
    assert only.bound() == known.bound()


@each_theorem
@pytest.mark.parametrize("gamma", [None, 0.98])
def test_T_is_the_least(name: str, gamma: float | None) -> None:
    it = planned(name, eps=0.7, gamma=gamma, nu=1e-6 if name.startswith("C") else 0.0, span=1.2)
    assert it.k0 + 10 < it.T
    assert it.bound() <= 0.49 < dataclasses.replace(it, T=it.T - 1).bound()


@each_theorem
@given(seed=st.integers(0, 10**6))
def test_what_is_planned_holds_for_all_radii_that_fall_at_least_as_fast(name: str, seed: int) -> None:
    it = planned(name, gamma=0.95, T=150)
    rng = np.random.default_rng(seed)
    t = [0.5]
    for share in rng.uniform(0.7, 1, 150):
        t.append(max(min(share, 0.95) * t[-1], it.floor))
    assert it.bound(t) <= it.bound() * (1 + 1e-12)
    slowest = np.maximum(0.5 * 0.95 ** np.arange(151), it.floor)
    # The plan knows the floor, but not the final t. With an error, it assumes the worst step while t decreases.
    assert it.bound() <= it.bound(slowest) * (1 + 1e-3 if not it.constants.nu else 2)


@given(
    gamma=st.floats(0.5, 0.999),
    floor=st.sampled_from([0.0, 1e-3, 0.1, 0.7]),
    start=st.integers(0, 30),
    more=st.integers(0, 300),
)
def test_sums_over_radii_are_geometric(gamma: float, floor: float, start: int, more: int) -> None:
    radii = Radii(t1=0.7, gamma=gamma, floor=floor)
    t = np.maximum(0.7 * gamma ** np.arange(start, start + more), floor)
    powers = Powers(1.3, 0.4, 2.1)
    total = radii.total(powers, powers.at(floor), start, start + more)
    assert total == pytest.approx(powers.at(t).sum(), rel=1e-9, abs=1e-12)


PROBLEMS = [slgh.problems.wells(3), slide(3), chain(3)]


def run(it: Plan, problem: Problem, seeds: int, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return |grad f(x_k)|^2 (T, seeds) and t_1..t_(T+1) of a run with the noise and the error of the theorem."""
    F, T = problem.smooth, it.T
    squares, t = np.empty((T, seeds)), np.empty((T + 1, seeds))

    def follow(now: Any) -> None:
        assert problem.grad is not None
        squares[now.nit - 1] = (problem.grad(now.x) ** 2).sum(axis=1)
        t[now.nit - 1] = now.t

    noisy, sigma = Tilted(F, jagged(it.constants.nu)), it.constants.sigma
    result = slgh.minimize(
        noisy if it.theorem.order == "first" else noisy.values,
        np.tile(problem.x0, (seeds, 1)),
        **it.parameters | options,
        sample_xi=sphere(problem.d, sigma) if sigma else None,
        batched=True,
        vectorized=True,
        seed=1,
        callback=follow,
    )
    t[T] = result.t
    return squares, t


@each_theorem
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
@pytest.mark.parametrize("eta", [None, 1e-4], ids=["r", "d"])
def test_the_bound_holds_on_runs(name: str, problem: Problem, eta: float | None) -> None:
    F: Any = problem.smooth
    method = ("slgh" if THEOREMS[name].order == "first" else "zoslgh") + ("_d" if eta else "_r")
    it = plan(
        method,
        L0=F.L0,
        L1=F.L1,
        d=3,
        t1=0.3,
        gamma=0.95,
        T=150,
        gap=float(problem.fun(problem.x0)) - problem.minimum,
        **EXTRAS[name],
    )
    squares, t = run(it, problem, 1 if name == "3.4" else 8, **{"eta": eta} if eta else {})
    assert (np.diff(t, axis=0) <= 0).all()
    assert t[-1].min() >= it.floor
    measured = squares[it.k0 :].mean()
    assert 0 < measured <= it.bound(t) <= it.bound() * (1 + 1e-9)
    if it.constants.nu:
        weight = it.theorem.weight(it.constants, it.step(t[:-1]), it.constants.smoothness(t[:-1]))  # type: ignore[operator]
        weighted = (weight * squares)[it.k0 :].sum() / weight[it.k0 :].sum()
        assert weighted <= it.bound(t, weighted=True) <= it.bound(t) * (1 + 1e-9)


@each_theorem
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
@given(seed=st.integers(0, 10**6), t=st.floats(1e-3, 0.5), n=st.integers(1, 10**4))
@settings(max_examples=15)
def test_the_inequality_that_the_proofs_sum_holds_in_each_iteration(
    name: str, problem: Problem, seed: int, t: float, n: int
) -> None:
    """a |grad f|^2 <= A (F - E F_next) + s at constant t: the mean over 2000 draws, within 5 standard errors."""
    F: Any = problem.smooth
    theorem, rng = THEOREMS[name], np.random.default_rng(seed)
    c = Constants(L1=F.L1, L0=F.L0, d=3, t1=1.0, **EXTRAS[name])
    x = problem.x0 + rng.uniform(-1, 1, 3)
    beta, L, error = theorem.step(c, n, t), c.smoothness(t), c.error(t)
    xi = sphere(3, c.sigma)(rng, 2000) if c.sigma else np.zeros((2000, 3))
    if theorem.order == "first":
        g = F.grad(x, np.array(t)) + xi
    else:
        noisy, u = Tilted(F, jagged(c.nu)), rng.standard_normal((2000, 3))
        g = ((noisy.values(x + t * u, xi) - noisy.values(x, xi)) / t)[:, None] * u
    fall = F.value(x, np.array(t)) - F.value(x - beta * g, np.full(len(g), t))
    # F' differs from F by nu at either end.
    descent = fall.mean() + 5 * fall.std() / len(fall) ** 0.5 + 2 * c.nu
    right = theorem.factor * descent + theorem.surplus(c, beta, L, error).at(t)
    assert theorem.weight(c, beta, L) * (problem.grad(x) ** 2).sum() <= right  # type: ignore[misc]


class Ramp:
    """f(x) = x_1 over the length of a run: each step gains twice the guarantee of the descent lemma."""

    def value(self, x: Any, t: Any) -> Any:
        return x[..., 0]

    def grad(self, x: Any, t: Any) -> Any:
        return np.concatenate([np.ones_like(x[..., :1]), np.zeros_like(x[..., 1:])], axis=-1)

    def trace(self, x: Any, t: Any) -> Any:
        return 0 * x[..., 0]

    dt = trace


def test_the_first_order_bound_is_twice_the_truth_on_a_ramp() -> None:
    T, L1, t1 = 400, 3.0, 1e-9
    result = slgh.minimize(Ramp(), np.zeros(2), method="slgh_r", t1=t1, gamma=0.5, step=1 / L1, max_iter=T)
    it = plan("slgh_r", L0=1.0, L1=L1, d=2, t1=t1, gamma=0.5, T=T, gap=-result.fun)
    share = 1.0 / it.bound()
    assert 0.49 < share * (T - it.k0) / T < 0.51


def test_the_printed_bound_of_C_2_grows_with_T_and_the_corrected_one_decreases() -> None:
    """2 nu in every iteration, divided by a step that decreases as 1/sqrt(T), would leave no bound."""

    def bounds(T: int) -> tuple[float, float]:
        it = planned("C.2", gamma=0.5, T=T, nu=1e-3)
        t = np.maximum(0.5 * 0.5 ** np.arange(T + 1), it.floor)
        return it.bound(t), it.bound(t, printed=True)

    (corrected, printed), (corrected_later, printed_later) = bounds(10**5), bounds(10**6)
    assert corrected_later < corrected < printed
    assert printed_later > 2 * printed


@pytest.mark.parametrize("name", ["C.1", "C.2"])
def test_an_error_too_large_is_refused_and_told_the_limit(name: str) -> None:
    limit = largest_nu(THEOREMS[name], L1=2.0, d=2, eps=0.1)
    with pytest.raises(ValueError, match=f"`nu` must be below {limit:.3g} for eps=0.1"):
        planned(name, eps=0.1, gamma=0.9, nu=1.01 * limit)
    assert planned(name, eps=0.1, gamma=0.9, nu=0.99 * limit).bound() <= 0.01


def test_the_error_that_is_tolerated_falls_as_eps_squared_and_d_cubed() -> None:
    theorem = THEOREMS["C.1"]
    base = largest_nu(theorem, L1=1.0, d=1000, eps=0.1)
    assert largest_nu(theorem, L1=1.0, d=1000, eps=0.05) == pytest.approx(base / 4)
    assert largest_nu(theorem, L1=1.0, d=2000, eps=0.1) == pytest.approx(base / 8, rel=0.01)


def test_a_plan_is_ready_to_run() -> None:
    it = planned("C.2", gamma=0.9, T=60)
    problem = slgh.problems.wells()
    result = slgh.minimize(problem.fun, problem.x0, **it.parameters, sample_xi=None, vectorized=True, seed=0)
    assert result.nit == 60
    assert result.t == pytest.approx(NU**0.5)
    assert result.method.update == NoiseAware(L1=2.0, nu=NU, cap=((60 - it.k0) * 6) ** -0.5)
    assert planned("4.1", gamma=0.9, T=60).step == pytest.approx(1 / 24)
    assert it.step(np.array([0.1])) == pytest.approx(1 / (16 * 6 * 2.02))  # type: ignore[operator]


def test_a_method_of_ones_own_is_planned_by_its_parts() -> None:
    result = slgh.minimize(lambda x: (x**2).sum(), [1.0], method="zoslgh_r", t1=1.0, step=0.1, max_iter=1, seed=0)
    it = plan(result.method, L1=2.0, d=2, t1=0.5, gamma=0.9, T=50)
    assert it.theorem.name == "4.1"
    constant = slgh.minimize(lambda x: (x**2).sum(), [1.0], method="zosgd", t1=1.0, step=0.1, max_iter=1, seed=0)
    with pytest.raises(ValueError, match=r"`method` must decrease t as .* got the schedule 'constant'"):
        plan(constant.method, L1=2.0, d=2, t1=0.5, gamma=0.9, T=50)


def test_the_burn_in_is_at_most_half_of_a_given_T() -> None:
    assert planned("4.1", gamma=0.999, T=100, d=16).k0 == 50
    assert planned("4.1", gamma=0.9, T=100, d=16).k0 == 14


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gamma": 1.0}, r"`gamma` must lie in \(0, 1\)"),
        ({"eps": -1.0}, "`eps` must be a finite number above 0"),
        ({"T": 0}, "`T` must be an integer >= 1"),
        ({"sigma": -1.0}, "`sigma` must be a finite number >= 0"),
        ({"gamma": None}, "`gamma` must be given, or `eps`"),
        ({"T": None}, "`T` must be given, or `eps`"),
        ({"T": None, "eps": 0.1, "L0": None}, r"`L0` and `gap` \(or `span`\) must be given"),
        ({"floor": 0.6}, r"`floor` .* must be at most t1=0.5"),
        ({"T": None, "eps": 0.1, "floor": 0.4}, "`floor` must be lower for eps=0.1"),
        ({"method": "slgh_r", "nu": 1e-4}, "`nu` must be 0 for methods that use gradients"),
        ({"method": "zosgd"}, "`method` must be one of 'slgh_r', 'slgh_d', 'zoslgh_r', 'zoslgh_d'"),
    ],
)
def test_what_cannot_be_planned_is_refused(options: dict[str, Any], message: str) -> None:
    common = {"L0": 1.5, "L1": 2.0, "d": 2, "t1": 0.5, "gap": 1.0, "gamma": 0.9, "T": 100}
    given = {"method": "zoslgh_r"} | common | options
    with pytest.raises(ValueError, match=message):
        plan(given.pop("method"), **given)


@pytest.mark.parametrize("missing", ["L0", "gap"])
def test_a_bound_needs_what_it_is_made_of(missing: str) -> None:
    with pytest.raises(ValueError, match=f"`{missing}` must be known for a bound"):
        planned("4.1", gamma=0.9, T=50, **{missing: None}).bound()
    with pytest.raises(ValueError, match="`t` must hold"):
        planned("4.1", gamma=0.9, T=50).bound([0.5, 0.4])


# The step of Algorithm 4


@every_library
def test_the_noise_aware_step_on_every_library(library: str) -> None:
    x, g = to_library([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], library), to_library(np.ones((3, 2)), library)
    t = to_library([0.1, 0.01, 0.0], library)
    xp = backend_of(x).xp
    update = NoiseAware(L1=2.0, nu=0.01, cap=1 / 500)
    moved, state = update.apply(x, Estimate(g=g, cosine=1.0), t, update.init(x, xp), xp)
    assert state == ()
    assert moved.dtype == x.dtype
    steps = to_numpy(x)[:, 0] - to_numpy(moved)[:, 0]
    np.testing.assert_allclose(steps, [1 / 500, 1 / (96 * 202), 0.0], rtol=1e-12, atol=1e-15)
    free, _ = NoiseAware(L1=2.0, nu=0.01).apply(x, Estimate(g=g, cosine=1.0), t, (), xp)
    np.testing.assert_allclose(to_numpy(x - free)[:, 1], [1 / 384, 1 / (96 * 202), 0.0], rtol=1e-12, atol=1e-15)


@every_library
def test_algorithm_4_runs_on_every_library(library: str) -> None:
    x0 = to_library([1.0, -1.0], library)
    update = NoiseAware(L1=2.0, nu=1e-6)
    result = slgh.minimize(
        lambda x: (x * x).sum(),
        x0,
        method="zoslgh_r",
        update=update,
        t1=0.5,
        gamma=0.9,
        noise=1e-6,
        max_iter=800,
        seed=0,
    )
    assert result.t == pytest.approx(1e-3)
    assert result.fun < 0.2


@pytest.mark.parametrize("wrong", [{"L1": 0.0}, {"nu": 0.0}, {"cap": -1.0}])
def test_the_noise_aware_step_checks_itself(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=f"`{next(iter(wrong))}` must be a finite number above 0"):
        NoiseAware(**{"L1": 1.0, "nu": 1e-4} | wrong)


# Estimates of L0 and L1


@pytest.mark.slow
@pytest.mark.parametrize("with_grad", [False, True])
@pytest.mark.parametrize(("problem", "radius"), [(slgh.problems.wells(2), 6.0), (slide(2), 3.0), (chain(2), 2.0)])
def test_smoothness_is_found_in_two_variables_and_never_above_the_truth(
    problem: Problem, radius: float, with_grad: bool
) -> None:
    F: Any = problem.smooth
    grid = problem.x0 + radius * np.stack(np.meshgrid(*[np.linspace(-1, 1, 401)] * 2), axis=-1).reshape(-1, 2)
    L0 = np.linalg.norm(problem.grad(grid), axis=1).max()  # type: ignore[misc]
    rows = [(problem.grad(grid + 1e-5 * e) - problem.grad(grid - 1e-5 * e)) / 2e-5 for e in np.eye(2)]  # type: ignore[misc]
    L1 = np.linalg.norm(np.stack(rows, axis=1), 2, axis=(1, 2)).max()
    found = estimate_smoothness(
        problem.fun, problem.x0, radius=radius, grad=problem.grad if with_grad else None, vectorized=True, seed=0
    )
    for constant, sampled, proved in ((found.slope, L0, F.L0), (found.curvature, L1, F.L1)):
        assert 0.97 * sampled < constant.seen < proved * 1.001
        assert constant.seen <= constant.estimate <= constant.limit
        assert 0.97 * sampled < constant.estimate < 1.1 * sampled


def test_curvature_of_a_quadratic_in_ten_variables() -> None:
    scales = np.arange(1.0, 11.0)
    found = estimate_smoothness(lambda x: (scales * x * x).sum(axis=-1) / 2, np.zeros(10), vectorized=True, seed=0)
    assert 9 < found.curvature.seen <= 10.001
    exact = estimate_smoothness(
        lambda x: (scales * x * x).sum(axis=-1) / 2, np.zeros(10), grad=lambda x: scales * x, vectorized=True, seed=0
    )
    assert 9.5 < exact.slope.seen <= 10.001


def test_smoothness_is_not_rounding() -> None:
    found = estimate_smoothness(
        lambda x: 1e6 + np.sin(x).sum(axis=-1), np.zeros(2), radius=4.0, vectorized=True, seed=0
    )
    np.testing.assert_allclose([found.L0, found.L1], [2**0.5, 1], atol=0.05)


def test_a_kink_shows_as_a_limit_far_above_what_was_seen() -> None:
    found = estimate_smoothness(lambda x: np.abs(x[..., 0]) ** 0.5, np.zeros(2), vectorized=True, seed=0)
    assert found.curvature.limit > 2 * found.curvature.seen > 1e3


def test_evaluations_are_counted_and_one_point_is_asked_for_at_a_time() -> None:
    asked: list[np.ndarray] = []

    def fun(x: np.ndarray) -> float:
        asked.append(x)
        return float(np.cos(x[0]))

    found = estimate_smoothness(fun, [0.0, 1.0, 2.0], samples=100, seed=3)
    assert found.evaluations == len(asked)
    assert {x.shape for x in asked} == {(3,)}
    assert max(np.linalg.norm(x - [0, 1, 2]) for x in asked) < 1.11
    assert found == estimate_smoothness(fun, [0.0, 1.0, 2.0], samples=100, seed=3)
    assert found.missed == pytest.approx(3 / 100, rel=0.02)
    assert "A maximum over samples is a lower bound" in str(found)


@pytest.mark.parametrize(
    ("f", "rough"),
    [
        (lambda x: np.abs(x).sum(axis=-1), True),
        (lambda x: np.maximum(x, 0).sum(axis=-1), True),
        (lambda x: np.floor(3 * x).sum(axis=-1), True),
        (lambda x: np.cos(3 * x).sum(axis=-1), False),
        (lambda x: (x**2).sum(axis=-1), False),
        (lambda x: np.sqrt(1e-2 + x**2).sum(axis=-1), False),
    ],
)
def test_kinks_and_jumps_are_told_from_smooth_functions(f: Any, rough: bool) -> None:
    found = estimate_smoothness(f, np.full(3, 0.1), vectorized=True, seed=0)
    assert found.rough == rough
    assert ("not to be smooth" in str(found)) == rough
    if rough:
        assert found.curvature.seen > 100


def test_a_cliff_between_far_points_counts_for_the_slope() -> None:
    """A step so narrow that close pairs miss it, but distant pairs span it."""
    found = estimate_smoothness(lambda x: np.where(x[..., 0] > 0, 5.0, 0.0), np.full(2, 0.3), vectorized=True, seed=0)
    assert found.L0 > 5


@given(st.floats(0.3, 0.99), st.floats(0.0, 0.3), st.integers(0, 30), st.integers(0, 40))
def test_changes_of_t_are_counted(gamma: float, floor: float, start: int, more: int) -> None:
    t = np.maximum(gamma ** np.arange(80), floor)
    radii = Radii(t1=1.0, gamma=gamma, floor=floor)
    changes = np.count_nonzero(np.diff(t[start : start + more + 1]))
    assert abs(radii.changes(start, start + more) - changes) <= 1  # the last step to the floor may be rounding


def test_sampled_gradients_add_their_own_variance() -> None:
    sampled = slgh.minimize(
        lambda x: float(x @ x), [1.0, 1.0], grad=lambda x: 2 * x, method="slgh_r", t1=0.5, step=0.1, max_iter=2, seed=0
    ).method
    it = plan(sampled, L0=4.0, L1=2.0, d=2, t1=0.5, gamma=0.9, T=10, gap=2.0)
    assert it.theorem.name == "3.5"
    assert it.constants.sigma == pytest.approx(2**0.5)
    assert plan(sampled, L0=0.5, L1=2.0, d=2, t1=0.5, gamma=0.9, T=10, gap=2.0).constants.sigma == pytest.approx(0.5)


def test_the_floor_is_blamed_where_it_is_to_blame() -> None:
    with pytest.raises(ValueError, match="`floor` must be lower"):
        plan("zoslgh_r", L0=1.0, L1=1.0, d=2, t1=0.5, gap=1.0, eps=0.1, gamma=0.9, nu=1e-9, floor=0.3)


def test_a_constant_function_is_flat() -> None:
    found = estimate_smoothness(lambda x: 3.0, [0.0, 0.0], samples=50, seed=0)
    assert (found.L0, found.L1) == (0, 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"x0": [[1.0]]}, r"`x0` must be one point of shape \(d,\)"),
        ({"radius": 0.0}, "`radius` must be a finite number above 0"),
        ({"samples": 10}, "`samples` must be an integer >= 50"),
        ({"fun": lambda x: math.nan}, "`fun` must return finite numbers"),
        ({"grad": lambda x: x[:1]}, "`grad` must return finite numbers"),
    ],
)
def test_what_cannot_be_probed_is_refused(options: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"fun": lambda x: float(x @ x), "x0": [1.0, 2.0], "seed": 0} | options
    with pytest.raises(ValueError, match=message):
        estimate_smoothness(given.pop("fun"), given.pop("x0"), **given)


@pytest.mark.parametrize(("floor", "advice"), [(5e-6, "higher"), (0.9, "lower")])
def test_a_floor_that_leaves_too_much_is_refused_with_the_right_advice(floor: float, advice: str) -> None:
    known: dict[str, Any] = {"L1": 1.0, "L0": 1.0, "d": 2, "t1": 1.0, "gap": 1.0, "eps": 0.1, "nu": 1e-6, "gamma": 0.9}
    with pytest.raises(ValueError, match=f"`floor` must be {advice} for eps=0.1"):
        slgh.theory.plan("zoslgh_r", floor=floor, **known)
