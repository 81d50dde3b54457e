"""Plan for an asynchronous run: phases whose iterations can do without the values that are late.

These are homotopies. There is no landscape check and no local search, since both need the value at every point.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np

from slgh.auto.covariance import Incumbent, default_samples
from slgh.auto.phases import HomotopyEnd, Phases
from slgh.auto.plans import large
from slgh.engine.requests import Request
from slgh.engine.run import Run
from slgh.engine.termination import Status

MIN_EVALS_PER_VARIABLE = 100
"""With a smaller budget, there is one homotopy alone."""

FIRST_SHARE = 0.3
"""Share of the budget for the first homotopy. In 4 and 10 variables with 150 d to 1,000 d evaluations, 0.3 was never
far from the best of 0, 0.3, 0.6 and 1. Less is better on smooth functions, and more on Rastrigin's."""


def minimize(phases: Phases, run: Run, budget: int) -> Generator[Request, Any, None]:
    """Run a homotopy, a covariance homotopy from the lowest point, and restarts."""
    d = phases.x0.size
    learns = "covariance" in phases.enabled and budget >= MIN_EVALS_PER_VARIABLE * d
    evals = int(FIRST_SHARE * phases.left) if learns else phases.left
    end = yield from phases.homotopy(run, phases.x0, phases.t1, evals)
    if end.note == HomotopyEnd.NONFINITE:
        run.stop(Status.NONFINITE)
    if not learns:
        return
    best = phases.lowest(run)
    radius = large.REFINE_RADIUS if d > large.GLOBAL_MAX_VARIABLES else 1.0
    restarts = "restarts" in phases.enabled
    most = int(large.REFINE_SHARE * phases.left) if restarts else phases.left
    nothing = Incumbent(best.x, np.inf, False)
    found = yield from phases.covariance(run, best.x, radius * phases.t1, default_samples(d), nothing, most)
    if restarts:
        yield from large.race(phases, run, found, trusted=False)
