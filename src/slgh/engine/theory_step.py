"""`step="theory"`: the step, the burn-in and the floor of a theorem of the paper."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, NamedTuple

from slgh import checks
from slgh.method import Composition
from slgh.protocols import Oracle, Schedule
from slgh.theory import Plan, plan
from slgh.theory.plan import choose_theorem, tuned_gamma

CONSTANTS = ("L1", "eps", "sigma", "burn_in")
"""Parameters that are only for step="theory"."""

THEORY_NAMES = frozenset({*CONSTANTS, "step", "gamma"})
"""Parameters that `read_theory` reads. Without any of them, the theory is not used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TheoryOptions:
    """Constants of the function that the user passes with step="theory"."""

    L1: float
    eps: float | None = None
    sigma: float | None = None
    burn_in: int | None = None
    nu: float = 0.0
    tuned: bool = False
    """True if the theorem chooses gamma."""

    @property
    def fills(self) -> frozenset[str]:
        """Fields of the parts that the theorem fills in."""
        return frozenset({"step", "gamma"} if self.tuned else {"step"})


class AppliedTheory(NamedTuple):
    """A composition with the theorem's step, and the plan that it comes from."""

    composition: Composition
    plan: Plan

    @property
    def burn_in(self) -> int:
        """Number of first iterations that xhat is not drawn from. 0 if xhat has the smallest gradient norm of all."""
        return self.plan.k0 if self.plan.xhat == "uniform" else 0

    def __str__(self) -> str:
        plan = self.plan
        step = f"step {plan.step:.3g}" if isinstance(plan.step, float) else "the step of Algorithm 4"
        argmin = plan.xhat == "argmin"
        picked = "has the least |grad f|" if argmin else f"is drawn after {plan.k0} of {plan.T} iterations"
        return f"By Theorem {plan.theorem.name}: {step}, xhat {picked}."


class ProvedParts(NamedTuple):
    """The two parts that decide which theorem applies."""

    oracle: Oracle
    schedule: Schedule


def read_theory(params: dict[str, Any], *, stochastic: bool) -> tuple[TheoryOptions | None, dict[str, Any]]:
    """Split the parameters into those of the theory, if it is used, and those of the method's parts."""
    step, gamma = params.get("step"), params.get("gamma")
    implied = "L1" in params and "step" not in params and "update" not in params
    if isinstance(step, str) and step != "theory":
        raise checks.ArgumentValueError(f"`step` must be a number, or 'theory' with `L1=...`; got {step!r}.")
    if step != "theory" and not implied:
        alone = [name for name in CONSTANTS if name in params and not ("update" in params and name == "L1")]
        if gamma == "tuned" or alone:
            name = f"`{alone[0]}`" if alone else "`gamma` 'tuned'"
            raise checks.ArgumentValueError(f"{name} goes with `step='theory'`, the step of a theorem of the paper.")
        return None, params
    if "update" in params:
        raise checks.ArgumentValueError(
            f"`step` 'theory' is for plain descent, the update of the theorems; got {params['update']=}."
        )
    known = {name: params[name] for name in CONSTANTS if name in params}
    if "L1" not in known:
        raise checks.ArgumentValueError(
            "`step` 'theory' needs the smoothness of f: pass `L1=...`, known or from slgh.theory.estimate_smoothness."
        )
    if known.get("burn_in") is not None:
        checks.count("burn_in", known["burn_in"], 0)
    nu = params.get("noise", 0.0)
    checks.at_least("noise", nu, 0)
    rest = {name: value for name, value in params.items() if name not in (*CONSTANTS, "noise", "step")}
    if nu and rest.get("floor") is None:
        rest["floor"] = float(nu) ** 0.5
    if gamma == "tuned":
        if known.get("eps") is None:
            raise checks.ArgumentValueError("`gamma` 'tuned' depends on the gradient norm to reach: pass `eps=...`.")
        del rest["gamma"]
    if stochastic and not known.get("sigma"):
        known["sigma"] = 1.0  # the step depends on whether sigma is 0, not on its size
    return TheoryOptions(nu=nu, tuned=gamma == "tuned", **known), rest


def fill_gamma(composition: Composition, options: TheoryOptions, d: int) -> Composition:
    """Fill in the theorem's gamma if the user has passed gamma="tuned"."""
    if not options.tuned:
        return composition
    parts = ProvedParts(composition.part("oracle"), composition.parts["schedule"])
    theorem = choose_theorem(parts, stochastic=bool(options.sigma), nu=options.nu)
    checks.real("eps", options.eps, above=0)
    assert options.eps is not None
    return composition.fill("schedule", gamma=tuned_gamma(theorem, d, options.eps))


def apply_theory(composition: Composition, options: TheoryOptions, d: int, T: int | None) -> AppliedTheory:
    """Replace the update by descent with the theorem's step, for T iterations in d variables."""
    parts = ProvedParts(composition.part("oracle"), composition.part("schedule"))
    schedule: Any = parts.schedule
    theorem = choose_theorem(parts, stochastic=bool(options.sigma), nu=options.nu)
    if T is None:
        raise checks.ArgumentValueError(
            "`step` 'theory' depends on the number of iterations: pass max_iter or max_evals."
        )
    applied = plan(
        parts,
        L1=options.L1,
        d=d,
        t1=schedule.t1,
        gamma=schedule.gamma,
        eps=options.eps,
        sigma=options.sigma or float(theorem.stochastic),
        nu=options.nu,
        T=max(T, 1),
        floor=composition.floor if options.nu else None,
    )
    if options.burn_in is not None:
        applied = dataclasses.replace(applied, k0=min(options.burn_in, max(T, 1) - 1))
    return AppliedTheory(composition.swap("update", applied.update), applied)
