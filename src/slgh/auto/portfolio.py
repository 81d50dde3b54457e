"""The Strategy of "auto" for a single problem: it checks the landscape and chooses a plan.

The plan depends on the budget, on the landscape, and on whether there are gradients. An f with noise at all points
gets no local search. A budget that allows no landscape check gets no noise check either.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any

from slgh.auto.agreement import AGREEMENT_COST
from slgh.auto.defaults import LOCAL_SEARCH_MIN_GRADIENTS
from slgh.auto.landscape import affordable_lines
from slgh.auto.phases import HomotopyEnd, Phases
from slgh.auto.plans import asynchronous, discrete, gradients, large, medium, noisy, small
from slgh.engine.requests import Request
from slgh.engine.run import Run
from slgh.engine.termination import Status


class Portfolio(Phases):
    """The Strategy of "auto"."""

    def phases(self, run: Run) -> Generator[Request, Any, None]:
        """Run all phases, until the budget is spent or nothing is left to do."""
        config, enabled = self.config, self.enabled
        budget = self.left = (config.limits.max_evals or 0) - config.start_evals - config.reserve
        if config.known is not None:
            self.choose_start(run)
        gradient_cost = 2 if run.has_gradients else self.x0.size + 1
        if self.asynchronous:
            yield from asynchronous.minimize(self, run, budget)
            return
        if discrete.suits(self):
            yield from discrete.minimize(self, run)
            return
        if small.suits(self, run):
            yield from small.minimize(self, run)
            return
        use_homotopy = "homotopy" in enabled
        affordable = budget >= LOCAL_SEARCH_MIN_GRADIENTS * gradient_cost
        use_local_search = "local_search" in enabled and (affordable or not use_homotopy)
        if use_homotopy and use_local_search and "landscape" in enabled and (lines := affordable_lines(budget)):
            yield from self.check_landscape(run, lines)
        if self.noisy:
            run.use_ranks()
        if self.has_outliers:  # values that agree make everything possible that is without noise
            gradient_cost = math.ceil(AGREEMENT_COST * gradient_cost)
            affordable = self.left >= LOCAL_SEARCH_MIN_GRADIENTS * gradient_cost
        if self.noisy and not (self.has_outliers and affordable):
            yield from noisy.minimize(self, run)
        elif not use_local_search:
            end = yield from self.homotopy(run, self.x0, self.t1, self.left)
            if end.note == HomotopyEnd.NONFINITE:
                run.stop(Status.NONFINITE)
        elif gradients.suits(self, run):
            yield from gradients.minimize(self, run, gradient_cost)
        elif large.suits(self, run, budget):
            yield from large.minimize(self, run, budget)
        else:
            yield from medium.minimize(self, run, budget, gradient_cost)
