"""Plan for a function with noise at all points: a slow homotopy on ranks, fits of quadratic models, and races.

The lowest value is luck, so the plan compares points by averages of new values.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from slgh.auto.defaults import LEAST_DEPTH, choose_pace, fastest_fall
from slgh.auto.evaluation import Floats
from slgh.auto.phases import HomotopyEnd, Phases
from slgh.auto.quadratic_fit import Samples, choose_samples
from slgh.auto.repeated_values import SIGNAL_VALUES
from slgh.engine.requests import Request
from slgh.engine.run import Run
from slgh.engine.termination import Status

# The constants come from trials on the noisy versions of the training functions of benchmarks/coco.py, and on spheres,
# ellipsoids, Rosenbrock's and Rastrigin's functions with additive and multiplicative noise in 5, 20 and 40 variables.

SLOW_SHARE_TIMES_ROOT_D = 0.27
"""Share of the fastest possible fall of t that a slow homotopy uses, times the root of d. Noise makes gradients worse,
so x cannot follow a faster fall. It also hides differences of f at a small t. The best shares with 500 d evaluations
were 0.04 in 40 variables, 0.06 in 20, and more than 0.1 in 5."""

FIRST_SHARE = 0.7
"""Share of the homotopy's budget after which the signal is measured."""

MEASUREMENT = 2 * SIGNAL_VALUES
"""Evaluations of such a measurement."""

MIN_BUDGET = 1000
"""With fewer evaluations for the homotopy, measurements and fits would take too large a part of the budget."""

CLEAR_SIGNAL = 0.9
"""The noise is no obstacle if at least this share of the variance of f around x is signal. t then falls fast."""

FAST_SHARE = 0.5
"""Share of the fastest possible fall of t that a homotopy then uses."""

FIT_SHARE = 0.15
"""Share of the budget for the fits and their races."""

FITS = 2
"""Number of fits, each from the better end of the one before."""

FIT_RADIUS = 0.6
"""Radius of a fit, in units of t1. With noise, a wide fit is more exact, even if f is not quadratic. On spheres and
ellipsoids 0.6 was better than 0.1, 0.3 and 0.4, and other functions do not care, since the race rejects a bad fit."""

FIT_RACE_SHARE, FIT_RACE_MAX_VALUES = 0.25, 60
"""Share of a fit's budget for the race between its start and its minimum, and the maximum number of evaluations."""

AVERAGE_SHARE, AVERAGE_MAX_VALUES = 0.05, 200
"""Share of the budget for f at the solution, and the maximum number of evaluations, which determine it up to 7 % of the
standard deviation of the noise."""


def minimize(phases: Phases, run: Run) -> Generator[Request, Any, None]:
    """Run the homotopy, then the fits once noise hides the slope, and determine f at the solution."""
    phases.use_reserve()  # the average is f at the solution
    final = max(1, min(int(AVERAGE_SHARE * phases.left), AVERAGE_MAX_VALUES))
    fit_budget = int(FIT_SHARE * phases.left) // FITS
    fit_race = min(int(FIT_RACE_SHARE * fit_budget), FIT_RACE_MAX_VALUES)
    small = (1 - FIT_SHARE) * phases.left - final < MIN_BUDGET
    samples = None if run.has_gradients or small else choose_samples(phases.x0.size, fit_budget - fit_race)
    fits = 0 if samples is None else FITS * (samples.n + fit_race)
    x, fast = yield from _homotopies(phases, run, phases.left - final - fits)
    if samples is not None:
        if fast is not None and (yield from _is_clear(phases, run, x)):
            x = yield from _homotopy(phases, run, x, _radius(run), phases.left - final, fast)
        else:
            x = yield from _fits(phases, run, x, samples, fit_race)
    yield from phases.average(run, x)


def _homotopies(phases: Phases, run: Run, budget: int) -> Generator[Request, Any, tuple[Floats, float | None]]:
    """Run a slow homotopy, and then a fast one if the signal is clear. Return the end.

    Also return the share of the fastest possible fall of t in the fast homotopy, None if it was slow.
    """
    iterations = phases.iterations(budget)
    if phases.has_own_fall or budget < MIN_BUDGET:
        return (yield from _homotopy(phases, run, phases.x0, phases.t1, budget)), None
    oracle, d = phases.config.step.method.oracle, phases.x0.size
    fastest = fastest_fall(oracle, d, iterations)
    depth = max(LEAST_DEPTH, SLOW_SHARE_TIMES_ROOT_D / d**0.5 * fastest)
    slow = min(choose_pace(oracle, d, iterations).depth, depth) / fastest
    kept = phases.left - budget
    x = yield from _homotopy(phases, run, phases.x0, phases.t1, int(FIRST_SHARE * budget), slow)
    fast = max(slow, FAST_SHARE) if (yield from _is_clear(phases, run, x)) else None
    evals = phases.left - kept - (0 if fast is None else MEASUREMENT)  # the signal is measured again
    return (yield from _homotopy(phases, run, x, _radius(run), evals, fast or slow)), fast


def _is_clear(phases: Phases, run: Run, x: Floats) -> Generator[Request, Any, bool]:
    """Measure if noise is no obstacle around x, at the current t."""
    return (yield from phases.check_signal(run, x, _radius(run), CLEAR_SIGNAL)).note == 1


def _radius(run: Run) -> float:
    """Return the current t. After a resume it may be smaller than it was here, but then the next phase is skipped."""
    return float(run.state.full.t[0])


def _homotopy(
    phases: Phases, run: Run, x: Floats, t: float, evals: int, share: float | None = None
) -> Generator[Request, Any, Floats]:
    """Run a homotopy, and return its end."""
    end = yield from phases.homotopy(run, x, t, evals, share=share)
    if end.note == HomotopyEnd.NONFINITE:
        run.stop(Status.NONFINITE)
    return end.x


def _fits(phases: Phases, run: Run, x: Floats, samples: Samples, race_values: int) -> Generator[Request, Any, Floats]:
    """Fit models around x, and move to the minimum of each one that is better."""
    for _ in range(FITS):
        found = yield from phases.quadratic_fit(run, x, FIT_RADIUS * phases.t1, samples)
        x = (yield from phases.race(run, x, found.x, race_values)).x
    return x
