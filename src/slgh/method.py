"""A method is oracle x schedule x update. METHODS holds the paper's and others, each a composition of parts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from slgh import checks
from slgh.oracles import ORACLES
from slgh.protocols import Oracle, Schedule, Update
from slgh.schedules import SCHEDULES
from slgh.updates import UPDATES

SLOTS: dict[str, dict[str, Any]] = {"oracle": ORACLES, "schedule": SCHEDULES, "update": UPDATES}
PROTOCOLS: dict[str, Any] = {"oracle": Oracle, "schedule": Schedule, "update": Update}


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """Three parts with all their hyperparameters, ready to run.

    Parameters
    ----------
    oracle, schedule, update
        Instances of the parts, yours or those of `slgh.oracles`, `slgh.schedules`, `slgh.updates`.
    floor
        The least t; None is where rounding begins for the dtype and the oracle, and 0 for closed forms.
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
        for slot, protocol in PROTOCOLS.items():
            if not isinstance(part := getattr(self, slot), protocol):
                raise TypeError(f"`{slot}` must be a part, such as slgh.{slot}s.{_example(slot)}; {lack(slot, part)}")
        if self.floor is not None:
            checks.at_least("floor", self.floor, 0)
        checks.choice("reports", self.reports, ("last", "best"))
        missing = self.schedule.needs - self.oracle.provides
        if missing:
            raise ValueError(
                f"`schedule` {self.schedule.name!r} needs {', '.join(sorted(missing))}, which the oracle "
                f"{self.oracle.name!r} does not provide."
            )

    @property
    def planned(self) -> bool:
        """Whether the schedule or the update needs to know the number of iterations, as a field `iterations`."""
        return any(getattr(part, "planned", False) for part in (self.schedule, self.update))

    def over(self, iterations: float) -> Method:
        """The method with the number of iterations where its parts need it."""
        told = {
            slot: dataclasses.replace(part, iterations=iterations)
            for slot in ("schedule", "update")
            if getattr(part := getattr(self, slot), "planned", False)
        }
        return dataclasses.replace(self, **told)


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


HOMOTOPY = Recipe(
    oracle="scaled",
    schedule="budget",
    update="scale_free",
    # Chosen on training functions (benchmarks/coco.py): at large t differences see the basin best, since ripples do not
    # grow with t.
    defaults={"shape": 1.5},
    reports="best",
    about="the homotopy of auto alone: t falls over exactly the budget, the step follows t",
)

SCALE_FREE = ("auto", "scale_free")
"""The methods that leave their parameters to be chosen by the engine."""

METHODS: dict[str, Recipe] = {
    "auto": dataclasses.replace(
        HOMOTOPY, about="needs no tuning: looks at f, then scale-free homotopy and a local solver in turn"
    ),
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
        update="gain",
        about="simultaneous perturbation along random signs, Spall 1992",
    ),
    "openai_es": Recipe(
        oracle="antithetic",
        schedule="constant",
        update="adam",
        defaults={"values": "ranks"},
        about="evolution strategy by ranks of antithetic pairs, Salimans et al. 2017",
    ),
    "power_gs": Recipe(
        oracle="exponential",
        schedule="constant",
        update="normalised",
        defaults={"halving": 1000.0},
        about="power-transformed smoothing, exp(-N f), with normalised steps, Xu 2025",
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


def _example(slot: str) -> str:
    return f"{next(iter(SLOTS[slot].values())).__name__}(...)"


def lack(slot: str, part: Any) -> str:
    """What a would-be part lacks."""
    protocol = PROTOCOLS[slot]
    wanted = {n for n in (*vars(protocol), *protocol.__annotations__) if not n.startswith("_") and not hasattr(part, n)}
    return f"{part!r} has no {', '.join(sorted(wanted))}. See slgh.protocols.{protocol.__name__}."
