"""Random runs of `minimize` that any process can repeat from a JSON object, and their results as comparable text."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace

import slgh
from fuzz.target import Case
from slgh.method import SCALE_FREE

ZEROTH = {"t1": 0.5, "step": 0.02, "samples": 3}
TERMS = 7
"""Terms of a stochastic objective."""

PARAMS: dict[str, dict[str, Any]] = {
    "auto": {},
    "scale_free": {},
    "zosgd": ZEROTH,
    "zoadamm": ZEROTH,
    "zosvrg": {**ZEROTH, "period": 5},
    "spsa": {**ZEROTH, "step": 0.2},
    "openai_es": {**ZEROTH, "step": 0.1},
    "power_gs": {"t1": 0.5, "step": 0.05, "sharpness": 1.0},
    "zogradopt": {**ZEROTH, "eps0": 0.1, "n0": 3},
    "gradopt_hazan": {**ZEROTH, "n0": 4},
    "zoslgh_r": {**ZEROTH, "gamma": 0.9},
    "zoslgh_d": {**ZEROTH, "gamma": 0.9, "eta": 0.01},
    "gd": {"step": 0.02},
    "sgd": {"step": 0.02, "samples": 3},
    "gradopt": {**ZEROTH, "eps0": 0.1, "n0": 3},
    "slgh_r": {**ZEROTH, "gamma": 0.9},
    "slgh_d": {**ZEROTH, "gamma": 0.9, "eta": 0.01},
    "power_hp": {**ZEROTH, "gamma": 0.9, "sharpness": 0.5},
    "zopower_hp": {"t1": 0.5, "gamma": 0.95, "sharpness": 1.0},
    "dgs": {"t1": 0.5, "step": 0.02, "gamma": 0.9},
    "adadgs": {"t1": 0.5, "longest": 1.0, "trials": 5},
}
FIRST_ORDER = ("gd", "sgd", "gradopt", "slgh_r", "slgh_d", "power_hp")
STOCHASTIC = ("zosvrg", "sgd")
SMOOTH = ("bowl", "rugged", "wells")
SHAPES = (*SMOOTH, "steps", "holes")


@dataclass(frozen=True)
class Objective:
    """Function of points (..., d) of any array library, elementwise before one sum."""

    shape: str
    delay: float = 0.0
    """Minimum duration of a call in seconds."""
    tally: str = ""
    """File that grows by one byte per point, from any process, when its evaluation starts."""

    def __call__(self, x: Any, *xi: Any) -> Any:
        self._begin(x)
        xp = array_namespace(x)
        shift = 0.1 * xp.astype(xi[0] - 3, x.dtype) if xi else 0.0
        if self.shape == "bowl":
            terms = (x - 1) ** 2
        elif self.shape == "wells":
            terms = x**4 / 4 - x**2
        elif self.shape == "steps":
            terms = xp.floor(4 * x) ** 2 / 16
        else:
            terms = x**2 + 0.3 * xp.sin(3 * x)
        if self.shape == "holes":
            terms = xp.where((terms > 0.5) & (terms < 0.7), xp.full_like(terms, float("nan")), terms)
        return xp.sum(terms, axis=-1) * (1 + 0.1 * shift) + shift

    def grad(self, x: Any, *xi: Any) -> Any:
        """Gradient of the smooth functions."""
        self._begin(x)
        xp = array_namespace(x)
        slope = {"bowl": 2 * (x - 1), "wells": x**3 - 2 * x}.get(self.shape, 2 * x + 0.9 * xp.cos(3 * x))
        return slope * (1 + 0.01 * xp.astype(xi[0] - 3, x.dtype))[..., None] if xi else slope

    def _begin(self, x: Any) -> None:
        if self.tally:
            points = int(np.prod(x.shape[:-1]))
            descriptor = os.open(self.tally, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(descriptor, b"." * points)
            os.close(descriptor)
        if self.delay:
            time.sleep(self.delay)


def draw(rng: random.Random, *, libraries: tuple[str, ...] = ("numpy",), evals: int = 300) -> Case:
    """Draw a run of at most about `evals` evaluations per problem."""
    library = rng.choice(libraries)
    method = "auto" if rng.random() < 0.4 else rng.choice(list(PARAMS))
    batched = rng.random() < 0.25
    stochastic = method in STOCHASTIC or rng.random() < 0.1
    vectorized = library == "jax" or rng.random() < 0.4
    limit = {"max_evals": rng.randint(1, evals)} if rng.random() < 0.6 else {"max_iter": rng.randint(1, evals // 8)}
    if method == "auto" and rng.random() < 0.8:
        limit = {"max_evals": rng.randint(30, evals)}
    return {
        "library": library,
        "dtype": "float32" if rng.random() < 0.15 else "float64",
        "d": rng.randint(1, 12),
        "problems": rng.randint(1, 4) if batched else 0,
        "method": method,
        "shape": rng.choice(SMOOTH if method in FIRST_ORDER else SHAPES),
        "start": rng.randrange(1000),
        "seed": None if rng.random() < 0.1 else rng.randrange(1000),
        "limit": limit,
        "bounds": rng.random() < 0.2,
        "history": rng.choice([1000, "full", "x", 0, 8]),
        "vectorized": vectorized,
        "stochastic": stochastic,
        "workers": None,
        "parallel": rng.choice([1, 1, 1, 2, 8]),
    }


def simpler_runs(run: Case) -> Iterator[Case]:
    """Yield simpler variants of a run, the largest simplifications first."""
    plain = {
        "library": "numpy",
        "workers": None,
        "parallel": 1,
        "problems": 0,
        "bounds": False,
        "dtype": "float64",
        "history": 1000,
        "shape": "bowl",
        "vectorized": False,
        "seed": 0,
        "start": 0,
        "d": 1,
    }
    if run["method"] not in STOCHASTIC:
        plain["stochastic"] = False
    for name, value in plain.items():
        if run[name] != value:
            yield {**run, name: value}
    (kind, number), *_ = run["limit"].items()
    for fewer in (number // 4, number // 2, number - 1):
        if 0 < fewer < number:
            yield {**run, "limit": {kind: fewer}}
    if run["d"] > 2:
        yield {**run, "d": run["d"] // 2}


def start_of(run: Case) -> Any:
    """Return x0 as an array of the run's library."""
    shape = (run["problems"], run["d"]) if run["problems"] else (run["d"],)
    x0 = np.random.default_rng(run["start"]).uniform(-2, 2, shape).astype(run["dtype"])
    if run["library"] == "torch":
        import torch

        return torch.asarray(x0)
    if run["library"] == "jax":
        import jax.numpy as jnp

        return jnp.asarray(x0)
    return x0


def settings(run: Case) -> dict[str, Any]:
    """Return the common keyword arguments of `minimize` and `Optimizer`."""
    given: dict[str, Any] = {"method": run["method"], "seed": run["seed"], "history": run["history"]}
    given |= PARAMS[run["method"]] | run["limit"] | {"batched": bool(run["problems"])}
    if run["stochastic"]:
        given["sample_xi"] = TERMS
    if run["bounds"]:
        given["bounds"] = [(-2.5, 3.0)] * run["d"]
    if run["method"] in SCALE_FREE and not run["problems"]:
        given["parallel"] = run.get("parallel", 1)  # otherwise the plan would follow the workers
    return given


def execute(run: Case, objective: Objective | None = None, **options: Any) -> slgh.Result:
    """Call `minimize`."""
    objective = Objective(run["shape"]) if objective is None else objective
    if run["method"] in FIRST_ORDER and run["library"] == "numpy":
        options.setdefault("grad", objective.grad)
    given = settings(run) | {"vectorized": run["vectorized"], "workers": run["workers"]}
    return slgh.minimize(objective, start_of(run), **{**given, **options})


COMPARED = ("x", "fun", "x_best", "fun_best", "xhat", "fun_se", "t", "nit", "nfev", "njev", "nrejected", "status")


def facts(result: slgh.Result) -> dict[str, str]:
    """Return a result without its time as text. Texts are equal if and only if the bits are."""
    columns = {f"history {name}": column for name, column in result.history.items()}
    entries = {name: result[name] for name in (*COMPARED, "success")} | columns
    return {name: _bits(value) for name, value in entries.items()} | {
        "message": str(result.message),
        "seed": str(result.seed),
    }


def _bits(value: Any) -> str:
    array = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
    return f"{array.dtype} {array.shape} {array.tobytes().hex()} {np.array2string(array, threshold=6)}"


def difference(found: dict[str, str], expected: dict[str, str]) -> str:
    """Describe the facts that differ, or return an empty text."""
    names = [name for name in expected if found.get(name) != expected[name]]

    def shown(text: str) -> str:
        kind, *_, bits = text.partition(") ")
        return text if not bits else f"{kind}) {bits.partition(' ')[2]}"

    return "; ".join(f"{n} is {shown(found.get(n, 'missing'))}, not {shown(expected[n])}" for n in names[:6])


def written(run: Case, name: str = "run", **options: str) -> str:
    """Return Python lines that define `f`, `x0` and `options` for a script without the harness."""
    body = {
        "bowl": "(x - 1) ** 2",
        "wells": "x**4 / 4 - x**2",
        "steps": "xp.floor(4 * x) ** 2 / 16",
        "rugged": "x**2 + 0.3 * xp.sin(3 * x)",
        "holes": "x**2 + 0.3 * xp.sin(3 * x)",
    }[run["shape"]]
    hole = (
        "    terms = xp.where((terms > 0.5) & (terms < 0.7), xp.full_like(terms, float('nan')), terms)\n"
        if run["shape"] == "holes"
        else ""
    )
    slope = {"bowl": "2 * (x - 1)", "wells": "x**3 - 2 * x"}.get(run["shape"], "2 * x + 0.9 * xp.cos(3 * x)")
    given = settings(run) | {"vectorized": run["vectorized"], "workers": run["workers"]}
    text = ", ".join(f"{n}={v!r}" for n, v in given.items())
    gradient = run["method"] in FIRST_ORDER and run["library"] == "numpy"
    convert = {"torch": "x0 = torch.asarray(x0)\n", "jax": "x0 = jnp.asarray(x0)\n"}.get(run["library"], "")
    imports = {"torch": "import torch\n", "jax": "import jax.numpy as jnp\n"}.get(run["library"], "")
    return (
        f"import time\nimport numpy as np\n{imports}import slgh\nfrom array_api_compat import array_namespace\n\n"
        "DELAY = 0.0\n\n"
        "def f(x, *xi):\n"
        "    time.sleep(DELAY)\n"
        "    xp = array_namespace(x)\n"
        "    shift = 0.1 * xp.astype(xi[0] - 3, x.dtype) if xi else 0.0\n"
        f"    terms = {body}\n{hole}"
        "    return xp.sum(terms, axis=-1) * (1 + 0.1 * shift) + shift\n\n"
        + (
            "def grad(x, *xi):\n"
            "    xp = array_namespace(x)\n"
            f"    slope = {slope}\n"
            "    return slope * (1 + 0.01 * xp.astype(xi[0] - 3, x.dtype))[..., None] if xi else slope\n\n"
            if gradient
            else ""
        )
        + f"x0 = np.random.default_rng({run['start']}).uniform(-2, 2, "
        f"{(run['problems'], run['d']) if run['problems'] else (run['d'],)}).astype({run['dtype']!r})\n{convert}"
        f"options = dict({text}{', grad=grad' if gradient else ''})\n"
    )
