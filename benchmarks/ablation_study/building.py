r"""Build a method from a composition and its open values, in units that allow one grid for all.

Lengths are in units of the width of the box. t_1 is a quarter of it, and it is tuned if the schedule does not decay by
a given factor. "sphere" gets t sqrt(d), so that its points are as far from x as those of the other oracles. With it,
scale_free, which assumes the distance t sqrt(d), gets an alpha that is smaller by sqrt(d).

The tuned value of a step is the approximate length of the first one, in units of the box's diagonal, width sqrt(d). An
update that multiplies g by its step gets that length divided by

    |g| = s / (t_1 c),    s the standard deviation of f(x_0 + t_1 u),    c = sqrt(M / (M + d)),

since f(x_0 + t u) varies by t |grad f| where f is nearly linear, and the estimate is 1/c times as long as the
gradient. Momentum gets a tenth of it, since ten such steps add up. spsa_gain gets the gain that makes its first step
equally long. The weights of ranks and exponentials have no unit: there s is 1/4. Thus everything in units of f is
scaled by that unit: N of the exponential is in units of 1/s, and eta is such that the first change of t is about eta
times t_1.
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
"""Open values of a composition: those of first, fall, eta, sharpness and step that it has."""

FIRST_RADIUS = 0.25
"""t_1 in widths, as in "auto"."""

SHAPE = 1.5
"""Exponent of the budget schedule of "auto"."""

WEIGHT = 0.25
"""Standard deviation of ranks and weights: 0.28 for the ranks of a linear f, 0.22 for exp(-f / s)."""

MOMENTUM, POWER, STABILITY = 0.9, 0.602, 0.1
"""Defaults of momentum and spsa_gain."""


@dataclass(frozen=True, kw_only=True)
class Field:
    """Conditions that a method is built for.

    Parameters
    ----------
    width
        Unit of lengths.
    evaluations
        Number of evaluations for the iterations.
    each
        Maximum number of evaluations per iteration, the same for all oracles.
    spread
        s, the standard deviation of f around the start.
    evaluates_f
        True if f(x) is evaluated in each iteration even if the oracle does not need it, as in the attack.
    alpha_factor
        Factor of scale_free's alpha.
    """

    d: int
    width: float
    evaluations: int
    each: int
    spread: float
    evaluates_f: bool = False
    alpha_factor: float = 1.0


def first_radius(values: Values, width: float) -> float:
    """Return t_1."""
    return values.get("first", FIRST_RADIUS) * width


def build(c: Composition, values: Values, field: Field) -> Method:
    """Return the method with all its parameters."""
    t1 = first_radius(values, field.width)
    reach = t1 * math.sqrt(field.d) if c.oracle == "sphere" else t1
    oracle = _oracle(c, values, field)
    needs = frozenset({"trace"} if c.schedule == "derivative" else ()) | frozenset({"f"} if field.evaluates_f else ())
    T = max(1, field.evaluations // oracle.cost(True, Context(xp=np, needs=needs)))
    schedule = _schedule(c, values, field, reach, T, oracle.samples)
    floor = values["fall"] * reach if "fall" in values else None
    update = _update(c, values, field, t1, T, oracle)
    return Method(oracle=oracle, schedule=schedule, update=update, floor=floor, name=c.name)


def _oracle(c: Composition, values: Values, field: Field) -> Oracle:
    """Return the oracle, with as many samples as the evaluations of an iteration allow."""
    center = int(field.evaluates_f or c.schedule == "derivative")
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
    raise ValueError(f"Unknown `oracle` {c.oracle!r}.")


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
    raise ValueError(f"Unknown `schedule` {c.schedule!r}.")


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
            return Momentum(step=(1 - MOMENTUM) * times_g, momentum=MOMENTUM)
        case "spsa_gain":
            offset = STABILITY * T
            return SpsaGain(step=times_g * (1 + offset) ** POWER, step_power=POWER, offset=offset)
        case "adam":
            return Adam(step=a_variable)
        case "adamm":
            return AdaMM(step=a_variable)
        case "normalized":
            return Normalized(step=length)
    raise ValueError(f"Unknown `update` {c.update!r}.")


def _alpha(c: Composition, values: Values, field: Field, T: int, oracle: Any) -> float:
    """Return alpha by the rules of "auto", from the decay of t. Nothing is tuned."""
    fall = values.get("fall", T ** -PowerLaw(t1=1.0).t_power if c.schedule == "power_law" else 1.0)
    alpha = choose_pace(oracle, field.d, T, fall).alpha * field.alpha_factor
    return alpha / math.sqrt(field.d) if c.oracle == "sphere" else alpha
