r"""A theorem applied to a function: step size, burn-in, gamma and length of a run, and the resulting bound."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from slgh import checks
from slgh.method import METHODS
from slgh.oracles import ORACLES
from slgh.protocols import Oracle, Schedule
from slgh.theory.bound import least_T, planned_bound, run_bound
from slgh.theory.theorems import THEOREMS, Constants, Theorem, TheoremC1
from slgh.updates import Descent, NoiseAware

ROUNDING = 2.0**-26
"""Floor of t relative to t1 for Theorems 4.1 and 4.2: below it, a difference of values is rounding (float64)."""

GAMMA_BAR = 0.999
"""Largest gamma that `plan` chooses: the paper assumes throughout that gamma is bounded away from 1."""

UNPROVED_ORACLES = (
    *("variance_reduced", "rademacher", "exponential", "progressive_exponential", "progressive_gradient"),
    *("coarse_to_fine", "directional", "directional_search"),
)
"""Oracles to which no theorem applies."""

MIN_EPS = 1e-50
"""Smallest eps, also used if none is given. k1 then exceeds any T, so that k0 is k2, or half of T."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A theorem with all parameters of a run to which it applies. Created by `plan`.

    Attributes
    ----------
    theorem, constants, method
        The theorem, the constants of the function, and the method.
    gamma, k0, T
        Factor of t, burn-in, and number of iterations.
    eps
        Gradient norm for which T was chosen, or None.
    """

    theorem: Theorem
    constants: Constants
    method: str | HasParts
    gamma: float
    k0: int
    T: int
    eps: float | None = None

    @property
    def floor(self) -> float:
        """Smallest t."""
        return self.constants.floor

    @property
    def xhat(self) -> str:
        """Rule that selects the theorem's point: "argmin" of the gradient norm, or "uniform" over k0+1..T."""
        return self.theorem.xhat

    @property
    def step(self) -> float | Callable[[Any], Any]:
        """Step size beta. For Theorems C.1 and C.2 it is a function of t."""
        if self.constants.nu:
            return lambda t: self.theorem.step(self.constants, self.T - self.k0, t)
        return float(self.theorem.step(self.constants, self.T - self.k0, self.constants.t1))

    @property
    def parameters(self) -> dict[str, Any]:
        """Arguments of `slgh.minimize` besides fun and x0. Methods that follow the slope in t also need `eta`."""
        c = self.constants
        known = {"eps": self.eps, "sigma": c.sigma or None, "noise": c.nu or None}
        return {
            "method": self.method,
            "t1": c.t1,
            "gamma": self.gamma,
            "floor": c.floor,
            "max_iter": self.T,
            "step": "theory",
            "L1": c.L1,
            "burn_in": self.k0,
            **{name: value for name, value in known.items() if value is not None},
        }

    @property
    def update(self) -> Descent | NoiseAware:
        """The update with the step size of the theorem."""
        c = self.constants
        if not c.nu:
            assert isinstance(self.step, float)
            return Descent(step=self.step)
        cap = ((self.T - self.k0) * (c.d + 4)) ** -0.5 if self.theorem.stochastic else None
        return NoiseAware(L1=c.L1, nu=c.nu, cap=cap)

    def __str__(self) -> str:
        step = f"step {self.step:.3g}" if isinstance(self.step, float) else "the step of Algorithm 4"
        picked = (
            "the iterate with the smallest |grad f|" if self.xhat == "argmin" else f"drawn after {self.k0} iterations"
        )
        known = not math.isinf(self.constants.L0) and not math.isinf(min(self.constants.gap, self.constants.span))
        bound = f" Mean |grad f|^2 after the burn-in is at most {self.bound():.3g}." if known else ""
        return (
            f"Theorem {self.theorem.name} ({self.theorem.about}): {step}, gamma = {self.gamma:.4g}, t from "
            f"{self.constants.t1:g} to {max(self.floor, self.constants.t1 * self.gamma**self.T):.2g} in {self.T} "
            f"iterations, xhat is {picked}.{bound}"
        )

    def bound(self, t: Any = None, *, weighted: bool = False, printed: bool = False) -> float:
        """Return the bound on the mean of E|grad f(x_k)|^2 over k = k0+1..T, and thus on its minimum.

        Parameters
        ----------
        t
            The radii t_1..t_{T+1} of a run with the planned step, (T + 1,) or (T + 1, B), for a bound on that run. T
            may differ from the planned one. None: a bound on any run of the planned length.
        weighted
            Bound the mean weighted by the steps of Theorems C.1 and C.2, instead of the plain one.
        printed
            Add 2 nu in every iteration, as the proofs of Theorems C.1 and C.2 do.
        """
        c, theorem, k0 = self.constants, self.theorem, self.k0
        missing = [n for n, v in (("L0", c.L0), ("gap", min(c.gap, c.span))) if math.isinf(v)]
        if missing:
            raise checks.ArgumentValueError(
                f"`{missing[0]}` must be known for a bound: pass {missing[0]}=... to `plan`."
            )
        if t is None:
            return planned_bound(theorem, c, self.gamma, k0, self.T)
        radii = np.asarray(t, float)
        if k0 >= len(radii) - 1:
            raise checks.ArgumentValueError(f"`t` must hold t_1..t_(T+1) with T > k0 = {k0}, got {len(radii)} radii.")
        radii = radii.reshape(len(radii), -1)
        return run_bound(theorem, c, self.T - k0, k0, radii, weighted=weighted, printed=printed)


class HasParts(Protocol):
    """The parts of a method that decide which theorem applies."""

    @property
    def oracle(self) -> Oracle: ...
    @property
    def schedule(self) -> Schedule: ...


def choose_theorem(method: str | HasParts, *, stochastic: bool, nu: float) -> Theorem:
    """Return the theorem for a method: by its oracle, by whether f is stochastic, and by the error nu of its values.

    Gradients of f at x + t u count as stochastic gradients of F.
    """
    names = [
        name
        for name, recipe in METHODS.items()
        if recipe.schedule in ("ratio", "derivative") and recipe.oracle not in UNPROVED_ORACLES
    ]
    if not isinstance(method, str):
        asks, schedule = method.oracle.asks, method.schedule.name
        stochastic = stochastic or samples_gradients(method)
        if schedule not in ("ratio", "derivative"):
            raise checks.ArgumentValueError(
                f"`method` must decrease t as {', '.join(names)} do, got the schedule {schedule!r}."
            )
        unproved = method.oracle.name in UNPROVED_ORACLES or getattr(method.oracle, "values", "raw") != "raw"
        if unproved or (nu and method.oracle.name == "sphere"):
            where = " where values have an error" if nu else ""
            raise checks.ArgumentValueError(
                f"`oracle` must be one that the theorems are proved for{where}, with Gaussian directions, "
                f"unchanged values and no memory, got {method.oracle!r}."
            )
    else:
        checks.choice("method", method, names)
        asks = ORACLES[METHODS[method].oracle].asks
    order = "zeroth" if asks == "values" else "first"
    if nu and order == "first":
        raise checks.ArgumentValueError(
            f"`nu` must be 0 for methods that use gradients, since an error of f does not bound theirs, got {nu=}."
        )
    found = {(t.order, t.stochastic, isinstance(t, TheoremC1)): t for t in THEOREMS.values()}
    return found[order, stochastic, nu > 0]


def tuned_gamma(theorem: Theorem, d: int, eps: float) -> float:
    """Return the gamma of the theorem for the gradient norm `eps`."""
    if eps < MIN_EPS:
        raise checks.ArgumentValueError(f"`eps` must be at least {MIN_EPS:g}, got eps={eps:g}.")
    return min(theorem.tuned(d, eps), GAMMA_BAR)


def samples_gradients(method: str | HasParts) -> bool:
    """Return True if the method uses gradients of f at x + t u as estimates of those of F."""
    return not isinstance(method, str) and method.oracle.asks == "gradients" and not method.oracle.exact


def plan(
    method: str | HasParts,
    *,
    L1: float,
    d: int,
    t1: float,
    L0: float | None = None,
    eps: float | None = None,
    gamma: float | None = None,
    sigma: float = 0.0,
    nu: float = 0.0,
    gap: float | None = None,
    span: float | None = None,
    T: int | None = None,
    floor: float | None = None,
) -> Plan:
    r"""Plan a run for which a theorem of the paper bounds the gradient: step size, burn-in and length.

    Parameters
    ----------
    method
        "slgh_r", "slgh_d" (Theorems 3.4 and 3.5), "zoslgh_r", "zoslgh_d" (4.1, 4.2, C.1 and C.2), or a Method of their
        kind. The first-order theorems are about the gradient of F itself, from a closed form. Gradients of f at
        x + t u are stochastic ones: for a Method that samples them, :math:`\min(L_0^2, d L_1^2 t_1^2)` is added to
        :math:`\sigma^2`. The bounds are for one sample per iteration, and hold for more.
    L1, L0
        f is L1-smooth and L0-Lipschitz; `estimate_smoothness` estimates them. L0 is needed for bounds.
    d, t1
        The number of variables and the first smoothing radius.
    eps
        The gradient norm to reach: T is the least that the theorem allows.
    gamma
        The factor by which t falls. None: the tuned one of the theorem, which needs `eps`, at most 0.999. (The tuned
        one tends to 1 as eps falls, and the paper assumes that 1/(1 - gamma), which enters the bound, is O(1).)
    sigma
        Above 0 for a stochastic f: :math:`E|\nabla \bar f - \nabla f|^2 \le \sigma^2`.
    nu
        Above 0 if the values of f are known only up to that error.
    gap, span
        :math:`f(x_1) - f^*`, and an upper bound of :math:`f(x) - f^*` for all x; one of them is needed for bounds.
    T
        The number of iterations, instead of the least. The burn-in is then at most half of it.
    floor
        The least t. None: 0 with gradients, t1 times 2^-26 with values, :math:`\sqrt\nu` with an error.

    Examples
    --------
    >>> import slgh
    >>> F = slgh.problems.wells().smooth
    >>> it = plan("slgh_r", L0=F.L0, L1=F.L1, d=2, t1=0.5, gap=1.0, eps=0.3)
    >>> it.theorem.name, it.k0, it.T, round(it.gamma, 3)
    ('3.4', 12, 2442, 0.911)
    >>> result = slgh.minimize(F, [3.5, 0.0], **it.parameters)
    >>> bool(np.linalg.norm(F.grad(result.xhat, np.array(0.0))) <= 0.3)
    True
    """
    theorem = choose_theorem(method, stochastic=sigma > 0, nu=nu)
    for name, value in (("L1", L1), ("t1", t1), ("L0", L0), ("eps", eps)):
        if value is not None:
            checks.real(name, value, above=0)
    if eps is not None and eps < MIN_EPS:
        raise checks.ArgumentValueError(f"`eps` must be at least {MIN_EPS:g}, got eps={eps:g}.")
    for name, value in (("sigma", sigma), ("nu", nu), ("gap", gap), ("span", span), ("floor", floor)):
        if value is not None:
            checks.at_least(name, value, 0)
    checks.count("d", d)
    if gamma is not None:
        checks.real("gamma", gamma, above=0, below=1)
    elif eps is not None:
        gamma = tuned_gamma(theorem, d, eps)
    else:
        raise checks.ArgumentValueError("`gamma` must be given, or `eps` for the tuned gamma of the theorem.")
    if T is not None:
        checks.count("T", T)
    elif eps is None:
        raise checks.ArgumentValueError("`T` must be given, or `eps` for the smallest T of the theorem.")
    if floor is None:
        floor = math.sqrt(nu) if nu else 0.0 if theorem.order == "first" else t1 * ROUNDING
    if floor > t1 or (nu and not floor):
        rule = f"at most t1={t1:g}" if floor > t1 else "above 0 where nu is"
        raise checks.ArgumentValueError(f"`floor` (sqrt(nu), where nu is given) must be {rule}, got floor={floor:g}.")
    if samples_gradients(method):
        sigma = math.sqrt(sigma**2 + min(math.inf if L0 is None else L0**2, d * (L1 * t1) ** 2))
    known = {name: value for name, value in (("L0", L0), ("gap", gap), ("span", span)) if value is not None}
    c = Constants(L1=L1, d=d, t1=t1, floor=floor, sigma=sigma, nu=nu, **known)
    k0 = theorem.burn_in(d, MIN_EPS if eps is None else eps, gamma)
    if T is not None:
        k0 = min(k0, T // 2)
    else:
        assert eps is not None
        if L0 is None or (gap is None and span is None):
            raise checks.ArgumentValueError(
                "`L0` and `gap` (or `span`) must be given for the smallest T of the theorem. Or pass T=..."
            )
        T = least_T(theorem, c, gamma, k0, eps)
    return Plan(theorem=theorem, constants=c, method=method, gamma=gamma, k0=k0, T=T, eps=eps)
