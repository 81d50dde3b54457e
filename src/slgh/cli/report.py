"""The report of `slgh minimize`: labeled lines for readers, and JSON for programs."""

from __future__ import annotations

import dataclasses
import shlex
from typing import Any

import numpy as np

from slgh import __version__
from slgh.auto import defaults
from slgh.cli.declaration import words
from slgh.cli.errors import exit_code, shorten
from slgh.cli.run import FinishedRun
from slgh.engine.termination import Status
from slgh.method import SCALE_FREE, SLOTS, Method

MAX_FORMULA = 300
"""Maximum length of a printed formula, in characters."""

MAX_COORDINATES = 20
"""Maximum number of coordinates of a printed point."""

DIVERGED = 1e3
"""A run has diverged if the largest |x| at the end exceeds this many times that of x0, or 1."""


def summary(run: FinishedRun) -> list[tuple[str, str]]:
    """Return the labeled lines: problem, method, result, cost, and why the run stopped."""
    result, problem = run.result, run.problem
    start = at_start(run)
    begun = "" if start is None else f", from {start:.8g} at x0"
    error = f" +- {result.fun_se:.2g}" if result.fun_se and np.isfinite(result.fun_se) else ""
    rows = [
        ("minimize", f"{shorten(problem.title, MAX_FORMULA)}  ({problem.about})"),
        ("method", f"{result.method.name} = {composition(result.method, first_radius(run))}"),
        ("f", f"{result.fun:.10g}{error}{begun}"),
        ("x", show_point(result.x, problem.variables)),
    ]
    if f"{result.fun_best:.10g}" != f"{result.fun:.10g}":
        rows.append(("best", f"f = {result.fun_best:.10g} at {show_point(result.x_best, problem.variables)}"))
    t = result.history["t"]
    if t.any() or (not t.size and result.t):
        rows.append(("t", f"{first_radius(run):.4g} to {result.t:.4g}"))
    counts = {"evaluation": result.nfev, "gradient": result.njev, "iteration": result.nit}
    cost = ", ".join(f"{n:,} {name}{'s' * (n != 1)}" for name, n in counts.items())
    cost += f", {run.seconds:.3g} s{' in this session' * run.resumed}"
    rejected = f"; {result.nrejected:,} samples were not finite and were left out" if result.nrejected else ""
    return [
        *rows,
        ("cost", cost + rejected),
        ("status", f"{result.status.name.lower()}: {without_chosen(result.message, result)}{_remedy(run)}"),
        ("seed", f"{run.spec.options.seed}  (engine: {result.engine})"),
    ]


def without_chosen(message: str, result: Any) -> str:
    """Remove the sentence on the chosen hyperparameters, which the report shows in another line."""
    return message.replace(f" {result.chosen}", "") if result.chosen else message


def _remedy(run: FinishedRun) -> str:
    """Return a tip for a run that diverged to where f is not finite."""
    result, x0 = run.result, run.problem.x0
    steps = "step" in parts(result.method)["update"]
    with np.errstate(all="ignore"):
        diverged = not np.max(np.abs(result.x)) <= DIVERGED * max(1, np.max(np.abs(x0)))
    return " A smaller --step may help." if result.status == Status.NONFINITE and steps and diverged else ""


def notes(run: FinishedRun) -> list[str]:
    """Return the defaults that were applied."""
    options, d = run.spec.options, run.problem.d
    found = []
    known = "t1" in run.spec.params or options.bounds is not None
    if run.spec.schedule == "budget" and not known and not run.problem.x0.any():
        found.append(f"t1 = {first_radius(run):g} is a guess, since x0 = 0 gives no scale. Pass --t1 or --bounds.")
    limits = run.spec.limits
    if limits.max_evals != options.max_evals:
        found.append(f"--max-evals {limits.max_evals} is the default for {d} variable{'s' * (d > 1)}.")
    if limits.max_iter != options.max_iter:
        found.append(f"--max-iter {limits.max_iter} is the default.")
    return found


def composition(method: Method, t1: float | None = None) -> str:
    """Return a method as its parts with all hyperparameters. `t1` replaces an initial radius that is None."""
    shown = []
    for part in parts(method, t1).values():
        fields = (f"{n}={v:.6g}" if isinstance(v, float) else f"{n}={v}" for n, v in part.items() if n != "name")
        listed = ", ".join(fields)
        shown.append(f"{part['name']}({listed})" if listed else str(part["name"]))
    floor = "" if method.floor is None else f", floor {method.floor:.4g}"
    return f"{' x '.join(shown)}{floor}"


def parts(method: Method, t1: float | None = None) -> dict[str, dict[str, Any]]:
    """Return name and hyperparameters of each part."""
    found = {}
    for slot in SLOTS:
        part = getattr(method, slot)
        names = [f.name for f in dataclasses.fields(part)] if dataclasses.is_dataclass(part) else []
        values = {name: getattr(part, name) for name in names}
        if "t1" in values and t1 is not None:
            values["t1"] = t1
        found[slot] = {"name": part.name} | {name: value for name, value in values.items() if value is not None}
    return found


def first_radius(run: FinishedRun) -> float:
    """Return the initial t."""
    t1 = run.result.method.schedule.t1
    return float(defaults.first_radius(run.problem.x0[None], run.problem.box)[0] if t1 is None else t1)


def at_start(run: FinishedRun) -> float | None:
    """Return f(x0), or None if it is not known."""
    if run.problem.terms is not None:
        return None
    known = run.problem.at_start()
    if known is None:
        known = run.earlier_start
    history = run.result.history
    around = run.result.method.name in SCALE_FREE and history["t"].any()
    if known is None and not around and len(history["fun"]):
        known = float(history["fun"][0])  # around x0, it would be a mean
    return None if known is None or not np.isfinite(known) else known


def show_point(x: Any, variables: tuple[str, ...]) -> str:
    """Return a point as text, with the names of the variables, shortened if it is long."""
    numbers = [f"{v:.8g}" for v in x.tolist()]
    if variables:
        numbers = [f"{name} = {number}" for name, number in zip(variables, numbers, strict=True)]
    if len(numbers) <= MAX_COORDINATES:
        return ", ".join(numbers)
    return ", ".join([*numbers[:4], "...", *numbers[-2:]]) + f"  (--quiet or --json FILE gives all {len(numbers)})"


def repeat(run: FinishedRun) -> str:
    """Return the command that repeats the run."""
    return shlex.join(["slgh", "minimize", *words(run.spec.options)])


def how_to_resume(run: FinishedRun) -> str:
    """Return how to resume a run that was cut short, or an empty string."""
    status, options = run.result.status, run.spec.options
    if status == Status.INTERRUPTED and options.run is None:
        return "interrupted. With --run FOLDER, the command could be resumed."
    if options.run is None or status not in (Status.INTERRUPTED, Status.MAX_EVALS, Status.MAX_SECONDS):
        return ""
    limit = {Status.MAX_EVALS: "max_evals", Status.MAX_SECONDS: "max_seconds"}.get(status)
    changed: dict[str, Any] = {} if limit is None else {limit: "MORE"}
    if options.plot is not None:
        changed["overwrite"] = True  # the picture of this run
    command = shlex.join(["slgh", "minimize", *words(options, hidden=(), **changed)])
    return f"{'interrupted' if limit is None else 'cut short'}. Resume with: {command}"


def as_dict(run: FinishedRun, *, history: bool) -> dict[str, Any]:
    """Return all results for the JSON file."""
    result, problem = run.result, run.problem
    found = {
        "slgh": __version__,
        "command": "minimize",
        "objective": problem.title,
        "about": problem.about,
        "variables": list(problem.variables),
        "d": problem.d,
        "x0": problem.x0,
        "fun_x0": at_start(run),
    }
    names = ("x", "fun", "fun_se", "x_best", "fun_best", "xhat", "t", "nit", "nfev", "njev", "nrejected", "ncached")
    found |= {name: result[name] for name in names}
    found["minima"] = result.minima._asdict()
    method = {"name": result.method.name, **parts(result.method, first_radius(run)), "floor": result.method.floor}
    found |= {
        "status": result.status.name,
        "success": result.success,
        "message": result.message,
        "exit_code": exit_code(result.status),
        "method": method,
        "engine": result.engine,
        "seed": run.spec.options.seed,
        "seconds": run.seconds,
        "repeat": repeat(run),
    }
    if history:
        found["history"] = result.history
    return found
