"""Log of what the phases of "auto" have found and evaluated. A resumed run replays it to get to the same point."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slgh.auto.evaluation import Floats
from slgh.engine.arguments import PHASES
from slgh.engine.checkpoint import Arrays, expect

LOGGED = (*PHASES, "noise_level", "quadratic_fit", "race", "average", "enumeration", "starts")
"""Phases that a log may hold: those that the user may choose, those of other plans, and the first point."""


class PhaseOutcome(NamedTuple):
    """Result of a phase, with a point and f there."""

    phase: str
    x: Floats
    fun: float
    note: int = 0
    """A Landscape, HomotopyEnd or CovarianceEnd, as a number. For searches and hops 1 if they converged, else 0."""
    left: int = 0
    """Evaluations left after the phase."""
    nit: int = -1
    """Iterations of the run when the phase ended, -1 if a checkpoint of an older version does not say."""
    error: float = 0.0
    """Standard error of `fun`."""


class ReplayLog:
    """Outcomes of the phases that have ended, and all answers that the current one has received.

    After `load`, phases that had ended are skipped, and their outcomes are used again. The phase that was interrupted
    gets the same answers again.
    """

    def __init__(self) -> None:
        self.outcomes: list[PhaseOutcome] = []
        """Outcomes of the phases that have ended."""
        self.minima: list[tuple[Floats, float]] = []
        """Points at which searches of these phases have converged, and f there."""
        self._to_skip: list[PhaseOutcome] = []
        """Outcomes of the checkpoint whose phases are still to be skipped."""
        self._answers: list[Floats] = []
        """Answers that the current phase has received."""
        self._to_repeat: list[Floats] = []
        """Answers of the checkpoint that the current phase has not received again yet."""

    def skipped(self) -> PhaseOutcome | None:
        """Return the outcome of the next phase if it had ended in the checkpoint."""
        if not self._to_skip:
            return None
        self.outcomes.append(self._to_skip.pop(0))
        return self.outcomes[-1]

    def end(self, outcome: PhaseOutcome) -> PhaseOutcome:
        """End the current phase."""
        self.outcomes.append(outcome)
        self._answers = []
        return outcome

    def repeated(self) -> Floats | None:
        """Return the next answer if it is in the checkpoint."""
        return self.append(self._to_repeat.pop(0)) if self._to_repeat else None

    def append(self, answer: Floats) -> Floats:
        """Log an answer to the current phase."""
        self._answers.append(answer)
        return answer

    def save(self) -> Arrays:
        """Return the arrays that `load` continues from."""
        ended, log = self.outcomes + self._to_skip, self._answers + self._to_repeat
        numbers = [(LOGGED.index(o.phase), o.note, o.left, o.nit) for o in ended]
        return {
            "x": np.array([o.x for o in ended], float),
            "fun": np.array([o.fun for o in ended], float),
            "error": np.array([o.error for o in ended], float),
            "numbers": np.array(numbers, np.int64).reshape(-1, 4),
            "minima": np.array([x for x, _ in self.minima], float),
            "minima_fun": np.array([fun for _, fun in self.minima], float),
            "log": np.concatenate([a.ravel() for a in log]) if log else np.empty(0),
            "shapes": np.array([(a.size, a.ndim) for a in log], np.int64).reshape(-1, 2),
        }

    def load(self, arrays: Arrays, d: int | None = None) -> None:
        """Continue from the arrays of `save`, for d variables."""
        n = len(arrays["fun"])
        expect(arrays, "fun", (n,), "f")
        expect(arrays, "x", (n, d) if n else (0,), "f")
        # Older versions did not save `nit`, the last of the numbers.
        columns = 3 if arrays["numbers"].shape[-1:] == (3,) else 4
        phases = expect(arrays, "numbers", (n, columns), "i")[:, 0]
        if not np.isin(phases, range(len(LOGGED))).all():
            raise ValueError("its phases are unknown")
        errors = expect(arrays, "error", (n,), "f") if "error" in arrays else np.zeros(n)
        rows = zip(arrays["x"], arrays["fun"].tolist(), arrays["numbers"].tolist(), errors.tolist(), strict=True)
        self._to_skip = [
            PhaseOutcome(LOGGED[phase], x, fun, *more)._replace(error=error) for x, fun, (phase, *more), error in rows
        ]
        m = len(arrays["minima_fun"])
        expect(arrays, "minima_fun", (m,), "f")
        expect(arrays, "minima", (m, d) if m else (0,), "f")
        self.minima = list(zip(arrays["minima"], arrays["minima_fun"].tolist(), strict=True))
        sizes, dimensions = expect(arrays, "shapes", (None, 2), "i").T
        log = expect(arrays, "log", (None,), "f")
        if (sizes < 0).any() or sizes.sum() != log.size:
            raise ValueError("its answers do not have the sizes that it says")
        parts = np.split(log, np.cumsum(sizes)[:-1]) if sizes.size else []
        # Values are (n,). Gradients, evaluated one point at a time, are (1, d).
        self._to_repeat = [part[None] if ndim == 2 else part for part, ndim in zip(parts, dimensions, strict=True)]
