"""Composing: a name, swapped parts and hyperparameters become a bound Method."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slgh import checks
from slgh.method import METHODS, PROTOCOLS, SCALE_FREE, SLOTS, Method, Recipe, lack

FRONT_DOOR = (
    *("method", "grad", "args", "data", "sample_xi", "bounds", "vectorized", "batched", "max_evals", "max_iter"),
    *("max_seconds", "target", "seed", "workers", "callback", "progress", "history", "on_nonfinite", "checkpoint"),
    *("watch", "at_once", "compiled", "tf32"),
)
"""The arguments of `minimize` that are no hyperparameters, for hints."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What composing needs to know of the objective."""

    closed_form: bool = False
    gradient: bool = False
    differentiable: bool = False
    """Whether there are gradients by automatic differentiation, should the method need them."""
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
    swapped = {slot: given.pop(slot) for slot in SLOTS if slot in given}
    parts = {slot: swapped.get(slot, getattr(base, slot)) for slot in SLOTS}
    if name in SCALE_FREE and "oracle" not in swapped and (facts.closed_form or facts.gradient):
        parts["oracle"] = "sampled_gradient"
    if facts.closed_form and parts["oracle"] == "sampled_gradient":
        parts["oracle"] = "closed_form"
    classes = {slot: _resolve(slot, part) for slot, part in parts.items()}
    floor = _floor(given, floor)
    values: dict[str, dict[str, Any]] = {}
    for slot, part in classes.items():
        fields = _fields(part)
        own = {} if isinstance(part, type) else {n: getattr(part, n) for n in fields}
        own |= {n: v for n, v in defaults.items() if n in fields and slot not in swapped}
        own |= {n: given[n] for n in fields if n in given}
        if "terms" in fields:
            own["terms"] = facts.terms
        values[slot] = {n: checks.plain(v) for n, v in own.items()}
    _refuse_unknown(name, given, classes)
    _refuse_missing(name, classes, values)
    built = {slot: _build(part, values[slot]) for slot, part in classes.items()}
    bound = Method(**built, floor=checks.plain(floor), reports=reports, name=name)
    _refuse_mismatch(bound, facts)
    return bound


def _resolve(slot: str, part: Any) -> Any:
    """A name to its class; classes and instances as they are."""
    if isinstance(part, str):
        checks.choice(slot, part, list(SLOTS[slot]))
        return SLOTS[slot][part]
    if not isinstance(part, type) and not isinstance(part, PROTOCOLS[slot]):
        raise TypeError(
            f"`{slot}` must be one of {', '.join(map(repr, SLOTS[slot]))}, or a part of your own; {lack(slot, part)}"
        )
    return part


def _fields(part: Any) -> list[str]:
    return [f.name for f in dataclasses.fields(part) if f.init] if dataclasses.is_dataclass(part) else []


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
    known = [n for part in classes.values() for n in _fields(part)] + ["floor", "noise", *SLOTS]
    unknown = [n for n in given if n not in known]
    if unknown:
        hint = checks.did_you_mean(unknown[0], [*known, *FRONT_DOOR])
        raise TypeError(f"`{unknown[0]}` is not a parameter of {name!r}, which takes {', '.join(known)}.{hint}")


class MissingParameters(TypeError):
    """A method was not given what has no default."""


def _refuse_missing(name: str, classes: Mapping[str, Any], values: Mapping[str, Mapping[str, Any]]) -> None:
    missing = [
        f.name
        for slot, part in classes.items()
        if dataclasses.is_dataclass(part)
        for f in dataclasses.fields(part)
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING and f.name not in values[slot]
    ]
    if missing:
        raise MissingParameters(
            f"`{name}` needs {' and '.join(f'`{n}`' for n in missing)}, without a default because the right value "
            f"depends on the function. Pass {', '.join(f'{n}=...' for n in missing)}" + _instead(name, missing)
        )


def _instead(name: str, missing: list[str]) -> str:
    """What may be done instead of passing a parameter."""
    if name == "auto":
        return "."
    theory = ' (or step="theory" with L1=..., how smooth f is)' if missing[-1:] == ["step"] else ""
    return f'{theory}, or method="auto", which needs no tuning.'


def _build(part: Any, values: Mapping[str, Any]) -> Any:
    return part(**values) if isinstance(part, type) else dataclasses.replace(part, **values) if values else part


def _refuse_mismatch(method: Method, facts: Facts) -> None:
    name, oracle, schedule = method.name, method.oracle, method.schedule
    if oracle.asks == "gradients" and not (facts.gradient or facts.closed_form or facts.differentiable):
        raise ValueError(
            f"`{name}` needs gradients: pass `grad` (an Optimizer: gradients=True) or a closed form as `fun`, or "
            "take a zeroth-order method."
        )
    if oracle.asks == "closed form" and not facts.closed_form:
        raise ValueError("`oracle` 'closed_form' needs a closed form as `fun`: an object with value, grad, dt, trace.")
    if oracle.name == "variance_reduced" and getattr(oracle, "terms", None) is None:
        raise ValueError(f"`{name}` is for finite sums: pass the number of terms as an integer `sample_xi`.")
    if "F_next" in schedule.needs and facts.stochastic:
        raise ValueError(
            "`rule` 'F' compares values of F at one t, which a stochastic closed form has not: take rule='f'."
        )
    if oracle.rounding is not None and oracle.rounding < 1:
        if schedule.t1 == 0:
            raise ValueError(f"`t1` must be above 0 for {name!r}, whose oracle divides by t; got t1=0.")
        if method.floor == 0 and schedule.needs & {"trace", "slope"}:
            raise ValueError(
                f"`floor` must be above 0 for {name!r}, the paper's eps': t may fall to it at once; got floor=0."
            )
