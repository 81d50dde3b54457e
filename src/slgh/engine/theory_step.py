"""`step="theory"`: the step, the burn-in and the floor that a theorem of the paper is proved with."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from slgh import checks
from slgh.method import Method
from slgh.theory import Plan, plan
from slgh.theory.plan import choose

CONSTANTS = ("L1", "eps", "sigma", "burn_in")
"""What goes with step="theory", and with it alone; `noise` is nu."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the user said of the function when asking for the theory's step."""

    L1: float
    eps: float | None = None
    sigma: float | None = None
    burn_in: int | None = None
    nu: float = 0.0
    tuned: bool = False
    """Whether gamma is to be the theorem's."""


def read_request(params: dict[str, Any], *, stochastic: bool) -> Request | None:
    """The request, if there is one; `params` is left with what composing needs, a step to be replaced among it."""
    step, gamma = params.get("step"), params.get("gamma")
    implied = "L1" in params and "step" not in params and "update" not in params
    if isinstance(step, str) and step != "theory":
        raise ValueError(f"`step` must be a number, or 'theory' with L1=...; got step={step!r}.")
    if step != "theory" and not implied:
        alone = [name for name in CONSTANTS if name in params and not ("update" in params and name == "L1")]
        if gamma == "tuned" or alone:
            name = f"`{alone[0]}`" if alone else "`gamma` 'tuned'"
            raise ValueError(f"{name} goes with step='theory', the step of a theorem of the paper.")
        return None
    if "update" in params:
        raise ValueError(f"`step` 'theory' is for plain descent, the update of the theorems; got {params['update']=}.")
    known = {name: params.pop(name) for name in CONSTANTS if name in params}
    if "L1" not in known:
        raise ValueError(
            "`step` 'theory' needs the smoothness of f: pass L1=..., known or from slgh.theory.estimate_smoothness."
        )
    if known.get("burn_in") is not None:
        checks.count("burn_in", known["burn_in"], 0)
    nu = params.pop("noise", 0.0)
    checks.at_least("noise", nu, 0)
    if nu and params.get("floor") is None:
        params["floor"] = float(nu) ** 0.5
    params["step"] = 1.0
    if gamma == "tuned":
        if known.get("eps") is None:
            raise ValueError("`gamma` 'tuned' depends on the gradient norm to reach: pass eps=...")
        params["gamma"] = 0.5  # to be replaced, once it is known which theorem applies
    if stochastic and not known.get("sigma"):
        known["sigma"] = 1.0  # which of the theorems' steps is taken depends on whether it is 0, not on how large it is
    return Request(nu=nu, tuned=gamma == "tuned", **known)


def apply_theory(method: Method, request: Request, d: int, T: int | None) -> tuple[Method, Plan]:
    """The method with the theorem's step, and the plan it is of."""
    theorem = choose(method, stochastic=bool(request.sigma), nu=request.nu)
    if T is None:
        raise ValueError("`step` 'theory' depends on the number of iterations: pass max_iter or max_evals.")
    schedule: Any = method.schedule
    applied = plan(
        method,
        L1=request.L1,
        d=d,
        t1=schedule.t1,
        gamma=None if request.tuned else schedule.gamma,
        eps=request.eps,
        sigma=request.sigma or float(theorem.stochastic),
        nu=request.nu,
        T=max(T, 1),
        floor=method.floor if request.nu else None,
    )
    if request.burn_in is not None:
        applied = dataclasses.replace(applied, k0=min(request.burn_in, max(T, 1) - 1))
    schedule = dataclasses.replace(schedule, gamma=applied.gamma)
    return dataclasses.replace(method, update=applied.update, schedule=schedule), applied


def burn_in(applied: Plan | None) -> int:
    """How many iterations xhat is not drawn from: none where it is the best of all."""
    return applied.k0 if applied and applied.xhat == "uniform" else 0


def describe_plan(applied: Plan) -> str:
    """One sentence on what was applied."""
    step = f"step {applied.step:.3g}" if isinstance(applied.step, float) else "the step of Algorithm 4"
    argmin = applied.xhat == "argmin"
    picked = "has the least |grad f|" if argmin else f"is drawn after {applied.k0} of {applied.T} iterations"
    return f"By Theorem {applied.theorem.name}: {step}, xhat {picked}."
