"""A method is oracle x schedule x update. METHODS holds the paper's, each a composition of parts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from slgh import checks
from slgh.oracles import ORACLES
from slgh.parts import Oracle, Schedule, Update
from slgh.schedules import SCHEDULES
from slgh.updates import UPDATES

SLOTS: dict[str, dict[str, Any]] = {"oracle": ORACLES, "schedule": SCHEDULES, "update": UPDATES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """Three parts with all their hyperparameters, ready to run.

    Parameters
    ----------
    oracle, schedule, update
        Instances of the parts, yours or those of `slgh.oracles`, `slgh.schedules`, `slgh.updates`.
    floor
        The least t; None is the dtype's rounding limit for differences, and 0 for gradients and closed forms.
    reports
        Which point is the solution: "last", the last iterate, or "best", the best evaluated one.
    """

    oracle: Oracle
    schedule: Schedule
    update: Update
    floor: float | None = None
    reports: str = "last"
    name: str = "custom"

    def __post_init__(self) -> None:
        if self.floor is not None:
            checks.at_least("floor", self.floor, 0)
        checks.choice("reports", self.reports, ("last", "best"))
        missing = self.schedule.needs - self.oracle.provides
        if missing:
            raise ValueError(
                f"`schedule` {self.schedule.name!r} needs {', '.join(sorted(missing))}, which the oracle "
                f"{self.oracle.name!r} does not provide."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A named composition: which parts, their defaults, and what the method is."""

    oracle: str
    schedule: str
    update: str
    about: str
    defaults: Mapping[str, Any] = field(default_factory=dict)
    reports: str = "last"
    stochastic: bool = False
    """Whether the method is nothing without sample_xi."""


METHODS: dict[str, Recipe] = {
    "auto": Recipe(
        oracle="antithetic",
        schedule="budget",
        update="scale_free",
        reports="best",
        about="needs no tuning: t falls over exactly the budget, the step follows t",
    ),
    "gd": Recipe(
        oracle="gradient",
        schedule="constant",
        update="descent",
        defaults={"t1": 0.0},
        about="gradient descent",
    ),
    "sgd": Recipe(
        oracle="gradient",
        schedule="constant",
        update="descent",
        defaults={"t1": 0.0},
        stochastic=True,
        about="stochastic gradient descent",
    ),
    "zosgd": Recipe(
        oracle="forward",
        schedule="constant",
        update="descent",
        about="zeroth-order (stochastic) gradient descent, Ghadimi and Lan 2013",
    ),
    "zoadamm": Recipe(
        oracle="forward",
        schedule="constant",
        update="adamm",
        about="zeroth-order AdaMM, Chen et al. 2019",
    ),
    "zosvrg": Recipe(
        oracle="variance_reduced",
        schedule="constant",
        update="descent",
        stochastic=True,
        about="zeroth-order variance reduction for finite sums, Liu et al. 2018",
    ),
    "gradopt": Recipe(
        oracle="sampled_gradient",
        schedule="double_loop",
        update="descent",
        about="the double loop homotopy, Algorithm 1",
    ),
    "zogradopt": Recipe(
        oracle="forward",
        schedule="double_loop",
        update="descent",
        about="the double loop homotopy from values of f, Algorithm 1",
    ),
    "gradopt_hazan": Recipe(
        oracle="sphere",
        schedule="double_loop",
        update="harmonic",
        defaults={"gamma": 0.5, "eps0": float("inf"), "n0": 100},
        about="the original GradOpt, Hazan et al. 2016",
    ),
    "slgh_r": Recipe(
        oracle="sampled_gradient",
        schedule="ratio",
        update="descent",
        about="single loop homotopy, t falls by a ratio, Algorithm 2",
    ),
    "slgh_d": Recipe(
        oracle="sampled_gradient",
        schedule="derivative",
        update="descent",
        about="single loop homotopy, t descends along F, Algorithm 2",
    ),
    "zoslgh_r": Recipe(
        oracle="forward",
        schedule="ratio",
        update="descent",
        about="single loop homotopy from values of f, Algorithms 3 and 4",
    ),
    "zoslgh_d": Recipe(
        oracle="forward",
        schedule="derivative",
        update="descent",
        about="single loop homotopy from values of f, t descends along F, Algorithms 3 and 4",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What composing needs to know of the objective."""

    closed_form: bool = False
    gradient: bool = False
    stochastic: bool = False
    terms: int | None = None


def compose(method: str | Method, params: Mapping[str, Any], facts: Facts) -> Method:
    """Turn a name (or a Method), swapped parts and hyperparameters into a bound Method.

    `params` may hold `oracle`, `schedule`, `update` (a name, a class or an instance), `floor` or `noise`, and any
    field of the three parts.
    """
    given = dict(params)
    base: Method | Recipe
    defaults: dict[str, Any]
    if isinstance(method, Method):
        name, base, defaults, reports = method.name, method, {}, method.reports
        floor = method.floor
    else:
        checks.choice("method", method, list(METHODS))
        recipe = METHODS[method]
        if recipe.stochastic and not facts.stochastic:
            raise ValueError(f"`method` {method!r} is for stochastic functions: pass `sample_xi`.")
        name, base, defaults, reports = method, recipe, dict(recipe.defaults), recipe.reports
        floor = None
    parts = {slot: given.pop(slot, getattr(base, slot)) for slot in SLOTS}
    if name == "auto" and "oracle" not in params and (facts.closed_form or facts.gradient):
        parts["oracle"] = "sampled_gradient"
    parts["oracle"] = _exact_where_possible(parts["oracle"], facts)
    classes = {slot: _resolve(slot, part) for slot, part in parts.items()}
    floor = _floor(given, floor)
    values: dict[str, dict[str, Any]] = {}
    for slot, part in classes.items():
        fields = _fields(part)
        own = {n: getattr(part, n) for n in fields} if not isinstance(part, type) else {}
        own |= {n: v for n, v in defaults.items() if n in fields and part is not parts[slot]}
        own |= {n: given[n] for n in fields if n in given}
        if "terms" in fields and own.get("terms") is None:
            own["terms"] = facts.terms
        values[slot] = own
    _refuse_unknown(name, given, classes)
    _refuse_missing(name, classes, values)
    built = {slot: _build(part, values[slot]) for slot, part in classes.items()}
    _refuse_mismatch(name, built["oracle"], facts)
    return Method(
        oracle=built["oracle"],
        schedule=built["schedule"],
        update=built["update"],
        floor=floor,
        reports=reports,
        name=name,
    )


def _exact_where_possible(oracle: Any, facts: Facts) -> Any:
    """A closed form needs no sampling of gradients."""
    if facts.closed_form and oracle == "sampled_gradient":
        return "closed_form"
    return oracle


def _resolve(slot: str, part: Any) -> Any:
    """A name to its class; classes and instances as they are."""
    if isinstance(part, str):
        checks.choice(slot, part, list(SLOTS[slot]))
        return SLOTS[slot][part]
    protocol = {"oracle": Oracle, "schedule": Schedule, "update": Update}[slot]
    if not isinstance(part, type) and not isinstance(part, protocol):
        listed = ", ".join(repr(n) for n in SLOTS[slot])
        raise TypeError(f"`{slot}` must be one of {listed}, or a part of that kind; got {part!r}.")
    return part


def _fields(part: Any) -> list[str]:
    return [f.name for f in dataclasses.fields(part)] if dataclasses.is_dataclass(part) else []


def _floor(given: dict[str, Any], floor: float | None) -> Any:
    """The floor of t, from `floor` or as sqrt(nu) from `noise=nu` (Algorithm 4)."""
    if "noise" not in given:
        return given.pop("floor", floor)
    nu = given.pop("noise")
    if given.pop("floor", None) is not None:
        raise ValueError("`noise` sets the floor of t to sqrt(noise); pass one of `noise` and `floor`.")
    checks.at_least("noise", nu, 0)
    return float(nu) ** 0.5


def _refuse_unknown(name: str, given: Mapping[str, Any], classes: Mapping[str, Any]) -> None:
    known = [n for part in classes.values() for n in _fields(part)]
    unknown = [n for n in given if n not in known]
    if unknown:
        listed = ", ".join([*known, "floor", "noise", *SLOTS])
        raise TypeError(f"`{unknown[0]}` is not a parameter of {name!r}, which takes {listed}.")


def _refuse_missing(name: str, classes: Mapping[str, Any], values: Mapping[str, Mapping[str, Any]]) -> None:
    missing = [
        f.name
        for slot, part in classes.items()
        if dataclasses.is_dataclass(part)
        for f in dataclasses.fields(part)
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING and f.name not in values[slot]
    ]
    if missing:
        raise TypeError(
            f"`{name}` needs {' and '.join(f'`{n}`' for n in missing)}, which have no default because they depend "
            f'on the function. Pass {", ".join(f"{n}=..." for n in missing)}, or method="auto", which needs neither.'
        )


def _build(part: Any, values: Mapping[str, Any]) -> Any:
    return part(**values) if isinstance(part, type) else dataclasses.replace(part, **values) if values else part


def _refuse_mismatch(name: str, oracle: Oracle, facts: Facts) -> None:
    if oracle.name in ("gradient", "sampled_gradient") and not (facts.gradient or facts.closed_form):
        raise ValueError(
            f"`{name}` needs gradients: pass `grad`, or a closed form as `fun`, or take a zeroth-order method."
        )
    if oracle.name == "closed_form" and not facts.closed_form:
        raise ValueError("`oracle` 'closed_form' needs a closed form as `fun`: an object with value, grad, dt, trace.")
    if oracle.name == "variance_reduced" and getattr(oracle, "terms", None) is None:
        raise ValueError(f"`{name}` is for finite sums: pass the number of terms as an integer `sample_xi`.")
