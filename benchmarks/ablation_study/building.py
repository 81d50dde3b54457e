r"""A composition and its open values become a method; units are such that the same grid serves all.

Lengths are in units of the width of the box. t_1 is a quarter of it, but open where the schedule does not fall by a
given factor. "sphere" gets t sqrt(d), so that its points are as far from x as those of the others, and with it
scale_free, which takes t sqrt(d) for that distance, an alpha less by sqrt(d).

Of a step it is open how long the first one is, about, in units of the box's diagonal, width sqrt(d). An update that
multiplies g by its step is given that length divided by

    |g| = s / (t_1 c),    s the standard deviation of f(x_0 + t_1 u),    c = sqrt(M / (M + d)),

since f(x_0 + t u) varies by t |grad f| where f is nearly linear, and the estimate is 1/c times as long as the
gradient. Momentum gets a tenth of it, since ten such steps add up, and spsa_gain what makes its first step as long. The
weights of ranks and exponentials have no unit: there s is 1/4. So all that has a unit of f is told that unit: N of
the exponential is in units of 1/s, and eta such that the first change of t is about eta times t_1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ablation_study.axes import WEIGHING, Composition
from slgh.auto.defaults import choose_pace
from slgh.method import Method
from slgh.oracles import Antithetic, DiagonalScaling, Exponential, Forward, Rademacher, Sphere
from slgh.oracles.estimators import zeroth_order_cosine
from slgh.protocols import Context, Oracle, Schedule, Update
from slgh.schedules import Budget, Constant, Derivative, PowerLaw, Ratio
from slgh.updates import Adam, AdaMM, Descent, Momentum, Normalized, ScaleFree, SpsaGain

Values = Mapping[str, float]
"""What a composition leaves open: first, fall, eta, sharpness, step, those of them that it has."""

QUARTER = 0.25
"""t_1 in widths, as "auto" has it."""

SHAPE = 1.5
"""The exponent of "auto" in the budget schedule."""

WEIGHT = 0.25
"""How much ranks and weights of samples differ: 0.28 for the ranks of a linear f, 0.22 for exp(-f / s)."""

MEMORY, POWER, STABILITY = 0.9, 0.602, 0.1
"""The defaults of momentum and spsa_gain."""


@dataclass(frozen=True, kw_only=True)
class Field:
    """What a method is built for.

    Parameters
    ----------
    width
        The unit of lengths.
    evaluations
        How many there are for the iterations.
    each
        How many an iteration has at most, the same for all oracles.
    spread
        s, how much f varies around the start.
    asks_f
        Whether f(x) is asked for in each iteration, whatever the oracle needs, as the attack does.
    longer
        The rule for scale_free's alpha is multiplied by it.
    """

    d: int
    width: float
    evaluations: int
    each: int
    spread: float
    asks_f: bool = False
    longer: float = 1.0


def first_radius(values: Values, width: float) -> float:
    """t_1."""
    return values.get("first", QUARTER) * width


def build(c: Composition, values: Values, field: Field) -> Method:
    """The parts with all their parameters."""
    t1 = first_radius(values, field.width)
    reach = t1 * math.sqrt(field.d) if c.oracle == "sphere" else t1
    oracle = _oracle(c, values, field)
    needs = frozenset({"trace"} if c.schedule == "derivative" else ()) | frozenset({"f"} if field.asks_f else ())
    T = max(1, field.evaluations // oracle.cost(True, Context(xp=np, needs=needs)))
    schedule = _schedule(c, values, field, reach, T, oracle.samples)
    floor = values["fall"] * reach if "fall" in values else None
    update = _update(c, values, field, t1, T, oracle)
    return Method(oracle=oracle, schedule=schedule, update=update, floor=floor, name=c.name)


def _oracle(c: Composition, values: Values, field: Field) -> Oracle:
    """With as many samples as the evaluations of an iteration allow."""
    center = int(field.asks_f or c.schedule == "derivative")
    pairs = (field.each - center) // 2
    match c.oracle:
        case "forward":
            return Forward(samples=field.each - 1)
        case "antithetic":
            return Antithetic(samples=pairs)
        case "ranks":
            return Antithetic(samples=pairs, values="ranks")
        case "diagonal_scaling":
            return DiagonalScaling(samples=pairs)
        case "rademacher":
            return Rademacher(samples=pairs)
        case "sphere":
            return Sphere(samples=field.each - 1)
        case "exponential":
            return Exponential(samples=field.each - center, sharpness=values["sharpness"] / field.spread)
    raise ValueError(f"`oracle` has no {c.oracle!r}.")


def _schedule(c: Composition, values: Values, field: Field, t1: float, T: int, M: int) -> Schedule:
    match c.schedule:
        case "constant":
            return Constant(t1=t1)
        case "power_law":
            return PowerLaw(t1=t1)
        case "ratio":
            return Ratio(t1=t1, gamma=values["fall"] ** (1 / T))
        case "budget":
            return Budget(t1=t1, t_end=values["fall"] * t1, shape=SHAPE)
        case "derivative":
            eta = values["eta"] * t1**3 / field.spread * math.sqrt(M / (2 * field.d))
            return Derivative(t1=t1, gamma=values["fall"] ** (1 / T), eta=eta)
    raise ValueError(f"`schedule` has no {c.schedule!r}.")


def _update(c: Composition, values: Values, field: Field, t1: float, T: int, oracle: Any) -> Update:
    if c.update == "scale_free":
        return ScaleFree(alpha=_alpha(c, values, field, T, oracle))
    cosine = zeroth_order_cosine(oracle.samples, field.d)
    a_variable = values["step"] * field.width
    length = a_variable * math.sqrt(field.d)
    times_g = length * cosine * t1 / (WEIGHT if c.oracle in WEIGHING else field.spread)
    match c.update:
        case "descent":
            return Descent(step=times_g)
        case "momentum":
            return Momentum(step=(1 - MEMORY) * times_g, momentum=MEMORY)
        case "spsa_gain":
            offset = STABILITY * T
            return SpsaGain(step=times_g * (1 + offset) ** POWER, step_power=POWER, offset=offset)
        case "adam":
            return Adam(step=a_variable)
        case "adamm":
            return AdaMM(step=a_variable)
        case "normalized":
            return Normalized(step=length)
    raise ValueError(f"`update` has no {c.update!r}.")


def _alpha(c: Composition, values: Values, field: Field, T: int, oracle: Any) -> float:
    """By the rules of "auto", from how far t falls; nothing is tuned."""
    fall = values.get("fall", T ** -PowerLaw(t1=1.0).t_power if c.schedule == "power_law" else 1.0)
    alpha = choose_pace(oracle, field.d, T, fall).alpha * field.longer
    return alpha / math.sqrt(field.d) if c.oracle == "sphere" else alpha
