"""Methods: an oracle, a schedule and an update each. METHODS lists those that have a name, `compose` builds them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from slgh import checks
from slgh.oracles import ORACLES
from slgh.protocols import Oracle, Schedule, Update
from slgh.schedules import SCHEDULES
from slgh.updates import UPDATES

SLOTS: dict[str, dict[str, Any]] = {"oracle": ORACLES, "schedule": SCHEDULES, "update": UPDATES}
"""Slots of a method for its three parts, with the classes that have a name."""

PROTOCOLS: dict[str, Any] = {"oracle": Oracle, "schedule": Schedule, "update": Update}


def _is_planned(part: Any) -> bool:
    """Return True if a part has a field `iterations`, the planned number. An update need not declare `planned`."""
    return bool(getattr(part, "planned", False))


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """Oracle, schedule and update with all their hyperparameters, ready to run.

    Parameters
    ----------
    oracle, schedule, update
        Instances of the parts, your own or those of `slgh.oracles`, `slgh.schedules`, `slgh.updates`.
    floor
        Smallest t. If None, the default, it is the t below which the oracle's differences are rounding errors of the
        dtype, and 0 for closed forms.
    reports
        The point that is the solution: "last", the default, for the last iterate, or "best" for the best evaluated one.
    name
        Name in results and messages, "custom" by default.
    """

    oracle: Oracle
    schedule: Schedule
    update: Update
    floor: float | None = None
    reports: str = "last"
    name: str = "custom"

    def __post_init__(self) -> None:
        for slot, protocol in PROTOCOLS.items():
            if not isinstance(part := getattr(self, slot), protocol):
                raise checks.ArgumentTypeError(
                    f"`{slot}` must be a part, such as slgh.{slot}s.{_example(slot)}; {lack(slot, part)}"
                )
        if self.floor is not None:
            checks.at_least("floor", self.floor, 0)
        checks.choice("reports", self.reports, ("last", "best"))
        missing = self.schedule.needs - self.oracle.provides
        if missing:
            raise checks.ArgumentValueError(
                f"`schedule` {self.schedule.name!r} needs {', '.join(sorted(missing))}, which the oracle "
                f"{self.oracle.name!r} does not provide."
            )

    @property
    def planned(self) -> bool:
        """True if the schedule or the update needs to know the number of iterations, as a field `iterations`."""
        return _is_planned(self.schedule) or _is_planned(self.update)

    def over(self, iterations: float) -> Method:
        """Return the method for this number of iterations. Only planned parts depend on it."""
        planned = {
            slot: dataclasses.replace(part, iterations=iterations)
            for slot in ("schedule", "update")
            if _is_planned(part := getattr(self, slot))
        }
        return dataclasses.replace(self, **planned)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A method that has a name: the names of its parts, defaults of their fields, and a description."""

    oracle: str
    schedule: str
    update: str
    about: str
    defaults: Mapping[str, Any] = field(default_factory=dict)
    reports: str = "last"
    stochastic: bool = False
    """True if the method needs sample_xi."""


HOMOTOPY = Recipe(
    oracle="diagonal_scaling",
    schedule="budget",
    update="scale_free",
    # Chosen on training functions (benchmarks/coco.py). Differences show the basin best at large t, since ripples do
    # not grow with t.
    defaults={"shape": 1.5},
    reports="best",
    about="the homotopy of auto alone: t falls over exactly the budget",
)

SCALE_FREE = ("auto", "scale_free")
"""Methods whose parameters have defaults that depend on the problem: see `slgh.auto.defaults`."""

METHODS: dict[str, Recipe] = {
    "auto": dataclasses.replace(HOMOTOPY, about="needs no tuning: scale-free homotopy and local search in turn"),
    "scale_free": HOMOTOPY,
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
    "spsa": Recipe(
        oracle="rademacher",
        schedule="power_law",
        update="spsa_gain",
        about="simultaneous perturbation along random signs, Spall 1992",
    ),
    "openai_es": Recipe(
        oracle="antithetic",
        schedule="constant",
        update="adam",
        defaults={"values": "ranks"},
        about="evolution strategy with ranked values, Salimans et al. 2017",
    ),
    "power_gs": Recipe(
        oracle="exponential",
        schedule="constant",
        update="normalized",
        defaults={"halving": 1000.0},
        about="smoothing of exp(-N f) with normalized steps, Xu 2025",
    ),
    "power_hp": Recipe(
        oracle="progressive_gradient",
        schedule="ratio",
        update="descent",
        about="power homotopy: in exp(-N f), N grows as t falls, Xu 2026",
    ),
    "zopower_hp": Recipe(
        oracle="progressive_exponential",
        schedule="ratio",
        update="scale_free",
        about="zeroth-order power_hp, with steps proportional to t",
    ),
    "dgs": Recipe(
        oracle="directional",
        schedule="ratio",
        update="descent",
        about="quadrature along orthogonal directions, Zhang et al. 2021",
    ),
    "adadgs": Recipe(
        oracle="directional_search",
        schedule="follow_step",
        update="descent",
        defaults={"step": 1.0},
        about="dgs with a line search, which also sets t, Tran and Zhang 2020",
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
        about="zeroth-order slgh_r, Algorithms 3 and 4",
    ),
    "zoslgh_d": Recipe(
        oracle="forward",
        schedule="derivative",
        update="descent",
        about="zeroth-order slgh_d, Algorithms 3 and 4",
    ),
}


def _example(slot: str) -> str:
    """Return how to make a part, for errors."""
    return f"{next(iter(SLOTS[slot].values())).__name__}(...)"


def lack(slot: str, part: Any) -> str:
    """Say which attributes an object lacks to be a part, for errors."""
    protocol = PROTOCOLS[slot]
    wanted = {n for n in (*vars(protocol), *protocol.__annotations__) if not n.startswith("_") and not hasattr(part, n)}
    return f"{part!r} has no {', '.join(sorted(wanted))}. See slgh.protocols.{protocol.__name__}."


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectiveTraits:
    """Properties of the objective that decide how a method is composed."""

    closed_form: bool = False
    gradient: bool = False
    """True if the user gives gradients."""
    differentiable: bool = False
    """True if gradients can be computed by automatic differentiation."""
    stochastic: bool = False
    terms: int | None = None
    """Number of terms of a finite sum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Composition:
    """A method before its parts are built: classes or instances by slot, and the values of their fields."""

    name: str
    reports: str
    floor: Any
    parts: Mapping[str, Any]
    values: Mapping[str, Mapping[str, Any]]
    given: frozenset[str]
    """Names that the user has set: slots and fields."""

    @property
    def planned(self) -> bool:
        """True if the schedule or the update needs to know the number of iterations, as a field `iterations`."""
        return any(map(_is_planned, self.parts.values()))

    def fill(self, slot: str, **values: Any) -> Composition:
        """Set fields of one part."""
        return dataclasses.replace(self, values={**self.values, slot: {**self.values[slot], **values}})

    def swap(self, slot: str, part: Any) -> Composition:
        """Replace one part by a complete instance."""
        return dataclasses.replace(self, parts={**self.parts, slot: part}, values={**self.values, slot: {}})

    def over(self, iterations: float) -> Composition:
        """Fill in the number of iterations. Only planned parts depend on it."""
        filled = self
        for slot, part in self.parts.items():
            if _is_planned(part):
                filled = filled.fill(slot, iterations=iterations)
        return filled

    def part(self, slot: str) -> Any:
        """Build the part of a slot: "oracle", "schedule" or "update"."""
        part, values = self.parts[slot], self.values[slot]
        return part(**values) if isinstance(part, type) else dataclasses.replace(part, **values) if values else part

    def build(self) -> Method:
        """Build the method."""
        return Method(
            oracle=self.part("oracle"),
            schedule=self.part("schedule"),
            update=self.part("update"),
            floor=self.floor,
            reports=self.reports,
            name=self.name,
        )

    def require_complete(self, *, later: frozenset[str] = frozenset()) -> None:
        """Raise if a field without a default has no value. Those in `later` may be filled in later."""
        missing = [
            f.name
            for slot, part in self.parts.items()
            if dataclasses.is_dataclass(part)
            for f in dataclasses.fields(part)
            if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
            if f.name not in self.values[slot] and f.name not in later and isinstance(part, type)
        ]
        if missing:
            raise MissingParameters(
                f"`{self.name}` needs {' and '.join(f'`{n}`' for n in missing)}, without a default because the right "
                f"value depends on the function. Pass {', '.join(f'`{n}=...`' for n in missing)}"
                + _instead(self.name, missing)
            )


def read_composition(
    method: str | Method, params: Mapping[str, Any], traits: ObjectiveTraits, arguments: Iterable[str] = ()
) -> Composition:
    """Read a name (or a Method), replacements of parts and hyperparameters.

    `params` may have `oracle`, `schedule`, `update` (a name, a class or an instance), `floor` or `noise`, and any
    field of the three parts. `arguments` are further names, for hints on misspelled ones.
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
        if recipe.stochastic and not traits.stochastic:
            raise checks.ArgumentValueError(f"`method` {method!r} is for stochastic functions: pass `sample_xi`.")
        name, base, defaults, reports = method, recipe, dict(recipe.defaults), recipe.reports
        floor = None
    swapped = {slot: given.pop(slot) for slot in SLOTS if slot in given}
    parts = {slot: swapped.get(slot, getattr(base, slot)) for slot in SLOTS}
    if name in SCALE_FREE and "oracle" not in swapped and (traits.closed_form or traits.gradient):
        parts["oracle"] = "sampled_gradient"
    if traits.closed_form and parts["oracle"] == "sampled_gradient":
        parts["oracle"] = "closed_form"
    parts = {slot: _resolve(slot, part) for slot, part in parts.items()}
    floor = _floor(given, floor)
    values: dict[str, dict[str, Any]] = {}
    for slot, part in parts.items():
        fields = _fields(part)
        own = {} if isinstance(part, type) else {n: getattr(part, n) for n in fields}
        own |= {n: v for n, v in defaults.items() if n in fields and slot not in swapped}
        own |= {n: given[n] for n in fields if n in given}
        if "terms" in fields:
            own["terms"] = traits.terms
        values[slot] = {n: checks.plain(v) for n, v in own.items()}
    _refuse_unknown(name, given, parts, arguments)
    return Composition(
        name=name,
        reports=reports,
        floor=checks.plain(floor),
        parts=parts,
        values=values,
        given=frozenset(params),
    )


def compose(method: str | Method, params: Mapping[str, Any], traits: ObjectiveTraits) -> Method:
    """Build a method from a name (or a Method), replacements of parts and hyperparameters."""
    composition = read_composition(method, params, traits)
    composition.require_complete()
    built = composition.build()
    refuse_mismatch(built.name, built.oracle, built.schedule, built.floor, traits)
    return built


def _resolve(slot: str, part: Any) -> Any:
    """Return the class of a name. Classes and instances are returned unchanged."""
    if isinstance(part, str):
        checks.choice(slot, part, list(SLOTS[slot]))
        return SLOTS[slot][part]
    if not isinstance(part, type) and not isinstance(part, PROTOCOLS[slot]):
        raise checks.ArgumentTypeError(
            f"`{slot}` must be one of {', '.join(map(repr, SLOTS[slot]))}, or a part of your own; {lack(slot, part)}"
        )
    return part


def _fields(part: Any) -> list[str]:
    """Return the names of a part's hyperparameters."""
    return [f.name for f in dataclasses.fields(part) if f.init] if dataclasses.is_dataclass(part) else []


def _floor(given: dict[str, Any], floor: float | None) -> Any:
    """Remove `floor` and `noise` from the parameters, and return the floor of t. noise=nu is sqrt(nu) (Algorithm 4)."""
    if "noise" not in given:
        return given.pop("floor", floor)
    nu = given.pop("noise")
    if given.pop("floor", None) is not None:
        raise checks.ArgumentValueError("`noise` sets the floor of t to sqrt(noise); pass one of `noise` and `floor`.")
    checks.at_least("noise", nu, 0)
    return float(nu) ** 0.5


def _refuse_unknown(name: str, given: Mapping[str, Any], parts: Mapping[str, Any], arguments: Iterable[str]) -> None:
    """Raise TypeError for a parameter that no part has."""
    known = [n for part in parts.values() for n in _fields(part)] + ["floor", "noise", *SLOTS]
    unknown = [n for n in given if n not in known]
    if unknown:
        hint = checks.did_you_mean(unknown[0], [*known, *arguments])
        raise checks.ArgumentTypeError(
            f"`{unknown[0]}` is not a parameter of {name!r}, which takes {', '.join(known)}.{hint}"
        )


class MissingParameters(checks.ArgumentTypeError):
    """A parameter without a default is missing."""


def _instead(name: str, missing: list[str]) -> str:
    """Return the end of the error on missing parameters: what to do instead of passing them."""
    if name == "auto":
        return "."
    theory = ' (or `step="theory"` with `L1=...`, how smooth f is)' if missing[-1:] == ["step"] else ""
    return f'{theory}, or `method="auto"`, which needs no tuning.'


def refuse_mismatch(
    name: str, oracle: Oracle, schedule: Schedule, floor: float | None, traits: ObjectiveTraits
) -> None:
    """Raise if the parts do not fit the objective."""
    if oracle.asks == "gradients" and not (traits.gradient or traits.closed_form or traits.differentiable):
        raise checks.ArgumentValueError(
            f"`{name}` needs gradients: pass `grad` (an Optimizer: gradients=True) or a closed form as `fun`, or "
            "take a zeroth-order method."
        )
    if oracle.asks == "closed form" and not traits.closed_form:
        raise checks.ArgumentValueError(
            "`oracle` 'closed_form' needs a closed form as `fun`: an object with value, grad, dt, trace."
        )
    if oracle.name == "variance_reduced" and getattr(oracle, "terms", None) is None:
        raise checks.ArgumentValueError(
            f"`{name}` is for finite sums: pass the number of terms as an integer `sample_xi`."
        )
    if "F_next" in schedule.needs and traits.stochastic:
        raise checks.ArgumentValueError(
            "`rule` 'F' compares values of F at one t, which a stochastic closed form has not: take `rule='f'`."
        )
    if oracle.rounding is not None and oracle.rounding < 1:
        if schedule.t1 == 0:
            raise checks.ArgumentValueError(f"`t1` must be above 0 for {name!r}, whose oracle divides by t; got t1=0.")
        if floor == 0 and schedule.needs & {"trace", "slope"}:
            raise checks.ArgumentValueError(
                f"`floor` must be above 0 for {name!r}, the paper's eps': t may fall to it at once; got floor=0."
            )
