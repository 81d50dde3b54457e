"""A run of `slgh minimize`: its specification and its outcome."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Literal

import slgh
from slgh import checks
from slgh.cli.declaration import PASSED, Role, values_of
from slgh.cli.errors import fail
from slgh.cli.options import MinimizeOptions
from slgh.cli.parameters import PAPER_PROBLEMS, fields_of, parts_of, read_parameters
from slgh.cli.problem import GivenProblem
from slgh.cli.wording import as_options
from slgh.engine.checkpoint import Checkpoint
from slgh.engine.termination import Limits, read_limits
from slgh.method import METHODS, MissingParameters
from slgh.parameters import History
from slgh.result import Result

MAX_PATH_NUMBERS = 2_000_000
"""Maximum number of array elements of all recorded iterates."""

MAX_PATH_VARIABLES = 1000
"""Maximum number of variables of recorded iterates."""

ALL_ITERATES: Literal["x"] = "x"
THINNED = 1000
"""Values of `history`: record all iterates, or at most this many rows without them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """Everything that is decided before a run starts."""

    options: MinimizeOptions
    """Options, including the seed."""
    params: dict[str, Any]
    """Hyperparameters, and parts to replace."""
    problem: GivenProblem
    history: History
    workers: Any = None
    """The opened workers that `options` name."""

    @property
    def schedule(self) -> str:
        """Name of the schedule."""
        return str(self.params.get("schedule", METHODS[self.options.method].schedule))

    @property
    def limits(self) -> Limits:
        """Limits, with a default if none was given."""
        return limits_of(self.options, self.params, self.problem.d)


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """A finished run."""

    spec: RunSpec
    result: Result
    seconds: float
    """Duration of this session."""
    resumed: bool = False
    """True if there were earlier sessions."""
    earlier_start: float | None = None
    """f(x0), if an earlier session has stored it."""

    @property
    def problem(self) -> GivenProblem:
        """Problem that was minimized."""
        return self.spec.problem


def read_params(options: MinimizeOptions) -> dict[str, Any]:
    """Return the hyperparameters, and refuse an unknown method."""
    checks.choice("method", options.method, list(METHODS))
    checks.at_least("save_every", options.save_every, 0)
    return read_parameters(options, slgh.minimize)


def limits_of(options: MinimizeOptions, params: dict[str, Any], d: int) -> Limits:
    """Return the limits of a run in d variables, with a default if none was given."""
    planned = any(getattr(part, "planned", False) for part in parts_of(options.method, params).values())
    return read_limits(d, planned=planned, **values_of(options, Role.LIMIT))


def choose_history(d: int, limits: Limits, *, path: bool) -> History:
    """Return the value of `history`: all iterates if the path is needed and they fit into memory."""
    known = [n for n in (limits.max_evals, limits.max_iter) if n is not None]
    fits = d <= MAX_PATH_VARIABLES and bool(known) and min(known) * d <= MAX_PATH_NUMBERS
    return ALL_ITERATES if path and fits else THINNED


def run(spec: RunSpec, *, progress: bool, checkpoint: Checkpoint | None = None) -> FinishedRun:
    """Run, or resume from a checkpoint."""
    options, problem = spec.options, spec.problem
    if options.workers not in (None, 1) and (problem.is_builtin or problem.values is None):
        fail("--workers is for a plain function of --fun. Remove it; a formula is evaluated at all points at once.")
    if options.max_seconds_per_eval is not None and problem.is_builtin:
        fail("--max-seconds-per-eval is for a plain function of --fun. Remove it; a formula takes no time.")
    arguments = problem.arguments(options.method, spec.params.get("oracle"))
    begun = time.monotonic()
    try:
        with problem.unwarned():
            result = slgh.minimize(
                arguments.pop("fun"),
                problem.x0,
                bounds=problem.bounds,
                progress=progress,
                history=spec.history,
                checkpoint=checkpoint,
                **values_of(options, *PASSED) | {"workers": spec.workers},
                **arguments,
                **spec.params,
            )
    except MissingParameters as error:
        raise MissingParameters(f"{error} {_usual_parameters(spec)}".rstrip()) from error
    return FinishedRun(spec=spec, result=result, seconds=time.monotonic() - begun)


def _usual_parameters(spec: RunSpec) -> str:
    """Return a sentence with the usual parameters of the test problem that were not given."""
    options, problem = spec.options, spec.problem
    taken = fields_of(options.method, spec.params) - spec.params.keys()
    if options.max_evals is None and options.max_iter is None:
        taken.add("max_iter")
    shown = as_options({name: value for name, value in problem.parameters.items() if name in taken})
    if not shown:
        return ""
    source = "the paper uses" if problem.title in PAPER_PROBLEMS else "slgh problems lists"
    return f"For {problem.title} {source} {shown}."
