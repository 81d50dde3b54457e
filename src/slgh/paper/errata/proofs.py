"""Assumptions, Table 1 and proofs: their formulas evaluated with numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from slgh.paper.errata.erratum import Measurement, erratum, listed, ticked
from slgh.paper.experiment import Tick
from slgh.paper.experiments.complexity import GAMMA, ONES, plan_of_ones
from slgh.problems import PROBLEMS, wells
from slgh.theory import THEOREMS, Constants, plan


@erratum("Assumption A1")
def assumption(tick: Tick) -> Measurement:
    """Slopes of the test functions far away, Ackley's curvature next to 0, and the constants of wells."""
    slopes = {}
    for name in ("rosenbrock", "himmelblau", "hole"):
        f, x, h = PROBLEMS[name]().fun, np.array([1e3, 0.0]), np.array([1e-3, 0.0])
        slopes[name] = float((f(x + h) - f(x - h)) / (2 * h[0]))
    f, h = PROBLEMS["ackley"]().fun, np.array([1e-6, 0.0])
    curvature = float((f(h) + f(-h) - 2 * f(0 * h)) / h[0] ** 2)
    smooth: Any = wells().smooth
    steep = ", ".join(f"{name} {value:.1e}" for name, value in slopes.items())
    return Measurement(
        {"slopes": slopes, "curvature": curvature, "L0": smooth.L0, "L1": smooth.L1},
        f"|grad f| at (1000, 0): {steep}; Ackley's curvature over 1e-6 at 0: {curvature:.1e}",
        f"wells: L0 = {smooth.L0:.3g}, L1 = {smooth.L1:.3g} everywhere",
    )


@erratum("A1 and convexity")
def convexity(tick: Tick, *, radii: Sequence[float] = (1.0, 10.0, 100.0)) -> Measurement:
    """Least curvature of the smoothed wells along a line, relative to the largest, for growing t."""
    F: Any = wells().smooth
    shares = []
    for t in ticked(radii, tick):
        x = np.zeros((4001, 2))
        x[:, 0] = np.linspace(-5, 5, len(x)) * math.hypot(1, t)
        bend = np.diff(F.grad(x, np.full(len(x), t))[:, 0])
        shares.append(float(bend.min() / bend.max()))
    said = f"wells, t = {listed(radii)}: least curvature {listed(shares, '.2f')} of the largest"
    return Measurement({"t": list(radii), "share": shares}, said, "never above 0")


TABLE_1 = {"3.4": (2, 1.5), "3.5": (4, 1.0), "4.1": (2, 2.0), "4.2": (4, 2.0), "C.1": (2, 3.0), "C.2": (4, 2.0)}
"""Exponents of 1/eps and d in Table 1 at constant gamma, of the first term if there are two."""


@erratum("Table 1's rows")
def table_1(tick: Tick) -> Measurement:
    """Exponents of the theorems' explicit T at constant gamma as eps falls to 0 and d grows."""
    found = {}
    for name in ticked(list(TABLE_1), tick):
        T = {(eps, d): plan_of_ones(name, d, eps, GAMMA).T for eps in (1e-4, 1e-5) for d in (256, 1024)}
        p = math.log10(T[1e-5, 1024] / T[1e-4, 1024])
        q = math.log(T[1e-5, 1024] / T[1e-5, 256], 4)
        found[name] = [p, q]
    printed, ours = (listed((abs(q) for _, q in of.values()), ".1f") for of in (TABLE_1, found))
    return Measurement(
        found, f"q = {printed}", f"q = {ours} from the explicit bounds, which is the row of the tuned gamma"
    )


@erratum("the tuned gamma")
def tuned(tick: Tick, *, d: int = 100, eps: Sequence[float] = (0.1, 0.01, 0.001)) -> Measurement:
    """The tuned gamma of Theorem 3.4 taken as an equation: 1/(1 - gamma) and the resulting T; and T at 0.9."""
    gammas = [THEOREMS["3.4"].tuned(d, e) for e in eps]
    inverse = [1 / (1 - gamma) for gamma in gammas]
    T = [plan_of_ones("3.4", d, e, gamma).T for e, gamma in zip(eps, gammas, strict=True)]
    constant = [plan_of_ones("3.4", d, e, 0.9).T for e in eps]
    return Measurement(
        {"eps": list(eps), "inverse": inverse, "T": T, "T_constant": constant},
        f"eps = {listed(eps)}: 1/(1 - gamma) = {listed(inverse, '.2g')}, T = {listed(T, '.1e')}",
        f"gamma = 0.9: T = {listed(constant, '.1e')}",
    )


@erratum("the floor in the theorems")
def residue(tick: Tick, *, d: int = 10, eps: float = 0.2) -> Measurement:
    """T of Theorem 3.4 without a floor, and the |grad f| that no T gets below with one."""
    floors = [1e-3, 1e-2]
    left = [math.sqrt(THEOREMS["3.4"].residue(Constants(**ONES, d=d, floor=floor))) for floor in floors]
    T = plan("slgh_r", **ONES, d=d, span=1.0, eps=eps, gamma=GAMMA, floor=0.0).T
    return Measurement(
        {"floors": floors, "left": left, "eps": eps, "T": T},
        f"eps' = {listed(floors)}, d = 10: no T bounds |grad f| below {listed(left, '.2g')}",
        f"eps' = 0: below {eps:g} with T = {T:.1e}",
    )


@erratum("the beginning of the sum")
def beginning(tick: Tick, *, d: int = 10, eps: float = 0.1) -> Measurement:
    """T of Theorem 4.2 if f(x_(k0+1)) - f* is 1 as f(x_1) - f* is, and if the burn-in may raise it."""
    common: dict[str, Any] = ONES | {"d": d, "gap": 1.0, "eps": eps, "gamma": GAMMA, "sigma": 1.0, "floor": 0.0}
    constant, grown = plan("zoslgh_r", **common, span=1.0), plan("zoslgh_r", **common)
    return Measurement(
        {"constant": constant.T, "grown": grown.T, "k0": grown.k0},
        f"T = {constant.T:.2g}",
        f"T = {grown.T:.2g} with what {grown.k0} iterations may add",
    )


@erratum("2 nu in every iteration")
def two_nu(tick: Tick, *, nu: float = 1e-4, lengths: Sequence[int] = (10**4, 10**5, 10**6)) -> Measurement:
    """Right-hand side of Theorem C.2 with 2 nu in every iteration, and only where t changes."""
    printed, ours = [], []
    for T in ticked(lengths, tick):
        it = plan("zoslgh_r", **ONES | {"t1": 0.1}, d=2, gamma=0.9, nu=nu, span=1.0, sigma=1.0, T=T)
        t = np.maximum(0.1 * 0.9 ** np.arange(T + 1), math.sqrt(nu))
        printed.append(it.bound(t, printed=True))
        ours.append(it.bound(t))
    found = {"T": list(lengths), "printed": printed, "ours": ours}
    return Measurement(found, f"T = {listed(lengths, '.0e')}: {listed(printed, '.2g')}", listed(ours, ".2g"))


@erratum("4 nu")
def four_nu(tick: Tick, *, nu: float = 1e-3) -> Measurement:
    """Largest fall of F' between two points where F does not fall, in units of nu: f = 0, f' = nu sign(x)."""
    high, low = (nu * math.erf(x / (0.1 * math.sqrt(2))) for x in (5.0, -5.0))
    units = (high - low) / nu
    return Measurement({"units": units}, "4 nu", f"{units:.3f} nu in the worst case, f' = nu sign(x)")


@erratum("a division by 0")
def divisor(tick: Tick, *, d: int = 10) -> Measurement:
    """The divisor in the proof of Theorem 4.2, at its own step, and the right one."""
    c, theorem = Constants(**ONES, d=d), THEOREMS["4.2"]
    beta = float(theorem.step(c, 1, 1.0))
    printed, ours = beta - 2 * (d + 4) * beta**2, float(theorem.weight(c, beta, 1.0))
    return Measurement(
        {"printed": printed, "ours": ours, "beta": beta},
        f"{printed:.2g} at beta = 1/(2(d+4)L1)",
        f"{ours:.4g} = beta/2",
    )


@erratum("two lost squares")
def squares(tick: Tick, *, d: int = 1000, nu: float = 1e-6) -> Measurement:
    """Limit of the right-hand side of Theorem C.2 as T grows, with the two lost squares and without."""
    c, theorem = Constants(**ONES, d=d, nu=nu, floor=math.sqrt(nu)), THEOREMS["C.2"]
    t, L = c.floor, float(c.smoothness(c.floor))
    beta = float(THEOREMS["C.1"].step(c, 1, t))
    ours = theorem.surplus(c, beta, L, c.error(t)).at(t)
    lost = 2 * L * (beta - beta**2) * (c.L1**2 * (d + 6) ** 3 * t**2 + 8 * d * nu**2 / t**2)
    ratio = float((ours + lost) / ours)
    return Measurement(
        {"ratio": ratio}, f"{ratio:.0f} times as much is left as T grows, of the same order d^3 nu", "1 time"
    )


ERRATA = (assumption, convexity, table_1, tuned, residue, beginning, two_nu, four_nu, divisor, squares)
