"""Assumptions, Table 1 and proofs: what their formulas give when numbers are put in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from slgh.paper.errata.erratum import Erratum, listed, ticked
from slgh.paper.experiment import Record, Tick
from slgh.problems import PROBLEMS, wells
from slgh.theory import THEOREMS, Constants, Plan, largest_nu, plan

ONES: dict[str, Any] = {"L0": 1.0, "L1": 1.0, "t1": 1.0}
"""A function whose constants are 1."""


def assumption(tick: Tick) -> Record:
    """The slopes of the test functions far away, Ackley's curvature next to 0, and the constants of wells."""
    far, slopes = 1e3, {}
    for name in ("rosenbrock", "himmelblau", "hole"):
        f, x, h = PROBLEMS[name]().fun, np.array([far, 0.0]), np.array([1e-3, 0.0])
        slopes[name] = float((f(x + h) - f(x - h)) / (2 * h[0]))
    f, h = PROBLEMS["ackley"]().fun, np.array([1e-6, 0.0])
    smooth: Any = wells().smooth
    return {
        "slopes": slopes,
        "curvature": float((f(h) + f(-h) - 2 * f(0 * h)) / h[0] ** 2),
        "L0": smooth.L0,
        "L1": smooth.L1,
    }


def tell_assumption(found: Record) -> tuple[str, str]:
    slopes = ", ".join(f"{name} {value:.1e}" for name, value in found["slopes"].items())
    return (
        f"|grad f| at (1000, 0): {slopes}; Ackley's curvature over 1e-6 at 0: {found['curvature']:.1e}",
        f"wells: L0 = {found['L0']:.3g}, L1 = {found['L1']:.3g} everywhere",
    )


def convexity(tick: Tick, *, radii: Sequence[float] = (1.0, 10.0, 100.0)) -> Record:
    """The least curvature of the smoothed wells along a line, as a share of the largest, for growing t."""
    F: Any = wells().smooth
    shares = []
    for t in ticked(radii, tick):
        x = np.zeros((4001, 2))
        x[:, 0] = np.linspace(-5, 5, len(x)) * math.hypot(1, t)
        bend = np.diff(F.grad(x, np.full(len(x), t))[:, 0])
        shares.append(float(bend.min() / bend.max()))
    return {"t": list(radii), "share": shares}


def tell_convexity(found: Record) -> tuple[str, str]:
    return (
        f"wells, t = {listed(found['t'])}: least curvature {listed(found['share'], '.2f')} of the largest",
        "never above 0",
    )


TABLE_1 = {"3.4": (2, 1.5), "3.5": (4, 1.0), "4.1": (2, 2.0), "4.2": (4, 2.0), "C.1": (2, 3.0), "C.2": (4, 2.0)}
"""The exponents of 1/eps and d in Table 1 at constant gamma, of the first term where there are two."""


def table_1(tick: Tick) -> Record:
    """The exponents of the theorems' explicit T at gamma = 0.99 as eps falls to 0 and d grows."""
    found = {}
    for name in ticked(list(TABLE_1), tick):
        T = {(eps, d): least(name, d, eps, 0.99).T for eps in (1e-4, 1e-5) for d in (256, 1024)}
        p = math.log10(T[1e-5, 1024] / T[1e-4, 1024])
        q = math.log(T[1e-5, 1024] / T[1e-5, 256], 4)
        found[name] = [p, q]
    return found


def least(name: str, d: int, eps: float, gamma: float) -> Plan:
    """A theorem's own T, where all constants of the function are 1."""
    theorem = THEOREMS[name]
    nu = largest_nu(theorem, L1=1.0, d=d, eps=eps) / 2 if theorem.factor > 1 else 0.0
    return plan(
        "slgh_r" if theorem.order == "first" else "zoslgh_r",
        **ONES,
        d=d,
        span=1.0,
        eps=eps,
        gamma=gamma,
        sigma=1.0 if theorem.stochastic else 0.0,
        nu=nu,
        floor=None if nu else 0.0,
    )


def tell_table_1(found: Record) -> tuple[str, str]:
    printed, ours = (listed((abs(q) for _, q in of.values()), ".1f") for of in (TABLE_1, found))
    return f"q = {printed}", f"q = {ours} from the explicit bounds, which is the row of the tuned gamma"


def tuned(tick: Tick, *, d: int = 100, eps: Sequence[float] = (0.1, 0.01, 0.001)) -> Record:
    """The tuned gamma of Theorem 3.4 taken as an equation, 1/(1 - gamma), and the T it leads to; and T at 0.9."""
    gammas = [THEOREMS["3.4"].tuned(d, e) for e in eps]
    return {
        "eps": list(eps),
        "inverse": [1 / (1 - gamma) for gamma in gammas],
        "T": [least("3.4", d, e, gamma).T for e, gamma in zip(eps, gammas, strict=True)],
        "T_constant": [least("3.4", d, e, 0.9).T for e in eps],
    }


def tell_tuned(found: Record) -> tuple[str, str]:
    return (
        f"eps = {listed(found['eps'])}: 1/(1 - gamma) = {listed(found['inverse'], '.2g')}, "
        f"T = {listed(found['T'], '.1e')}",
        f"gamma = 0.9: T = {listed(found['T_constant'], '.1e')}",
    )


def residue(tick: Tick, *, d: int = 10, eps: float = 0.2) -> Record:
    """T of Theorem 3.4 without a floor, and the |grad f| that no T gets below with one."""
    bounds = {floor: THEOREMS["3.4"].residue(Constants(**ONES, d=d, floor=floor)) for floor in (1e-3, 1e-2)}
    free = plan("slgh_r", **ONES, d=d, span=1.0, eps=eps, gamma=0.99, floor=0.0)
    return {"floors": list(bounds), "left": [math.sqrt(b) for b in bounds.values()], "eps": eps, "T": free.T}


def tell_residue(found: Record) -> tuple[str, str]:
    return (
        f"eps' = {listed(found['floors'])}, d = 10: no T bounds |grad f| below {listed(found['left'], '.2g')}",
        f"eps' = 0: below {found['eps']:g} with T = {found['T']:.1e}",
    )


def beginning(tick: Tick, *, d: int = 10, eps: float = 0.1) -> Record:
    """T of Theorem 4.2 if f(x_(k0+1)) - f* is 1 as f(x_1) - f* is, and if the burn-in may raise it."""
    common: dict[str, Any] = ONES | {"d": d, "gap": 1.0, "eps": eps, "gamma": 0.99, "sigma": 1.0, "floor": 0.0}
    constant, grown = plan("zoslgh_r", **common, span=1.0), plan("zoslgh_r", **common)
    return {"constant": constant.T, "grown": grown.T, "k0": grown.k0}


def tell_beginning(found: Record) -> tuple[str, str]:
    return f"T = {found['constant']:.2g}", f"T = {found['grown']:.2g} with what {found['k0']} iterations may add"


def two_nu(tick: Tick, *, nu: float = 1e-4, lengths: Sequence[int] = (10**4, 10**5, 10**6)) -> Record:
    """The right-hand side of Theorem C.2 with 2 nu in every iteration, and only where t changes."""
    found: dict[str, list[float]] = {"T": list(lengths), "printed": [], "ours": []}
    for T in ticked(lengths, tick):
        it = plan("zoslgh_r", **ONES | {"t1": 0.1}, d=2, gamma=0.9, nu=nu, span=1.0, sigma=1.0, T=T)
        t = np.maximum(0.1 * 0.9 ** np.arange(T + 1), math.sqrt(nu))
        found["printed"].append(it.bound(t, printed=True))
        found["ours"].append(it.bound(t))
    return found


def tell_two_nu(found: Record) -> tuple[str, str]:
    return f"T = {listed(found['T'], '.0e')}: {listed(found['printed'], '.2g')}", listed(found["ours"], ".2g")


def four_nu(tick: Tick, *, nu: float = 1e-3) -> Record:
    """How much F' can fall between two points where F does not, in units of nu: f = 0, f' = nu sign(x)."""
    F_error = [nu * math.erf(x / (0.1 * math.sqrt(2))) for x in (5.0, -5.0)]
    return {"units": (F_error[0] - F_error[1]) / nu}


def tell_four_nu(found: Record) -> tuple[str, str]:
    return "4 nu", f"{found['units']:.3f} nu in the worst case, f' = nu sign(x)"


def divisor(tick: Tick, *, d: int = 10) -> Record:
    """What the proof of Theorem 4.2 divides by, at its own step, and what it has to."""
    c, theorem = Constants(**ONES, d=d), THEOREMS["4.2"]
    beta = float(theorem.step(c, 1, 1.0))
    return {"printed": beta - 2 * (d + 4) * beta**2, "ours": float(theorem.weight(c, beta, 1.0)), "beta": beta}


def tell_divisor(found: Record) -> tuple[str, str]:
    return f"{found['printed']:.2g} at beta = 1/(2(d+4)L1)", f"{found['ours']:.4g} = beta/2"


def squares(tick: Tick, *, d: int = 1000, nu: float = 1e-6) -> Record:
    """What is left of the right-hand side of Theorem C.2 as T grows, with the two lost squares and without."""
    c, theorem = Constants(**ONES, d=d, nu=nu, floor=math.sqrt(nu)), THEOREMS["C.2"]
    t, L = c.floor, float(c.smoothness(c.floor))
    beta = float(THEOREMS["C.1"].step(c, 1, t))
    ours = theorem.surplus(c, beta, L, c.error(t)).at(t)
    lost = 2 * L * (beta - beta**2) * (c.L1**2 * (d + 6) ** 3 * t**2 + 8 * d * nu**2 / t**2)
    return {"ratio": float((ours + lost) / ours)}


def tell_squares(found: Record) -> tuple[str, str]:
    return f"{found['ratio']:.0f} times as much is left as T grows, of the same order d^3 nu", "1 time"


ERRATA = (
    Erratum(
        name="Assumption A1",
        where="Section 3, Appendix D",
        says="f is bounded in the mean, Lipschitz and smooth on R^d",
        takes="no test function of Appendix D is; wells are, for the theorems",
        measure=assumption,
        tell=tell_assumption,
    ),
    Erratum(
        name="A1 and convexity",
        where="Sections 1 and 2",
        says="F(., t) is almost convex for large t",
        takes="under A1 (i) F is bounded, and a bounded convex function is constant",
        measure=convexity,
        tell=tell_convexity,
    ),
    Erratum(
        name="Table 1's rows",
        where="Table 1, Section 3.3",
        says="at constant gamma T grows as d^q; Theorems 3.4 / 3.5 / 4.1 / 4.2 / C.1 / C.2",
        takes="where 1/(1-gamma) = O(1), as assumed, both rows are the same as eps falls to 0",
        measure=table_1,
        tell=tell_table_1,
    ),
    Erratum(
        name="the tuned gamma",
        where="Theorem 3.4's proof",
        says="gamma <= d^(-3 eps^2/2)",
        takes="an upper bound: as an equation it tends to 1, and 1/(1-gamma) is not O(1)",
        measure=tuned,
        tell=tell_tuned,
    ),
    Erratum(
        name="the floor in the theorems",
        where="B.2",
        says="eps' sufficiently close to 0",
        takes="eps' goes with eps and T, or stays in the bound",
        measure=residue,
        tell=tell_residue,
    ),
    Erratum(
        name="the beginning of the sum",
        where="B.2, B.3, C",
        says="f(x_(k0+1)) - f* is a constant",
        takes="bounded by the range of f, or by f(x_1) - f* and the growth of the burn-in",
        measure=beginning,
        tell=tell_beginning,
    ),
    Erratum(
        name="2 nu in every iteration",
        where="C.3",
        says="2 nu (T - k0), so that Theorem C.2's right-hand side grows with T",
        takes="2 nu where t changes",
        measure=two_nu,
        tell=tell_two_nu,
    ),
    Erratum(
        name="4 nu",
        where="C.2, C.3",
        says="f(x_(k0+1)) - f* + 4 nu",
        takes="2 nu",
        measure=four_nu,
        tell=tell_four_nu,
    ),
    Erratum(
        name="a division by 0",
        where="B.3, Theorem 4.2",
        says="dividing by beta - 2(d+4) L1 beta^2",
        takes="beta - (d+4) L1 beta^2",
        measure=divisor,
        tell=tell_divisor,
    ),
    Erratum(
        name="two lost squares",
        where="C.3",
        says="beta_k in two terms of the rearranged sum",
        takes="beta_k^2",
        measure=squares,
        tell=tell_squares,
    ),
)
