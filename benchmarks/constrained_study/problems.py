"""Constrained problems g01 to g24 of the CEC 2006 competition, without g20 and g22, written from their formulas.

The formulas and the published solutions are those of Liang, Runarsson, Mezura-Montes, Clerc, Suganthan, Coello and Deb,
*Problem definitions and evaluation criteria for the CEC 2006 special session on constrained real-parameter
optimization* (2006). No feasible point of g20 is known, and nobody's method finds the optimum of g22, a system of 19
equations in 22 variables.

A problem has a function of x that returns f, the inequalities g <= 0 and the equalities h = 0. The report allows
equalities an error of 1e-4, which lowers f below the minimum on the exact ones. `minimum` is the value on exact
equalities: a local search from the published solution gives it (`constrained.py minima`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Parts = tuple[float, Floats, Floats]
"""f, inequalities g <= 0, equalities h = 0."""

TRAINING = ("g02", "g06", "g09", "g15", "g18", "g23")
"""Problems on which the constants of slgh were chosen. They are not reported."""

EQUALITY_ERROR = 1e-4
"""Error that the report allows for equalities."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A problem, its bounds (d,), the published solution and f there, and the minimum on exact equalities."""

    name: str
    parts: Callable[[Floats], Parts]
    low: Floats
    high: Floats
    solution: Floats
    published: float
    minimum: float

    @property
    def d(self) -> int:
        return self.low.size

    @property
    def sizes(self) -> tuple[int, int]:
        """Numbers of inequalities and equalities."""
        _, g, h = self.parts((self.low + self.high) / 2)
        return g.size, h.size

    def violation(self, x: Floats) -> float:
        """Return the largest violation of the constraints and of the bounds at x."""
        _, g, h = self.parts(x)
        outside = np.concatenate([self.low - x, x - self.high])
        worst = np.concatenate([g, np.abs(h), outside, [0.0]]).max()
        return float(worst) if np.isfinite(worst) else np.inf


def _g01(x: Floats) -> Parts:
    f = 5 * x[:4].sum() - 5 * (x[:4] ** 2).sum() - x[4:].sum()
    g = np.array(
        [
            2 * x[0] + 2 * x[1] + x[9] + x[10] - 10,
            2 * x[0] + 2 * x[2] + x[9] + x[11] - 10,
            2 * x[1] + 2 * x[2] + x[10] + x[11] - 10,
            -8 * x[0] + x[9],
            -8 * x[1] + x[10],
            -8 * x[2] + x[11],
            -2 * x[3] - x[4] + x[9],
            -2 * x[5] - x[6] + x[10],
            -2 * x[7] - x[8] + x[11],
        ]
    )
    return float(f), g, np.empty(0)


def _g02(x: Floats) -> Parts:
    cos = np.cos(x)
    i = np.arange(1, x.size + 1)
    f = -abs((np.sum(cos**4) - 2 * np.prod(cos**2)) / np.sqrt(np.sum(i * x**2)))
    return float(f), np.array([0.75 - np.prod(x), np.sum(x) - 7.5 * x.size]), np.empty(0)


def _g03(x: Floats) -> Parts:
    return float(-(np.sqrt(x.size) ** x.size) * np.prod(x)), np.empty(0), np.array([np.sum(x**2) - 1])


def _g04(x: Floats) -> Parts:
    f = 5.3578547 * x[2] ** 2 + 0.8356891 * x[0] * x[4] + 37.293239 * x[0] - 40792.141
    u = 85.334407 + 0.0056858 * x[1] * x[4] + 0.0006262 * x[0] * x[3] - 0.0022053 * x[2] * x[4]
    v = 80.51249 + 0.0071317 * x[1] * x[4] + 0.0029955 * x[0] * x[1] + 0.0021813 * x[2] ** 2
    w = 9.300961 + 0.0047026 * x[2] * x[4] + 0.0012547 * x[0] * x[2] + 0.0019085 * x[2] * x[3]
    return float(f), np.array([u - 92, -u, v - 110, 90 - v, w - 25, 20 - w]), np.empty(0)


def _g05(x: Floats) -> Parts:
    f = 3 * x[0] + 1e-6 * x[0] ** 3 + 2 * x[1] + 2e-6 / 3 * x[1] ** 3
    g = np.array([-x[3] + x[2] - 0.55, -x[2] + x[3] - 0.55])
    h = np.array(
        [
            1000 * np.sin(-x[2] - 0.25) + 1000 * np.sin(-x[3] - 0.25) + 894.8 - x[0],
            1000 * np.sin(x[2] - 0.25) + 1000 * np.sin(x[2] - x[3] - 0.25) + 894.8 - x[1],
            1000 * np.sin(x[3] - 0.25) + 1000 * np.sin(x[3] - x[2] - 0.25) + 1294.8,
        ]
    )
    return float(f), g, h


def _g06(x: Floats) -> Parts:
    f = (x[0] - 10) ** 3 + (x[1] - 20) ** 3
    g = [-((x[0] - 5) ** 2) - (x[1] - 5) ** 2 + 100, (x[0] - 6) ** 2 + (x[1] - 5) ** 2 - 82.81]
    return float(f), np.array(g), np.empty(0)


def _g07(x: Floats) -> Parts:
    x1, x2, x3, x4, x5, x6, x7, x8, x9, x10 = x
    f = x1**2 + x2**2 + x1 * x2 - 14 * x1 - 16 * x2 + (x3 - 10) ** 2 + 4 * (x4 - 5) ** 2 + (x5 - 3) ** 2
    f += 2 * (x6 - 1) ** 2 + 5 * x7**2 + 7 * (x8 - 11) ** 2 + 2 * (x9 - 10) ** 2 + (x10 - 7) ** 2 + 45
    g = np.array(
        [
            -105 + 4 * x1 + 5 * x2 - 3 * x7 + 9 * x8,
            10 * x1 - 8 * x2 - 17 * x7 + 2 * x8,
            -8 * x1 + 2 * x2 + 5 * x9 - 2 * x10 - 12,
            3 * (x1 - 2) ** 2 + 4 * (x2 - 3) ** 2 + 2 * x3**2 - 7 * x4 - 120,
            5 * x1**2 + 8 * x2 + (x3 - 6) ** 2 - 2 * x4 - 40,
            x1**2 + 2 * (x2 - 2) ** 2 - 2 * x1 * x2 + 14 * x5 - 6 * x6,
            0.5 * (x1 - 8) ** 2 + 2 * (x2 - 4) ** 2 + 3 * x5**2 - x6 - 30,
            -3 * x1 + 6 * x2 + 12 * (x9 - 8) ** 2 - 7 * x10,
        ]
    )
    return float(f), g, np.empty(0)


def _g08(x: Floats) -> Parts:
    with np.errstate(all="ignore"):  # f is NaN at 0
        f = -(np.sin(2 * np.pi * x[0]) ** 3) * np.sin(2 * np.pi * x[1]) / (x[0] ** 3 * (x[0] + x[1]))
    return float(f), np.array([x[0] ** 2 - x[1] + 1, 1 - x[0] + (x[1] - 4) ** 2]), np.empty(0)


def _g09(x: Floats) -> Parts:
    x1, x2, x3, x4, x5, x6, x7 = x
    f = (x1 - 10) ** 2 + 5 * (x2 - 12) ** 2 + x3**4 + 3 * (x4 - 11) ** 2 + 10 * x5**6 + 7 * x6**2 + x7**4
    f += -4 * x6 * x7 - 10 * x6 - 8 * x7
    g = np.array(
        [
            -127 + 2 * x1**2 + 3 * x2**4 + x3 + 4 * x4**2 + 5 * x5,
            -282 + 7 * x1 + 3 * x2 + 10 * x3**2 + x4 - x5,
            -196 + 23 * x1 + x2**2 + 6 * x6**2 - 8 * x7,
            4 * x1**2 + x2**2 - 3 * x1 * x2 + 2 * x3**2 + 5 * x6 - 11 * x7,
        ]
    )
    return float(f), g, np.empty(0)


def _g10(x: Floats) -> Parts:
    x1, x2, x3, x4, x5, x6, x7, x8 = x
    g = np.array(
        [
            -1 + 0.0025 * (x4 + x6),
            -1 + 0.0025 * (x5 + x7 - x4),
            -1 + 0.01 * (x8 - x5),
            -x1 * x6 + 833.33252 * x4 + 100 * x1 - 83333.333,
            -x2 * x7 + 1250 * x5 + x2 * x4 - 1250 * x4,
            -x3 * x8 + 1250000 + x3 * x5 - 2500 * x5,
        ]
    )
    return float(x1 + x2 + x3), g, np.empty(0)


def _g11(x: Floats) -> Parts:
    return float(x[0] ** 2 + (x[1] - 1) ** 2), np.empty(0), np.array([x[1] - x[0] ** 2])


_CENTERS = np.stack(np.meshgrid(*[np.arange(1.0, 10.0)] * 3), axis=-1).reshape(-1, 3)


def _g12(x: Floats) -> Parts:
    f = -(100 - np.sum((x - 5) ** 2)) / 100
    return float(f), np.array([np.min(np.sum((x - _CENTERS) ** 2, axis=1)) - 0.0625]), np.empty(0)


def _g13(x: Floats) -> Parts:
    h = [np.sum(x**2) - 10, x[1] * x[2] - 5 * x[3] * x[4], x[0] ** 3 + x[1] ** 3 + 1]
    return float(np.exp(np.prod(x))), np.empty(0), np.array(h)


_G14 = np.array([-6.089, -17.164, -34.054, -5.914, -24.721, -14.986, -24.1, -10.708, -26.662, -22.179])


def _g14(x: Floats) -> Parts:
    with np.errstate(all="ignore"):  # f is NaN at 0
        f = np.sum(x * (_G14 + np.log(x / np.sum(x))))
    h = [
        x[0] + 2 * x[1] + 2 * x[2] + x[5] + x[9] - 2,
        x[3] + 2 * x[4] + x[5] + x[6] - 1,
        x[2] + x[6] + x[7] + 2 * x[8] + x[9] - 1,
    ]
    return float(f), np.empty(0), np.array(h)


def _g15(x: Floats) -> Parts:
    f = 1000 - x[0] ** 2 - 2 * x[1] ** 2 - x[2] ** 2 - x[0] * x[1] - x[0] * x[2]
    return float(f), np.empty(0), np.array([np.sum(x**2) - 25, 8 * x[0] + 14 * x[1] + 7 * x[2] - 56])


_G16 = np.array(
    [
        (213.1, 405.23),
        (17.505, 1053.6667),
        (11.275, 35.03),
        (214.228, 665.585),
        (7.458, 584.463),
        (0.961, 265.916),
        (1.612, 7.046),
        (0.146, 0.222),
        (107.99, 273.366),
        (922.693, 1286.105),
        (926.832, 1444.046),
        (18.766, 537.141),
        (1072.163, 3247.039),
        (8961.448, 26844.086),
        (0.063, 0.386),
        (71084.33, 140000.0),
        (2802713.0, 12146108.0),
    ]
)
"""Bounds of y1 to y17."""


def _g16(x: Floats) -> Parts:
    x1, x2, x3, x4, x5 = x
    y1 = x2 + x3 + 41.6
    c1 = 0.024 * x4 - 4.62
    y2 = 12.5 / c1 + 12
    c2 = 0.0003535 * x1**2 + 0.5311 * x1 + 0.08705 * y2 * x1
    c3 = 0.052 * x1 + 78 + 0.002377 * y2 * x1
    y3 = c2 / c3
    y4 = 19 * y3
    c4 = 0.04782 * (x1 - y3) + 0.1956 * (x1 - y3) ** 2 / x2 + 0.6376 * y4 + 1.594 * y3
    c5 = 100 * x2
    c6 = x1 - y3 - y4
    c7 = 0.950 - c4 / c5
    y5 = c6 * c7
    y6 = x1 - y5 - y4 - y3
    c8 = (y5 + y4) * 0.995
    y7 = c8 / y1
    y8 = c8 / 3798
    c9 = y7 - 0.0663 * y7 / y8 - 0.3153
    y9 = 96.82 / c9 + 0.321 * y1
    y10 = 1.29 * y5 + 1.258 * y4 + 2.29 * y3 + 1.71 * y6
    y11 = 1.71 * x1 - 0.452 * y4 + 0.580 * y3
    c10 = 12.3 / 752.3
    c11 = 1.75 * y2 * 0.995 * x1
    c12 = 0.995 * y10 + 1998
    y12 = c10 * x1 + c11 / c12
    y13 = c12 - 1.75 * y2
    y14 = 3623 + 64.4 * x2 + 58.4 * x3 + 146312 / (y9 + x5)
    c13 = 0.995 * y10 + 60.8 * x2 + 48 * x4 - 0.1121 * y14 - 5095
    y15 = y13 / c13
    y16 = 148000 - 331000 * y15 + 40 * y13 - 61 * y15 * y13
    c14 = 2324 * y10 - 28740000 * y2
    y17 = 14130000 - 1328 * y10 - 531 * y11 + c14 / c12
    c15 = y13 / y15 - y13 / 0.52
    c16 = 1.104 - 0.72 * y15
    c17 = y9 + x5
    f = 0.000117 * y14 + 0.1365 + 0.00002358 * y13 + 0.000001502 * y16 + 0.0321 * y12 + 0.004324 * y5
    f += 0.0001 * c15 / c16 + 37.48 * y2 / c12 - 0.0000005843 * y17
    y = np.array([y1, y2, y3, y4, y5, y6, y7, y8, y9, y10, y11, y12, y13, y14, y15, y16, y17])
    g = [0.28 / 0.72 * y5 - y4, x3 - 1.5 * x2, 3496 * y2 / c12 - 21, 110.6 + y1 - 62212 / c17]
    return float(f), np.concatenate([g, _G16[:, 0] - y, y - _G16[:, 1]]), np.empty(0)


def _g17(x: Floats) -> Parts:
    x1, x2, x3, x4, x5, x6 = x
    f = (30 if x1 < 300 else 31) * x1 + (28 if x2 < 100 else 29 if x2 < 200 else 30) * x2
    a, b = 131.078, 1.48477
    cos, sin = 0.90798 * np.cos(1.47588) / a, 0.90798 * np.sin(1.47588) / a
    h = [
        -x1 + 300 - x3 * x4 / a * np.cos(b - x6) + cos * x3**2,
        -x2 - x3 * x4 / a * np.cos(b + x6) + cos * x4**2,
        -x5 - x3 * x4 / a * np.sin(b + x6) + sin * x4**2,
        200 - x3 * x4 / a * np.sin(b - x6) + sin * x3**2,
    ]
    return float(f), np.empty(0), np.array(h)


def _g18(x: Floats) -> Parts:
    x1, x2, x3, x4, x5, x6, x7, x8, x9 = x
    f = -0.5 * (x1 * x4 - x2 * x3 + x3 * x9 - x5 * x9 + x5 * x8 - x6 * x7)
    g = np.array(
        [
            x3**2 + x4**2 - 1,
            x9**2 - 1,
            x5**2 + x6**2 - 1,
            x1**2 + (x2 - x9) ** 2 - 1,
            (x1 - x5) ** 2 + (x2 - x6) ** 2 - 1,
            (x1 - x7) ** 2 + (x2 - x8) ** 2 - 1,
            (x3 - x5) ** 2 + (x4 - x6) ** 2 - 1,
            (x3 - x7) ** 2 + (x4 - x8) ** 2 - 1,
            x7**2 + (x8 - x9) ** 2 - 1,
            x2 * x3 - x1 * x4,
            -x3 * x9,
            x5 * x9,
            x6 * x7 - x5 * x8,
        ]
    )
    return float(f), g, np.empty(0)


_G19_A = np.array(
    [
        [-16, 2, 0, 1, 0],
        [0, -2, 0, 0.4, 2],
        [-3.5, 0, 2, 0, 0],
        [0, -2, 0, -4, -1],
        [0, -9, -2, 1, -2.8],
        [2, 0, -4, 0, 0],
        [-1, -1, -1, -1, -1],
        [-1, -2, -3, -2, -1],
        [1, 2, 3, 4, 5],
        [1, 1, 1, 1, 1],
    ]
)
_G19_B = np.array([-40, -2, -0.25, -4, -4, -1, -40, -60, 5, 1])
_G19_C = np.array(
    [
        [30, -20, -10, 32, -10],
        [-20, 39, -6, -31, 32],
        [-10, -6, 10, -6, -10],
        [32, -31, -6, 39, -20],
        [-10, 32, -10, -20, 30],
    ]
)
_G19_D = np.array([4, 8, 10, 6, 2])
_G19_E = np.array([-15, -27, -36, -18, -12])


def _g19(x: Floats) -> Parts:
    u, y = x[:10], x[10:]
    f = y @ _G19_C @ y + 2 * np.sum(_G19_D * y**3) - _G19_B @ u
    g = -2 * _G19_C.T @ y - 3 * _G19_D * y**2 - _G19_E + _G19_A.T @ u
    return float(f), np.asarray(g), np.empty(0)


def _g21(x: Floats) -> Parts:
    x1, x2, x3, x4, x5, x6, x7 = x
    h = [
        -300 * x3 + 7500 * x5 - 7500 * x6 - 25 * x4 * x5 + 25 * x4 * x6 + x3 * x4,
        100 * x2 + 155.365 * x4 + 2500 * x7 - x2 * x4 - 25 * x4 * x7 - 15536.5,
        -x5 + np.log(-x4 + 900),
        -x6 + np.log(x4 + 300),
        -x7 + np.log(-2 * x4 + 700),
    ]
    return float(x1), np.array([-x1 + 35 * x2**0.6 + 35 * x3**0.6]), np.array(h)


def _g23(x: Floats) -> Parts:
    x1, x2, x3, x4, x5, x6, x7, x8, x9 = x
    f = -9 * x5 - 15 * x8 + 6 * x1 + 16 * x2 + 10 * (x6 + x7)
    g = np.array([x9 * x3 + 0.02 * x6 - 0.025 * x5, x9 * x4 + 0.02 * x7 - 0.015 * x8])
    h = np.array([x1 + x2 - x3 - x4, 0.03 * x1 + 0.01 * x2 - x9 * (x3 + x4), x3 + x6 - x5, x4 + x7 - x8])
    return float(f), g, h


def _g24(x: Floats) -> Parts:
    x1, x2 = x
    g = [
        -2 * x1**4 + 8 * x1**3 - 8 * x1**2 + x2 - 2,
        -4 * x1**4 + 32 * x1**3 - 88 * x1**2 + 96 * x1 + x2 - 36,
    ]
    return float(-x1 - x2), np.array(g), np.empty(0)


def _problem(
    parts: Callable[[Floats], Parts],
    bounds: list[tuple[float, float]],
    solution: list[float],
    published: float,
    minimum: float | None = None,
) -> Problem:
    low, high = np.array(bounds, float).T
    return Problem(
        name=parts.__name__[1:],
        parts=parts,
        low=low,
        high=high,
        solution=np.array(solution, float),
        published=published,
        minimum=published if minimum is None else minimum,
    )


_G02_SOLUTION = [3.16246061572185, 3.12833142812967, 3.09479212988791, 3.06145059523469, 3.02792915885555]
_G02_SOLUTION += [2.99382606701730, 2.95866871765285, 2.92184227312450, 0.49482511456933, 0.48835711005490]
_G02_SOLUTION += [0.48231642711865, 0.47664475092742, 0.47129550835493, 0.46623099264167, 0.46142004984199]
_G02_SOLUTION += [0.45683664767217, 0.45245876903267, 0.44826762241853, 0.44424700958760, 0.44038285956317]

_ALL = (
    _problem(_g01, [(0, 1)] * 9 + [(0, 100)] * 3 + [(0, 1)], [1] * 9 + [3] * 3 + [1], -15.0),
    _problem(_g02, [(0, 10)] * 20, _G02_SOLUTION, -0.80361910412559),
    _problem(_g03, [(0, 1)] * 10, [0.31624357647283069] * 10, -1.00050010001000, -1.0),
    _problem(
        _g04,
        [(78, 102), (33, 45), (27, 45), (27, 45), (27, 45)],
        [78, 33, 29.9952560256815985, 45, 36.7758129057882073],
        -30665.5386717834,
    ),
    _problem(
        _g05,
        [(0, 1200), (0, 1200), (-0.55, 0.55), (-0.55, 0.55)],
        [679.945148297028709, 1026.06697600004691, 0.118876369094410433, -0.39623348521517826],
        5126.4967140071,
        5126.49810959527,
    ),
    _problem(_g06, [(13, 100), (0, 100)], [14.095, 0.8429607892154795668], -6961.81387558015),
    _problem(
        _g07,
        [(-10, 10)] * 10,
        [
            *(2.17199634142692, 2.3636830416034, 8.77392573913157, 5.09598443745173, 0.990654756560493),
            *(1.43057392853463, 1.32164415364306, 9.82872576524495, 8.2800915887356, 8.3759266477347),
        ],
        24.30620906818,
    ),
    _problem(_g08, [(0, 10)] * 2, [1.22797135260752599, 4.24537336612274885], -0.0958250414180359),
    _problem(
        _g09,
        [(-10, 10)] * 7,
        [
            *(2.33049935147405174, 1.95137236847114592, -0.477541399510615805, 4.36572624923625874),
            *(-0.624486959100388983, 1.03813099410962173, 1.5942266780671519),
        ],
        680.630057374402,
    ),
    _problem(
        _g10,
        [(100, 10000), (1000, 10000), (1000, 10000), *[(10, 1000)] * 5],
        [
            *(579.306685017979589, 1359.97067807935605, 5109.97065743133317, 182.01769963061534),
            *(295.601173702746792, 217.982300369384632, 286.41652592786852, 395.601173702746735),
        ],
        7049.24802052867,
    ),
    _problem(_g11, [(-1, 1)] * 2, [-0.707036070037170616, 0.500000004333606807], 0.7499, 0.75),
    _problem(_g12, [(0, 10)] * 3, [5, 5, 5], -1.0),
    _problem(
        _g13,
        [(-2.3, 2.3)] * 2 + [(-3.2, 3.2)] * 3,
        [-1.71714224003, 1.59572124049468, 1.8272502406271, -0.763659881912867, -0.76365986736498],
        0.053941514041898,
        0.0539498477702721,
    ),
    _problem(
        _g14,
        [(0, 10)] * 10,
        [
            *(0.0406684113216282, 0.147721240492452, 0.783205732104114, 0.00141433931889084, 0.485293636780388),
            *(0.000693183051556082, 0.0274052040687766, 0.0179509660214818, 0.0373268186859717, 0.0968844604336845),
        ],
        -47.7648884594915,
        -47.7610908593658,
    ),
    _problem(
        _g15,
        [(0, 10)] * 3,
        [3.51212812611795133, 0.216987510429556135, 3.55217854929179921],
        961.715022289961,
        961.71517213005,
    ),
    _problem(
        _g16,
        [(704.4148, 906.3855), (68.6, 288.88), (0, 134.75), (193, 287.0966), (25, 84.1988)],
        [705.174537070090537, 68.5999999999999943, 102.899999999999991, 282.324931593660324, 37.5841164258054832],
        -1.90515525853479,
    ),
    _problem(
        _g17,
        [(0, 400), (0, 1000), (340, 420), (340, 420), (-1000, 1000), (0, 0.5236)],
        [
            *(201.784467214523659, 99.9999999999999005, 383.071034852773266, 420, -10.9076584514292652),
            0.0731482312084287128,
        ],
        8853.53967480648,
        8853.53989135226,
    ),
    _problem(
        _g18,
        [(-10, 10)] * 8 + [(0, 20)],
        [
            *(-0.657776192427943163, -0.153418773482438542, 0.323413871675240938, -0.946257611651304398),
            *(-0.657776194376798906, -0.753213434632691414, 0.323413874123576972, -0.346462947962331735),
            0.59979466285217542,
        ],
        -0.866025403784439,
    ),
    _problem(
        _g19,
        [(0, 10)] * 15,
        [
            *(0, 0, 3.94599045143233784, 0, 3.2831773458454161, 9.99999999999999822, 0, 0, 0, 0),
            *(0.370764847417013987, 0.278456024942955571, 0.523838487672241171, 0.388620152510322781),
            0.298156764974678579,
        ],
        32.6555929502463,
    ),
    _problem(
        _g21,
        [(0, 1000), (0, 40), (0, 40), (100, 300), (6.3, 6.7), (5.9, 6.4), (4.5, 6.25)],
        [
            *(193.724510070034967, 5.56944131553368433e-27, 17.3191887294084914, 100.047897801386839),
            *(6.68445185362377892, 5.99168428444264833, 6.21451648886070451),
        ],
        193.724510070035,
        193.786925279418,
    ),
    _problem(
        _g23,
        [(0, 300), (0, 300), (0, 100), (0, 200), (0, 100), (0, 300), (0, 100), (0, 200), (0.01, 0.03)],
        [
            *(0.00510000000000259465, 99.9947000000000514, 9.01920162996045897e-18, 99.9999000000000535),
            *(0.000100000000027086086, 2.75700683389584542e-14, 99.9999999999999574, 200, 0.0100000100000100008),
        ],
        -400.055099999999584,
        -400.0,
    ),
    _problem(_g24, [(0, 3), (0, 4)], [2.32952019747762, 3.17849307411774], -5.50801327159536),
)

PROBLEMS = {problem.name: problem for problem in _ALL}
