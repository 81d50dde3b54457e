r"""The schedules and updates of the reference, and the translation of a name and hyperparameters into a method.

Everything here is written from the docstrings and the paper. It imports nothing from slgh.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

REQUIRED: Any = object()

ORACLES: dict[str, dict[str, Any]] = {
    "forward": {"samples": 1, "slope_from": "u", "xi": "pairs"},
    "antithetic": {"samples": 1, "values": "raw", "xi": "pairs"},
    "diagonal_scaling": {"samples": 1, "values": "raw", "xi": "pairs", "rate": 0.03},
    "rademacher": {"samples": 1, "values": "raw", "xi": "pairs"},
    "sphere": {"samples": 1},
    "exponential": {"samples": 10, "sharpness": REQUIRED},
    "gradient": {"samples": 1},
    "sampled_gradient": {"samples": 1},
    "closed_form": {"samples": 1},
    "variance_reduced": {"samples": 1, "period": 10},
}

SCHEDULES: dict[str, dict[str, Any]] = {
    "constant": {"t1": REQUIRED},
    "ratio": {"t1": REQUIRED, "gamma": 0.999},
    "derivative": {"t1": REQUIRED, "eta": REQUIRED, "gamma": 0.999, "slope": "trace"},
    "double_loop": {"t1": REQUIRED, "gamma": 0.5, "eps0": 1e-3, "n0": 50, "rule": "f"},
    "budget": {"t1": None, "t_end": None, "fall": None, "shape": 1.0},
    "power_law": {"t1": REQUIRED, "t_power": 0.101},
}

UPDATES: dict[str, dict[str, Any]] = {
    "descent": {"step": REQUIRED},
    "noise_aware": {"L1": REQUIRED, "nu": REQUIRED, "cap": None},
    "harmonic": {"step": REQUIRED},
    "spsa_gain": {"step": REQUIRED, "step_power": 0.602, "offset": None},
    "momentum": {"step": REQUIRED, "momentum": 0.9},
    "adam": {"step": REQUIRED, "beta1": 0.9, "beta2": 0.999, "delta": 1e-8},
    "adamm": {"step": REQUIRED, "beta1": 0.9, "beta2": 0.3, "v0": 1e-5},
    "normalized": {"step": REQUIRED, "halving": None},
    "scale_free": {"alpha": 0.5},
}

METHODS: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "scale_free": ("diagonal_scaling", "budget", "scale_free", {"shape": 1.5}),
    "auto": ("diagonal_scaling", "budget", "scale_free", {"shape": 1.5}),
    "gd": ("gradient", "constant", "descent", {"t1": 0.0}),
    "sgd": ("gradient", "constant", "descent", {"t1": 0.0}),
    "zosgd": ("forward", "constant", "descent", {}),
    "zoadamm": ("forward", "constant", "adamm", {}),
    "zosvrg": ("variance_reduced", "constant", "descent", {}),
    "spsa": ("rademacher", "power_law", "spsa_gain", {}),
    "openai_es": ("antithetic", "constant", "adam", {"values": "ranks"}),
    "power_gs": ("exponential", "constant", "normalized", {"halving": 1000.0}),
    "gradopt": ("sampled_gradient", "double_loop", "descent", {}),
    "zogradopt": ("forward", "double_loop", "descent", {}),
    "gradopt_hazan": ("sphere", "double_loop", "harmonic", {"gamma": 0.5, "eps0": math.inf, "n0": 100}),
    "slgh_r": ("sampled_gradient", "ratio", "descent", {}),
    "slgh_d": ("sampled_gradient", "derivative", "descent", {}),
    "zoslgh_r": ("forward", "ratio", "descent", {}),
    "zoslgh_d": ("forward", "derivative", "descent", {}),
}

PROVIDES = {
    "forward": {"f", "F", "trace", "slope"},
    "antithetic": {"f", "F", "trace", "slope"},
    "diagonal_scaling": {"f", "F"},
    "rademacher": {"f", "F"},
    "sphere": {"f", "F"},
    "exponential": {"f", "F"},
    "gradient": {"f"},
    "sampled_gradient": {"f", "trace", "slope"},
    "closed_form": {"f", "F", "F_next", "grad_f", "trace", "slope"},
    "variance_reduced": {"f"},
}

ROUNDING = {
    "antithetic": 1 / 3,
    "diagonal_scaling": 1 / 3,
    "rademacher": 1 / 3,
    "sampled_gradient": 1.0,
} | dict.fromkeys(("forward", "sphere", "exponential", "variance_reduced"), 1 / 2)


def cosine(samples: float, d: int) -> float:
    """Return the expected cosine between the estimate and the gradient."""
    return math.sqrt(samples / (samples + d))


def schedule_needs(name: str, fields: dict[str, Any]) -> set[str]:
    """Return the observations that a schedule needs."""
    if name == "derivative":
        return {"trace" if fields["slope"] == "trace" else "slope"}
    if name == "double_loop":
        return {"f": {"f"}, "F": {"F", "F_next"}, "minibatch": {"F"}}[fields["rule"]]
    return set()


@dataclass
class Parts:
    """A method bound to a problem: names and hyperparameters of its parts, and values that follow from the limits."""

    oracle: str
    schedule: str
    update: str
    fields: dict[str, Any]
    d: int
    dtype: Any
    reports: str = "last"
    stochastic: bool = False
    terms: int = 0
    needs: set[str] = field(default_factory=set)
    t1: Any = None
    floor: Any = None
    iterations: int | None = None
    reserve: int = 1
    burn_in: int = 0
    t_of_row: float = 0.0

    @property
    def exact(self) -> bool:
        return self.oracle in ("gradient", "closed_form")

    @property
    def planned(self) -> bool:
        return self.schedule == "budget" or self.update == "spsa_gain"

    @property
    def period(self) -> int:
        return self.fields["period"] if self.oracle == "variance_reduced" else 1

    @property
    def looks(self) -> bool:
        """True if the start is evaluated first."""
        return self.reports == "best" and not self.stochastic

    def cost(self, first: bool) -> int:
        """Return the number of evaluations of an iteration."""
        M: int = self.fields["samples"]
        needs, fields = self.needs, self.fields
        paired = self.stochastic and fields.get("xi", "pairs") == "pairs"
        if self.oracle == "forward":
            more = 2 if fields["slope_from"] == "v" and needs & {"trace", "slope"} else 1
            return (M if paired else 1) + more * M
        if self.oracle in ("antithetic", "diagonal_scaling", "rademacher"):
            centers = 0 if not needs & {"f", "trace", "slope"} else M if paired else 1
            return centers + 2 * M
        if self.oracle == "sphere":
            return 2 * M if self.stochastic else M + 1
        if self.oracle == "exponential":
            return M + ("f" in needs)
        if self.oracle == "gradient":
            return 1 + (M if self.stochastic else 1)
        if self.oracle == "sampled_gradient":
            return 1 + M
        if self.oracle == "closed_form":
            each = 1 + len(needs & {"F", "trace", "slope"})
            return 1 + (M if self.stochastic else 1) * each + len(needs & {"F_next", "grad_f"})
        return 4 * M + (2 * self.terms if first else 0)

    def count_iterations(self, max_iter: int | None, max_evals: int | None) -> int | None:
        """Return the number of iterations that the limits allow."""
        if max_evals is None:
            return max_iter
        left, n = max_evals - self.reserve - self.looks, 0
        while (left := left - self.cost(n % self.period == 0)) >= 0 and (max_iter is None or n < max_iter):
            n += 1
        return n

    # Memories of the parts

    def first_memory(self, x: NDArray[Any], box: Any) -> dict[str, Any]:
        """Return the memory of the parts before the first iteration."""
        oracle: Any = None
        if self.oracle == "diagonal_scaling":
            oracle = np.log(first_widths(box, self.d).astype(self.dtype).astype(float))
        elif self.oracle == "variance_reduced":
            oracle = (x, np.zeros(self.d), False)
        return {
            "oracle": oracle,
            "next": oracle,
            "schedule": self._first_schedule(),
            "update": self._first_update(x),
        }

    def _first_schedule(self) -> Any:
        if self.schedule == "double_loop":
            return (math.inf, 0)
        if self.schedule == "power_law":
            return 1
        if self.schedule == "budget":
            t1, floor, f = float(self.t1), float(self.floor), self.fields
            if f["t_end"] is not None:
                end = f["t_end"]
            elif f["fall"] is not None:
                end = t1 * f["fall"]
            else:
                end = floor if floor > 0 else t1 * float(np.finfo(self.dtype).eps) ** 0.5
            return (min(max(end, floor), t1) / t1, self.dtype.type(0))
        return None

    def lower(self, t: Any, seen: Any, memory: Any) -> tuple[Any, Any]:
        """Return the next t, and the memory of the schedule."""
        self.t_of_row = float(t)
        t, floor, f = float(t), float(self.floor), self.fields
        if self.schedule == "ratio":
            t = max(f["gamma"] * t, floor)
        elif self.schedule == "derivative":
            slope = seen.trace if f["slope"] == "trace" else seen.slope
            t = max(min(t - f["eta"] * float(slope), f["gamma"] * t), floor)
        elif self.schedule == "double_loop":
            before, settled = memory
            if f["rule"] == "F":
                before, after = float(seen.F), float(seen.F_next)
            else:
                after = float(seen.f if f["rule"] == "f" else seen.F)
            settled += int(abs(self.dtype.type(after) - self.dtype.type(before)) <= f["eps0"])
            if settled >= f["n0"]:
                t, settled = max(f["gamma"] * t, floor), 0
            memory = (after, settled)
        elif self.schedule == "power_law":
            memory = memory + 1
            t = max(f["t1"] / memory ** f["t_power"], floor)
        elif self.schedule == "budget":
            ratio, s = memory
            assert self.iterations is not None
            s = s + self.dtype.type(1.0 / max(1, self.iterations - 1))
            t = max(float(self.t1) * ratio ** (float(s) ** f["shape"]), floor)
            memory = (ratio, s)
        return self.dtype.type(t), memory

    def _first_update(self, x: NDArray[Any]) -> Any:
        zero = np.zeros(self.d)
        if self.update == "momentum":
            return zero
        if self.update == "adam":
            return (zero, zero, 0)
        if self.update == "adamm":
            v0 = np.full(self.d, self.fields["v0"])
            return (zero, v0, v0)
        if self.update == "harmonic":
            return (0, -1.0)
        if self.update in ("spsa_gain", "normalized"):
            return 0
        return None

    def move(self, x: NDArray[Any], seen: Any, t: Any, memory: Any) -> tuple[NDArray[Any], Any]:
        """Return the next x, and the memory of the update."""
        f, g, t = self.fields, np.asarray(seen.g, float), float(t)
        with np.errstate(all="ignore"):
            if self.update == "descent":
                change = -f["step"] * g
            elif self.update == "noise_aware":
                beta = 1 / (16 * (self.d + 4) * (f["L1"] + 2 * f["nu"] / t**2)) if t else 0.0
                change = -(beta if f["cap"] is None else min(beta, f["cap"])) * g
            elif self.update == "harmonic":
                j, before = memory
                j = j + 1 if t == before else 1
                change, memory = -f["step"] / j * g, (j, t)
            elif self.update == "spsa_gain":
                offset = 0.1 * (self.iterations or 0) if f["offset"] is None else f["offset"]
                memory = memory + 1
                change = -f["step"] / (memory + offset) ** f["step_power"] * g
            elif self.update == "momentum":
                memory = f["momentum"] * memory - f["step"] * g
                change = memory
            elif self.update == "adam":
                m, v, k = memory
                m = f["beta1"] * m + (1 - f["beta1"]) * g
                v = f["beta2"] * v + (1 - f["beta2"]) * g**2
                k += 1
                change = -f["step"] * (m / (1 - f["beta1"] ** k)) / (np.sqrt(v / (1 - f["beta2"] ** k)) + f["delta"])
                memory = (m, v, k)
            elif self.update == "adamm":
                m, v, v_hat = memory
                m = f["beta1"] * m + (1 - f["beta1"]) * g
                v = f["beta2"] * v + (1 - f["beta2"]) * g**2
                v_hat = np.maximum(v_hat, v)
                change, memory = -f["step"] * m / np.sqrt(v_hat), (m, v, v_hat)
            elif self.update == "normalized":
                step = f["step"]
                if f["halving"] is not None:
                    step = step * f["halving"] / (f["halving"] + memory)
                    memory = memory + 1
                change = -step * unit(g)
            else:
                distance = f["alpha"] * seen.cosine * math.sqrt(self.d) * t
                widths = np.ones(self.d) if seen.widths is None else seen.widths.astype(float)
                change = -distance * widths * unit(widths * g)
            return (x.astype(float) + change).astype(self.dtype), memory


def unit(g: NDArray[Any]) -> NDArray[Any]:
    """Return g / |g|, or 0 where g is 0."""
    peak = float(np.max(np.abs(g)))
    return g * 0 if not peak > 0 else (g / peak) / math.sqrt(float(np.sum((g / peak) ** 2)))


def box_widths(box: Any) -> NDArray[Any] | None:
    """Return the widths of a box whose variables are all bounded and not all fixed."""
    if box is None:
        return None
    with np.errstate(all="ignore"):
        width = box.high.astype(float) - box.low.astype(float)
    return width if np.isfinite(width).all() and np.max(width) > 0 else None


def first_widths(box: Any, d: int) -> NDArray[Any]:
    """Return the widths of the box in units of their geometric mean, or 1 if there is no box."""
    width = box_widths(box)
    if width is None:
        return np.ones(d)
    mean = np.exp(np.mean(np.log(width[width > 0])))
    return np.where(width > 0, width / mean, 1.0)


def first_radius(x0: NDArray[Any], box: Any) -> float:
    """Return the first t if none is given: a quarter of the box, or the root mean square of x0, at least 1."""
    width = box_widths(box)
    if width is not None:
        return float(np.exp(np.mean(np.log(width[width > 0])))) / 4
    return max(1.0, float(np.sqrt(np.mean(x0.astype(float) ** 2))))


def bind(
    method: str,
    params: dict[str, Any],
    *,
    x0: NDArray[Any],
    box: Any,
    gradient: bool,
    closed: bool,
    stochastic: Any,
    max_iter: int | None,
    max_evals: int | None,
    target: float | None,
) -> tuple[Parts, int | None, int | None]:
    """Turn a name and hyperparameters into Parts. Also return max_iter and max_evals with their defaults."""
    given = dict(params)
    given.pop("phases", None)
    oracle, schedule, update, defaults = METHODS[method]
    free = method in ("auto", "scale_free")
    if free and "oracle" not in given and (gradient or closed):
        oracle = "sampled_gradient"
    swapped: set[str] = {slot for slot in ("oracle", "schedule", "update") if slot in given}
    oracle, schedule = given.pop("oracle", oracle), given.pop("schedule", schedule)
    update = given.pop("update", update)
    if closed and oracle == "sampled_gradient":
        oracle = "closed_form"
    d, dtype = x0.size, x0.dtype
    theory = given.get("step") == "theory" or ("L1" in given and "step" not in given and "update" not in swapped)
    told: dict[str, Any] = {name: given.pop(name) for name in ("eps", "sigma", "burn_in") if name in given}
    nu = given.get("noise", 0.0) if theory else 0.0
    floor = math.sqrt(given["noise"]) if "noise" in given else given.get("floor")
    if theory and given.get("floor") is not None:
        floor = given["floor"]
    tables = (("oracle", ORACLES[oracle]), ("schedule", SCHEDULES[schedule]), ("update", UPDATES[update]))
    fields: dict[str, Any] = {}
    for slot, table in tables:
        own = {n: v for n, v in defaults.items() if n in table and slot not in swapped}
        fields |= table | own | {n: given[n] for n in table if n in given}
    planned = schedule == "budget" or update == "spsa_gain"
    if planned and max_iter is None and max_evals is None:
        max_evals = 1000 + 200 * d
    elif max_iter is None and max_evals is None:
        max_iter = 10_000
    if free and "samples" not in given and "oracle" not in swapped:
        fields["samples"] = 2 + int(3 * math.log(d))
        if max_evals is not None:
            fields["samples"] = max(1, min(fields["samples"], max_evals // 200))
    parts = Parts(
        oracle,
        schedule,
        update,
        fields,
        d,
        dtype,
        reports="best" if free else "last",
        stochastic=stochastic is not None,
        terms=stochastic if isinstance(stochastic, int) else 0,
    )
    parts.needs = schedule_needs(schedule, fields)
    if stochastic is not None and target is not None:
        parts.needs |= {"f"} & PROVIDES[oracle]
    if theory and parts.exact and stochastic is None:
        parts.needs |= {"grad_f"} & PROVIDES[oracle]
    parts.reserve = fields["samples"] if stochastic is not None else 1
    if max_evals is not None:
        parts.reserve = min(parts.reserve, max_evals)
    T = parts.iterations = parts.count_iterations(max_iter, max_evals)
    if theory:
        _apply_theory(parts, given, told, nu, T or 0)
    t1 = fields["t1"] if fields["t1"] is not None else first_radius(x0, box)
    parts.t1 = dtype.type(t1)
    if floor is None:
        eps = float(np.finfo(dtype).eps)
        rounding = ROUNDING.get(oracle)
        floor = 0.0
        if rounding is not None:
            floor = max(float(parts.t1) * eps**rounding, eps * float(np.max(np.abs(x0))))
    parts.floor = min(dtype.type(floor), parts.t1)
    if free and schedule == "budget" and T is not None:
        _choose_pace(parts, given, swapped, T)
    return parts, max_iter, max_evals


def _choose_pace(parts: Parts, given: dict[str, Any], swapped: set[str], T: int) -> None:
    """Choose the decay of t, the length of steps and the learning rate of widths, if they are not given."""
    f, d = parts.fields, parts.d
    c = 1.0 if parts.oracle in ("gradient", "sampled_gradient", "closed_form") else cosine(f["samples"], d)
    fastest = max(1, T) * c**2 / 2
    depth = min(math.log(2.5e4), max(0.3 * fastest, min(4.0, 0.8 * fastest)))
    fall = f["fall"]
    if f["t_end"] is not None:
        fall = min(1.0, f["t_end"] / float(parts.t1))
    if fall is not None:
        depth = -math.log(fall)
    elif "schedule" not in swapped:
        f["fall"] = math.exp(-depth)
    if parts.update == "scale_free" and "alpha" not in given and "update" not in swapped:
        f["alpha"] = min(max(0.2, 2 * depth / fastest), 1.0)
    if parts.oracle == "diagonal_scaling" and "rate" not in given and "oracle" not in swapped:
        f["rate"] = min(0.03, 30 / max(1, T))


def _apply_theory(parts: Parts, given: dict[str, Any], told: dict[str, Any], nu: float, T: int) -> None:
    """Set the step, the burn-in and the tuned gamma of the theorem on the method."""
    f, d, T = parts.fields, parts.d, max(T, 1)
    L1, first = given["L1"], parts.oracle in ("closed_form", "sampled_gradient", "gradient")
    stochastic = bool(told.get("sigma")) or parts.stochastic or parts.oracle == "sampled_gradient"
    eps = told.get("eps") or 1e-50
    k1 = (1 if first else d) * eps ** (-4 if stochastic else -2)
    if first:
        shrunk = min(d**-0.5, d**-1.5 * eps**-2) if stochastic else d**-1.5
    else:
        shrunk = 1 / d if nu else d**-0.5
    if given.get("gamma") == "tuned":
        f["gamma"] = min(shrunk ** (1 / max(1.0, k1)), 0.999)
    k2 = math.log(shrunk) / math.log(f["gamma"])
    k0 = min(math.ceil(min(k1, k2) * (1 - 1e-9)), T // 2)
    if told.get("burn_in") is not None:
        k0 = min(told["burn_in"], T - 1)
    n = T - k0
    cap = n**-0.5 if first else (n * (d + 4)) ** -0.5
    if nu:
        parts.update = "noise_aware"
        f |= {"L1": L1, "nu": nu, "cap": cap if stochastic else None}
    else:
        f["step"] = 1 / L1 if first else 1 / (2 * (d + 4) * L1)
        if stochastic:
            f["step"] = min(f["step"], cap)
    parts.burn_in = k0 if stochastic or not first else 0
