"""Plan for an asynchronous run: phases whose iterations can do without the values that are late.

These are homotopies. There is no landscape check and no local search, since both need the value at every point.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np

from slgh.auto.covariance import Incumbent, default_samples, learning_cost
from slgh.auto.phases import HomotopyEnd, Phases
from slgh.auto.plans import large
from slgh.engine.requests import Request
from slgh.engine.run import Run
from slgh.engine.termination import Status


def minimize(phases: Phases, run: Run, budget: int) -> Generator[Request, Any, None]:
    """Run a covariance homotopy and restarts, or one homotopy if the budget is too small to learn a metric."""
    d = phases.x0.size
    if "covariance" in phases.enabled and budget >= learning_cost(d):
        nothing = Incumbent(phases.x0, np.inf, False)
        share = large.REFINE_SHARE if "restarts" in phases.enabled else 1.0
        most = max(learning_cost(d), int(share * phases.left))
        found = yield from phases.covariance(run, phases.x0, phases.t1, default_samples(d), nothing, most)
        if "restarts" in phases.enabled:
            yield from large.race(phases, run, found, trusted=False)
        return
    end = yield from phases.homotopy(run, phases.x0, phases.t1, phases.left)
    if end.note == HomotopyEnd.NONFINITE:
        run.stop(Status.NONFINITE)
