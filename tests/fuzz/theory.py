"""`slgh.theory.plan` and `largest_nu`: recompute every figure with the formulas of `fuzz.theorems`."""

from __future__ import annotations

import dataclasses
import math
import random
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz import theorems
from fuzz.asktell import script_of
from fuzz.invariants import expect, untouched
from fuzz.runs import close
from fuzz.target import Case
from fuzz.theorems import Setting

SAME = 1e-9
"""Relative difference that rounding may cause."""

LONGEST = 3000
"""Longest run whose radii are summed one by one."""

OWN_FLOOR = 2.0**-26
"""Smallest t that `plan` uses for methods of values, in units of t1."""

MOST = 2**100
"""Largest T in the search."""


class Theory:
    """The target "theory"."""

    name = "theory"
    weight = 0.5
    timeout = 60.0

    def generate(self, rng: random.Random) -> Case:
        def size(low: float, high: float) -> float:
            return float(f"{10 ** rng.uniform(low, high):.5g}")

        def maybe(share: float, value: float) -> float | None:
            return value if rng.random() < share else None

        theorem = rng.choice(["3.4", "3.5", "4.1", "4.2", "C.1", "C.2"])
        d, L1, t1, eps = rng.choice([1, 2, 3, 5, 20, 150, 1000]), size(-2, 2), size(-1.5, 1.5), size(-2.5, 0.7)
        if rng.random() < 0.3:  # k1 is then an integer, up to rounding.
            eps = rng.choice([1.0, 0.5, 0.25, 0.2, 0.1, 0.05])
        nu = 0.0
        if theorem in ("C.1", "C.2"):
            limit = theorems.largest_nu(theorem, L1=L1, d=d, eps=eps)
            nu = float(f"{min(limit * 10 ** rng.uniform(-3, 0.2), 2 * t1**2):.5g}")
        gap, span = maybe(0.7, size(-2, 2)), maybe(0.5, size(-2, 2))
        long = rng.random() < 0.5
        return {
            "theorem": theorem,
            "d": d,
            "L1": L1,
            "L0": size(-2, 2) if long else maybe(0.8, size(-2, 2)),
            "t1": t1,
            "sigma": size(-2, 1) if theorem in ("3.5", "4.2", "C.2") else 0.0,
            "nu": nu,
            "eps": eps if long else maybe(0.5, eps),
            "gamma": maybe(0.6, round(rng.choice([rng.uniform(0.05, 1), rng.uniform(0.9, 0.9995)]), 5)),
            "gap": 1.0 if long and gap is None and span is None else gap,
            "span": span,
            "T": None if long else rng.choice([1, 2, 7, 40, 300, 5000]),
            "floor": maybe(0.3, size(-10, 0.05) * t1),
            "variant": rng.choice(["r", "d"] + ["sampled"] * (theorem == "3.5")),
            "seed": rng.randrange(1000),
        } | ({"gamma": 0.99} if not long and rng.random() < 0.5 else {})

    def check(self, case: Case) -> dict[str, int]:
        if case["eps"] is None and case["gamma"] is None:
            case = case | {"gamma": 0.95}
        with untouched(), warnings.catch_warnings():
            warnings.simplefilter("error")
            check_plan(case)
            if case["nu"] and case["eps"] is not None:
                check_largest_nu(case)
        return {"configurations": 1}

    def simpler(self, case: Case) -> Iterator[Case]:
        if case["T"] is not None:
            plain: dict[str, Any] = {"floor": None, "span": None, "gap": 1.0, "eps": None, "L0": 1.0, "T": 1}
        else:
            plain = {"floor": None, "span": None, "gap": 1.0, "eps": 1.0, "L0": 1.0}
        if case["variant"] == "d":
            yield case | {"variant": "r"}
        for name, value in (plain | {"L1": 1.0, "t1": 1.0, "d": 1, "gamma": 0.5}).items():
            if case[name] != value and not (name == "span" and case["gap"] is None):
                yield case | {name: value}

    def script(self, case: Case) -> str:
        return script_of(self.name, case)


def method_of(case: Case) -> Any:
    """Return the method: a name, or one that samples gradients of f at x + t u."""
    import slgh

    if case["variant"] == "sampled":
        return slgh.Method(
            oracle=slgh.oracles.SampledGradient(samples=2),
            schedule=slgh.schedules.Ratio(t1=case["t1"], gamma=0.9),
            update=slgh.updates.Descent(step=0.1),
        )
    return ("slgh_" if case["theorem"].startswith("3") else "zoslgh_") + case["variant"]


def setting_of(case: Case) -> Setting:
    """Return the constants as the documentation of `plan` completes them."""
    t1, nu, sigma = case["t1"], case["nu"], case["sigma"]
    L0 = math.inf if case["L0"] is None else case["L0"]
    usual = math.sqrt(nu) if nu else 0.0 if case["theorem"].startswith("3") else t1 * OWN_FLOOR
    if case["variant"] == "sampled":
        sigma = math.hypot(sigma, min(L0, math.sqrt(case["d"]) * case["L1"] * t1))
    return Setting(
        theorem=case["theorem"],
        d=case["d"],
        L1=case["L1"],
        L0=L0,
        t1=t1,
        floor=usual if case["floor"] is None else case["floor"],
        sigma=sigma,
        nu=nu,
        gap=math.inf if case["gap"] is None else case["gap"],
        span=math.inf if case["span"] is None else case["span"],
    )


def check_plan(case: Case) -> None:
    """Compare a plan with the formulas, or its error with the reason for one."""
    from slgh.theory import plan

    s, eps, T = setting_of(case), case["eps"], case["T"]
    gamma = theorems.tuned_gamma(s.theorem, s.d, eps) if case["gamma"] is None else case["gamma"]
    names = ("L1", "d", "t1", "L0", "eps", "sigma", "nu", "gap", "span", "T", "floor", "gamma")
    try:
        found = plan(method_of(case), **{name: case[name] for name in names})
    except ValueError as error:
        expect_reason(case, s, gamma, str(error))
        return
    expect(s.floor <= s.t1, f"plan took a floor {s.floor} above t1={s.t1}.")
    expect(found.theorem.name == s.theorem, f"theorem is {found.theorem.name}, expected {s.theorem}.")
    expect(found.xhat == ("argmin" if s.theorem == "3.4" else "uniform"), f"xhat is {found.xhat}.")
    close(found.gamma, gamma, SAME, "gamma")
    close(found.floor, s.floor, SAME, "floor")
    close(found.constants.sigma, s.sigma, SAME, "sigma")
    check_burn_in(case, s, gamma, found)
    n = found.T - found.k0
    check_step(s, n, found)
    parameters = found.parameters
    wanted = {"max_iter": found.T, "burn_in": found.k0, "gamma": found.gamma, "t1": s.t1, "L1": s.L1, "eps": eps}
    for name, value in wanted.items():
        expect(parameters.get(name) == value, f"parameters[{name!r}] is {parameters.get(name)}, expected {value}.")
    expect(f"Theorem {s.theorem} " in str(found), f"str is {found!s}.")
    if math.isinf(s.L0) or math.isinf(min(s.gap, s.span)):
        expect(T is not None, f"T is {found.T}, although L0 or gap is missing.")
        try:
            found.bound()
        except ValueError:
            return
        expect(False, "bound() raised nothing, although L0 or gap is missing.")
    bound = found.bound()
    close(bound, theorems.bound(s, found.gamma, found.k0, found.T), SAME, "bound()")
    if T is None:
        check_least(s, eps, bound, found)
    elif n > 1:
        shorter = dataclasses.replace(found, T=found.k0 + (n + 1) // 2)
        expect(shorter.bound() >= bound * (1 - SAME), f"The bound rises with T: {shorter.bound()}, then {bound}.")
    check_radii(case, s, bound, found)


def expect_reason(case: Case, s: Setting, gamma: float, message: str) -> None:
    """Expect a ValueError of `plan` to be justified and to name the argument."""
    if s.floor > s.t1:
        expect("`floor`" in message, f"The floor {s.floor} is above t1, plan raised {message!r}.")
        return
    expect(case["T"] is None, f"plan raised {message!r}.")
    square = case["eps"] ** 2
    if "2^100" in message:
        k0 = burn_in(case, s, gamma)
        expect(theorems.bound(s, gamma, k0, k0 + MOST) > square * (1 - SAME), f"plan raised {message!r}.")
        return
    left = theorems.residue(s)
    expect(left >= square * (1 - SAME), f"What remains is {left}, below {square}, but plan raised {message!r}.")
    named = "`nu`" if s.nu and s.nu >= theorems.largest_nu(s.theorem, L1=s.L1, d=s.d, eps=case["eps"]) else "`floor`"
    expect(named in message, f"plan raised {message!r}, which does not name {named}.")


def burn_in(case: Case, s: Setting, gamma: float) -> int:
    """Return k0 before T limits it. Rounding of the tuned gamma must not decide."""
    eps = 1e-50 if case["eps"] is None else case["eps"]
    k1, k2 = theorems.first_candidate(s.theorem, s.d, eps), theorems.second_candidate(s.theorem, s.d, eps, gamma)
    return math.ceil(min(k1, k2) * (1 - SAME))


def check_burn_in(case: Case, s: Setting, gamma: float, found: Any) -> None:
    """Compare k0, and T if it is given."""
    k0 = burn_in(case, s, gamma)
    if case["T"] is not None:
        expect(case["T"] == found.T, f"T is {found.T}, asked for {case['T']}.")
        k0 = min(k0, case["T"] // 2)
    expect(found.k0 == k0, f"k0 is {found.k0}, expected {k0}.")


def check_step(s: Setting, n: int, found: Any) -> None:
    """Compare the step and its update."""
    if s.tolerant:
        for t in (s.t1, math.sqrt(s.t1 * s.floor), s.floor):
            close(found.step(t), theorems.step(s, n, t), SAME, f"step at t={t}")
        cap = 1 / math.sqrt(n * (s.d + 4)) if s.stochastic else None
        expect((found.update.L1, found.update.nu) == (s.L1, s.nu), f"update is {found.update}.")
        expect((found.update.cap is None) == (cap is None), f"cap is {found.update.cap}, expected {cap}.")
        if cap is not None:
            close(found.update.cap, cap, SAME, "cap")
    else:
        close(found.step, theorems.step(s, n, s.t1), SAME, "step")
        close(found.update.step, theorems.step(s, n, s.t1), SAME, "update.step")


def check_least(s: Setting, eps: float, bound: float, found: Any) -> None:
    """Expect T to be the smallest: it reaches eps, and one iteration less, or a tenth less, does not."""
    expect(bound <= eps**2, f"The bound at T={found.T} is {bound}, above {eps**2}.")
    n = found.T - found.k0
    for shorter in {n - 1, n - math.ceil(n / 10)} - {0}:
        less = dataclasses.replace(found, T=found.k0 + shorter).bound()
        expect(less > eps**2, f"T={found.T} is not the smallest: T={found.k0 + shorter} has the bound {less}.")
        own = theorems.bound(s, found.gamma, found.k0, found.k0 + shorter)
        expect(own > eps**2 * (1 - SAME), f"T={found.T} is not the smallest: T={found.k0 + shorter} reaches {own}.")


def draw_radii(case: Case, s: Setting, gamma: float, T: int, B: int) -> NDArray[Any]:
    """Draw radii of SLGH_d, (T + 1, B): each is at most gamma times the one before, and at least the floor."""
    rng = np.random.default_rng(case["seed"])
    faster = np.where(rng.random((T, B)) < 0.1, rng.uniform(0.3, 1, (T, B)), 1.0) * gamma
    radii = s.t1 * np.cumprod(np.vstack([np.ones((1, B)), faster]), axis=0)
    return np.asarray(np.maximum(radii, s.floor))


def check_radii(case: Case, s: Setting, bound: float, found: Any) -> None:
    """Compare the bounds for given radii, and expect them to be below the general one."""
    k0, n = found.k0, found.T - found.k0
    if found.T <= LONGEST:
        for fast in (draw_radii(case, s, found.gamma, found.T, 3), draw_radii(case, s, found.gamma, found.T, 1)[:, 0]):
            least = found.bound(fast)
            expect(least <= bound * (1 + SAME), f"bound(t) is {least}, above bound(), {bound}.")
        plain = np.maximum(s.t1 * found.gamma ** np.arange(found.T + 1.0), s.floor)
        expect(found.bound(plain) <= bound * (1 + SAME), f"bound(t) of SLGH_r is above bound(), {bound}.")
    T = k0 + 1 + case["seed"] % 60
    if LONGEST < T:
        return
    radii = draw_radii(case, s, found.gamma, T, 1 + case["seed"] % 3)
    for weighted, printed in ((False, False), (True, False), (False, True)):
        wanted = theorems.bound_of_run(s, n, k0, radii, weighted=weighted, printed=printed)
        close(
            found.bound(radii, weighted=weighted, printed=printed), wanted, SAME, f"bound(t, {weighted=}, {printed=})"
        )


def check_largest_nu(case: Case) -> None:
    """Compare `largest_nu`: a plan below it has a T, a plan above it has none."""
    from slgh.theory import THEOREMS, largest_nu, plan

    L1, d, eps, name = case["L1"], case["d"], case["eps"], case["theorem"]
    limit = largest_nu(THEOREMS[name], L1=L1, d=d, eps=eps)
    close(limit, theorems.largest_nu(name, L1=L1, d=d, eps=eps), SAME, "largest_nu")
    known = {"L0": 1.0, "gap": 1.0, "t1": 2 * math.sqrt(limit), "sigma": case["sigma"], "gamma": 0.9}
    below = plan("zoslgh_r", L1=L1, d=d, eps=eps, nu=limit * 0.99, **known)
    expect(below.bound() <= eps**2, f"The bound is {below.bound()} with nu just below largest_nu.")
    try:
        above = plan("zoslgh_r", L1=L1, d=d, eps=eps, nu=limit * 1.01, **known)
    except ValueError as error:
        expect("`nu`" in str(error), f"plan raised {error!r} with nu above largest_nu.")
        return
    expect(False, f"plan found T={above.T} with nu above largest_nu.")


TARGET = Theory()
