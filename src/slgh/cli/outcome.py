"""What a run came to: in lines as solvers print them, for programs, and as an exit code."""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from slgh import __version__
from slgh.auto import defaults
from slgh.cli.common import shorten
from slgh.cli.job import Outcome
from slgh.cli.start import read_bounds
from slgh.engine.bounds import read_bounds as read_box
from slgh.method import SCALE_FREE, SLOTS
from slgh.result import Status

OUTPUT = {"--run": True, "--save-every": True, "--json": True} | dict.fromkeys(
    ("--history", "--quiet", "--debug"), False
)
"""Options that a repetition for the eye goes without, and whether a value follows them; pictures it draws again."""

CHOSEN = r" Chosen: .*?\.(?=\s|$)"
"""The sentence of a message that says which parts have been chosen; the block has them in a line of their own."""

LONGEST, NUMBERS = 300, 20
"""A formula is shown with at most so many characters, and a point with at most so many numbers."""

FAR = 1e3
"""A run has diverged if it ends so many times farther out than it began, or than 1."""


def exit_code(status: Status) -> int:
    """What the shell is told."""
    if status.success:
        return 0
    return {Status.NONFINITE: 4, Status.INTERRUPTED: 130}.get(status, 3)


def summary(outcome: Outcome) -> list[tuple[str, str]]:
    """The block: what was minimized and how, what came out, what it cost, why it stopped."""
    result, objective, job = outcome.result, outcome.objective, outcome.job
    start = at_start(outcome)
    begun = "" if start is None else f", from {start:.8g} at x0"
    error = f" +- {result.fun_se:.2g}" if result.fun_se and np.isfinite(result.fun_se) else ""
    rows = [
        ("minimize", f"{shorten(objective.title, LONGEST)}  ({objective.about})"),
        ("method", composition(outcome)),
        ("f", f"{result.fun:.10g}{error}{begun}"),
        ("x", show_point(result.x, objective.variables)),
    ]
    if f"{result.fun_best:.10g}" != f"{result.fun:.10g}":
        rows.append(("best", f"f = {result.fun_best:.10g} at {show_point(result.x_best, objective.variables)}"))
    t = result.history["t"]
    if t.any() or (not t.size and result.t):
        rows.append(("t", f"{first_radius(outcome):.4g} to {result.t:.4g}"))
    counts = {"evaluation": result.nfev, "gradient": result.njev, "iteration": result.nit}
    cost = ", ".join(f"{n:,} {name}{'s' * (n != 1)}" for name, n in counts.items())
    cost += f", {outcome.seconds:.3g} s{' in this sitting' * outcome.resumed}"
    rejected = f"; {result.nrejected:,} samples were not finite, and left out" if result.nrejected else ""
    return [
        *rows,
        ("cost", cost + rejected),
        ("status", f"{result.status.name.lower()}: {re.sub(CHOSEN, '', result.message)}{remedy(outcome)}"),
        ("seed", f"{job.seed}  (engine: {result.engine})"),
    ]


def remedy(outcome: Outcome) -> str:
    """What may help a run that ended because x had gone where f is not finite."""
    result, x0 = outcome.result, outcome.objective.x0
    steps = "step" in parts(outcome)["update"]
    with np.errstate(all="ignore"):
        diverged = not np.max(np.abs(result.x)) <= FAR * max(1, np.max(np.abs(x0)))
    return " A smaller --step may help." if result.status == Status.NONFINITE and steps and diverged else ""


def notes(outcome: Outcome) -> list[str]:
    """What was assumed for want of a word."""
    job, d = outcome.job, outcome.objective.d
    found = []
    told = "t1" in job.params or job.source.bounds is not None
    if job.schedule == "budget" and not told and not outcome.objective.x0.any():
        t1 = first_radius(outcome)
        found.append(f"t1 = {t1:g} was assumed, since x0 = 0 tells no scale: pass --t1 or --bounds.")
    limits, given = job.limits(d), job.given_limits
    if limits.max_evals != given["max_evals"]:
        found.append(f"--max-evals {limits.max_evals} was taken, the default in {d} variable{'s' * (d > 1)}.")
    if limits.max_iter != given["max_iter"]:
        found.append(f"--max-iter {limits.max_iter} was taken, the default.")
    return found


def composition(outcome: Outcome) -> str:
    """The method as its parts, with every hyperparameter."""
    method = outcome.result.method
    shown = []
    for part in parts(outcome).values():
        fields = (f"{n}={v:.6g}" if isinstance(v, float) else f"{n}={v}" for n, v in part.items() if n != "name")
        listed = ", ".join(fields)
        shown.append(f"{part['name']}({listed})" if listed else str(part["name"]))
    floor = "" if method.floor is None else f", floor {method.floor:.4g}"
    return f"{method.name} = {' x '.join(shown)}{floor}"


def parts(outcome: Outcome) -> dict[str, dict[str, Any]]:
    """The name and the hyperparameters of each part, with what was chosen."""
    found = {}
    for slot in SLOTS:
        part = getattr(outcome.result.method, slot)
        names = [f.name for f in dataclasses.fields(part)] if dataclasses.is_dataclass(part) else []
        values = {name: getattr(part, name) for name in names}
        if "t1" in values:
            values["t1"] = first_radius(outcome)
        found[slot] = {"name": part.name} | {name: value for name, value in values.items() if value is not None}
    return found


def first_radius(outcome: Outcome) -> float:
    """The t that a homotopy begins with."""
    job, x0 = outcome.job, outcome.objective.x0
    bounds = read_bounds(job.source.bounds, x0, outcome.objective.variables)
    t1 = outcome.result.method.schedule.t1
    return float(defaults.first_radius(x0[None], read_box(bounds, x0.size, x0.dtype))[0]) if t1 is None else float(t1)


def at_start(outcome: Outcome) -> float | None:
    """f(x0), where it is known."""
    if outcome.objective.terms is not None:
        return None
    known = outcome.objective.at_start()
    if known is None:
        known = outcome.earlier_start
    history = outcome.result.history
    around = outcome.result.method.name in SCALE_FREE and history["t"].any()
    if known is None and not around and len(history["fun"]):
        known = float(history["fun"][0])  # else it is the mean around x0
    return None if known is None or not np.isfinite(known) else known


def show_point(x: Any, variables: tuple[str, ...]) -> str:
    """A point, by the names of its variables, shortened where it is long."""
    numbers = [f"{v:.8g}" for v in x.tolist()]
    if variables:
        numbers = [f"{name} = {number}" for name, number in zip(variables, numbers, strict=True)]
    if len(numbers) <= NUMBERS:
        return ", ".join(numbers)
    return ", ".join([*numbers[:4], "...", *numbers[-2:]]) + f"  (--quiet or --json FILE gives all {len(numbers)})"


def repeat(outcome: Outcome) -> str:
    """The command that does it again, with the seed that was drawn."""
    kept = without(outcome.job.typed, OUTPUT)
    seeded = any(word == "--seed" or word.startswith("--seed=") for word in kept)
    return shlex.join(["slgh", "minimize", *with_options(kept, [] if seeded else ["--seed", str(outcome.job.seed)])])


def with_options(typed: Sequence[str], more: Sequence[str]) -> list[str]:
    """A command line with more options, before a -- after which there are none.

    >>> with_options(["--x0", "1", "--", "-cos(x)"], ["--seed", "3"])
    ['--x0', '1', '--seed', '3', '--', '-cos(x)']
    """
    end = list(typed).index("--") if "--" in typed else len(typed)
    return [*typed[:end], *more, *typed[end:]]


def without(typed: Sequence[str], options: Mapping[str, bool]) -> list[str]:
    """A command line without these options; they tell whether a value follows them.

    >>> without(["x**2", "--json", "a.json", "--quiet", "--x0", "1"], {"--json": True, "--quiet": False})
    ['x**2', '--x0', '1']
    """
    kept, left = [], iter(typed)
    for word in left:
        name, sign, _ = word.partition("=")
        if name not in options:
            kept.append(word)
        elif options[name] and not sign:
            next(left, None)
    return kept


def with_values(typed: Sequence[str], values: Mapping[str, str | None]) -> list[str]:
    """Return a command line with other values of these options, and without those whose value is None.

    >>> with_values(["--fun", "a:f", "--grad=a:g", "--x0", "1"], {"--fun": "b:f", "--grad": None})
    ['--fun', 'b:f', '--x0', '1']
    """
    kept, left = [], iter(typed)
    for word in left:
        name, sign, _ = word.partition("=")
        if name not in values:
            kept.append(word)
            continue
        if not sign:
            next(left, None)
        value = values[name]
        if value is not None:
            kept += [f"{name}={value}"] if sign else [name, value]
    return kept


def as_dict(outcome: Outcome, *, history: bool) -> dict[str, Any]:
    """Everything, for a program."""
    result, objective, job = outcome.result, outcome.objective, outcome.job
    found = {
        "slgh": __version__,
        "command": "minimize",
        "objective": objective.title,
        "about": objective.about,
        "variables": list(objective.variables),
        "d": objective.d,
        "x0": objective.x0,
        "fun_x0": at_start(outcome),
    }
    names = ("x", "fun", "fun_se", "x_best", "fun_best", "xhat", "t", "nit", "nfev", "njev", "nrejected")
    found |= {name: result[name] for name in names}
    found |= {
        "status": result.status.name,
        "success": result.success,
        "message": result.message,
        "exit_code": exit_code(result.status),
        "method": {"name": result.method.name, **parts(outcome), "floor": result.method.floor},
        "engine": result.engine,
        "seed": job.seed,
        "seconds": outcome.seconds,
        "repeat": repeat(outcome),
    }
    if history:
        found["history"] = result.history
    return found
