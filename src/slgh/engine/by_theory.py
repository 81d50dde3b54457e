"""`step="theory"`: the step, the burn-in and the floor that a theorem of the paper is proved with."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from slgh.method import Method
from slgh.theory import Plan, plan
from slgh.theory.plan import choose, tuned_gamma
from slgh.updates import Descent, Tolerant

CONSTANTS = ("L0", "L1", "eps", "sigma")
"""What is known of the function, for the theorem; `noise` is nu."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the user said of the function when asking for the theory's step."""

    L1: float
    L0: float | None = None
    eps: float | None = None
    sigma: float | None = None
    nu: float = 0.0


def read_request(method: str | Method, params: dict[str, Any], d: int, *, stochastic: bool) -> Request | None:
    """The request, if there is one; `params` is left with what composing needs, a step to be replaced among it."""
    implied = "L1" in params and "step" not in params and "update" not in params
    if params.get("step") != "theory" and not implied:
        if params.get("gamma") == "tuned":
            raise ValueError("`gamma` 'tuned' is a theorem's: pass step='theory' and L1=..., eps=...")
        return None
    if "update" in params:
        raise ValueError(f"`step` 'theory' is for plain descent, the update of the theorems; got {params['update']=}.")
    known = {name: params.pop(name) for name in CONSTANTS if name in params}
    if "L1" not in known:
        raise ValueError(
            "`step` 'theory' needs the smoothness of f: pass L1=..., known or from slgh.theory.estimate_smoothness."
        )
    if stochastic and not known.get("sigma"):
        known["sigma"] = 1.0  # which of the theorems' steps is taken depends on whether it is 0, not on how large it is
    request = Request(nu=params.get("noise", 0.0), **known)
    params["step"] = 1.0
    if params.get("gamma") == "tuned":
        if request.eps is None:
            raise ValueError("`gamma` 'tuned' depends on the gradient norm to reach: pass eps=...")
        params["gamma"] = tuned_gamma(method, d=d, eps=request.eps, stochastic=stochastic, nu=request.nu)
    return request


def apply_theory(method: Method, request: Request, d: int, T: int | None) -> tuple[Method, Plan]:
    """The method with the theorem's step, and the plan it is of."""
    choose(method, stochastic=bool(request.sigma), nu=request.nu)
    if T is None:
        raise ValueError("`step` 'theory' depends on the number of iterations: pass max_iter or max_evals.")
    schedule: Any = method.schedule
    applied = plan(
        method,
        L1=request.L1,
        L0=request.L0,
        d=d,
        t1=schedule.t1,
        gamma=schedule.gamma,
        eps=request.eps,
        sigma=request.sigma or 0.0,
        nu=request.nu,
        T=T,
    )
    update = applied.parameters.get("update") or Descent(step=applied.parameters["step"])
    return dataclasses.replace(method, update=update), applied


def describe_plan(applied: Plan) -> str:
    """One sentence on what was applied."""
    update: Descent | Tolerant = applied.parameters.get("update") or Descent(step=applied.parameters["step"])
    step = f"step {update.step:.3g}" if isinstance(update, Descent) else "the step of Algorithm 4"
    return f"By Theorem {applied.theorem.name}: {step}, xhat picked after {applied.k0} of {applied.T} iterations."
