"""A run as the command line asks for it: all that is needed to run it, and to run it again."""

from __future__ import annotations

import dataclasses
import re
import time
from dataclasses import dataclass
from typing import Any

import slgh
from slgh.cli.common import fail
from slgh.cli.errors import OPTIONS, as_options
from slgh.cli.objective import OF_THE_PAPER, Objective, Source
from slgh.cli.start import read_bounds
from slgh.engine.checkpoint import Checkpoint
from slgh.engine.termination import Limits, read_limits
from slgh.method import METHODS, MINIMIZE_ARGUMENTS, SLOTS, MissingParameters
from slgh.result import Result

CELLS, WIDEST = 2_000_000, 1000
"""All iterates are kept for the picture where they are at most so many numbers, of at most so many variables."""

HISTORIES = ("x", 1000)
"""History setting: all iterates, or at most this many rows without them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The arguments of one run. Everything in it is a number, a text or a flag, so that it can be written down."""

    source: Source
    method: str
    params: dict[str, Any]
    """The hyperparameters, and parts to swap."""
    max_evals: int | None = None
    max_iter: int | None = None
    max_seconds: float | None = None
    target: float | None = None
    seed: int
    workers: int | None = None
    on_nonfinite: str = "reject"
    history: int | str = 1000
    save_every: float = 10.0
    """Seconds between two checkpoints, where the run is kept in a folder."""
    no_plot: bool = False
    typed: tuple[str, ...] = ()
    """The command as it was typed, for the line that repeats it."""

    @property
    def schedule(self) -> str:
        """The name of the schedule."""
        return str(self.params.get("schedule", METHODS[self.method].schedule))

    @property
    def planned(self) -> bool:
        """Whether a part needs to know the number of iterations."""
        return any(getattr(part, "planned", False) for part in self.parts)

    @property
    def parts(self) -> list[Any]:
        """The classes of the method's parts, as far as they are known by name."""
        recipe = METHODS[self.method]
        named = (classes.get(self.params.get(slot, getattr(recipe, slot))) for slot, classes in SLOTS.items())
        return [part for part in named if part is not None]

    @property
    def given_limits(self) -> dict[str, Any]:
        """The limits that were given; None is none."""
        return {name: getattr(self, name) for name in ("max_evals", "max_iter", "max_seconds", "target")}

    def limits(self, d: int) -> Limits:
        """The limits, with the default where none was given."""
        return read_limits(d, planned=self.planned, **self.given_limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A run that has ended."""

    job: Job
    objective: Objective
    result: Result
    seconds: float
    """How long it took, in this sitting."""
    resumed: bool = False
    """Whether there were sittings before."""
    earlier_start: float | None = None
    """f(x0), where an earlier sitting has kept it."""


def run(job: Job, objective: Objective, *, progress: bool, checkpoint: Checkpoint | None = None) -> Outcome:
    """Run the job."""
    if job.workers not in (None, 1) and (objective.ours or objective.values is None):
        fail("--workers goes with --fun and a plain function; a formula is evaluated at all points at once.")
    arguments = objective.arguments(job.method, job.params.get("oracle"))
    begun = time.monotonic()
    try:
        with objective.unwarned():
            result = slgh.minimize(
                arguments.pop("fun"),
                objective.x0,
                method=job.method,
                bounds=read_bounds(job.source.bounds, objective.x0, objective.variables),
                **job.given_limits,
                seed=job.seed,
                workers=job.workers,
                progress=progress,
                history=job.history,
                on_nonfinite=job.on_nonfinite,
                checkpoint=checkpoint,
                **arguments,
                **job.params,
            )
    except MissingParameters as error:
        raise MissingParameters(f"{error} {usual_parameters(job, objective)}".rstrip()) from error
    return Outcome(job=job, objective=objective, result=result, seconds=time.monotonic() - begun)


def usual_parameters(job: Job, objective: Objective) -> str:
    """A sentence on what a test problem is run with, of what the method takes and was not given."""
    taken = {f.name for part in job.parts for f in dataclasses.fields(part)} - job.params.keys()
    if job.max_evals is None and job.max_iter is None:
        taken.add("max_iter")
    shown = as_options({name: value for name, value in objective.parameters.items() if name in taken})
    if not shown:
        return ""
    who = "the paper took" if objective.title in OF_THE_PAPER else "slgh problems lists"
    return f"For {objective.title} {who} {shown}."


def choose_history(d: int, limits: dict[str, Any], *, planned: bool, path: bool) -> int | str:
    """All iterates where the path is wanted and they fit into memory; else a thinned record without them."""
    read = read_limits(d, planned=planned, **limits)
    known = [n for n in (read.max_evals, read.max_iter) if n is not None]
    if path and d <= WIDEST and known and min(known) * d <= CELLS:
        return HISTORIES[0]
    return HISTORIES[1]


def read_params(settings: list[str], **options: Any) -> dict[str, Any]:
    """The hyperparameters: those with an option of their own, and NAME=VALUE for the others."""
    params = {name: value for name, value in options.items() if value is not None}
    for setting in settings:
        name, sign, text = setting.partition("=")
        name = name.strip()
        if not (sign and name.isidentifier() and text.strip()):
            fail(f"--set must be NAME=VALUE, such as --set update=adam; got {setting!r}.")
        if name in params:
            fail(f"--set {name}: {name} is given twice.")
        refuse_argument(name)
        params[name] = read_value(text.strip())
    return params


def refuse_argument(name: str) -> None:
    """Refuse an argument of `minimize` among the hyperparameters."""
    if name in MINIMIZE_ARGUMENTS or name in ("fun", "x0"):
        instead = f"pass {OPTIONS[name]}" if name in OPTIONS else "the command line does not take it"
        fail(f"--set {name}: {name} is no hyperparameter; {instead}.")


def read_value(text: str) -> Any:
    """A whole number, a number, true, false, or text.

    >>> [read_value(text) for text in ("3", "1e-3", "true", "adam")]
    [3, 0.001, True, 'adam']
    """
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if re.fullmatch(r"[+-]?\d{1,18}", text):
        return int(text)
    try:
        return float(text)
    except ValueError:
        return text
